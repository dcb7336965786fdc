"""Pages of HTML: the summary keeps its words, and signs of HTML are quoted."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import polars as pl

from bimix.results.pages import summary_page, table_page

TEXT = """mine: what the runs say
=======================

Mixture of <b> & "c"

                first               second
  <b>           0.2118  ####        0.2399* ##
  * outside

  Average loss predicted at step 800: 4.5, and for
  the others 4.6.

  What the data do not determine:
  - C of <b> is at its bound.
  - Spearman's correlation is 1.

bimix wins: its loss ends
3 % below.

Figures
  results/mine/figures/a.svg
"""


def test_the_summary_is_headings_paragraphs_and_columns() -> None:
    page = summary_page("mine & yours", TEXT)
    assert re.findall(r"<h1>(.*?)</h1>", page) == ["mine: what the runs say"]
    assert re.findall(r"<h2>(.*?)</h2>", page) == ["Mixture of &lt;b&gt; &amp; &quot;c&quot;"]
    assert re.findall(r"<p>(.*?)</p>", page) == [
        "Average loss predicted at step 800: 4.5, and for the others 4.6.",
        "bimix wins: its loss ends 3 % below.",
    ]
    columns = re.findall(r"<pre>(.*?)</pre>", page, flags=re.DOTALL)
    assert [part.split()[0] for part in columns] == ["first", "What", "Figures"]
    assert columns[0].count("<span") == 2 and "width: 4ch" in columns[0]
    assert "Spearman&#x27;s" in columns[1]  # no bar inside of a quoted sign
    kept = re.sub(r"<span[^>]*></span>", "", " ".join(columns)).replace("&lt;", "<").replace("&gt;", ">")
    assert {"<b>", "0.2118", "0.2399*", "outside", "results/mine/figures/a.svg"} <= set(kept.split())


def test_cells_of_a_table_are_quoted_and_keep_all_digits() -> None:
    table = pl.DataFrame({"a & b": ["<script>alert(1)</script>", '"'], "loss": [0.123456789, None]})
    page = table_page(table, "x < y", "t.csv", table.write_csv())
    assert "<script" not in page and "x &lt; y" in page
    rows = ElementTree.fromstring(page[page.index("<table>") : page.index("</table>") + len("</table>")])
    shown = [[cell.text for cell in row] for row in rows]
    assert shown == [["a & b", "loss"], ["<script>alert(1)</script>", "0.12346"], ['"', None]]
    assert table.write_csv() == base64.b64decode(re.search(r"base64,([^\"]+)", page)[1]).decode()
    assert "nothing to put into this table" in table_page(table.head(0), "empty", "t.csv", "")
    assert "nothing to put into this table" not in page
