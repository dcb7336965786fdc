"""What benchmarks share: paths of modules, flags, the shipped config, numbers kept as JSON."""

import argparse
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("workflow/scripts", "resources/reproductions", "tests")]
FLAGS = {
    "folder": {"type": Path, "help": "of the public runs"},
    "--rows": {"type": Path, "help": "csv"},
    "--model": {"required": True, "help": "an entry of `models` in workflow/defaults.yaml"},
    "--vocabulary": {"type": int, "required": True, "help": "token ids"},
    "--precision": {"choices": ["no", "bf16"], "default": "no"},
    "--compile": {"action": "store_true", "help": "compile the model, its loss inside"},
    "--cpu": {"action": "store_true", "help": "run on the CPU even where there is a GPU"},
    "--rounds": {"type": int, "default": 5, "help": "rounds of each side, by turns; medians are printed"},
    "--json": {"type": Path, "help": "file of the numbers"},
}


def parser(page: str, *flags: str, numbers: dict[str, int | list[int]] | None = None) -> argparse.ArgumentParser:
    """A script's docstring as help, flags that others have too, numbers by their defaults."""
    made = argparse.ArgumentParser(description=page, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in flags:
        made.add_argument(flag, **FLAGS[flag])
    for flag, default in (numbers or {}).items():
        several = {"nargs": "+"} if isinstance(default, list) else {}
        made.add_argument(flag, type=int, default=default, **several)
    return made


def shipped() -> dict:
    """The shipped defaults."""
    import yaml  # which a GPU machine needs for some stages alone

    return yaml.safe_load((ROOT / "workflow/defaults.yaml").read_text(encoding="utf-8"))


def keep(path: Path | None, numbers: dict) -> None:
    """Write numbers where a file is named for them."""
    if path:
        path.write_text(json.dumps(numbers), encoding="utf-8")
