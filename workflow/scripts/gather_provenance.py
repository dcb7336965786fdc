"""Write where all results of a dataset come from: code, corpus, tokenizer, mixtures, runs, laws.

results/{dataset} -> provenance.json (its schema: bimix/results/provenance.py)
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.outputs import write_json
from bimix.results.provenance import SCHEMA, gather
from bimix.training.provenance import FITTING, PACKAGES, code


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="results/{dataset}")
    parser.add_argument("--config-digest", required=True, help="of the dataset's block in the completed config")
    parser.add_argument("--out", type=Path, required=True, help="provenance.json")
    options = parser.parse_args(argv)
    named = {"schema": SCHEMA, "dataset": options.folder.name, "config": options.config_digest}
    written_by = {"written_by": code(dict.fromkeys([*PACKAGES, *FITTING, "snakemake"]))}
    write_json(options.out, named | written_by | gather(options.folder))


if __name__ == "__main__":
    sys.exit(run(main))
