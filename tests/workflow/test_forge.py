"""What a forge, an image and a catalogue read of the project is valid and agrees."""

import re
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


def steps() -> list[str]:
    jobs = yaml.safe_load(CI.read_text())["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_the_forge_runs_what_the_own_checks_run() -> None:
    own = (ROOT / ".ci/run").read_text().splitlines()
    style = own[own.index("snakemake --report results/demo/report.html") :]
    assert len(style) >= 5 and set(style) <= set(steps())
    readme = (ROOT / "README.md").read_text()
    for name in ("run", "test"):
        lines = re.search(rf"<!-- {name} -->\n```\n(.*?)```\n<!-- end -->", readme, re.DOTALL)[1].splitlines()
        # the environment is the forge's own
        for line in lines:
            if "venv" not in line and "pip install" not in line:
                assert line in steps(), line


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
