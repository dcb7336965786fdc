"""Check a config, then call Snakemake with it: of a stranger's config no code is run.

config.yaml, targets and flags of snakemake -> what snakemake makes; nothing where the check finds a
fault
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bimix.errors import InputError, run

SCRIPTS = Path(__file__).resolve().parent
SNAKEFILE = SCRIPTS.parents[1] / "Snakefile"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="what --configfile is to be given")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="targets and flags of snakemake")
    options = parser.parse_args(argv)
    if any(word.startswith("--configf") for word in options.rest):
        raise InputError("--configfile would be read without a check: name one config, as the first word.")
    if not SNAKEFILE.is_file():
        raise InputError("there is no Snakefile in this installation: call the script of that name in a checkout.")
    checked = subprocess.run([sys.executable, str(SCRIPTS / "check_config.py"), options.config], check=False)
    if checked.returncode:
        return checked.returncode
    given = ["--snakefile", str(SNAKEFILE), *options.rest, "--configfile", options.config]
    os.execv(sys.executable, [sys.executable, "-m", "snakemake", *given])


if __name__ == "__main__":
    sys.exit(run(main))
