"""A dataset of two domains and a few words, for tests that train in a copy of the workflow."""

import copy
import json
from collections.abc import Collection
from pathlib import Path

import yaml
from checkout import copy_checkout
from tiny_run import SHAPE

ROOT = Path(__file__).parents[1]
LAUNCH = {"nodes": 1, "gpus": 0, "threads": 1, "micro_batch": 4, "loss_chunk": "all", "compile": "no"}
WORDS = {"kitchen": "salt pan oven whisk dough", "sea": "tide wave salt gull mast"}
CONFIG = yaml.safe_load("""
run: [mini]
datasets:
  mini:
    domains: [kitchen, sea]
    corpus:
      train: {kitchen: kitchen.jsonl, sea: sea.jsonl}
      validation: {share: 0.2}
      text_field: text
      domain_field: null
      labels: {}
      cut_characters: null
      rejects: 0.0
    tokenizer: {train: {vocabulary: 280, share: 1.0}, end_of_text: "<|endoftext|>"}
    sequence_length: 16
    vectors: {file: none.bin, documents: 20}
    groups: {all: [plain]}
    held_out: []
    compare: {model: slim, mixtures: [plain]}
""")


def mini_config(steps: int, evaluate_every: int, **models: dict) -> dict:
    """The config of `mini`; each model by what is its own of `launch`, and `batch_rows`."""
    config = copy.deepcopy(CONFIG)
    block = config["datasets"]["mini"]
    training = {"recipe": "demo", "steps": steps, "evaluate_every": evaluate_every, "validation_rows": 4}
    config["models"], block["training"] = {}, {}
    for model, own in models.items():
        launch = LAUNCH | {name: value for name, value in own.items() if name != "batch_rows"}
        config["models"][model] = {"shape": dict(SHAPE), "launch": launch}
        block["training"][model] = training | {"batch_rows": own.get("batch_rows", 4)}
    block["optimum"] = {"model": "slim", "group": "all", "step": steps}
    return config


def write_checkout(folder: Path, config: dict, mixtures: Collection[str]) -> None:
    """A copy of the workflow, mini.yaml, and mixtures, 0.6 of the sea or as each is given."""
    copy_checkout(folder)
    config["datasets"]["mini"]["mixture_files"] = {name: f"{name}.json" for name in mixtures}
    (folder / "mini.yaml").write_text(yaml.safe_dump(config))
    for name in mixtures:
        sea = mixtures[name] if isinstance(mixtures, dict) else 0.6
        (folder / f"{name}.json").write_text(json.dumps({"kitchen": 1 - sea, "sea": sea}))
    for domain, words in WORDS.items():
        (folder / f"{domain}.jsonl").write_text("".join(texts(words.split())))


def texts(words: list[str]) -> list[str]:
    """Ninety documents of a domain as lines of JSON, no two the same."""
    places = (" ".join(words[(number * place) % 5] for place in range(1, 30)) for number in range(90))
    return [json.dumps({"text": f"{text} {number}"}) + "\n" for number, text in enumerate(places)]
