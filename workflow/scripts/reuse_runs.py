"""Join the runs of earlier corpora to those of a new one, as the pair of tables that laws read.

Optional losses and mixtures of the new runs; those of the older ones; a map of domains -> losses and
mixtures, and the digests of what was reused. Domains that a run did not have are at proportion 0. See to
it that all runs have one tokenizer, recipe and held-out text: tables do not say it.
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import InputError, run
from bimix.observations.reuse import checked_map, join, read_pair, read_source
from bimix.outputs import write_json, write_table
from bimix.tables import read_object


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=Path, help="of the new runs, csv or parquet; without it only older ones")
    parser.add_argument("--mixtures", type=Path, help="of the new runs")
    parser.add_argument(
        "--reuse", nargs="+", required=True, metavar="SOURCE", help='the older runs, JSON {"losses": F, "mixtures": F}'
    )
    parser.add_argument("--map", default="{}", help="{old domain: new one, or {new one: share of text}}, JSON or file")
    parser.add_argument("--out-losses", type=Path, help="to write: losses of all runs, csv or parquet")
    parser.add_argument("--out-mixtures", type=Path, help="to write: mixtures of all runs, csv or parquet")
    parser.add_argument("--report", type=Path, nargs="?", help="to write: files, digests and remarks of each source")
    options = parser.parse_args(argv)
    if (options.losses is None) != (options.mixtures is None):
        raise InputError("--losses and --mixtures go together: the runs that the older ones are joined to.")
    if not (options.out_losses or options.out_mixtures):
        raise InputError("--out-losses and --out-mixtures: name at least one of the tables to write.")
    new = read_pair("new", options.losses, options.mixtures) if options.losses else None
    by = checked_map(read_object(options.map)[0])
    olds = [read_source(one) for one in options.reuse]
    losses, mixtures, said = join(new, olds, by)
    for sentence in said:
        print(sentence, file=sys.stderr)
    for table, path in ((losses, options.out_losses), (mixtures, options.out_mixtures)):
        if path:
            write_table(table, path)
    if options.report:
        write_json(options.report, {"sources": {old.name: old.files for old in olds}, "remarks": said})


if __name__ == "__main__":
    sys.exit(run(main))
