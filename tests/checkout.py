"""Copies of the workflow in a test's folder, and calls of Snakemake in them, forked."""

import shutil
import subprocess
import sys
from pathlib import Path

import forked

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "config.yaml", "workflow", "resources", "envs", "profiles")


def copy_checkout(folder: Path) -> None:
    """Copy the workflow, for tests that change its code."""
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder)


def link_checkout(folder: Path) -> None:
    """Link the workflow's files and folders."""
    for name in PARTS:
        (folder / name).symlink_to(ROOT / name)


def call(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call Snakemake with two cores."""
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
    return forked.run(command, cwd=folder, env=forked.jobs(COLUMNS="200", **environment))


def said(folder: Path, *arguments: str) -> str:
    """What a call that succeeds prints."""
    done = call(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def jobs(printed: str) -> dict[str, int]:
    """Jobs by rule that `-n --quiet rules` prints."""
    lines = [line.split() for line in printed.splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit() and line[0] != "total"}


def planned(folder: Path, *arguments: str) -> dict[str, int]:
    """Jobs by rule that `snakemake -n` would run."""
    return jobs(said(folder, *arguments, "-n", "--quiet", "rules"))
