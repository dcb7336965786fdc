"""Tables and the summary as HTML that a browser shows by itself, without another file."""

import base64
import math
import re
from collections.abc import Iterable, Sequence
from html import escape

import polars as pl

NO_BREAK = "\N{NO-BREAK SPACE}"
DIGITS = 5  # of a number in a table; the csv has them all
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; margin: 1.5em; }
h1 { font-size: 1.3em; margin: 0 0 0.8em; }
p { margin: 0 0 0.8em; }
body > :is(p, pre, dl) { max-width: 50em; }
pre { font-size: 13px; line-height: 1.45; margin: 0 0 0.8em; overflow-x: auto; }
.bar { display: inline-block; height: 0.75em; background: #0072b2; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25em 1.2em; margin: 0 0 1.2em; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 700px) { dl { display: block; } dd { margin-bottom: 0.5em; } table { display: block; overflow-x: auto; } }
table { border-collapse: collapse; font-size: 14px; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #e2e2e2; white-space: nowrap; text-align: left; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
"""
CODE = re.compile(r"`([^`]+)`")
BAR, BAR_AS = re.compile(r"(?<=[ *])#+"), '<span class="bar" style="width: {}ch"></span>'


def page(title: str, parts: list[str]) -> str:
    """A page of HTML."""
    head = '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
    head += f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>'
    return head + f"\n<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"


def as_list(entries: Sequence[tuple[str, str]]) -> str:
    """Labels with their texts, in which a number keeps its % and `code` is marked."""
    texts = [CODE.sub(r"<code>\1</code>", escape(text.replace(" %", NO_BREAK + "%"))) for _, text in entries]
    pairs = zip(entries, texts, strict=True)
    return "\n".join(["<dl>", *(f"<dt>{escape(label)}</dt><dd>{text}</dd>" for (label, _), text in pairs), "</dl>"])


def as_text(lines: Iterable[str]) -> str:
    """Lines as they are set, with bars drawn."""
    bars = BAR.sub(lambda signs: BAR_AS.format(len(signs[0])), escape("\n".join(lines)))
    return f"<pre>{bars}</pre>"


def table_page(table: pl.DataFrame, title: str, name: str, csv: str) -> str:
    """The page of a table, with a link that saves `csv`, the table as text, as the file `name`."""
    kinds = [' class="number"' if dtype.is_numeric() else "" for dtype in table.dtypes]
    lines = ["".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(table.columns, kinds, strict=True))]
    for row in table.iter_rows():
        lines.append("".join(f"<td{kind}>{escape(cell(value))}</td>" for value, kind in zip(row, kinds, strict=True)))
    link = f"data:text/csv;base64,{base64.b64encode(csv.encode()).decode()}"
    says = "" if table.height else "There is nothing to put into this table. "
    parts = [f"<h1>{escape(title)}</h1>", f'<p>{says}All digits: <a download="{escape(name)}" href="{link}">']
    parts += [f"{escape(name)}</a>.</p>", "<table>", *(f"<tr>{line}</tr>" for line in lines), "</table>"]
    return page(title, parts)


def cell(value: object) -> str:
    """A value as it is shown: a number with DIGITS digits, a whole one with all of its own."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if float(value).is_integer():
        return f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{value:.{DIGITS}g}"
