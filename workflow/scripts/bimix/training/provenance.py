"""The provenance of a result: code, versions and devices of every attempt at a run."""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("torch", "accelerate", "numpy", "polars", "tokenizers", "safetensors")
FITTING = ("numpy", "polars", "scipy", "lightgbm")
COMPARED = ("commit", "versions", "device", "processes")


def git(*arguments: str) -> str | None:
    """Git's output for the checkout of this file; None outside a checkout, or without git."""
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    # never wait for the lock of another git process
    environment = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def code(packages: Iterable[str]) -> dict:
    """Commit of the code and whether it was clean (None: not known), versions of Python and of the
    installed `packages`.

    Code that pip installed has a version instead, even inside another project's checkout.
    """
    commit = git("rev-parse", "HEAD") if git("ls-files", "--error-unmatch", __file__) is not None else None
    packages = packages if commit else ("bimix", *packages)
    # untracked files may well be data
    changes = git("status", "--porcelain", "--untracked-files=no", "--", str(Path(__file__).parents[1]))
    return {
        "commit": commit,
        "clean": None if commit is None or changes is None else not changes,
        "versions": {"python": platform.python_version()} | dict(filter(all, map(installed, packages))),
    }


def installed(package: str) -> tuple[str, str | None]:
    try:
        return package, version(package)
    except PackageNotFoundError:
        return package, None


def begun(lines: Iterable[dict]) -> list[dict]:
    """The attempts of a run by the `lines` of attempts.jsonl: first step and origin of each."""
    names = ("step", "host", "job", "clean", "attention", *COMPARED)
    return [{name: line.get(name) for name in names} for line in lines if line["event"] == "begun"]


def mixed(lines: Iterable[dict]) -> list[str]:
    """A sentence for each difference between the attempts at a run."""
    attempts, sentences = begun(lines), []
    for name in COMPARED:
        values = (attempt[name] for attempt in attempts)
        seen = list(dict.fromkeys(str(describe(value)) for value in values))
        if len(seen) > 1:
            sentences.append(f"The attempts at this run differ in {name}: {'; then '.join(seen)}.")
    return sentences


def warnings(lines: Iterable[dict]) -> list[str]:
    """Sentences on differences between a run's attempts, and on uncommitted code."""
    lines = list(lines)
    changed = [str(attempt["step"]) for attempt in begun(lines) if attempt["clean"] is False]
    if not changed:
        return mixed(lines)
    return [
        *mixed(lines),
        f"The code had changes that are in no commit in the attempts that began at step {', '.join(changed)}.",
    ]


def of_run(origin: dict, state: str, lines: list[dict]) -> dict:
    """The provenance for the run.json of a run with the folder `state`."""
    return {
        "versions": origin["versions"],
        "commit": origin["commit"],
        "state": state,
        "attempts": begun(lines),
        "warnings": warnings(lines),
    }


def describe(value: object) -> object:
    """The form of a value in a sentence."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in sorted(value.items()))
    return "not known" if value is None else value
