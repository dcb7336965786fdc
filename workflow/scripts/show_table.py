"""Write a table as a page of HTML that a browser sorts.

csv or parquet -> html
"""

import argparse
import sys
from pathlib import Path

from bimix.errors import run
from bimix.outputs import write_text
from bimix.results.pages import table_page
from bimix.tables import read_table


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, required=True, help="csv or parquet")
    parser.add_argument("--title", required=True, help="what it shows")
    parser.add_argument("--out", type=Path, required=True, help="html")
    options = parser.parse_args(argv)

    table = read_table(options.table)
    page = table_page(table, options.title, f"{options.table.stem}.csv", table.write_csv())
    write_text(options.out, page)


if __name__ == "__main__":
    sys.exit(run(main))
