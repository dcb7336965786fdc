"""Writes a trained model as a folder that transformers, vLLM and lm_eval load, as GPT-NeoX."""

import shutil
from pathlib import Path

from safetensors.numpy import save_file
from tokenizers import Tokenizer

from bimix.errors import InputError
from bimix.model.export import neox_config, neox_weights, tokenizer_config
from bimix.outputs import replacing_folder, write_json
from bimix.training.checkpoints import read_weights


def export_model(weights: Path, tokenizer: Path, end_of_text: str, sequence_length: int, out: Path) -> None:
    """Write config.json, model.safetensors, tokenizer.json and more to the folder `out`.

    Errors: the tokenizer has other ids than the model, or no token `end_of_text`.
    """
    arrays, shape = read_weights(weights)
    definition = Tokenizer.from_file(str(tokenizer))
    if definition.get_vocab_size() != shape.vocabulary:
        raise InputError(
            f"{tokenizer} has {definition.get_vocab_size()} ids but the model in {weights} was trained on"
            f" {shape.vocabulary}; give the tokenizer of that run."
        )
    end = definition.token_to_id(end_of_text)
    if end is None:
        raise InputError(f"{tokenizer} has no token {end_of_text!r}; name the one that ends documents.")
    try:
        renamed = neox_weights(arrays, shape)
    except InputError as error:
        raise InputError(f"{weights}: {error}") from error
    with replacing_folder(out) as folder:
        # The one key of the metadata that transformers needs: how the arrays are laid out.
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
        write_json(folder / "config.json", neox_config(shape, sequence_length, end))
        ids = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
        write_json(folder / "generation_config.json", ids)
        write_json(folder / "tokenizer_config.json", tokenizer_config(end_of_text, sequence_length))
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
        # safetensors makes files that only their owner can read
        shutil.copymode(folder / "config.json", folder / "model.safetensors")
