"""What a person hands to the law scripts: tables as csv or parquet, and small
JSON files keyed by domain.
"""

import json
import math
from pathlib import Path

import polars as pl

from bimix.digests import check
from bimix.errors import InputError

# Columns of names: text also where all of them are numbers, as the row numbers
# of published tables are.
NAMES = ("mixture", "domain", "worst_domain")


def read_table(path: Path | str) -> pl.DataFrame:
    """The table in `path`, csv or parquet by its ending.

    Errors: no such file, another ending, not as it was written, not a table of that kind.
    """
    path = Path(path)
    readers = {".csv": pl.read_csv, ".parquet": pl.read_parquet}
    if path.suffix not in readers:
        raise InputError(f"{path} ends in neither .csv nor .parquet: tables are read in these two forms only.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a table of losses or mixtures that is there.")
    check(path)
    try:
        if path.suffix == ".csv":
            names = dict.fromkeys(NAMES, pl.String)
            return pl.read_csv(path, infer_schema_length=None, schema_overrides=names, glob=False)
        table = pl.read_parquet(path, glob=False)
        return table.with_columns(pl.col(name).cast(pl.String) for name in NAMES if name in table.columns)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path} cannot be read as a {path.suffix[1:]} table: {error}") from error


def read_json(path: Path | str) -> dict:
    """The JSON object in `path`.

    Errors: no such file, not as it was written, not JSON, not an object, a key twice.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a JSON file that is there.")
    try:
        content = json.loads(
            check(path).read_text(encoding="utf-8"), object_pairs_hook=lambda pairs: _unique(pairs, path)
        )
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}: a JSON object is needed.")
    return content


def _unique(pairs: list[tuple[str, object]], path: Path) -> dict:
    """An object of JSON, of whose keys the reader would take the last without a word."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path}: the key {twice!r} stands there twice in one object: keep one of the two.")
    return content


def read_numbers(path: Path | str) -> dict[str, float]:
    """A JSON object of one finite, non-negative number per domain: the name of a file, or
    the object itself as text.
    """
    if str(path).lstrip().startswith("{"):
        try:
            numbers, path = json.loads(str(path)), "the JSON given"
        except json.JSONDecodeError as error:
            raise InputError(f"{path} is not valid JSON: {error}") from error
    else:
        numbers = read_json(path)
    if isinstance(numbers.get("stages"), list):
        raise InputError(f"{path} is a mixture in stages; one mixture for the whole run is needed here.")
    for domain, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
            raise InputError(f"{path}: the value of {domain!r} is {number!r}: it must be a finite number, 0 or more.")
    return numbers


def read_tokens(path: Path | str) -> dict[str, float]:
    """{domain: tokens} from JSON, a file of it, or a table with the columns domain and tokens.

    Such a table is tokens/train.parquet.
    """
    if str(path).endswith(".json") or str(path).lstrip().startswith("{"):
        return read_numbers(path)
    table = read_table(path)
    for column in ("domain", "tokens"):
        if column not in table.columns:
            raise InputError(f"{path} has no column {column!r}: token counts need the columns domain and tokens.")
    return dict(table.group_by("domain").agg(pl.col("tokens").sum()).iter_rows())


def read_size(path: Path | str) -> tuple[float, float]:
    """(parameters, tokens) of a run: of its run.json, or any JSON with these two keys.

    Errors: one is missing or no finite number above 0.
    """
    content = read_json(path)
    for name in ("parameters", "tokens"):
        number = content.get(name)
        sound = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf
        if not sound:
            raise InputError(f"{path}: {name} is {number!r}: it must be a finite number above 0.")
    return float(content["parameters"]), float(content["tokens"])
