"""Tables and the summary as pages of HTML that a browser shows by itself.

Nothing is loaded from elsewhere.
"""

import base64
import html
import math
import re

import polars as pl

DIGITS = 5  # that a number is shown with; the page sorts by all of them and gives the whole table as csv
STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; margin: 1.5em; }
h1 { font-size: 1.15em; margin: 0 0 0.2em; }
p { margin: 0 0 1em; color: #555; }
div { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #e2e2e2; white-space: nowrap; text-align: left; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #888; position: sticky; top: 0; background: #fff; }
th button { all: unset; cursor: pointer; font-weight: 600; }
th button:focus-visible { outline: 2px solid #0072b2; }
th[aria-sort=ascending] button::after { content: " \\2191"; }
th[aria-sort=descending] button::after { content: " \\2193"; }
tbody tr:hover { background: #f4f7fa; }
"""
# Numbers go by size, texts by the alphabet; what is missing comes last either way.
SCRIPT = """
for (const head of document.querySelectorAll("th")) head.querySelector("button").onclick = () => {
  const up = head.getAttribute("aria-sort") !== "ascending", column = head.cellIndex;
  const body = document.querySelector("tbody"), numbers = head.className === "number";
  const value = row => row.cells[column].dataset.value;
  const order = (a, b) => numbers ? Number(a) - Number(b) : a.localeCompare(b);
  const rows = [...body.rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return up ? order(a, b) : order(b, a);
  });
  for (const other of document.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...rows);
};
"""

SUMMARY_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; margin: 1.5em; max-width: 50em; }
h1 { font-size: 1.3em; margin: 0 0 0.8em; }
h2 { font-size: 1.05em; margin: 1.8em 0 0.5em; }
p { margin: 0 0 0.8em; }
pre { font-size: 13px; line-height: 1.45; margin: 0 0 0.8em; overflow-x: auto; }
.bar { display: inline-block; height: 0.75em; background: #0072b2; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25em 1.2em; margin: 0; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
"""
LABELLED = re.compile(r"(\S[^\n]*?) {2,}(\S.*)")  # a line of the headline: its label and its text


def summary_page(dataset: str, text: str) -> str:
    """The summary's text as a page: headings, the labelled lines under the title as a list,
    paragraphs, and as they are the blocks that are set in columns.
    """
    title, _, rest = text.partition("\n")
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for place, block in enumerate(re.split(r"\n[ \t]*\n", rest.strip("\n"))):
        lines = [line for line in block.splitlines() if line.strip() and set(line) != {"="}]
        if not lines:
            continue
        if place == 0 and LABELLED.fullmatch(lines[0]):
            parts.append(labelled(lines))
        elif in_columns(lines):
            shown = html.escape("\n".join(lines))
            bars = re.sub(
                r"(?<=[ *])#+", lambda run: f'<span class="bar" style="width: {len(run[0])}ch"></span>', shown
            )
            parts.append(f"<pre>{bars}</pre>")
        elif len(lines) == 1 and not lines[0].startswith(" ") and not lines[0].endswith((".", ":")):
            parts.append(f"<h2>{html.escape(lines[0])}</h2>")
        else:
            parts.append(f"<p>{html.escape(' '.join(line.strip() for line in lines))}</p>")
    head = f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(dataset)}</title>'
    return head + f"\n<style>{SUMMARY_STYLE}</style>\n" + "\n".join(parts) + "\n</html>\n"


def labelled(lines: list[str]) -> str:
    """Labels with their texts, which go on in indented lines, as a list; a number keeps its %."""
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            entries[-1][1] += f" {line.strip()}"
        else:
            entries.append(list(LABELLED.fullmatch(line).groups()))
    rows = [
        f"<dt>{html.escape(label)}</dt><dd>{html.escape(text).replace(' %', chr(160) + '%')}</dd>"
        for label, text in entries
    ]
    return "\n".join(["<dl>", *rows, "</dl>"])


def in_columns(lines: list[str]) -> bool:
    """Whether lines are a table or a list: two spaces within one, points, an indent that others
    lack, or paths alone.
    """
    aligned = any("  " in line.strip() or line.lstrip().startswith("- ") for line in lines)
    indents = {len(line) - len(line.lstrip()) for line in lines}
    return aligned or len(indents) > 1 or (len(lines) > 1 and all(" " not in line.strip() for line in lines))


def table_page(table: pl.DataFrame, title: str, name: str, csv: str) -> str:
    """The page of a table, with a link that saves `csv`, the table as text, as the file `name`."""
    numbers = {column: dtype.is_numeric() for column, dtype in table.schema.items()}
    heads = "".join(
        f'<th{_kind(numbers[column])}><button type="button">{html.escape(column)}</button></th>'
        for column in table.columns
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(value, numbers[column]) for column, value in row.items()) + "</tr>"
        for row in table.iter_rows(named=True)
    )
    data = base64.b64encode(csv.encode()).decode()
    link = f'<a download="{html.escape(name)}" href="data:text/csv;base64,{data}">{html.escape(name)}</a>'
    says = "A click on a column's name sorts by it." if table.height else "There is nothing to put into this table."
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>{STYLE}</style>
<h1>{html.escape(title)}</h1>
<p>{says} All digits: {link}.</p>
<div><table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
<script>{SCRIPT}</script>
</html>
"""


def _kind(number: bool) -> str:
    return ' class="number"' if number else ""


def _cell(value: object, number: bool) -> str:
    """A cell whose `data-value` is what it sorts by; an empty one has none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"<td{_kind(number)}></td>"
    shown = _short(value) if number else str(value)
    return f'<td{_kind(number)} data-value="{html.escape(str(value))}">{html.escape(shown)}</td>'


def _short(number: float) -> str:
    """A number with DIGITS digits, a whole one with all of its own and spaces between thousands."""
    if isinstance(number, int) or float(number).is_integer():
        return f"{int(number):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    return f"{number:.{DIGITS}g}"
