"""What a forge, an image and a catalogue read of the project is valid and agrees."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CI = ROOT / ".github/workflows/ci.yml"
DOCKERFILE = ROOT / "envs/Dockerfile"


def test_files_of_others_forms_are_valid() -> None:
    for schema, path in (
        ("vendor.github-workflows", CI),
        ("custom.github-workflows-require-timeout", CI),
        ("vendor.citation-file-format", ROOT / "CITATION.cff"),
    ):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "--force-filetype", "yaml"]
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_forge_runs_the_own_checks_where_they_leave_no_test_out() -> None:
    """In a container, whose user is root: SLURM and Chromium are installed there."""
    (job,) = yaml.safe_load(CI.read_text())["jobs"].values()
    assert job["container"] and ".ci/run" in [step.get("run") for step in job["steps"]]


def test_the_own_checks_delete_nothing_of_a_contributor(tmp_path: Path) -> None:
    """They run in a copy with what is changed and new; all that they call is a stand-in."""
    own = tmp_path / "checkout"
    for name in (".ci", "bin", "results/pile", ".venv/bin"):
        (own / name).mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", own / ".ci")
    readme = "<!-- run -->\n```\n{}\n```\n<!-- end -->\n<!-- test -->\n```\ntrue\n```\n<!-- end -->\n"
    (own / "README.md").write_text(readme.format("false"))
    (own / ".gitignore").write_text(".venv/\n/results/\n.ci/*.log\n")
    for name in ("snakemake", "snakefmt", "ruff", "id"):
        (own / "bin" / name).write_text("#!/bin/sh\necho Nothing to be done, 1000\n")
        (own / "bin" / name).chmod(0o755)
    user = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*user, "commit", "--quiet", "--message", "All"]):
        subprocess.run(["git", *words], cwd=own, check=True)
    made = "mkdir -p .venv/bin results/demo && touch .venv/bin/activate && cp -a new {}/seen"
    (own / "README.md").write_text(readme.format(made.format(tmp_path)))  # a change, and a new file
    (own / "new").write_text("new")
    (own / "results/pile/weeks").write_text("of work")
    path = f"{own}/bin:{os.environ['PATH']}"
    subprocess.run(["bash", ".ci/run"], cwd=own, check=True, env=os.environ | {"PATH": path}, timeout=120)
    assert (own / "results/pile/weeks").read_text() == "of work" and not (own / "results/demo").exists()
    assert (tmp_path / "seen").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkout", "seen"]


def test_image_and_conda_environments_have_the_pins_of_the_requirements() -> None:
    """The image is built with `envs` for context; all packages come from requirements.txt."""
    lines = DOCKERFILE.read_text().splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY")]
    assert copied == ["requirements.txt"] and (ROOT / "envs" / copied[0]).exists()
    installed = [line for line in lines if "pip install" in line]
    assert installed == ["RUN pip install --no-cache-dir --requirement /tmp/requirements.txt"]
    assert "docker build --file envs/Dockerfile --tag bimix envs" in DOCKERFILE.read_text()
    pins = {line.split(";")[0].strip() for line in (ROOT / "envs/requirements.txt").read_text().splitlines()}
    for name in ("torch", "analysis"):
        listed = yaml.safe_load((ROOT / f"envs/{name}.yaml").read_text())["dependencies"][-1]["pip"]
        assert set(listed) <= pins
