"""`pip install .` gives a command that does what the scripts do, with few packages."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import polars as pl
import pytest
import yaml

import optimize_mixture
from bimix import command
from bimix.exports.formats import FORMATS

ROOT = Path(__file__).parents[2]
OWN = ROOT / "resources/examples/own_losses"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Packages of the command, with what they import.
NEEDED = {
    "numpy": (),
    "scipy": (),
    "polars": (),
    "jinja2": ("markupsafe",),
    "PyYAML": ("yaml",),
    "pydantic": ("pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"),
}


def pip(*arguments: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with this project and the packages that it names."""
    folder = tmp_path_factory.mktemp("installed")
    copy = folder / "checkout"
    for name in ("workflow", "resources"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "logs", "text"))
    for name in ("pyproject.toml", "CITATION.cff", "README.md", "LICENSE", "config.yaml"):
        shutil.copy(ROOT / name, copy)
    pip("wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", copy, "--wheel-dir", folder)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    pip("--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    names = [*NEEDED, *(name for own in NEEDED.values() for name in own)]
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if re.match(rf"_?({'|'.join(names)})([._-]|$)", path.name):
            (packages / path.name).symlink_to(path)
    return folder / "venv"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A user's folder: the two tables of the example and nothing else."""
    for name in ("losses.csv", "mixtures.csv"):
        shutil.copy(OWN / name, tmp_path)
    return tmp_path


# Several calls in one process: their statuses, each behind what its call prints.
CALLS = """
import sys
from bimix.command import main
for line in sys.argv[1:]:
    sys.argv = ["bimix", *line.split()]
    try:
        status = main()
    except SystemExit as end:
        status = end.code
    print(f"<{status or 0}>", flush=True)
"""


def run(folder: Path, status: int, *command: str | Path) -> str:
    """What a command prints; nothing of the tests' environment is in reach."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=folder, env=known | {"COLUMNS": "120"}, check=False, **streams)
    assert done.returncode == status, done.stdout
    return done.stdout


def call(environment: Path, folder: Path, lines: dict[str, int]) -> list[str]:
    """What `bimix` prints in a folder for each line of words, which ends with this status."""
    parts = re.split(r"<(\d)>\n", run(folder, 0, environment / "bin/python", "-c", CALLS, *lines))
    assert dict(zip(lines, map(int, parts[1::2]), strict=True)) == lines, parts
    return parts[:-1:2]


def test_from_two_tables_to_the_best_mixture_in_a_folder_of_ones_own(environment: Path, mine: Path) -> None:
    """Law documents name the version, and no commit: the environment may lie in a repository of the user's."""
    git = ["git", "-C", environment.parent, "-c", "user.name=me", "-c", "user.email=me@here"]
    for words in (["init", "-q"], ["commit", "-qm", "x", "--allow-empty"]):
        subprocess.run([*git, *words], check=True)
    tables = "--losses losses.csv --mixtures mixtures.csv"
    spans = "--step 10000 --level 0.9 --baseline run01"
    lines = [f"fit --law bimix {tables} --out law.json"]
    lines += ["predict --coefficients law.json --mixtures mixtures.csv --out predicted.csv"]
    lines += ["optimise --coefficients law.json --step 10000 --out best.json"]
    lines += [f"intervals --coefficients law.json {tables} {spans} --out intervals.csv"]
    call(environment, mine, dict.fromkeys(lines, 0))
    noted = json.loads((mine / "law.json").read_text())["provenance"]
    assert (noted["commit"], noted["clean"], noted["versions"]["bimix"]) == (None, None, cited()["version"])
    predicted, observed = (
        pl.read_csv(mine / name).sort("mixture", "step", "domain") for name in ("predicted.csv", "losses.csv")
    )
    assert predicted["mixture"].to_list() == observed["mixture"].to_list()
    assert ((predicted["loss"] / observed["loss"] - 1).abs() < 0.01).all()
    optimize_mixture.main(["--coefficients", str(mine / "law.json"), "--step", "10000", "--out", str(mine / "by.json")])
    assert json.loads((mine / "best.json").read_text()) == json.loads((mine / "by.json").read_text())
    gain = pl.read_csv(mine / "intervals.csv").filter(pl.col("quantity").str.contains("gain"))
    assert gain.height and (gain["low"] < gain["estimate"]).all() and (gain["estimate"] < gain["high"]).all()


def test_one_command_leads_from_two_tables_to_a_mixture_without_snakemake(environment: Path, mine: Path) -> None:
    said = run(
        mine,
        0,
        environment / "bin/bimix",
        *["solve", "--losses", "losses.csv", "--mixtures", "mixtures.csv", "--out", "solved"],
    )
    assert sum(json.loads((mine / "solved/mixture.json").read_text()).values()) == pytest.approx(1)
    assert (mine / "solved/summary.txt").read_text().startswith(said), "the terminal ends on the five lines"


def test_a_mixture_is_exported_by_the_templates_of_the_wheel(environment: Path, mine: Path) -> None:
    (installed,) = environment.glob("lib/python*/site-packages/bimix/exports/templates")
    own = ROOT / "workflow/scripts/bimix/exports/templates"
    assert sorted(path.name for path in installed.iterdir()) == sorted(path.name for path in own.iterdir())
    (mine / "mixture.json").write_text('{"web": 0.75, "code": 0.25}')
    one = {"unit": "samples", "unique_tokens": 1e9}
    domains = {name: {"train": [{"path": f"/{name}.jsonl", "size": 100}], **one} for name in ("web", "code")}
    (mine / "data.json").write_text(json.dumps({"domains": domains, "records": "samples", "sequence_length": 8}))
    name, form = next((name, form) for name, form in FORMATS.items() if form.ending == ".yaml")
    line = f"export --mixture mixture.json --data data.json --run-tokens 1e9 --format {name}"
    call(environment, mine, {f"{line} --out blend{form.ending}": 0})
    assert "/code.jsonl" in (mine / f"blend{form.ending}").read_text()


def test_help_is_that_of_the_scripts(environment: Path, mine: Path) -> None:
    # two commands need more packages to begin
    words = [f"{word} --help" for word in command.COMMANDS if word not in ("check", "verify")]
    listed, bare, version, *shown = call(
        environment, mine, {"--help": 0, "": 2, "--version": 0} | dict.fromkeys(words, 0)
    )
    for word, script in command.COMMANDS.items():
        line = next(line for line in listed.splitlines() if line.startswith(f"  {word} "))
        assert line.endswith(command.about(ROOT / "workflow/scripts" / script)) and line.endswith((".", ":")), line
    for word, page in zip(words, shown, strict=True):
        assert page.startswith(f"usage: bimix {word.split()[0]} [-h]")
    assert "--losses LOSSES" in "".join(shown)
    assert (bare, version) == (listed, f"bimix {cited()['version']}\n")


def test_faults_name_the_command_and_what_it_needs(environment: Path, mine: Path) -> None:
    tables, logs = "--losses losses.csv --mixtures mixtures.csv", ROOT / "resources/examples/logs/tensorboard"
    taken = f"import {logs} --pattern eval/{{domain}}/loss --mixtures mixtures.csv --out taken"
    faults = {
        "fit --law bimix --losses no.csv --mixtures mixtures.csv --out law.json": (1, "bimix fit: error: no.csv "),
        f"fit --law regmix {tables} --out law.json": (1, r"this needs lightgbm, .* pip install '\.\[regmix\]'"),
        taken: (1, r"tensorboard, .* '\.\[tensorboard\]'"),
        "verify results": (1, "bimix verify: error: results is neither"),
        "optimize": (2, "did you mean optimise?"),
        "predict": (2, "the following arguments are required"),
    }
    printed = call(environment, mine, {line: status for line, (status, _) in faults.items()})
    for line, page in zip(faults, printed, strict=True):
        assert re.search(faults[line][1], page), page
    assert not (mine / "law.json").exists()


def test_with_the_environment_a_config_is_checked_with_the_installed_schema(environment: Path, mine: Path) -> None:
    """The tests' own environment has all packages: it reads the installed files there."""
    config = yaml.safe_load((OWN / "measured.yaml").read_text())
    config["datasets"]["measured"]["observations"] = {"losses": "losses.csv", "mixtures": "mixtures.csv"}
    (mine / "mine.yaml").write_text(yaml.safe_dump(config))
    (package,) = environment.glob("lib/python*/site-packages/bimix")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from bimix.command import main; sys.exit(main())", "check", "mine.yaml"],
        cwd=mine,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and str(package) in done.stdout, done.stderr


def cited() -> dict:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_wheel_has_the_scripts_of_the_command_the_one_version_and_the_pins() -> None:
    """CITATION.cff has the version; the package and the list of changes agree."""
    built = PROJECT["tool"]["hatch"]
    included = built["build"]["targets"]["wheel"]["force-include"]
    scripts = {path for path in included if path.endswith(".py")}
    assert scripts == {f"workflow/scripts/{script}" for script in command.COMMANDS.values()}
    for path, place in included.items():
        assert (ROOT / path).exists() and place == f"bimix/installed/{path}"
    assert PROJECT["project"]["dynamic"] == ["version"] and built["version"]["path"] == "CITATION.cff"
    released = re.findall(r"^## (\d\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert released[0] == (cited()["version"], str(cited()["date-released"]))
    pinned = (ROOT / "envs/requirements.txt").read_text().split("\n\n")[0].splitlines()[1:]
    needed, extras = PROJECT["project"]["dependencies"], PROJECT["project"]["optional-dependencies"]
    assert [line.replace("'", '"') for line in extras["workflow"]] == pinned
    known = {line.split("==")[0]: tuple(map(int, line.split(";")[0].split("==")[1].split("."))) for line in pinned}
    for line in (*needed, *extras["tensorboard"], *extras["regmix"]):
        name, least = line.split(">=")
        assert tuple(map(int, least.split("."))) <= known[name]
    assert {line.split(">=")[0] for line in needed} == set(NEEDED)
