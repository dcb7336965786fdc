"""Files of a config: what is none is refused, and what YAML takes silently has its line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from made_configs import FITTED_ONCE, ROOT, ready, said
from refusals import refused

from bimix.settings import complete, prepare
from bimix.settings.files import ConfigFile, check_files
from bimix.settings.ladder import Machine
from bimix.settings.layers import merged
from bimix.settings.prepare import check_folder, run_of_layers, settled

# Ten lines whose aliases repeat 10^10 values.
BOMB = "x-0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]\n" + "".join(
    f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


NO_CONFIGS = [
    ("a: 1\n\tb: 2\n", ":2: the line is indented with a tab; YAML takes spaces only."),
    ("a: [1, 2\nb: 3\n", ":2: no YAML from here: "),
    ("# nothing\n", ": the file must hold keys"),
    ("- a\n", ":1: the file must hold keys"),
    ("word\n", ":1: the file must hold keys"),
    ("a: 1\n---\na: 2\n", "no YAML from here: "),
    ("__use_yte__: true\nx: 1\n", ":1: __use_yte__: a config that runs code is refused"),
    ("<<: &y {__use_yte__: true}\nx-y: *y\n", ":1: __use_yte__: a config that runs code is refused"),
    ("x-y: &y {__use_yte__: true}\n<<: *y\n", ":1: __use_yte__: a config that runs code is refused"),
    ("x: !!python/name:os.system\n", ":1: x: the tag tag:yaml.org,2002:python/name:os.system is not allowed"),
    ("x: 1\nlaws:\n  <<: [5]\n", ":3: laws: a merge (<<) takes a block or a list of blocks."),
    (BOMB, "the file has more than 200,000 keys and values, with all that aliases (*name) repeat."),
    (f"x: {'[' * 900}{']' * 900}\n", ":1: blocks and lists lie more than 60 deep in one another."),
    ('{"x": ' + "[" * 9000 + "]" * 9000 + "}", ":1: blocks and lists lie more than 60 deep in one another."),
    ("laws: &a\n  compare: [*a]\n", ":1: an alias (*name) stands within its own block."),
    (f"run: [demo]\nlaws: {{seed: {'9' * 5000}}}\n", ':2: laws/seed: "999999'),
    ("x-day: 2026-02-31\n", ':1: x-day: "2026-02-31" cannot be read as YAML\'s timestamp; quote text.'),
]


def test_a_file_that_is_no_config_is_refused_before_it_is_read(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    for text, sentence in NO_CONFIGS:
        mine.write_text(text)
        assert f"{mine}:" in refused(re.escape(sentence), check_files, [mine])
    refused("nothing.yaml: there is no such file; targets go before", check_files, [tmp_path / "nothing.yaml"])
    refused("bimix.json: this is a result and no config", check_files, [Path("results/mine/mixtures/bimix.json")])
    mine.write_bytes("a: é".encode("latin-1"))
    refused("mine.yaml: the file is not UTF-8", check_files, [mine])
    (tmp_path / "tabs.json").write_text('{\n\t"run": ["demo"]\n}')
    check_files([tmp_path / "tabs.json"])


def test_a_key_has_the_line_of_the_block_that_decides_it(tmp_path: Path) -> None:
    """The block's own before those of a merge, of these the first, of two keys the last."""
    (tmp_path / "mine.yaml").write_text(
        "x-a: &a {one: 1, two: 2, three: 3}\nx-b: &b {two: 02, four: [4, 5]}\nblock:\n  <<: [*b, *a]\n  one: 0x1\n"
    )
    file = ConfigFile(tmp_path / "mine.yaml")
    assert file.faults == []
    own = {key[1:]: line for key, line in file.lines.items() if key[0] == "block"}
    assert own == {(): 3, ("one",): 5, ("two",): 2, ("three",): 1, ("four",): 2, ("four", 0): 2, ("four", 1): 2}


