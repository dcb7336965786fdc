"""Take a group of mixtures out of losses that were measured elsewhere.

losses (mixture, step, domain, loss, ...) and mixtures (mixture, domain, proportion) -> the
same two tables of one group
"""

import argparse
import sys
from pathlib import Path

import polars as pl

from bimix.digests import digest_file
from bimix.errors import InputError, run
from bimix.laws.table import is_optimum
from bimix.observations.flags import add_lower
from bimix.observations.metrics import read_with_metrics
from bimix.observations.observations import observations
from bimix.observations.tables import ROW, read_mixtures
from bimix.outputs import write_json, write_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--mixtures", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--metrics", type=Path, nargs="?", help="metrics of the runs, csv or parquet; none: without")
    parser.add_argument("--names", nargs="*", required=True, help="mixtures to take; none: all but what laws proposed")
    parser.add_argument("--group-losses", type=Path, required=True, help="parquet to write")
    parser.add_argument("--group-mixtures", type=Path, required=True, help="parquet to write")
    add_lower(parser)
    options = parser.parse_args(argv)
    mixtures = read_mixtures(options.mixtures)
    losses = read_with_metrics(options.losses, mixtures.names("domain"), options.metrics, options.lower_is_better)
    for remark in (losses.remark, mixtures.remark):
        if remark:
            print(remark, file=sys.stderr)
    losses, mixtures = losses.table, mixtures.table
    files = (str(options.losses), str(options.mixtures))
    observed = observations(losses, mixtures, files)
    known = observed.mixtures
    for remark in observed.remarks:
        print(remark, file=sys.stderr)
    for name in options.names:
        if name not in known:
            raise InputError(f"{options.losses} has no mixture {name!r}; it has {', '.join(known[:20])}.")
    every = [name for name in known if not is_optimum(name)]
    if not options.names and len(every) < len(known):
        left = dict.fromkeys(name for name in known if is_optimum(name))
        print(f"Left out, as they are called as what a law proposes: {', '.join(left)}.", file=sys.stderr)
    if not (options.names or every):
        raise InputError(f"{options.losses}: all of its mixtures are called as a law's optimum: name them in a group.")
    read = {str(path): digest_file(path) for path in (options.losses, options.mixtures, options.metrics) if path}
    # no output of the rule, as it is no result: `verify` compares the tables with it
    write_json(options.group_losses.with_suffix(".json"), {"sources": read})
    wanted = pl.col("mixture").cast(pl.String).is_in(options.names or every)
    write_table(losses.filter(wanted).drop(ROW, strict=False), options.group_losses)
    write_table(mixtures.filter(wanted).drop(ROW, strict=False), options.group_mixtures)


if __name__ == "__main__":
    sys.exit(run(main))
