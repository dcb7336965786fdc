"""Join the runs of earlier corpora to those of a new one, as the pair of tables that laws read.

Optional losses and mixtures of the new runs; folders of results, or tables; a map of domains ->
losses and mixtures with a column `source`. Domains that a run did not have are at proportion 0.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bimix.errors import InputError, run
from bimix.observations.reuse import Pair, checked_map, join, read_source
from bimix.observations.tables import ROW, read_losses, read_mixtures
from bimix.outputs import write_table
from bimix.tables import read_object


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, help="of the new runs, csv or parquet; without it only older ones")
    parser.add_argument("--mixtures", type=Path, help="of the new runs")
    parser.add_argument("--runs", help="folder of results of the new runs, by which their text and recipe are compared")
    parser.add_argument("--reuse", nargs="+", required=True, metavar="SOURCE",
        help='a folder of results, or {"losses": F, "mixtures": F}, JSON')  # fmt: skip
    parser.add_argument("--model", help="whose runs are reused, where a folder has several models")
    parser.add_argument(
        "--map", default="{}", help="{old domain: new one, or {new one: share of its text}}, JSON or file"
    )
    parser.add_argument("--out-losses", type=Path, required=True)
    parser.add_argument("--out-mixtures", type=Path, required=True)
    options = parser.parse_args(argv)
    if (options.losses is None) != (options.mixtures is None):
        raise InputError("--losses and --mixtures go together: the runs that the older ones are joined to.")
    new = None
    if options.losses:
        mixtures = read_mixtures(options.mixtures)
        losses = read_losses(options.losses, mixtures.names("domain")).table
        new = Pair("new", losses.drop(ROW), mixtures.table.drop(ROW))
        if options.runs:
            made = read_source(options.runs, options.model)
            new = replace(new, recipe=made.recipe, texts=made.texts)
    by = checked_map(read_object(options.map)[0])
    losses, mixtures, said = join(new, [read_source(one, options.model) for one in options.reuse], by)
    for sentence in said:
        print(sentence, file=sys.stderr)
    write_table(losses, options.out_losses)
    write_table(mixtures, options.out_mixtures)


if __name__ == "__main__":
    sys.exit(run(main))
