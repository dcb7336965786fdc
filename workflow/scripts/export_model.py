"""Write a trained model as a folder that transformers, vLLM and
lm-evaluation-harness load, as GPT-NeoX.

model.safetensors (its shape in the metadata), tokenizer.json -> a folder of config.json,
model.safetensors, tokenizer.json and more
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.model.export import export_model
from bimix.training.artefacts import check


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="weights as pretrain_model.py writes them")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json that the model was trained with")
    parser.add_argument("--end-of-text", required=True, help="the token after each document")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row in training")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args(argv)
    model = check(options.weights), options.tokenizer
    export_model(*model, options.end_of_text, options.sequence_length, options.out)


if __name__ == "__main__":
    sys.exit(run(main))
