"""Give the answer of a search by rounds: the best measured mixture, and what it gains over the best
rule by hand.

losses and mixtures of all runs, the reports of the rounds -> found.json (mixture), rounds.csv
(round, mixture, voice, promised, measured, deviation_percent, expected_gain_percent, noise_percent,
stopped) and answer.txt
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.mixtures.mixture import as_mixture
from bimix.optimum.flags import number_or_none
from bimix.outputs import write_table, write_text
from bimix.search.answer import add_search, answer, by_hand, read_search, rounds_table
from bimix.search.by_hand import add_rules
from bimix.tables import read_json


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_search(parser)
    parser.add_argument("--reports", type=Path, nargs="+", required=True, help="of the rounds, in order")
    parser.add_argument("--epoch-tokens", type=number_or_none, help="of the run of rules by hand; none: --run-tokens")
    add_rules(parser)
    parser.add_argument("--out", type=Path, required=True, help="mixture.json")
    parser.add_argument("--rounds", type=Path, required=True, help="rounds.csv")
    parser.add_argument("--answer", type=Path, required=True, help="answer.txt")
    options = parser.parse_args(argv)

    search = read_search(options)
    reports = [read_json(path) for path in options.reports]
    hand = by_hand(options, search)
    write_table(rounds_table(search, reports, hand), options.rounds)
    as_mixture(search.observed.domains, search.seen.shares[search.best]).write(options.out)
    text = "\n".join(answer(search, reports, hand))
    write_text(options.answer, f"{text}\n")
    print(text)


if __name__ == "__main__":
    sys.exit(run(main))
