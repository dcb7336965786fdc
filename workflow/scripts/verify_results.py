"""Prove that a dataset's results, or one finished run, are as they were written
and agree with each other.

results/{dataset}, or the folder of a run -> what was checked, what was not, and every fault; exit
status 1 where there is one, and with --strict also where a file is gone or has no digest
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import masked, run
from bimix.outputs import write_text
from bimix.results.verify import verify


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/{dataset}, or one of its finished runs")
    parser.add_argument("--out", type=Path, help="the findings, text; written only where there is no fault")
    parser.add_argument("--strict", action="store_true", help="status 1 where files are NOT CHECKED, too")
    options = parser.parse_args(argv)

    found = verify(options.folder)
    page = masked(found.page(str(options.folder)))
    if found.faults or (options.strict and found.lacking):
        print(page, file=sys.stderr)
        return 1
    if options.out:
        write_text(options.out, page)
    else:
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
