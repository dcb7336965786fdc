"""The exported folder against transformers: logits, ids, both generations of keys."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers  # its models are imported where they are used: they bring scikit-learn
from refusals import refused
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from bimix.errors import InputError
from bimix.model.export import neox_weights
from bimix.model.transformer import Shape, Transformer
from export_model import main

END = "<|endoftext|>"
TEXT = "the cat sat on the mat; the bee was not there, naïve as 12 bees are\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tokenizer.json, model.safetensors (weights far from their first size), and the export."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=270, special_tokens=[END], initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    shape = Shape(layers=3, width=64, heads=4, vocabulary=tokenizer.get_vocab_size())
    assert shape.vocabulary < shape.padded_vocabulary
    torch.manual_seed(0)
    model = Transformer(shape)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"shape": json.dumps(vars(shape))})
    export(folder)
    return folder


def export(folder: Path, **changes: str) -> None:
    flags = {"weights": str(folder / "model.safetensors"), "tokenizer": str(folder / "tokenizer.json")}
    flags |= {"end-of-text": END, "sequence-length": "32", "out": str(folder / "export")} | changes
    main([part for flag, value in flags.items() for part in (f"--{flag}", value)])


def own_logits(run: Path, rows: torch.Tensor) -> torch.Tensor:
    model = Transformer(
        Shape(layers=3, width=64, heads=4, vocabulary=Tokenizer.from_file(str(run / "tokenizer.json")).get_vocab_size())
    )
    model.load_state_dict(load_file(run / "model.safetensors"))
    with torch.no_grad():
        return model.logits(rows)


def test_transformers_computes_our_logits_by_both_generations_of_keys(run: Path, tmp_path: Path) -> None:
    assert len({path.stat().st_mode for path in (run / "export").iterdir()}) == 1
    for without in ((), ("rope_parameters",), ("rotary_pct", "rotary_emb_base")):
        config = json.loads((run / "export" / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({key: config[key] for key in config if key not in without}))
        (tmp_path / "model.safetensors").unlink(missing_ok=True)
        (tmp_path / "model.safetensors").symlink_to(run / "export" / "model.safetensors")
        model, loading = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
        assert not any(loading.values()), loading
        rows = torch.randint(0, config["vocab_size"], (4, 32))
        with torch.no_grad():
            torch.testing.assert_close(model.eval()(rows).logits, own_logits(run, rows), rtol=2e-5, atol=2e-5)


def test_greedy_text_is_ours_and_ids_are_the_tokenizers(run: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "export")
    plain = Tokenizer.from_file(str(run / "tokenizer.json"))
    for text in (TEXT, f"two texts{END}in one", " \t tabs", "日本 🐝"):
        assert tokenizer(text)["input_ids"] == plain.encode(text).ids
        assert tokenizer.decode(plain.encode(text).ids) == text
    assert tokenizer.eos_token_id == tokenizer.pad_token_id == plain.token_to_id(END)

    model = transformers.AutoModelForCausalLM.from_pretrained(run / "export")
    prompt = tokenizer("the bee", return_tensors="pt")
    written = model.generate(**prompt, max_new_tokens=8, do_sample=False, eos_token_id=-2)
    expected = prompt["input_ids"]
    for _ in range(8):
        expected = torch.cat((expected, own_logits(run, expected)[:, -1:].argmax(-1)), dim=1)
    assert written.tolist() == expected.tolist()


def test_a_padded_batch_of_prompts_has_our_logits_and_our_greedy_text(run: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(run / "export")
    model = transformers.AutoModelForCausalLM.from_pretrained(run / "export").eval()
    prompts = [TEXT[start : start + 4 + start % 9].strip() for start in range(0, 40, 2)]
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    assert len(prompts) == 20 and 0 < (1 - batch["attention_mask"]).sum(1).max() < batch["input_ids"].shape[1]
    positions = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        found = model(**batch, position_ids=positions).logits[:, -1]
    written = model.generate(**batch, max_new_tokens=8, do_sample=False, eos_token_id=-2)[:, -8:]
    for prompt, logits, ids in zip(prompts, found, written, strict=True):
        own = torch.tensor([tokenizer(prompt)["input_ids"]])
        torch.testing.assert_close(logits, own_logits(run, own)[0, -1], rtol=1e-5, atol=1e-5)
        for _ in range(8):
            own = torch.cat((own, own_logits(run, own)[:, -1:].argmax(-1)), dim=1)
        assert own[0, -8:].tolist() == ids.tolist()


def test_what_cannot_be_exported_is_refused_in_a_sentence_and_leaves_nothing(run: Path, tmp_path: Path) -> None:
    good = (run / "model.safetensors").read_bytes()
    (tmp_path / "short.safetensors").write_bytes(good[:-100])
    weights = load_file(run / "model.safetensors")
    save_file(weights, tmp_path / "nameless.safetensors")
    save_file(weights, tmp_path / "garbled.safetensors", metadata={"shape": "{"})
    shape = {"layers": 3, "width": 64, "heads": 4, "vocabulary": 150}
    save_file(weights, tmp_path / "vocabulary.safetensors", metadata={"shape": json.dumps(shape)})
    shape |= {"layers": 2, "vocabulary": len(transformers.AutoTokenizer.from_pretrained(run / "export"))}
    save_file(weights, tmp_path / "layers.safetensors", metadata={"shape": json.dumps(shape)})
    for name, sentence in [
        ("missing", "does not exist"),
        ("short", "cannot be read as safetensors"),
        ("nameless", "has no shape"),
        ("garbled", "has no shape"),
        ("vocabulary", "trained on 150; give the tokenizer of that run"),
        ("layers", r"weight 'blocks\.2\..*' is not one of a model"),
    ]:
        refused(sentence, export, run, weights=str(tmp_path / f"{name}.safetensors"), out=str(tmp_path / "out"))
    refused("no token '</s>'", export, run, **{"end-of-text": "</s>", "out": str(tmp_path / "out")})
    assert not (tmp_path / "out").exists()


SHAPE = Shape(layers=2, width=24, heads=3, vocabulary=10)


def test_weights_of_another_shape_are_refused() -> None:
    weights = {name: one.numpy() for name, one in Transformer(SHAPE).state_dict().items()}
    with pytest.raises(InputError, match=r"'final_norm\.bias' is missing of a model"):
        neox_weights({name: one for name, one in weights.items() if name != "final_norm.bias"}, SHAPE)
    refused("'aaa' is not one of a model", neox_weights, weights | {"aaa": np.zeros(1)}, SHAPE)
    with pytest.raises(InputError, match=r"'embedding\.weight' has the size"):
        neox_weights(weights | {"embedding.weight": weights["embedding.weight"][:-1]}, SHAPE)
    refused(r"'final_norm\.weight' has the size", neox_weights, weights | {"final_norm.weight": np.zeros(23)}, SHAPE)
