"""Models that a command trains, in a config: what goes together, and stages that need weights."""

import copy
import re
from pathlib import Path

import pytest
import yaml
from mini_dataset import mini_config

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
