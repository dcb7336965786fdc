"""The model against its published size and against transformers' GPT-NeoX."""

import math

import pytest
import torch
import torch.nn.functional as F
import transformers  # its models are imported where they are used: they bring scikit-learn

from bimix.model.export import neox_weights
from bimix.model.transformer import Shape, Transformer

SHAPE = Shape(layers=3, width=64, heads=4, vocabulary=150)


def renamed(model: Transformer, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights, or their gradients, under GPT-NeoX's names."""
    arrays = neox_weights({name: tensor.detach().numpy() for name, tensor in tensors.items()}, model.shape)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def reference_of(model: Transformer) -> torch.nn.Module:
    """GPT-NeoX with the same weights: sequential residual, rotary on a quarter, tied embeddings."""
    shape = model.shape
    config = transformers.GPTNeoXConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.width,
        hidden_act="gelu_pytorch_tanh",
        layer_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
        use_parallel_residual=False,
        tie_word_embeddings=True,
        attention_bias=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        max_position_embeddings=128,
    )
    reference = transformers.GPTNeoXForCausalLM(config)
    weights = renamed(model, model.state_dict())
    reference.load_state_dict(weights | {"lm_head.weight": weights["gpt_neox.embed_in.weight"]})
    return reference.eval()


def test_logits_loss_and_gradients_equal_gpt_neox() -> None:
    torch.manual_seed(0)
    model = Transformer(SHAPE)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    reference = reference_of(model)
    rows = torch.randint(0, SHAPE.vocabulary, (5, 40))
    expected = reference(rows).logits
    torch.testing.assert_close(model.logits(rows), expected, rtol=2e-5, atol=2e-5)

    loss = model(rows)
    loss.backward()
    target = F.cross_entropy(expected[:, :-1].reshape(-1, SHAPE.vocabulary), rows[:, 1:].reshape(-1))
    target.backward()
    torch.testing.assert_close(loss, target, rtol=1e-5, atol=1e-5)
    assert not model.embedding.weight.grad[SHAPE.vocabulary :].any()
    theirs = dict(reference.named_parameters())
    for name, ours in renamed(model, {name: weight.grad for name, weight in model.named_parameters()}).items():
        torch.testing.assert_close(ours, theirs[name].grad, rtol=1e-4, atol=1e-6)


def test_the_papers_models_have_their_size_and_what_cannot_be_built_is_refused() -> None:
    for layers, width, heads, parameters in ((12, 768, 12, 123_689_472), (16, 2048, 32, 908_759_040)):
        shape = Shape(layers=layers, width=width, heads=heads, vocabulary=50_277)
        assert shape.padded_vocabulary == 50_304
        with torch.device("meta"):
            model = Transformer(shape)
        assert sum(weight.numel() for weight in model.parameters()) == shape.parameters == parameters
    # a shape that cannot be built is refused
    with pytest.raises(ValueError, match="multiple of heads"):
        Shape(layers=1, width=30, heads=4, vocabulary=100)
    with pytest.raises(ValueError, match="must be even"):
        Shape(layers=1, width=12, heads=3, vocabulary=100)


def test_initial_weights_have_their_deviations_and_padding_never_enters_the_softmax() -> None:
    torch.manual_seed(0)
    model = Transformer(SHAPE)
    rows = torch.randint(0, SHAPE.vocabulary, (2, 10))
    before = model(rows).item()
    with torch.no_grad():
        model.embedding.weight[SHAPE.vocabulary :] = 100.0
    assert model(rows).item() == before
    # initial weights have their deviations and depend on the seed only
    shape = Shape(layers=2, width=256, heads=4, vocabulary=1000)
    torch.manual_seed(3)
    first = Transformer(shape)
    torch.manual_seed(3)
    second = Transformer(shape)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)
    assert first.blocks[0].mlp_in.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert first.blocks[0].mlp_out.weight.std().item() == pytest.approx(0.02 / math.sqrt(4), rel=0.02)
    assert not first.blocks[0].mlp_in.bias.any()
