"""Write a trained model as a folder that transformers, vLLM and
lm-evaluation-harness load, as GPT-NeoX.

model.safetensors (its shape in the metadata), tokenizer.json -> a folder of config.json,
model.safetensors, tokenizer.json and more
"""

import argparse
import shutil
import sys
from pathlib import Path

from safetensors.numpy import save_file
from tokenizers import Tokenizer

from bimix.errors import InputError, run
from bimix.model.export import neox_config, neox_weights, tokenizer_config
from bimix.outputs import replacing_folder, write_json
from bimix.training.artefacts import check
from bimix.training.checkpoints import read_weights


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True, help="weights as pretrain_model.py writes them")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json that the model was trained with")
    parser.add_argument("--end-of-text", required=True, help="the token after each document")
    parser.add_argument("--sequence-length", type=int, required=True, help="tokens of a row in training")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args(argv)

    weights, shape = read_weights(check(options.weights))
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise InputError(
            f"{options.tokenizer} has {tokenizer.get_vocab_size()} ids but the model in {options.weights} was trained"
            f" on {shape.vocabulary}; give the tokenizer of that run."
        )
    end = tokenizer.token_to_id(options.end_of_text)
    if end is None:
        raise InputError(f"{options.tokenizer} has no token {options.end_of_text!r}; name the one that ends documents.")
    try:
        renamed = neox_weights(weights, shape)
    except InputError as error:
        raise InputError(f"{options.weights}: {error}") from error

    with replacing_folder(options.out) as folder:
        # The one key of the metadata that transformers needs: how the arrays are laid out.
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
        write_json(folder / "config.json", neox_config(shape, options.sequence_length, end))
        ids = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
        write_json(folder / "generation_config.json", ids)
        write_json(folder / "tokenizer_config.json", tokenizer_config(options.end_of_text, options.sequence_length))
        shutil.copyfile(options.tokenizer, folder / "tokenizer.json")
        # safetensors makes files that only their owner can read
        shutil.copymode(folder / "config.json", folder / "model.safetensors")


if __name__ == "__main__":
    sys.exit(run(main))
