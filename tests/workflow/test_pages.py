"""The pages keep their word: links lead somewhere, named files are there, and Snakemake plans every
command in them.

A command is skipped where the page says why: `<!-- not run: reason -->` on the line of inline code,
or on the line before a block. `<!-- file: name -->` before a block says that its text is that file,
which the commands then find.
"""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import forked
import pytest
import yaml
from snakemake.cli import get_argument_parser

from bimix.command import COMMANDS
from bimix.settings.checks import type_faults

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "tests/benchmarks/README.md")),
        *(ROOT / "docs").glob("*.md"),
    ]
)

# What config.yaml and the pages call "your copy".
YOURS = [
    "data/train/part.jsonl.zst",
    "data/web/part.jsonl",
    "data/code/part.jsonl",
    "data/cc.en.300.bin",
    "data/pile/train/00.jsonl.zst",
    "data/pile/val.jsonl.zst",
    "data/qa/webquestions_test.jsonl",
    "data/qa/webquestions_train.jsonl",
    "data/qa/lambada_test.jsonl",
    "data/qa/triviaqa_dev.json",
    "data/qa/triviaqa_train.json",
]


class Block(NamedTuple):
    lines: list[str]
    comments: str  # on the lines before the block that hold nothing else
    language: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    found, inside, lines, comments, language = [], False, [], "", ""
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            if inside:
                found.append(Block(lines, comments, language))
                comments = ""
            inside, lines, language = not inside, [], line.strip("` ")
        elif inside:
            lines.append(line)
        else:
            comments = f"{comments}\n{line}" if line.startswith("<!--") else ""
    return found


def prose(page: Path) -> list[str]:
    """The lines of a page outside its blocks."""
    inside, found = False, []
    for line in page.read_text().splitlines():
        fence = line.lstrip().startswith("```")
        inside ^= fence
        if not fence and not inside:
            found.append(line)
    return found


def block_commands(block: Block) -> list[str]:
    """A block's lines, those that end in a backslash joined to the next."""
    return "\n".join(block.lines).replace("\\\n", " ").splitlines()


def commands() -> list[str]:
    """Every command of all pages once."""
    found: set[str] = set()
    for page in PAGES:
        lines = [code for line in prose(page) if "<!-- not run:" not in line for code in re.findall(r"`([^`]+)`", line)]
        for block in blocks(page):
            if "<!-- not run:" not in block.comments:
                lines += block_commands(block)
        for line in lines:
            if re.match(r"snakemake -|python [\w/]+\.py ", line):
                found.add(shlex.join(shlex.split(line, comments=True)))
    return sorted(found)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    found: list[str] = []
    for line in prose(page):
        if line.startswith("#"):
            text = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower()).replace(" ", "-")
            found.append(text if text not in found else f"{text}-{found.count(text)}")
    return set(found)


def test_links_lead_somewhere_and_from_the_readme_to_every_page() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)\s]+)\)", "\n".join(prose(page)))
        for link in links:
            if link.startswith(("http://", "https://")):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link} leads nowhere"
            assert target.is_relative_to(ROOT), f"{page.name}: {link} leaves the project"
            assert not anchor or anchor in anchors(target), f"{page.name}: {link}: {target.name} has no such heading"
    linked, new = set(), {ROOT / "README.md"}
    while new:
        page = new.pop()
        linked.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", page.read_text())
        new |= {(page.parent / link).resolve() for link in links if not link.startswith("http")} - linked
    assert set(PAGES) <= linked


def test_inline_code_is_on_one_line_and_the_page_names_every_command() -> None:
    """Where `commands` finds it."""
    for page in PAGES:
        assert not [line for line in prose(page) if line.count("`") % 2], page.name
    # the page names every command of the package and its script
    page = (ROOT / "docs" / "observations.md").read_text()
    listed = dict(re.findall(r"^\| `bimix (\w+)` \|.*\| `(\w+\.py)` \|$", page, flags=re.MULTILINE))
    assert listed == COMMANDS


def test_named_files_are_there() -> None:
    """Paths in the project, rule files and scripts that a page names."""
    for page in PAGES:
        there = {path.name for folder in ("workflow", "tests", "resources") for path in (ROOT / folder).rglob("*.*")}
        for name in re.findall(r"`([^`\s]+)`", "\n".join(prose(page))):
            if re.match(r"(workflow|resources|tests|docs|envs|profiles)/[\w./-]+$", name):
                assert (ROOT / name).exists(), f"{page.name}: no {name}"
            if re.fullmatch(r"\w+\.(py|smk)", name):
                assert name in there, f"{page.name}: no {name}"
    # `NAME` in [file](path): the file has that name
    page = ROOT / "docs" / "contributing.md"
    named = re.findall(r"`(\w+)`\s+in\s+\[[^]]+\]\(([^)#]+)\)", "\n".join(prose(page)))
    assert len(named) >= 6
    for name, path in named:
        assert re.search(rf"\b{name}\b", (page.parent / path).read_text()), f"{path} has no {name}"


