"""Exports a trained model to the Hugging Face format, as GPT-NeoX with sequential residual and tied
embeddings.

It needs no transformers. transformers 4 and 5, vLLM and lm_eval load the export.
"""

import numpy as np

from bimix.errors import InputError
from bimix.model.shape import ROTARY_SHARE
from bimix.model.transformer import NORM_EPSILON, ROTARY_BASE, Shape

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
