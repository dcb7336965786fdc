"""Models that a command trains, in a config: what goes together, and stages that need weights."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from mini_dataset import mini_config

from bimix.errors import InputError
from bimix.plan.runs import byte_counts, large_runs
from bimix.plan.trainings import own_models, trainer, trainer_data, trainer_models, trainer_text, trainer_tokens
from bimix.settings import checks
from bimix.settings.complete import complete
from bimix.settings.home import over
from bimix.training.command_losses import read

ROOT = Path(__file__).parents[2]
MODEL = {
    "command": "train {mixture} {folder} --steps {steps}",
    "parameters": 1000,
    "losses": {"table": "{folder}/losses.csv"},
    "launch": {"nodes": 1, "gpus": 0, "threads": 1},
}
GONE = object()


def checked(model: dict, block: dict | None = None) -> dict:
    """The dataset `mini` whose model is MODEL with some keys of its own, checked."""
    config = mini_config(6, 2, slim={}, other={})
    config["models"]["slim"] = {key: value for key, value in (MODEL | model).items() if value is not GONE}
    del config["datasets"]["mini"]["vectors"]
    config["datasets"]["mini"] = over(
        config["datasets"]["mini"], {"mixture_files": {"plain": "p.json"}} | (block or {})
    )
    defaults = checks.merged([ROOT / "workflow/defaults.yaml"])
    config = over(copy.deepcopy(defaults), config)
    return checks.settle(config, defaults, ROOT).config


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ({"shape": {"layers": 1, "width": 16, "heads": 2}}, "exactly one of shape, command must stand here; shape and"),
        ({"command": GONE, "losses": GONE, "parameters": GONE}, "exactly one of shape, command must stand here; none"),
        ({"parameters": GONE}, "models/slim/command: it belongs to parameters, which does not stand here"),
        ({"losses": GONE}, "models/slim/command: it belongs to losses, which does not stand here"),
        ({"parameters": 0}, "models/slim/parameters: "),
        ({"format": "megatorn"}, "models/slim/format: "),
        ({"command": "train {mixture} {folder} {step}"}, "models/slim/command: no field {step}; there are mixture"),
        ({"command": "train {mixture}"}, "models/slim/command: it never says {folder}"),
        ({"losses": {}}, "models/slim/losses: exactly one of table, lines, trainer_state, pattern must stand here"),
        ({"losses": {"table": "/tmp/x.csv"}}, "losses/table: it must begin with {folder}/"),
        ({"losses": {"table": "{folder}/../x.csv"}}, "losses/table: it must begin with {folder}/"),
        ({"losses": {"table": "{folder}/x.csv", "loss": "a"}}, "losses/loss: it does not go with table"),
        ({"losses": {"lines": "{folder}/x.jsonl"}}, "losses/loss: the key is missing"),
        (
            {"losses": {"lines": "{folder}/x.jsonl", "loss": "eval/loss"}},
            "losses/loss: 'eval/loss' needs {domain} once",
        ),
        ({"losses": {"trainer_state": "{folder}/t.json", "loss": {"sea": "x"}}}, "losses/loss: of trainer_state it is"),
        ({"losses": {"pattern": "(?P<step>"}}, "losses/pattern: '(?P<step>' is no regular expression"),
        (
            {"losses": {"pattern": r"(?P<step>\d) (?P<loss>.)"}},
            "has no group (?P<domain>...); it needs domain, loss, st",
        ),
        ({"losses": {"pattern": {"sea": r"(?P<step>\d)"}}}, "has no group (?P<loss>...); it needs loss, step"),
        (
            {"losses": {"pattern": "(?P<step>.)(?P<domain>.)(?P<loss>.)", "file": "x"}},
            "losses/file: it must begin with",
        ),
        ({"launch": MODEL["launch"] | {"compile": "yes"}}, "launch/compile: a command does not hear of it"),
        ({"launch": MODEL["launch"] | {"stacked": 4}}, "launch/stacked: a command does not hear of it"),
        ({"launch": {"nodes": 1, "gpus": 0}}, "launch/threads: the key is missing"),
    ],
)
def test_a_fault_of_a_command_is_one_sentence_with_its_key(model: dict, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        checked(model)
    lines = str(refused.value).splitlines()
    assert len(lines) == 1
    assert sentence in lines[0]


def test_a_shape_still_needs_all_of_its_launch() -> None:
    shape = {"shape": {"layers": 1, "width": 16, "heads": 2}}
    with pytest.raises(InputError) as refused:
        checked(shape | dict.fromkeys(("command", "losses", "parameters"), GONE))
    lines = str(refused.value).splitlines()[1:]
    assert [line.split(": ")[0].strip() for line in lines] == [
        f"models/slim/launch/{key}" for key in ("compile", "loss_chunk", "micro_batch")
    ]


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        ({"seeds": {"slim": [1, 2]}}, "seeds/slim: its command never says {seed}"),
        ({"simulate_epochs": True}, "simulate_epochs: slim is trained by a command"),
        (
            {"groups": {"all": ["plain", "chameleon"]}},
            "groups/all: chameleon embeds the domains by the weights of slim",
        ),
        (
            {"swarm": {"model": "slim", "runs": 9, "step": 6, "together": 3}},
            "swarm/model: slim is trained by a command",
        ),
        ({"reweighting": {"model": "slim", "reference": "plain"}}, "reweighting/model: slim is trained by a command"),
        (
            {"downstream": {"model": "slim", "steps": [6], "tasks": {"adding": {"kind": "free", "generate": "sums"}}}},
            "downstream/model: slim is trained by a command",
        ),
    ],
)
def test_what_needs_weights_or_a_seed_is_refused(block: dict, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        checked({}, block)
    assert sum(sentence in line for line in str(refused.value).splitlines()) == 1


def test_what_is_planned_for_a_command() -> None:
    config = checked({"format": "olmo-core"})
    complete(config)
    assert trainer_models(config) == ["slim"]
    assert "slim" not in own_models(config)
    assert "other" in own_models(config)
    assert "launch" not in trainer(config, "slim")
    assert trainer_data(config, "mini", "slim") == ["results/mini/export/rows.json"]
    assert trainer_tokens(config, "mini", "slim") == ["results/mini/tokens/train.parquet"]
    assert byte_counts(config, "mini") == []
    plain = checked({})
    complete(plain)
    assert trainer_data(plain, "mini", "slim") == trainer_tokens(plain, "mini", "slim") == []
    text = [f"results/mini/tokens/{split}.parquet" for split in ("train", "validation")]
    assert trainer_text(plain, "mini") == text  # or changed text would plan nothing
    plain["datasets"]["mini"]["export"] = {"data": "own.json"}
    assert trainer_text(plain, "mini") == []
    assert not large_runs(plain, "mini")


def examples() -> dict[str, dict]:
    """The models in the blocks of docs/trainers.md."""
    page = (ROOT / "docs/trainers.md").read_text()
    blocks = re.findall(r"```yaml\n(models:.*?)```", page, flags=re.DOTALL)
    return {name: model for block in blocks for name, model in yaml.safe_load(block)["models"].items()}


@pytest.mark.parametrize("name", ["theirs", "gpt2", "nano", "megatron", "olmo"])
def test_an_example_of_the_page_is_a_sound_model(name: str) -> None:
    assert set(examples()) == {"theirs", "gpt2", "nano", "megatron", "olmo"}
    given = MODEL | dict.fromkeys(MODEL, GONE) | examples()[name]
    checked(given, {"training": {"slim": {"batch_rows": 64}}})


def test_the_pages_pattern_reads_what_megatron_prints(tmp_path: Path) -> None:
    line = " validation-{} loss at iteration {} | lm loss value: {:.6E} | lm loss PPL: 1.000000E+01 | "
    losses = [("web", 20, 2.5), ("code", 20, 2.25), ("web", 40, 2.0), ("code", 40, 1.75)]
    said = ["-" * 80, *(line.format(*one) for one in losses), line.format("web", "40 on validation set", 2.0)]
    (tmp_path / "output.log").write_text("\n".join(said))
    rows = read(examples()["megatron"]["losses"], tmp_path / "work", [0])
    assert [(row.domain, row.step, row.loss) for row in rows] == losses
