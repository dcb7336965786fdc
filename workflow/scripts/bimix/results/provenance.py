"""Where a dataset's results come from, as one JSON object: a list of what is there, read and not
computed.

    schema      1; another number when a key changes its meaning
    dataset     its name
    config      digest of the dataset's block in the completed config
    written_by  commit, clean (null: not known) and versions of the code that wrote this list
    corpus      {shard: split, domain, raw files as the config names them, and for each split
                {domain: documents, tokens, rows, digest of its rows}}; `raw`, sizes and digests of
                raw files, where their tokenisation noted them
    tokenizer   digest, and where it comes from (null: trained here, or by a version that did not
                note it)
    mixtures    {name: {domain: proportion}, or its stages as mixtures/{name}.json has them}
    runs        {folder: what run.json says of mixture, seed, commit, versions, tokens, attempts
                with their devices, digests}
    reused      {group: {source: {file: digest}}} of the older runs that join its fit
    laws        {path: digest, and the code that fitted it (null: by a version that did not note
                it)}

Digests are blake2b, 32 hexadecimal digits; that of the config is SHA-256, 16 digits. Plain JSON,
and no RO-Crate: that asks for a licence and a date of publication of the whole, which only its
publisher can give, and no library for it is among the pins.
"""

from pathlib import Path

from bimix.corpus.shards import read_shards
from bimix.digests import digest_file
from bimix.mixtures.mixture import Mixture
from bimix.results.verify import run_reports
from bimix.tables import read_json

SCHEMA = 1
OF_SHARD = ("documents", "tokens", "rows", "digest")
OF_RUN = ("mixture", "seed", "commit", "versions", "device", "processes", "gpu_hours", "data", "tokenizer", "attempts")
OF_RUN += ("warnings", "files")


def gather(folder: Path) -> dict:
    """What a dataset's folder says of its origins, where there. Errors: a damaged file."""
    tokenizer = folder / "tokenizer.json"
    source = folder / "tokenizer.source.json"
    return {
        "corpus": corpus(folder),
        "tokenizer": {
            "digest": digest_file(tokenizer) if tokenizer.is_file() else None,
            "source": read_json(source) if source.is_file() else None,
        },
        "mixtures": {path.stem: Mixture.read(path).document() for path in sorted((folder / "mixtures").glob("*.json"))},
        "runs": {str(path.parent.relative_to(folder)): of_run(path) for path in run_reports(folder)},
        "reused": {path.stem: read_json(path)["sources"] for path in sorted(folder.glob("reused/*.json"))},
        "laws": {
            str(path.relative_to(folder)): of_law(path) for path in sorted(folder.glob("laws/*/*/*/coefficients.json"))
        },
    }


def corpus(folder: Path) -> dict:
    """Sources and contents of each shard."""
    manifest, found = folder / "shards.jsonl", {}
    text = manifest.read_text(encoding="utf-8", errors="replace") if manifest.is_file() else ""
    for name, shard in read_shards(text.splitlines(), str(manifest)).items():
        found[name] = {"split": shard.split, "domain": shard.domain}
        for split in ("train", "validation"):
            path = folder / "shards" / split / name / "report.json"
            if path.is_file():
                report = read_json(path)
                found[name] |= {"files": report.get("files"), "raw": report.get("raw")}
                found[name][split] = {
                    domain: {key: own.get(key) for key in OF_SHARD} for domain, own in report["domains"].items()
                }
    return found


def of_run(path: Path) -> dict:
    """The origin of a run, of its run.json."""
    report = read_json(path)
    return {key: report.get(key) for key in OF_RUN}


def of_law(path: Path) -> dict:
    """The digest of a fitted law, and the code that fitted it."""
    return {"digest": digest_file(path), "provenance": read_json(path).get("provenance")}
