"""Pages of HTML: the summary keeps its words, and signs of HTML are quoted."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import polars as pl

from bimix.results.pages import summary_page, table_page

TEXT = """mine: what the runs say
=======================
Mixture    <b> & "c"
Why        it ends
           3 % below

                first               second
  <b>           0.2118  ####        0.2399* ##
  * outside

mine: details
=======================

  - Spearman's correlation is 1.
"""


def test_the_summary_is_a_list_of_labels_and_its_tables_as_they_are() -> None:
    page = summary_page("mine & yours", TEXT)
    assert re.findall(r"<h1>(.*?)</h1>", page) == ["mine: what the runs say"]
    said = "it ends 3\N{NO-BREAK SPACE}% below"
    assert re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page) == [
        ("Mixture", "&lt;b&gt; &amp; &quot;c&quot;"),
        ("Why", said),
    ]
    (text,) = re.findall(r"<pre>(.*?)</pre>", page, flags=re.DOTALL)
    assert text.count("<span") == 2 and "width: 4ch" in text and "====" not in text
    assert "Spearman&#x27;s" in text  # no bar inside of a quoted sign
    assert {"&lt;b&gt;", "0.2118", "0.2399*", "outside"} <= set(text.split())


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
