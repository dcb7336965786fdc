"""Users' inputs to the law scripts: tables as csv, tsv or parquet, and JSON keyed by domain."""

import codecs
import csv
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl

from bimix.digests import check
from bimix.errors import InputError

# Columns of names: read as text, even where all are numbers (row numbers of published tables).
NAMES = ("mixture", "domain", "worst_domain")
# What other tools call the column of the mixture, in lower case.
CALLED = ("run", "name", "experiment", "index", "model")
# Columns that have a meaning here, in lower case.
WORDS = ("mixture", "step", "domain", "loss", "proportion", "seed", "tokens", "parameters", "pool", "metric", "value")
SEPARATORS = (",", ";", "\t")
ABOVE = re.compile(r"#|//")  # the start of comments, which some programs write above the header
SEPARATOR = re.compile(r'"?sep=(.)"?\s*$')  # the first line of some spreadsheets
ROW_NUMBERS = re.compile(r"(Unnamed: \d+)?")  # as pandas calls the column of its row numbers
PERCENT = r"^\s*-?\d+([.,]\d+)?\s*%\s*$"
# Rounded proportions are rescaled (RegMix's rows sum to 1 within 0.4 %); a larger gap is an error.
ROUNDING = 0.005
EXACT = 1e-6  # a sum farther from 1, within ROUNDING, is rescaled with a remark
TEXTS = (".csv", ".tsv")
MOST_ROWS = 20_000_000  # a parquet file of some kB may claim any number


def read_table(path: Path | str) -> pl.DataFrame:
    """The table in `path`, csv, tsv or parquet by its ending; the separator of a text file is the
    comma, semicolon or tab in its header.

    Errors: no such file, another ending, a digest that differs, not a table of that kind, a line
    that is not UTF-8, a comment above the header, lines that end in CR alone, an open quote, more
    than MOST_ROWS rows of parquet.
    """
    path = Path(path)
    if path.suffix not in (*TEXTS, ".parquet"):
        raise InputError(f"{path} ends in none of .csv, .tsv and .parquet: tables are read in these forms only.")
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a table of losses or mixtures that is there.")
    check(path)
    try:
        if path.suffix in TEXTS:
            arguments = _csv_arguments(path)
            table = pl.read_csv(path, infer_schema_length=None, glob=False, **arguments)
            return _stripped(_percents_to_shares(table, names=arguments["schema_overrides"]))
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        if rows > MOST_ROWS:
            raise InputError(f"{path} has {rows:,} rows: a table of losses or mixtures has {MOST_ROWS:,} at most.")
        return _stripped(pl.read_parquet(path, glob=False))
    except (pl.exceptions.PolarsError, OSError) as error:
        check_utf8(path)
        _check_cells(path)
        message = str(error).partition("\n")[0]  # polars' advice to programmers follows
        raise InputError(f"{path} cannot be read as a {path.suffix[1:]} table: {message}") from error


