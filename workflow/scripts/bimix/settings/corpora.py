"""The checks of the text and the tables that a dataset names: domains that go together."""

import csv
from pathlib import Path

from bimix.names import named, shown, unknown
from bimix.settings.block import BlockChecker


def check_sources(checker: BlockChecker) -> None:
    """Domains that the corpus names or leaves out."""
    domains, corpus = checker.block["domains"], checker.block.get("corpus")
    if not isinstance(corpus, dict):
        return
    for name in ("harvest", "train", "validation", "labels"):
        part = corpus.get(name)
        if (
            not checker.sound(f"corpus/{name}")
            or not isinstance(part, dict)
            or (name == "validation" and {"share", "tokens"} & part.keys())
        ):
            continue
        for domain in part:
            if domain not in domains:
                checker.fault("corpus", name, domain, sentence=unknown("domain", domain, domains, "`domains` has"))
        lacking = [domain for domain in domains if domain not in part]
        if lacking and name != "labels":
            what = "harvest" if name == "harvest" else "files"
            checker.fault(
                "corpus", name, sentence=f"no {what} for {named(lacking)}; name some, or take it out of `domains`."
            )
    check_lengths(checker, domains, corpus)
    if not checker.sound("corpus/domain_field", "corpus/labels"):
        return
    if corpus["domain_field"] is None:
        unmapped = [name for name in ("train", "validation") if name in corpus and isinstance(corpus[name], str | list)]
        for name in unmapped:
            checker.fault(
                *("corpus", name),
                sentence="files without a domain: name the field of the records that says it as `domain_field`, or map"
                " domains to their files, as in `train: {web: web/*.jsonl}`.",
            )
    labels: dict[str, str] = {}
    for domain in domains:
        label = corpus["labels"].get(domain, domain)
        if label in labels and corpus["domain_field"] is not None:
            checker.fault(
                "corpus", "labels", sentence=f"{labels[label]!r} and {domain!r} have the same label {label!r}."
            )
        labels[label] = domain


def check_lengths(checker: BlockChecker, domains: list[str], corpus: dict) -> None:
    """The lengths above which documents of each domain give their ends to validation."""
    lengths, files = corpus.get("held_out_characters"), corpus.get("harvest", corpus.get("train"))
    if not checker.sound("corpus/held_out_characters") or not isinstance(lengths, dict):
        return
    key = ("corpus", "held_out_characters")
    if not isinstance(files, dict):
        sentence = "a number for each domain needs files for each domain under `train`; give one number for all."
        checker.fault(*key, sentence=sentence)
        return
    for domain in sorted(lengths.keys() - files.keys() - set(domains)):
        checker.fault(*key, domain, sentence=unknown("domain", domain, domains, "`domains` has"))
    lacking = [domain for domain in files if domain not in lengths]
    if lacking:
        checker.fault(*key, sentence=f"no number for {named(lacking)}; name some, or give one number for all.")


def check_published(checker: BlockChecker) -> None:
    """The table of published mixtures that the dataset names."""
    tables, name = checker.config["mixtures"]["published"], checker.block["published"]
    if name not in tables:
        checker.fault("published", sentence=unknown("table", name, tables, "mixtures/published has"))
        return
    try:
        with Path(checker.checker.code, tables[name]).open(encoding="utf-8", newline="") as lines:
            header, *rows = [row for row in csv.reader(lines) if row] or [[]]
    except (OSError, UnicodeDecodeError) as error:
        checker.fault("published", sentence=f"the table {tables[name]} cannot be read ({error}).")
        return
    if header[:1] != ["domain"] or len(header) < 2:
        checker.fault("published", sentence=f"the table {tables[name]} must have a column domain and one a mixture.")
        return
    strange = [row[0] for row in rows if checker.sound("domains") and row[0] not in checker.block["domains"]]
    if strange:
        checker.fault(
            "published",
            sentence=f"the table {tables[name]} has a domain {shown(strange[0])}, which `domains` has not.",
        )
