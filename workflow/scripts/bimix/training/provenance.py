"""The provenance of a result: code, versions and devices of every attempt at a run."""

import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
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
    # untracked files may well be data
    changes = git("status", "--porcelain", "--untracked-files=no", "--", str(Path(__file__).parents[1]))
    versions = {"python": platform.python_version()}
    for package in packages if commit else ("bimix", *packages):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {"commit": commit, "clean": None if None in (commit, changes) else not changes, "versions": versions}


def begun(lines: Iterable[dict]) -> list[dict]:
    """The attempts of a run by the `lines` of attempts.jsonl: first step and origin of each."""
    names = ("step", "host", "job", "clean", "attention", *COMPARED)
    return [{name: line.get(name) for name in names} for line in lines if line["event"] == "begun"]


def warnings(lines: Iterable[dict]) -> list[str]:
    """Sentences on differences between a run's attempts, and on uncommitted code."""
    attempts, sentences = begun(lines), []
    for name in COMPARED:
        seen = dict.fromkeys(in_words(attempt[name]) for attempt in attempts)
        if len(seen) > 1:
            sentences.append(f"The attempts at this run differ in {name}: {'; then '.join(seen)}.")
    changed = ", ".join(str(attempt["step"]) for attempt in attempts if attempt["clean"] is False)
    if changed:
        sentences.append(f"The code had changes that are in no commit in the attempts that began at step {changed}.")
    return sentences


def in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {one}" for name, one in sorted(value.items()))
    return "not known" if value is None else str(value)


def of_run(origin: dict, state: str, lines: list[dict]) -> dict:
    """The provenance for the run.json of a run with the folder `state`."""
    of_code = {name: origin[name] for name in ("versions", "commit")}
    return of_code | {"state": state, "attempts": begun(lines), "warnings": warnings(lines)}
