"""The weights of a trained model as a file, and as a folder that transformers 4 and 5, vLLM and
lm_eval load: GPT-NeoX with sequential residual and tied embeddings. It needs no transformers.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from bimix.errors import InputError
from bimix.model.shape import ROTARY_SHARE
from bimix.model.transformer import NORM_EPSILON, ROTARY_BASE, Shape, Transformer
from bimix.outputs import replacing, replacing_folder, write_json

OUTER_NAMES = {
    "embedding.weight": "gpt_neox.embed_in.weight",
    "final_norm.weight": "gpt_neox.final_layer_norm.weight",
    "final_norm.bias": "gpt_neox.final_layer_norm.bias",
}
BLOCK_NAMES = {
    "attention_norm": "input_layernorm",
    "attention.query_key_value": "attention.query_key_value",
    "attention.out": "attention.dense",
    "mlp_norm": "post_attention_layernorm",
    "mlp_in": "mlp.dense_h_to_4h",
    "mlp_out": "mlp.dense_4h_to_h",
}


def write_weights(model: Transformer, path: Path) -> None:
    """Write a model's weights as safetensors, its shape in the metadata."""
    weights = {name: weight.detach().cpu().contiguous() for name, weight in model.state_dict().items()}
    try:
        with replacing(path, vouched=False) as temporary:  # run.json has its digest
            safetensors.torch.save_file(weights, temporary, metadata={"shape": json.dumps(model.shape.model_dump())})
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} cannot be written ({error}); make room and start again.") from error


def read_weights(path: Path, framework: str = "numpy") -> tuple[dict, Shape]:
    """Weights, as arrays of numpy or pt, and the shape in their file's metadata."""
    try:
        with safe_open(path, framework=framework) as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        shape = Shape(**json.loads(metadata["shape"]))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read as safetensors ({error}); train it again.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} has no shape in its metadata; give a file of pretrain_model.py.") from error
    return weights, shape


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
        safetensors.numpy.save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
        write_json(folder / "config.json", neox_config(shape, sequence_length, end))
        ids = {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
        write_json(folder / "generation_config.json", ids)
        write_json(folder / "tokenizer_config.json", tokenizer_config(end_of_text, sequence_length))
        shutil.copyfile(tokenizer, folder / "tokenizer.json")
        # safetensors makes files that only their owner can read
        shutil.copymode(folder / "config.json", folder / "model.safetensors")


def neox_names(shape: Shape) -> dict[str, str]:
    """{our name of a weight: GPT-NeoX's}; the head is tied to the embedding and has no entry."""
    names = dict(OUTER_NAMES)
    for layer in range(shape.layers):
        for ours, theirs in BLOCK_NAMES.items():
            for kind in ("weight", "bias"):
                names[f"blocks.{layer}.{ours}.{kind}"] = f"gpt_neox.layers.{layer}.{theirs}.{kind}"
    return names


def neox_weights(weights: dict[str, np.ndarray], shape: Shape) -> dict[str, np.ndarray]:
    """The weights of `model.Transformer` under GPT-NeoX's names.

    GPT-NeoX stores the three projections of a head together, (heads, 3, head width), where ours are
    (3, heads, head width). The padded rows of the embedding are dropped: they are not trained, and
    other programs would not mask them. Raises InputError if the weights do not fit the shape.
    """
    names = neox_names(shape)
    if weights.keys() != names.keys():
        name = min(weights.keys() ^ names.keys())
        raise InputError(f"weight {name!r} is {'missing' if name in names else 'not one'} of a model of {shape}.")
    sizes = {"embedding.weight": (shape.padded_vocabulary, shape.width), "final_norm.weight": (shape.width,)}
    for name, size in sizes.items():
        if weights[name].shape != size:
            raise InputError(f"weight {name!r} has the size {weights[name].shape}, not {size} as {shape} says.")
    renamed = {}
    for name, weight in weights.items():
        if name == "embedding.weight":
            weight = weight[: shape.vocabulary]
        elif ".query_key_value." in name:
            by_kind = weight.reshape(3, shape.heads, shape.head_width, -1)
            weight = by_kind.swapaxes(0, 1).reshape(weight.shape)
        renamed[names[name]] = np.ascontiguousarray(weight)
    return renamed


def neox_config(shape: Shape, sequence_length: int, end_of_text: int) -> dict:
    """The content of config.json; the id `end_of_text` also begins a text, as in training."""
    return {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": 4 * shape.width,
        "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": NORM_EPSILON,
        "max_position_embeddings": sequence_length,
        "use_parallel_residual": False,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "initializer_range": 0.02,
        # transformers 5 reads the first; transformers 4 and older programs read the next two
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": ROTARY_BASE,
            "partial_rotary_factor": ROTARY_SHARE,
        },
        "rotary_pct": ROTARY_SHARE,
        "rotary_emb_base": ROTARY_BASE,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "use_cache": True,
        "torch_dtype": "float32",
    }


def tokenizer_config(end_of_text: str, sequence_length: int) -> dict:
    """The content of tokenizer_config.json: tokenizer.json unchanged, no tokens added to a text.

    The end-of-text token, the only special one, also pads; padding is masked.
    """
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": sequence_length,
        "bos_token": end_of_text,
        "eos_token": end_of_text,
        "pad_token": end_of_text,
        "padding_side": "left",  # so that a batch is continued at its end
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
    }