def test_promises_name_tests_that_are_there() -> None:
    """Every line of a table of promises names the test that holds it, by file and function."""
    lines = [line for line in prose(ROOT / "docs" / "reliability.md") if line.startswith("| ")]
    promises = [line for line in lines if line != "| promise | held by |"]
    assert len(promises) >= 30
    for line in promises:
        named = re.findall(r"`(\w+\.py)::(test_\w+)`", line)
        assert named, f"no test holds this: {line}"
        for file, function in named:
            (path,) = (ROOT / "tests").rglob(file)
            assert f"def {function}(" in path.read_text(), f"{file} has no {function}"


def test_parts_of_a_config_are_valid() -> None:
    """Blocks that are no file: parts of a dataset's block, or models."""
    configs = [block for page in PAGES for block in blocks(page) if block.language == "yaml"]
    parts = [block for block in configs if "<!-- file:" not in block.comments]
    assert 0 < len(parts) < len(configs)
    for block in parts:
        for key, value in yaml.safe_load("\n".join(block.lines)).items():
            of_all = key == "models" and isinstance(value, dict)  # of a dataset it is a word
            config = {key: value} if of_all else {"datasets": {"own": {key: value}}}
            assert [one for one in type_faults(config) if one.sentence != "the key is missing."] == [], key


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the pages' files, the example's text, and empty data."""
    folder = tmp_path_factory.mktemp("pages")
    for name in ("workflow", "profiles", "envs", "resources"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "text"))
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in YOURS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        # more than the six lines' runs read; elsewhere a file needs to be there, not to hold
        # anything
        (folder / name).write_text('{"text": "some words"}\n' * 20_000 if name.endswith("part.jsonl") else "")
    for page in PAGES:
        for block in blocks(page):
            for name in re.findall(r"<!-- file: (\S+) -->", block.comments):
                (folder / name).write_text("\n".join(block.lines) + "\n")
    subprocess.run([sys.executable, "resources/examples/own_text/write_text.py"], cwd=folder, check=True)
    return folder


def plans() -> list:
    """Targets of all commands by config and profile; a config's own run is `all`, which test_frozen_plans
    plans of the examples.
    """
    parser, found = get_argument_parser(), {}
    for command in commands():
        word, *words = shlex.split(command)
        if word == "snakemake":
            options = parser.parse_args(words)  # ends the test where a flag is none
            config = [str(path) for path in options.configfile or ()]
            key = (*(["--configfile", *config] if config else []),)
            key += ("--workflow-profile", str(options.workflow_profile)) if options.workflow_profile else ()
            found.setdefault(key, set()).update(options.targets or {"all"})
    wanted = {key: own for key, own in found.items() if own != {"all"} or "resources/examples/" not in " ".join(key)}
    return [pytest.param(options, sorted(targets), id=" ".join(options)) for options, targets in wanted.items()]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "targets"), plans())
def test_snakemake_plans_the_commands(workplace: Path, options: tuple[str, ...], targets: list[str]) -> None:
    """What commands of one config make is planned at once, and each target is made by a job."""
    command = [sys.executable, "-m", "snakemake", "-n", "-p", "--cores", "1", *targets, *options]
    done = forked.run(command, cwd=workplace)
    said = done.stdout + done.stderr
    assert not done.returncode, said[-2000:]
    made = {name for line in re.findall(r"^ +output: (.*)$", said, re.MULTILINE) for name in line.split(", ")}
    assert set(targets) - {"all"} <= made
    assert "all" not in targets or re.search(r"^all +1$", said, re.MULTILINE)


def test_the_commands_of_the_package_run_in_the_order_of_the_page(workplace: Path, tmp_path: Path) -> None:
    """`bimix` in a shell, with the page's tables and the logs of the examples."""
    page = ROOT / "docs" / "observations.md"
    ran = [block for block in blocks(page) if "<!-- not run:" not in block.comments]
    lines = [line for block in ran for line in block_commands(block) if line.startswith("bimix ")]
    assert {line.split()[1] for line in lines} >= {"import", "fit", "predict", "optimise", "intervals"}
    (tmp_path / "called.py").write_text("import sys\nfrom bimix.command import main\nsys.exit(main())\n")
    python = f"python {shlex.quote(str(tmp_path / 'called.py'))}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([f'bimix() {{ {python} "$@"; }}', *lines])],
        cwd=workplace,
        capture_output=True,
        text=True,
        check=False,
        env=forked.jobs(PYTHONPATH=str(ROOT / "workflow" / "scripts")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("10 mixtures of 4 domains, losses of 4 at") == 3
    for name in ("imported/losses.csv", "predicted.csv", "mixture.json", "intervals.csv", "next.csv"):
        assert (workplace / name).exists(), name


def test_scripts_know_the_flags_they_are_given() -> None:
    workflow = "\n".join(path.read_text() for path in (ROOT / "workflow/scripts").rglob("*.py"))
    scripts = [shlex.split(command)[1:] for command in commands() if command.startswith("python")]
    assert len(scripts) > 10
    for script, *arguments in scripts:
        known = (ROOT / script).read_text() + workflow
        unknown = [flag for flag in arguments if flag.startswith("--") and f'"{flag}"' not in known]
        assert not unknown, f"{script} has no {unknown}"
