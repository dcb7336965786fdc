"""Write a mixture as the configuration of a training stack, with the weights in its unit.

mixture {domain: proportion} or stages of them, data.json (files of each domain, by its name) -> one
file of the format; a table of shares and epochs on standard output

A proportion is a share of the run's tokens. docs/export.md says what data.json holds and what each
format weighs.
"""

import argparse
import difflib
import re
import sys
from pathlib import Path

from bimix.errors import InputError, run
from bimix.exports.data import Data, as_data
from bimix.exports.formats import FORMATS
from bimix.exports.weights import Export, shares_of
from bimix.exports.write import write
from bimix.mixtures.mixture import Mixture, Stage
from bimix.outputs import replacing
from bimix.plan.runs import first_updates
from bimix.tables import read_json, read_tokens

TEXT = r"\.(jsonl?|ndjson|te?xt)(\.\w+)?$"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixture", type=Path, required=True, help="JSON of {domain: proportion}, or stages of them")
    parser.add_argument("--data", type=Path, required=True, help="JSON of the files of each domain")
    parser.add_argument("--format", required=True, choices=list(FORMATS))
    parser.add_argument(
        "--tokens",
        nargs="?",
        help="unique tokens by domain: a table of domain and tokens, a JSON file or the JSON itself",
    )
    parser.add_argument("--run-tokens", nargs="?", type=float, help="tokens that the run trains on, for epochs")
    parser.add_argument("--run-steps", nargs="?", type=int, help="updates of the run, for where stages begin")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)

    form = FORMATS[options.format]
    if options.out.suffix != form.ending:
        raise InputError(f"--out is {options.out}: --format {options.format} is written as a file {form.ending}.")
    if options.run_tokens is not None and not 1 <= options.run_tokens < float("inf"):
        raise InputError(f"--run-tokens is {options.run_tokens:g}: it must be a number of tokens.")
    data = as_data(read_json(options.data), str(options.data))
    stages = Mixture.read(options.mixture).stages
    exports = staged(options, data, stages)
    if len(stages) > 1 and not form.stages:
        able = ", ".join(name for name, other in FORMATS.items() if other.stages)
        raise InputError(
            f"{options.mixture} has {len(stages)} stages, and --format {options.format} holds one mixture: take one of"
            f" {able}, or export each stage's mixture."
        )
    written = write(exports)
    with replacing(options.out) as temporary:
        temporary.write_text(written.text, encoding="utf-8")
    said = [
        one for export, (_, own) in zip(exports, stages, strict=True) for one in remarks(export, own, options.format)
    ]
    for remark in dict.fromkeys((*said, *written.remarks)):
        print(f"Remark: {remark}", file=sys.stderr)
    print(overview(exports))


def staged(options: argparse.Namespace, data: Data, stages: tuple[Stage, ...]) -> list[Export]:
    """An export for each stage. Errors: a domain without files; where stages begin is not known."""
    firsts, steps = (0,), 1
    if len(stages) > 1:
        if options.run_steps is None or options.run_steps < 1:
            raise InputError(f"{options.mixture} has {len(stages)} stages: give --run-steps, the updates of the run.")
        steps = options.run_steps
        firsts = first_updates([share for share, _ in stages], steps, str(options.mixture))
    known, exports = read_tokens(options.tokens) if options.tokens else {}, []
    for (_, mixture), first, end in zip(stages, firsts, (*firsts[1:], steps), strict=True):
        shares, dropped = shares_of(mixture)
        for name in shares:
            if name not in data.domains:
                near = difflib.get_close_matches(name, data.domains, 1) or sorted(data.domains)
                raise InputError(
                    f"{options.data} has no domain {name!r}, of which {options.mixture} has {shares[name]:.4g}; it has"
                    f" {', '.join(near)}: call the domains alike."
                )
        tokens = None if options.run_tokens is None else round(options.run_tokens * (end - first) / steps)
        pools = {name: pool(data, known, name) for name in shares}
        each = batch(options, data) if len(stages) > 1 else None
        exports.append(Export(options.format, data, shares, dropped, tokens, pools, first, each))
    return exports


def batch(options: argparse.Namespace, data: Data) -> int | None:
    """Sequences of an update, where the run says so in whole numbers."""
    if options.run_tokens is None or data.sequence_length is None:
        return None
    count, rest = divmod(options.run_tokens, options.run_steps * data.sequence_length)
    return None if rest or not count else round(count)


def pool(data: Data, known: dict[str, float], name: str) -> float | None:
    """Unique tokens of a domain: of --tokens, which must then have it, else of data.json, where
    they are known.
    """
    if not known:
        domain = data.domains[name]
        needs = {"samples": data.sequence_length, "documents": domain.tokens_per_document}
        return data.tokens(name) if domain.unique_tokens or needs.get(domain.unit, 1) else None
    if not known.get(name):
        raise InputError(f"--tokens has no tokens of {name!r}, which is in the mixture.")
    return known[name]


def remarks(export: Export, mixture: dict[str, float], form: str) -> list[str]:
    """What is left out, what of data.json the mixture does not name, what the consumer cannot
    read.
    """
    said = []
    if export.dropped and not FORMATS[form].zero:
        said.append(f"Left out, for their proportion is 0: {', '.join(export.dropped)}.")
    others = [name for name in export.data.domains if name not in mixture]
    if others:
        said.append(f"The mixture does not name these domains of {export.data.name}: {', '.join(others)}.")
    files = (file.path for name in export.shares for file in export.data.domains[name].train)
    text = [] if FORMATS[form].text else [path for path in files if re.search(TEXT, path)]
    if text:
        said.append(
            f"{form} reads what a tool of its own made of text, and {text[0]!r} is text: tokenise it, and name what comes"
            f" out in {export.data.name}."
        )
    return said


def overview(exports: list[Export]) -> str:
    """The table of shares, in each stage where there are several, and of tokens and epochs of the
    whole run.
    """
    titles = ["share"] if len(exports) == 1 else [f"stage {number}" for number in range(1, len(exports) + 1)]
    rows = [("domain", *titles, "run tokens", "unique tokens", "epochs")]
    for name in sorted({name for export in exports for name in export.shares}):
        own = [export for export in exports if name in export.shares]
        known, unique = own[0].run_tokens is not None, own[0].pools[name]
        asked = sum(export.shares[name] * export.run_tokens for export in own) if known else None
        numbers = [asked, unique, None if asked is None or unique is None else asked / unique]
        cells = ["-" if number is None else f"{number:.4g}" for number in numbers]
        rows.append((name, *(f"{export.shares.get(name, 0.0):.6f}" for export in exports), *cells))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


if __name__ == "__main__":
    sys.exit(run(main))
