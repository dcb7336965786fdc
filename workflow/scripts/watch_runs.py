"""Show how far all trainings of a dataset have come; what they write is read, nothing is touched.

results/{dataset} -> a table: state, step, tokens/s, time left, the last loss; the log of what failed
"""

import argparse
import sys
import time
from pathlib import Path

from bimix.errors import InputError, run
from bimix.results.watch import held_jobs, table

CLEAR = "\x1b[H\x1b[2J"  # the cursor to the upper left, and all that is shown away


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder of a dataset, such as results/demo")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two looks")
    parser.add_argument("--once", action="store_true", help="print the table once, as where the output is no terminal")
    options = parser.parse_args(argv)
    if not options.results.is_dir():
        raise InputError(f"{options.results} is no folder: name that of a dataset, such as results/demo.")
    if options.every <= 0:
        raise InputError(f"--every is {options.every}: it must be above 0.")
    if options.once or not sys.stdout.isatty():
        print("\n".join([*table(options.results), *held_jobs()]))
        return
    try:
        while True:
            head = f"{CLEAR}{options.results}, {time.strftime('%H:%M:%S')} (Ctrl-C ends this look, no training)"
            print("\n".join([head, "", *table(options.results), *held_jobs()]), flush=True)
            time.sleep(options.every)
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    sys.exit(run(main))
