"""Write the page of all keys of the config, and on request the JSON schema of them for editors.

the models of bimix/settings, workflow/defaults.yaml -> docs/config.md
"""

import argparse
import json
import sys
from pathlib import Path

from bimix.errors import run
from bimix.settings.layers import merged
from bimix.settings.page import editor_schema, page

CODE = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=CODE / "docs/config.md", help="the page to write")
    parser.add_argument("--schema", type=Path, help="the schema to write, in JSON")
    options = parser.parse_args(argv)
    options.out.write_text(page(merged([CODE / "workflow/defaults.yaml"])), encoding="utf-8")
    if options.schema:
        options.schema.write_text(json.dumps(editor_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(run(main))
