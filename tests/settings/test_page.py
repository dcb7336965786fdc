"""docs/config.md is what the schema and the defaults say, and has every key."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

import document_config
from bimix.settings.layers import merged

ROOT = Path(__file__).parents[2]


def test_the_page_of_all_keys_is_not_stale(tmp_path: Path) -> None:
    document_config.main(["--out", str(tmp_path / "config.md")])
    made, committed = (tmp_path / "config.md").read_text(), (ROOT / "docs/config.md").read_text()
    assert made == committed, "run python workflow/scripts/document_config.py"


def test_the_schema_for_editors_takes_the_defaults_and_no_other_key(tmp_path: Path) -> None:
    document_config.main(["--out", str(tmp_path / "config.md"), "--schema", str(tmp_path / "config.json")])
    validator = Draft202012Validator(json.loads((tmp_path / "config.json").read_text()))
    config = merged([ROOT / "workflow/defaults.yaml", ROOT / "config.yaml"])
    validator.validate(config | {"x-mine": {"a": None}})
    for wrong in ({"laws": {"sed": 1}}, {"laws": {"seed": -1}}, {"datasets": {"a": {"domains": ["b"]}}}):
        with pytest.raises(ValidationError):
            validator.validate(wrong)