def test_blocks_for_anchors_and_merges_are_taken(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(
        "run: [demo]\nx-tiny: &proxy {recipe: demo, steps: 160}\n"
        + "datasets: {demo: {training: {proxy: {<<: *proxy, evaluate_every: 40}}, optimum: {step: 160}}}\n"
    )
    files = [ROOT / "config.yaml", own]
    assert ready(merged([*FITTED_ONCE, *files]), files=files).config["run"] == ["demo"]
    own.write_text(own.read_text().replace("160}\ndata", "0}\ndata"))
    (line,) = said(merged([*FITTED_ONCE, *files]), files)
    assert "mine.yaml:2: datasets/demo/training/proxy/steps: 0 is given" in line


def test_what_the_command_line_has_set_is_reported_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("run: [demo]\ndatasets: {demo: {centre: nobody}}\n")
    files = [ROOT / "config.yaml", tmp_path / "mine.yaml"]
    config = merged([*FITTED_ONCE, *files]) | {"run": ["demmo"]}
    lines = refused("", settled, config, ROOT, check_files(files), given={"run": "demmo"}).splitlines()
    assert lines[1].startswith("  --config: run: ") and "mine.yaml:2: datasets/demo/centre: " in lines[2]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """In a process without root's right to write everywhere."""
    held = "from bimix.settings.lock import hold; hold('mini')"
    planned = "from bimix.settings.prepare import check_folder; check_folder()"
    written = "from bimix.outputs import write_json; write_json('results/law.json', {})"
    (tmp_path / "results").mkdir()
    for call, closed, sentence in (
        (held, tmp_path / "results", "InputError: results/mini cannot be written (Permission denied)"),
        (written, tmp_path / "results", "its folder cannot be written to: 'results/law.json'"),
        (planned, tmp_path, f"InputError: {tmp_path}/.snakemake cannot be written, and Snakemake keeps its notes"),
    ):
        closed.chmod(0o555)
        words, path = [*unprivileged(), sys.executable, "-c", call], {"PYTHONPATH": str(ROOT / "workflow/scripts")}
        try:
            done = subprocess.run(words, cwd=tmp_path, env=os.environ | path, capture_output=True, text=True)
        finally:
            closed.chmod(0o755)
        assert sentence in done.stderr


def unprivileged() -> list[str]:
    """What lets root's process be refused like another's."""
    if os.geteuid():
        return []
    return [shutil.which("setpriv") or pytest.skip("root, and no setpriv"), "--bounding-set=-dac_override"]


def test_results_are_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_folder()
    Path("results").symlink_to(tmp_path / "disk")
    refused(r"results is a link to .*disk, which is not there: it must be a folder", check_folder)
    (tmp_path / "disk").mkdir()
    check_folder()
    Path("results").unlink()
    Path("results").touch()
    refused("results is a file: it must be a folder", check_folder)


def test_what_is_built_is_what_the_users_files_name() -> None:
    for texts, given, expected in (
        (["run: [demo]"], 0, ["demo"]),
        (["run: [demo]", "datasets: {mine: {}, yours: {}}"], 1, ["mine", "yours"]),
        (["run: [demo]", "laws: {seed: 1}"], 1, ["demo"]),
        (["run: [demo]", "datasets: {mine: {}, yours: {}}\nrun: [yours]"], 1, ["yours"]),
        (["run: [demo]", "datasets: {mine: {}}\nrun: mine", "datasets: {other: {}}"], 2, "mine"),
        (["run: [demo]", "datasets: {mine: {}}", "laws: {seed: 1}"], 1, ["mine"]),
        (["container: null"], 0, ["demo"]),
    ):
        layers = list(map(yaml.safe_load, texts))
        assert run_of_layers([*layers, {}], given) == expected, texts
        assert run_of_layers([*layers, {"run": "said"}], given) == "said"


def test_files_that_are_not_there_and_epochs_that_no_mixture_keeps_to_are_said_when_planning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Epochs are a fault where ten times the text would not do; of far text nothing is said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(complete, "seen_machine", lambda wanted, count: Machine("cpu", 2, 1))
    Path("web.jsonl").write_bytes(b"x" * 600_000)
    Path("far").write_text("http://host/code.jsonl\n")
    own = tmp_path / "mine.yaml"

    def call(*words: str, most: float = 100, code: str = "code.jsonl") -> prepare.Prepared:
        own.write_text(
            f"run: [mine]\ndatasets:\n  mine:\n    corpus: {{train: {{web: web.jsonl, code: '{code}'}}}}\n"
            f"    optimum:\n      max_epochs: {most}\n"
        )
        return prepare.prepare(prepare.Call(ROOT, f"{ROOT}/", [own], 1, {}, words))

    refused(r"mine\.yaml:4: datasets/mine/corpus/train/code: .* code.jsonl", call)
    call("results/mine/tokenizer.json")  # which may need no text: else Snakemake names what is missing
    Path("code.jsonl").write_bytes(b"x" * 200_000)
    sentence = "mine.yaml:6: datasets/mine/optimum/max_epochs: {} epochs of all text are about"
    assert not any("epochs" in one for one in call().remarks)
    assert any(sentence.format(1) in one for one in call(most=1).remarks)
    refused(sentence.format("0.001"), call, most=0.001)
    for most in (100, 1, 0.001):
        assert not any("epochs" in one for one in call(most=most, code="@far").remarks)