def _percents_to_shares(table: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    """The table with shares in the columns where each number has a percent sign, except in `names`."""
    texts = [name for name, kind in table.schema.items() if kind == pl.String and name not in names]
    percents = [name for name in texts if table[name].str.contains(PERCENT).all() and table[name].count()]
    number = pl.col(percents).str.replace("%", "").str.replace(",", ".").str.strip_chars().cast(pl.Float64)
    return table.with_columns(number / 100) if percents else table


def _stripped(table: pl.DataFrame) -> pl.DataFrame:
    """The table with columns of names as text, and no blanks around these and the columns' names."""
    table = table.rename({name: name.strip() for name in table.columns})
    names = [name for name in table.columns if name.lower() in (*NAMES, *CALLED)]
    texts = [name for name in names if name.lower() in NAMES or table[name].dtype == pl.String]
    return table.with_columns(pl.col(texts).cast(pl.String).str.strip_chars())


def lines_above(name: str) -> int:
    """The number of lines above the header of a text file: 1 if the first names the separator, or 0."""
    path = Path(name)
    if not is_text(name) or not path.is_file():
        return 0
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        return int(bool(SEPARATOR.match(lines.readline())))


def is_text(name: str) -> bool:
    """Whether a table's rows are lines of a file."""
    return name.endswith(TEXTS)


def check_utf8(path: Path) -> None:
    """Errors: a line of a text file is not UTF-8."""
    if path.suffix not in TEXTS:
        return
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                shown = line[max(error.start - 20, 0) : error.start + 20].decode("latin-1").strip()
                other = "UTF-16" if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "latin-1"
                raise InputError(
                    f"{path}, line {number} is not UTF-8 (near {shown!r}): save the table as UTF-8; it may be {other}."
                ) from error


def _check_cells(path: Path) -> None:
    """Errors: a line of a text file has more cells than the header, or opens a quote that nothing
    closes, with its number.
    """
    if path.suffix not in TEXTS:
        return
    with path.open(encoding="utf-8-sig", newline="") as text:
        arguments = _csv_arguments(path)
        lines = itertools.islice(text, arguments.get("skip_lines", 0), None)
        rows = csv.reader(lines, delimiter=arguments["separator"], strict=True)
        try:
            # A row may go over several lines (in quotes): an error names its first.
            header, first_line = next(filter(None, rows), []), rows.line_num + 1
            for row in rows:
                if len(row) > len(header):
                    raise InputError(
                        f"{path}, line {first_line} has {len(row)} cells, and the header {len(header)}: take out what is too"
                        " much, quote a text with the separator in it, and write decimal points."
                    )
                first_line = rows.line_num + 1
        except csv.Error as error:
            raise InputError(
                f"{path}, line {first_line}: a quote there is opened and not closed, or stands within a text: take it out, or"
                " write it twice."
            ) from error


def _mixture_columns(columns: Sequence[str]) -> list[str]:
    """The columns that may name the mixture in a table without `mixture`; none in a table of domain
    and one column per mixture, since its mixtures may have these names.
    """
    lowered = {column.strip().lower() for column in columns}
    if "mixture" in lowered or ("domain" in lowered and not {"loss", "proportion"} & lowered):
        return []
    return [column for column in columns if column.strip().lower() in CALLED]


def renamed(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """The table without row numbers and with the workflow's column names: `Step` becomes step, and
    where no column is `mixture`, the one column of CALLED becomes it.

    Errors: two columns of CALLED, either of which may be meant.
    """
    table = table.drop(
        column for column, kind in table.schema.items() if kind.is_integer() and ROW_NUMBERS.fullmatch(column)
    )
    lowered = {column: column.strip().lower() for column in table.columns}
    times = Counter(lowered.values())  # `Loss` and `loss` in one table both stay
    table = table.rename({column: word for column, word in lowered.items() if word in WORDS and times[word] == 1})
    found = _mixture_columns(table.columns)
    if len(found) > 1:
        raise InputError(f"{name} has no column 'mixture' but {' and '.join(found)}: call the right one 'mixture'.")
    return table.rename({found[0]: "mixture"}) if found else table


def _csv_arguments(path: Path) -> dict:
    """Polars' arguments for a text file: separator, decimal commas, columns of names. Errors: no
    line, no header in the first, CR alone as its end, two columns of one name, the second of which
    polars would rename.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
        lines = [line for line in itertools.islice(text, 50) if line.strip()]
    above = SEPARATOR.match(lines[0]) if lines else None
    lines = lines[1:] if above else lines
    header = lines[0] if lines else ""
    if "\ufffd" in header:  # the mark of bytes that are not UTF-8: polars would accept them
        check_utf8(path)
    if not header:
        raise InputError(f"{path} is empty: it needs a line with the names of the columns, and a line for each row.")
    if ABOVE.match(header):
        raise InputError(
            f"{path}, line 1 is {header.strip()[:60]!r}: the first line must name the columns: delete what is above them."
        )
    if header.endswith("\r"):
        raise InputError(
            f"{path}, line 1 ends in a carriage return (CR) alone: save the table with line feeds, as csv for Windows or"
            " Unix, not for the old Macintosh."
        )
    separator = above[1] if above else max(SEPARATORS, key=header.count)
    names = next(csv.reader([header], delimiter=separator), [])
    for name, times in Counter(filter(None, map(str.strip, names))).most_common(1):
        if times > 1:
            raise InputError(f"{path} has {times} columns {name!r}: give each a name of its own (in wandb, each run).")
    # with semicolons numbers may have decimal commas, as in many European spreadsheets
    commas = separator == ";" and any(re.search(r"(^|;)\s*-?\d+,\d+\s*(;|$)", line.strip()) for line in lines[1:])
    texts = [name for name in names if name.strip().lower() in NAMES] + _mixture_columns(names)
    types = dict.fromkeys(texts, pl.String)
    skipped = {"skip_lines": 1} if above else {}
    return {"separator": separator, "decimal_comma": commas, "schema_overrides": types} | skipped


def read_json(path: Path | str, kinds: tuple[type, ...] = (dict,)) -> dict | list:
    """The JSON in `path`, an object unless `kinds` names other types. Errors: no file, another digest,
    another type, a key twice.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a JSON file that is there.")
    try:
        return parsed_json(check(path).read_text(encoding="utf-8-sig"), str(path), kinds)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not valid JSON: {error}") from error


def parsed_json(text: str | bytes, name: str, kinds: tuple[type, ...] = (dict,)) -> dict | list:
    """The JSON in a text, an object unless `kinds` names other types; errors call the text `name`.
    Errors: another type, a key twice, too deep.
    """
    try:
        # Python refuses integers of thousands of digits; as infinity, they are refused by key
        content = json.loads(
            text,
            object_pairs_hook=lambda pairs: _unique(pairs, name),
            parse_int=lambda digits: int(digits) if len(digits) < 300 else math.inf,
        )
    except InputError:
        raise
    except RecursionError as error:
        raise InputError(f"{name} is not valid JSON: its lists or objects lie too deep in one another.") from error
    except ValueError as error:
        raise InputError(f"{name} is not valid JSON: {error}") from error
    if not isinstance(content, kinds):
        raise InputError(f"{name} holds a {type(content).__name__}: a JSON object is needed.")
    return content


def _unique(pairs: list[tuple[str, object]], name: str) -> dict:
    """A JSON object; a key twice is an error, where json.loads would silently take the last."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise InputError(f"{name}: the key {twice!r} stands there twice in one object: keep one of the two.")
    return content


def read_object(path: Path | str) -> tuple[dict, str]:
    """The JSON object in a file or in the text itself, and its name for errors."""
    if str(path).lstrip().startswith("{"):
        return parsed_json(str(path), "the JSON given"), "the JSON given"
    return read_json(path), str(path)


def read_numbers(path: Path | str) -> dict[str, float]:
    """{domain: finite, non-negative number} from a JSON file or JSON text."""
    numbers, path = read_object(path)
    for domain, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
            raise InputError(f"{path}: the value of {domain!r} is {number!r}: it must be a finite number, 0 or more.")
    return numbers


def read_tokens(path: Path | str) -> dict[str, float]:
    """{domain: tokens} from JSON or a table with domain and tokens, as tokens/train.parquet, which
    has a row for each shard. Errors: no such column, a cell that is no finite number, 0 or more.
    """
    if str(path).endswith(".json") or str(path).lstrip().startswith("{"):
        return read_numbers(path)
    table = renamed(read_table(path), str(path))
    for column in ("domain", "tokens"):
        if column not in table.columns:
            raise InputError(f"{path} has no column {column!r}: token counts need the columns domain and tokens.")
    number = table["tokens"].cast(pl.Float64, strict=False)
    bad = table.filter(~(number.is_finite() & (number >= 0)).fill_null(False) | pl.col("domain").is_null())
    for row in bad.head(1).iter_rows(named=True):
        raise InputError(
            f"{path}: the tokens of {row['domain']!r} are {row['tokens']!r}: name a domain and a finite number, 0 or more."
        )
    counted = pl.col("tokens").cast(pl.Float64) if table["tokens"].dtype == pl.String else pl.col("tokens")
    return dict(table.group_by("domain").agg(counted.sum()).iter_rows())


def read_size(path: Path | str) -> tuple[float, float]:
    """(parameters, tokens) of a run from its run.json. Errors: one is no finite number above 0."""
    content = read_json(path)
    for name in ("parameters", "tokens"):
        number = content.get(name)
        sound = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf
        if not sound:
            raise InputError(f"{path}: {name} is {number!r}: it must be a finite number above 0.")
    return float(content["parameters"]), float(content["tokens"])
