"""docs/config.md is what the schema and the defaults say, and has every key."""

from pathlib import Path

import yaml

import document_config
from bimix.defaults.page import written
from bimix.start import checks

ROOT = Path(__file__).parents[2]


def test_the_page_of_all_keys_is_not_stale(tmp_path: Path) -> None:
    document_config.main(["--out", str(tmp_path / "config.md")])
    made, committed = (tmp_path / "config.md").read_text(), (ROOT / "docs/config.md").read_text()
    assert made == committed, "run python workflow/scripts/document_config.py"


def test_every_key_of_the_defaults_is_on_the_page() -> None:
    page = (ROOT / "docs/config.md").read_text()
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    for name, block in checks.merged([ROOT / "workflow/defaults.yaml"]).items():
        if name == "datasets":
            continue
        assert f"`{name}`" in sections
        if name not in ("models", "training", "container"):
            assert all(f"| `{key}` |" in sections[f"`{name}`"] for key in block), name


def test_values_are_written_as_yaml_reads_them() -> None:
    for value in (1.0e-8, 3.12e14, 0.4, 5, [0.01, 0.1], {"a": "x|y", ".b": None}, "no"):
        assert yaml.safe_load(written(value)) == value
