"""Cut the text and write the config of the 72 runs on a scarce domain: eight shares of it, lengths of
125 to 2,000 updates, on all rows (`scarce`) and on pools cut by the same factor (`matched`).

python resources/observations/scarce/make_runs.py FOLDER --text GLOB --scarce Github
snakemake --cores all --configfile FOLDER/scarce.yaml \
    results/{scarce,matched}/losses/steps{125,250,500,1000,2000}/shares.parquet

JSON lines (.jsonl or .jsonl.zst) of one domain each -> FOLDER/text/, FOLDER/mixtures/, scarce.yaml
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[3] / "workflow" / "scripts"))

from bimix.corpus.sources import number_lines, open_stream

CHARACTERS, PART = 4000, 64  # of a document; of the scarce domain's text one part in so many is kept
SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5)
STEPS = (125, 250, 500, 1000, 2000)
LAUNCH = {"nodes": 1, "gpus": 0, "threads": 1, "micro_batch": 8, "loss_chunk": 128, "compile": "no"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="a file of JSON lines for each domain")
    parser.add_argument(
        "--scarce", required=True, help="the domain whose training text is cut; a file's name without ending"
    )
    options = parser.parse_args()
    domains = {path.name.split(".")[0]: path for path in sorted(options.text)}
    if options.scarce not in domains:
        parser.error(f"no file of {options.scarce}; there are {', '.join(domains)}.")
    (options.folder / "text").mkdir(parents=True, exist_ok=True)
    for domain, path in domains.items():
        cut(path, options.folder / "text", domain, PART if domain == options.scarce else 1)
    files = write_mixtures(options.folder, list(domains), options.scarce)
    text = str((options.folder / "text").resolve())
    (options.folder / "scarce.yaml").write_text(yaml.safe_dump(config(text, list(domains), files), sort_keys=False))


def cut(path: Path, folder: Path, domain: str, part: int) -> None:
    """Pieces of the documents, a tenth of them for validation by hash; of the others those with the
    least hashes.
    """
    pieces = {"train": [], "validation": []}
    with open_stream(str(path)) as stream:
        for _, line in number_lines(stream, str(path), 2**26):
            text = json.loads(line)["text"]
            for start in range(0, len(text), CHARACTERS):
                piece = text[start : start + CHARACTERS]
                key = int(hashlib.blake2b(piece.encode(), digest_size=4).hexdigest(), 16)
                pieces["validation" if key % 10 == 0 else "train"].append((key, piece))
    most = sum(len(piece) for _, piece in pieces["train"]) / part
    kept, length = [], 0
    for key, piece in sorted(pieces["train"]):
        if length >= most:
            break
        kept.append((key, piece))
        length += len(piece)
    pieces["train"] = kept
    for split, found in pieces.items():
        lines = (json.dumps({"text": piece}) + "\n" for _, piece in found)
        (folder / f"{domain}.{split}.jsonl").write_text("".join(lines))


def write_mixtures(folder: Path, domains: list[str], scarce: str) -> dict[str, str]:
    """{name: file} of the shares of the scarce domain; the others share the rest alike."""
    (folder / "mixtures").mkdir(exist_ok=True)
    files = {}
    for share in SHARES:
        mixture = {domain: (1 - share) / (len(domains) - 1) for domain in domains} | {scarce: share}
        name = f"share_{round(1000 * share):03d}"
        file = (folder / "mixtures" / f"{name}.json").resolve()
        file.write_text(json.dumps(mixture))
        files[name] = str(file)
    return files


def config(text: str, domains: list[str], files: dict[str, str]) -> dict:
    """Two datasets of the same text: `scarce` reads all rows, `matched` the epochs of the longest
    run.
    """
    block = {
        "corpus": {
            split: {domain: f"{text}/{domain}.{split}.jsonl" for domain in domains} for split in ("train", "validation")
        },
        "tokenizer": {"train": {"vocabulary": 4096, "share": 1.0}},
        "sequence_length": 128,
        "mixture_files": files,
        "groups": {"shares": list(files)},
        "training": {
            f"steps{steps}": {"recipe": "demo", "steps": steps, "evaluate_every": steps, "validation_rows": 256}
            for steps in STEPS
        },
        "optimum": {"model": "steps125", "group": "shares", "step": 125},
        "held_out": [],
        "compare": {"model": "steps2000", "mixtures": list(files)[:2]},
    }
    shape = {"layers": 2, "width": 64, "heads": 2}
    models = {f"steps{steps}": {"shape": shape, "launch": LAUNCH} for steps in STEPS}
    return {
        "run": ["scarce"],
        "models": models,
        "datasets": {"scarce": block, "matched": {**block, "simulate_epochs": True}},
    }


if __name__ == "__main__":
    main()
