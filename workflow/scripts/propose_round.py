"""Propose the mixtures to run next in a search by rounds, best first.

losses, mixtures (tidy), optional prior, objective and bounds -> next.csv (mixture, domain,
proportion); with --candidates one of these that was not measured. Prints what is promised, and the
gain that is expected of one more run; with --report the same as JSON
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from bimix.errors import InputError, finite, run
from bimix.mixtures.mixture import as_mixture
from bimix.mixtures.names import round_names, round_of
from bimix.observations.observations import proportions_of
from bimix.outputs import write_json, write_table
from bimix.search.answer import add_search, read_rules, read_search
from bimix.search.by_hand import allowed
from bimix.search.models import add_models, read_budget, read_models
from bimix.search.rounds import Ended, report_lines, report_of, stopped, stuck
from bimix.tables import read_json, read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_search(parser)
    parser.add_argument("--candidates", type=Path, help="mixtures to choose among: mixture, domain, proportion")
    parser.add_argument(
        "--hand",
        nargs="*",
        type=finite,
        default=(),
        metavar="EPOCHS",
        help="of the domains that --weights want, in rules by hand: first where fewer than two runs read them so often",
    )
    parser.add_argument("--count", type=int, default=1, help="mixtures to propose (%(default)s)")
    parser.add_argument(
        "--round", type=int, help="from 1; among candidates the law proposes first in odd ones, the shares in even ones;"
        " without it the number of runs says it"
    )  # fmt: skip
    parser.add_argument(
        "--reports",
        type=Path,
        nargs="*",
        default=[],
        help="of the rounds before: where the search has ended, the last round's mixtures are proposed again",
    )
    parser.add_argument(
        "--budget",
        help="FLOPs of all runs, as 2e18, or a share of the large run, as 5%%; needs --models, the search ends at it",
    )
    add_models(parser)
    parser.add_argument("--out", type=Path, required=True, help="next.csv or .parquet")
    parser.add_argument("--report", type=Path, help="JSON of what is expected of each")
    options = parser.parse_args(argv)
    if options.count < 1:
        raise InputError(f"--count is {options.count}: it must be 1 or more.")
    if options.reports and options.round != len(options.reports) + 1:
        raise InputError(f"--reports are of {len(options.reports)} rounds: --round must be the next one.")
    if options.hand and options.reports:
        raise InputError("--hand is for searches without --reports: name rules by hand under `start` of their block.")

    search = read_search(options)
    before = [read_json(path) for path in options.reports]
    names, candidates = _candidates(options, search)
    hand, ended = {}, None
    if options.hand:
        rules = read_rules(options, search).requested()
        hand = search.by_hand(rules, allowed(options.hand, options.max_epochs), options.count, candidates)
    found = list(hand.values())
    made = rounds_before(before, search.seen.names)
    far = stuck(search.seen.names[search.best], made)
    if candidates is None and not made and not found and (apart := search.separating()):
        found.append(apart)
    # Among candidates both voices take turns over rounds; where anything may be run, the law goes
    # first in each: near the best runs the shares say little that these do not.
    turn = 0 if candidates is None else (options.round or len(set(search.seen.names))) - 1
    try:
        if options.budget and (why := _overspent(options, search)):
            raise Ended(why)
        while len(found) < options.count:
            others = np.array([one.shares for one in found]).reshape(-1, len(search.lower))
            found.append(search.next(turn + len(found) - len(hand), candidates, others, far and not found))
    except Ended as error:
        if not before:
            raise
        ended = str(error)
    first = options.round or max(filter(None, map(round_of, search.seen.names)), default=0) + 1
    named = [*hand, *round_names(first, options.count)][: options.count]
    if names is not None:
        named = [names[one.candidate] for one in found]
    report = report_of(search, named, found)
    report["stopped"] = stopped([*before, report], ended)
    shares = [one.shares for one in found]
    if report["stopped"]:
        again = [one["mixture"] for one in next(one for one in reversed(before) if one["proposals"])["proposals"]]
        named = named if names is None else again  # candidates keep their names
        listed, table = proportions_of(read_table(options.mixtures), search.observed.domains, str(options.mixtures))
        shares = [table[listed.index(name)] for name in again]
        report["proposals"] = []
    write_table(mixture_table(named, shares, search.observed.domains, given=names is not None), options.out)
    if options.report:
        write_json(options.report, report)
    print("\n".join(report_lines(report)))


def rounds_before(reports: Sequence[dict], names: Sequence[str]) -> list[list[str]]:
    """The mixtures of each round so far, by the reports, or else by the names of runs."""
    if reports:
        return [[one["mixture"] for one in report["proposals"]] for report in reports]
    numbers = sorted({round_of(name) for name in names} - {None})
    return [[name for name in names if round_of(name) == number] for number in numbers]


def _overspent(options, search) -> str | None:
    """Why one more round, of each of the models, is beyond --budget; None: it is not."""
    if not options.models:
        raise InputError("--budget needs --models: what a run costs.")
    models, observed = read_models(options.models, options.offered), search.observed
    large = read_models(options.models, [options.large])[0] if options.large else None
    budget = read_budget(options.budget, large)
    seeds = np.ones(len(observed.mixtures)) if observed.runs is None else observed.runs
    sizes = [models[0].parameters] * len(seeds) if observed.parameters is None else observed.parameters
    each = [min(models, key=lambda one: abs(one.parameters - size)).flops for size in sizes]
    spent, more = float(seeds @ each), options.count * sum(one.flops for one in models)
    if spent + more <= budget * (1 + 1e-9):
        return None
    return f"{int(seeds.sum())} runs took {spent:.3g} FLOPs, and with a round of {more:.3g} the budget of {budget:.3g} is spent."


def _candidates(options, search) -> tuple[tuple[str, ...] | None, np.ndarray | None]:
    """Names and shares of the candidates that were not measured. Errors: none is left."""
    if options.candidates is None:
        return None, None
    names, shares = proportions_of(read_table(options.candidates), search.observed.domains, str(options.candidates))
    rows = [row for row, name in enumerate(names) if name not in search.seen.names]
    if not rows:
        raise InputError(f"{options.candidates}: all of its {len(names)} mixtures were measured: none is left.")
    return tuple(names[row] for row in rows), shares[rows]


def mixture_table(names: Sequence[str], shares: Iterable[np.ndarray], domains: Sequence[str], given: bool):
    """mixture, domain, proportion; candidates as given, what was found in six decimals."""
    documents = (
        dict(zip(domains, one, strict=True)) if given else as_mixture(domains, one).document() for one in shares
    )
    rows = [(name, *row) for name, own in zip(names, documents, strict=True) for row in own.items()]
    return pl.DataFrame(
        rows, schema={"mixture": pl.String, "domain": pl.String, "proportion": pl.Float64}, orient="row"
    )


if __name__ == "__main__":
    sys.exit(run(main))
