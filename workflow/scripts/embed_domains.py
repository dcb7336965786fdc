"""Embed every domain: the mean state of its rows in the middle layer of one trained model.

weights of a run, tokens/train.parquet -> {domain: [width numbers]}, JSON
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from bimix.errors import run
from bimix.model.transformer import Transformer
from bimix.outputs import write_json
from bimix.tables import read_table
from bimix.training.checkpoints import read_weights
from bimix.training.rows import RowStore, open_rows

BATCH = 32
ROWS = 512  # of each domain, at most; Chameleon's code takes 2,048


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="model.safetensors of the run")
    parser.add_argument("--index", type=Path, required=True, help="token index of the training split, parquet")
    parser.add_argument("--domains", nargs="+", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    weights, shape = read_weights(options.weights, "pt")
    model = Transformer(shape).eval()
    model.load_state_dict(weights)
    store = RowStore(read_table(options.index), options.domains, open_rows)
    found = {}
    for number, domain in enumerate(options.domains):
        rows = torch.from_numpy(store.sample(number, ROWS)).long()
        with torch.inference_mode():
            states = [model.middle(batch).double().mean(dim=1) for batch in rows.split(BATCH)]
        found[domain] = np.asarray(torch.cat(states).mean(dim=0)).tolist()
    write_json(options.out, found)


if __name__ == "__main__":
    sys.exit(run(main))
