"""Say what is wrong with a config, and in which line, before Snakemake reads it.

config.yaml and files that are merged over it, in their order -> all faults; nothing in the files is
executed
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.settings.files import announce_laws, check_files, config_files, prefix

CODE = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="what --configfile is to be given")
    options = parser.parse_args(argv)
    place = prefix(CODE, Path.cwd())
    files = config_files(place, options.files)
    check_files(files)
    announce_laws(files)
    from bimix.settings.prepare import Call, prepare  # it imports the table of laws

    ready = prepare(Call(CODE, place, files, len(options.files), {}))
    for remark in ready.remarks:
        print(f"Remark: {remark}")
    print(f"No fault in {', '.join(map(str, files))}.")


if __name__ == "__main__":
    sys.exit(run(main))
