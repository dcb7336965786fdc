"""An exported mixture in stages: weights and first step of each, or a refusal."""

import argparse
import json
from pathlib import Path

import pytest
import yaml
from jinja2 import UndefinedError
from refusals import refused
from test_export_mixture import MARKS

import export_mixture
from bimix.errors import InputError
from bimix.exports.formats import FORMATS
from bimix.exports.write import ENVIRONMENT

FIRST = {"web": 0.75, "code": 0.25, "wiki": 0.0}
SECOND = {"web": 0.125, "code": 0.375, "wiki": 0.5}
STAGED = {"stages": [{"share": 0.8, "mixture": FIRST}, {"share": 0.2, "mixture": SECOND}]}
DOMAINS = {
    "web": {"train": [{"path": "/data/web/0", "size": 3}, {"path": "/data/web/1", "size": 1}], "unique_tokens": 4e6},
    "code": {"train": ["/data/code"], "unique_tokens": 1e6},
    "wiki": {"train": ["/data/wiki"], "validation": ["/data/wiki_valid"], "unique_tokens": 1e5},
}
ABLE = ["megatron", "nanotron"]


def exported(folder: Path, form: str, *more: str, mixture: dict = STAGED, **top: object) -> str:
    (folder / "mixture.json").write_text(json.dumps(mixture))
    (folder / "data.json").write_text(json.dumps({"domains": DOMAINS, **top}))
    out = folder / f"out{FORMATS[form].ending}"
    flags = ["--mixture", str(folder / "mixture.json"), "--data", str(folder / "data.json"), "--format", form]
    export_mixture.main([*flags, "--out", str(out), *more])
    return out.read_text()


def test_nanotron_changes_its_folders_at_the_first_step_of_a_stage(tmp_path: Path, capsys) -> None:
    stages = yaml.safe_load(exported(tmp_path, "nanotron", "--run-steps", "1000"))["data_stages"]
    # step 801 is the first after 800 updates: nanotron counts from 1
    assert [(stage["name"], stage["start_training_step"]) for stage in stages] == [("stage 1", 1), ("stage 2", 801)]
    read = [dict(zip(*stage["data"]["dataset"].values(), strict=True)) for stage in stages]
    assert read[0] == pytest.approx({"/data/web/0": 0.5625, "/data/web/1": 0.1875, "/data/code": 0.25})
    assert read[1] == pytest.approx(
        {"/data/web/0": 0.09375, "/data/web/1": 0.03125, "/data/code": 0.375, "/data/wiki": 0.5}
    )
    assert "it may read again what an earlier stage has read" in capsys.readouterr().err


def test_megatron_has_a_line_of_arguments_for_each_launch(tmp_path: Path, capsys) -> None:
    lines = exported(tmp_path, "megatron", "--run-steps", "1000").splitlines()
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-path", nargs="*")
    parser.add_argument("--phase-transition-iterations")
    read = [parser.parse_args(line.split()) for line in lines]
    assert [one.phase_transition_iterations for one in read] == ["800", "800"]
    weights = [dict(zip(one.data_path[1::2], map(float, one.data_path[::2]), strict=True)) for one in read]
    assert weights[0] == {"/data/code": 0.25, "/data/web/0": 0.5625, "/data/web/1": 0.1875}
    assert weights[1]["/data/wiki"] == 0.5 and sum(weights[1].values()) == 1
    said = capsys.readouterr().err
    assert "line 1 from 0, line 2 from 800 iterations on" in said and "Left out" not in said
    never = {"stages": [{"share": one["share"], "mixture": FIRST | {"web": 0.75 - n / 4, "code": 0.25 + n / 4}}
        for n, one in enumerate(STAGED["stages"])]}  # fmt: skip
    exported(tmp_path, "megatron", "--run-steps", "1000", mixture=never)
    assert "Left out, for their proportion is 0: wiki.\n" in capsys.readouterr().err


def test_what_holds_one_mixture_or_knows_no_updates_refuses_stages(tmp_path: Path) -> None:
    assert [name for name, form in FORMATS.items() if form.stages] == ABLE
    words = "has 2 stages, and --format nemo holds one mixture: take one of megatron"
    refused(words, exported, tmp_path, "nemo", "--run-steps", "1000", "--run-tokens", "1e6")
    refused("has 2 stages: give --run-steps, the updates of the run", exported, tmp_path, "nanotron")
    with pytest.raises(InputError, match=r"stage 2 has a share of 0.2, which of 2 updates is none"):
        exported(tmp_path, "nanotron", "--run-steps", "2")


def test_one_stage_is_the_plain_mixture(tmp_path: Path) -> None:
    one = {"stages": [{"share": 1.0, "mixture": SECOND}]}
    for form in ("csv", *ABLE):
        assert exported(tmp_path, form, mixture=one) == exported(tmp_path, form, mixture=SECOND)


def test_the_table_has_each_stage_and_the_epochs_of_the_whole_run(tmp_path: Path, capsys) -> None:
    exported(tmp_path, "nanotron", "--run-steps", "1000", "--run-tokens", "1e6")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["domain", "stage", "1", "stage", "2", "run", "tokens", "unique", "tokens", "epochs"]
    # 0.8 * 0.25 + 0.2 * 0.375 of a million tokens, in a pool of a million; wiki in stage 2 only
    assert rows[1] == ["code", "0.250000", "0.375000", "2.75e+05", "1e+06", "0.275"]
    assert rows[3] == ["wiki", "0.000000", "0.500000", "1e+05", "1e+05", "1"]


OUTSIDE = "a'b\"c: {d}"


def test_names_and_values_that_are_not_quoted_end_the_template() -> None:
    for text in ("{{ path }}", "{{ 'a' ~ path | yaml }}", "{{ 0.5 }}", "{{ [path] | join(',') }}"):
        with pytest.raises(TypeError, match="without a filter that quotes it"):
            ENVIRONMENT.from_string(text).render(path=OUTSIDE)
    # a name that a template does not have ends it
    for text in ("paht | python", "[paht] | python", "paht | repr", "[paht] | csv"):
        with pytest.raises(UndefinedError, match="'paht' is undefined"):
            ENVIRONMENT.from_string(f"{{{{ {text} }}}}").render(path=OUTSIDE)


def test_a_scalar_of_yaml_is_one_line_and_read_as_it_was_as_a_key_and_a_value() -> None:
    """A line separator is a line break in YAML 1.1 and none in 1.2."""
    words = ["no", "1.5", "~", "", "a\nb", "a\n", "a\u2028b", "a\x85 b", "x y " * 400]
    for name in (*MARKS, "".join(MARKS), *words):
        text = ENVIRONMENT.from_string("a:\n  {{ name | yaml }}:\n  - {{ name | yaml }}\n").render(name=name)
        assert len(text.splitlines()) == 3
        if len(name) < 1000:  # a longer key has no single line in YAML
            assert yaml.safe_load(text) == {"a": {name: [name]}}
        assert yaml.safe_load(text.splitlines()[2].strip()) == [name]
