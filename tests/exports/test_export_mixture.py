"""An exported mixture is read back by name in each consumer's unit, or refused."""

import itertools
import json
import math
import re
from pathlib import Path

import consumers
import numpy as np
import pytest
import yaml
from consumers import DOCUMENTS, READERS
from refusals import refused

import export_mixture
from bimix.exports.formats import FORMATS

# A path that a format holds only if it quotes it; the first four split arguments, YAML or flags.
MARKS = [" ", "'", '"', ": ", ",", ";", "# ", "{a}", "&", "\\", "$HOME", "é", "%", "!", "- ", "[1]", "`x`"]
REFUSED = {  # the marks that a format cannot hold
    "megatron": set(MARKS) - {",", "%"},
    "megatron-file": {" ", ": ", "# ", "- "},
}

# Whose sources are files; of the others, a domain is one source, whatever its files.
BY_FILE = {form for form, (_, by_name) in READERS.items() if not by_name} - {"torchtitan", "huggingface"}


def exported(
    folder: Path, form: str, mixture: dict, domains: dict, run: float | None = None, *flags: str, **top: object
) -> str:
    """The text of an export."""
    (folder / "mixture.json").write_text(json.dumps(mixture))
    (folder / "data.json").write_text(json.dumps({"domains": domains, **top}))
    out = folder / f"out{FORMATS[form].ending}"
    arguments = ["--mixture", str(folder / "mixture.json"), "--data", str(folder / "data.json"), "--format", form]
    export_mixture.main([*arguments, "--out", str(out), *(["--run-tokens", str(run)] if run else []), *flags])
    return consumers.written(out)


def files(paths: list[str], sizes: list[float] | None = None) -> list[dict]:
    sizes = sizes or [1.0] * len(paths)
    return [{"path": path, "size": size} for path, size in zip(paths, sizes, strict=True)]


def drawn(draw: np.random.Generator) -> tuple[dict[str, float], dict[str, dict]]:
    """A random mixture, some of it 0, over domains with one to four files, in any order."""
    count = int(draw.integers(1, 12))
    shares = draw.dirichlet(np.full(count, draw.choice([0.3, 1.0, 20.0])))
    shares[draw.random(count) < 0.2] = 0
    if not shares.sum():
        shares[0] = 1
    shares = np.where(shares < 2e-4, 0, shares)
    names = [f"d{number}" for number in draw.permutation(count)]
    mixture = dict(zip(names, (shares / shares.sum()).tolist(), strict=True))
    domains = {}
    for name in draw.permutation(names):
        paths = [f"/data/{name}/{number}_text.jsonl" for number in range(int(draw.integers(1, 5)))]
        domains[str(name)] = {
            "train": files(paths, draw.uniform(1e6, 1e8, len(paths)).tolist()),
            "validation": [f"/data/{name}/valid.jsonl"],
            "unit": str(draw.choice(["tokens", "samples", "documents"])),
            "tokens_per_document": float(draw.uniform(50, 5000)),
            "unique_tokens": float(draw.uniform(1e8, 1e11)),
        }
    return mixture, domains


def tokens_by_domain(read: dict[str, float], by_name: bool, domains: dict, documents: bool) -> dict[str, float]:
    """Shares of the tokens that weights give, by the domain that a path is of."""
    owner = {file["path"]: name for name, block in domains.items() for file in block["train"]}
    found = dict.fromkeys(domains, 0.0)
    for key, weight in read.items():
        name = key if by_name else owner[key]
        found[name] += weight * (domains[name]["tokens_per_document"] if documents else 1)
    total = math.fsum(found.values())
    return {name: weight / total for name, weight in found.items()}


@pytest.mark.parametrize("form", READERS)
def test_what_a_consumer_reads_is_the_mixture_by_name(tmp_path: Path, form: str) -> None:
    """Random mixtures and lists of files; a weight is good to a unit of its last decimal, and files
    of a domain share its weight by size.
    """
    read, by_name = READERS[form]
    ways = ("samples", "documents") if form in DOCUMENTS else ("samples",)
    for seed, records in itertools.product(range(12), ways):
        mixture, domains = drawn(np.random.default_rng(seed))
        text = exported(tmp_path, form, mixture, domains, 1e10, records=records, sequence_length=2048)
        weights = read(text)
        found = tokens_by_domain(weights, by_name, domains, records == "documents")
        assert found == pytest.approx(mixture, abs=1e-6)
        for block in domains.values() if form in BY_FILE else ():
            own = [weights.get(file["path"], 0) for file in block["train"]]
            total = sum(file["size"] for file in block["train"])
            assert own == pytest.approx([sum(own) * file["size"] / total for file in block["train"]], abs=1e-6)


def test_a_domain_keeps_its_share_however_many_files_it_has(tmp_path: Path) -> None:
    domains = {name: {"train": files([f"/{name}/{n}" for n in range(count)], [1 + n % 7 for n in range(count)])}
        for name, count in (("web", 300), ("wiki", 2000))}  # fmt: skip
    mixture = {"web": 1 - 1e-6, "wiki": 1e-6}
    for form in ("megatron-file", "csv", "nanotron"):
        weights = READERS[form][0](exported(tmp_path, form, mixture, domains, records="samples"))
        for name, block in domains.items():
            own, size = [weights[file["path"]] for file in block["train"]], sum(file["size"] for file in block["train"])
            assert math.fsum(own) == pytest.approx(mixture[name], rel=1e-9)
            assert own == pytest.approx([mixture[name] * file["size"] / size for file in block["train"]], rel=0.02)


def test_the_label_of_a_file_is_no_name_of_another_domain(tmp_path: Path) -> None:
    domains = {"code": {"train": files(["/a", "/b"])}, "code_0": {"train": files(["/c"])}}
    shares = {"code": 0.5, "code_0": 0.5}
    read = READERS["streaming"][0](exported(tmp_path, "streaming", shares, domains, records="samples"))
    assert read == pytest.approx({"/a": 0.25, "/b": 0.25, "/c": 0.5})


@pytest.mark.parametrize("form", READERS)
def test_a_path_is_read_as_it_was_or_refused(tmp_path: Path, form: str) -> None:
    """All marks that a format holds in one path, each other in one of its own."""
    read, by_name = READERS[form]
    held, name = [mark for mark in MARKS if mark not in REFUSED.get(form, ())], f"we{''.join(MARKS)}b"
    flags = {"run": 1e9, "records": "samples", "sequence_length": 2}
    for marks in (held, *([mark] for mark in REFUSED.get(form, ()))):
        path = f"/data/a{''.join(marks)}b.jsonl"
        domains = {name: {"train": [path]}, "code": {"train": ["/data/c.jsonl"]}}
        domains = {key: block | {"unique_tokens": 1e9} for key, block in domains.items()}
        if marks != held:
            mixture = {name: 0.75, "code": 0.25}
            assert repr(path) in refused("cannot be exported", exported, tmp_path, form, mixture, domains, **flags)
            continue
        text = exported(tmp_path, form, {name: 0.75, "code": 0.25}, domains, **flags)
        other = "code" if by_name else "/data/c.jsonl"
        assert read(text) == pytest.approx({name if by_name else path: 0.75, other: 0.25})


def test_a_mixture_is_taken_from_a_table_of_several_by_its_name(tmp_path: Path) -> None:
    """As `bimix next` writes them."""
    names, table, out = ["code", "web"], tmp_path / "next.csv", tmp_path / "out.py"
    (tmp_path / "data.json").write_text(
        json.dumps({"domains": {name: {"train": [f"/{name}.jsonl"]} for name in names}, "records": "samples"})
    )
    flags = ["--data", f"{tmp_path}/data.json", "--format", "huggingface", "--out", str(out), "--mixture", str(table)]
    rows = {"round1": "round1,code,0.25\nround1,web,0.75\n", "round1_2": "round1_2,code,1\nround1_2,web,0\n"}
    table.write_text("mixture,domain,proportion\n" + "".join(rows.values()))
    for name, found in (("round1", {"/code.jsonl": 0.25, "/web.jsonl": 0.75}), ("round1_2", {"/code.jsonl": 1})):
        export_mixture.main([*flags, "--name", name])
        assert READERS["huggingface"][0](out.read_text()) == pytest.approx(found)
    out.unlink()
    refused(r"has 2 mixtures \(round1, round1_2\): say which by --name", export_mixture.main, flags)
    assert not out.exists()
    table.write_text("mixture,domain,proportion\n" + rows["round1"])
    export_mixture.main(flags)
    refused("has no mixture 'round2'", export_mixture.main, [*flags, "--name", "round2"])


def test_domains_of_proportion_zero_are_left_out_and_said(tmp_path: Path, capsys) -> None:
    block = {"unit": "samples", "unique_tokens": 1e9, "tokens_per_document": 9}
    domains = {name: {"train": files([f"/{name}.jsonl"]), **block} for name in ("web", "code", "wiki")}
    mixture = {"web": 0.5, "code": 0.5, "wiki": 0.0}
    for form, known in FORMATS.items():
        text = exported(tmp_path, form, mixture, domains, 1e9, records="samples", sequence_length=8)
        said = "Left out, for their proportion is 0: wiki." in capsys.readouterr().err
        assert ("wiki" in text, said) == (known.zero, not known.zero), form


def test_files_that_a_consumer_reads_otherwise_than_meant_are_said(tmp_path: Path, capsys) -> None:
    tokenised = "reads what a tool of its own made of text, and '{}' is text: tokenise it"
    torchtitan = "torchtitan's IndexedJsonlSource reads plain JSON lines, and the ending of '{}' says otherwise"
    for form, paths, words in (
        ("megatron", ["/w.parquet", "/w.csv.gz", "/w.tsv", "/w.arrow", "/w.jsonl"], tokenised),
        ("torchtitan", ["/w.jsonl.zst", "/w.txt", "/w.parquet"], torchtitan),
        ("torchtitan", ["/w.jsonl", "/w.ndjson"], ""),
    ):
        for path in paths:
            exported(tmp_path, form, {"web": 1}, {"web": {"train": [path]}})
            said = capsys.readouterr().err
            assert words.format(path) in said and (bool(words) or not said), (form, path, said)


def test_validation_files_are_those_of_all_domains(tmp_path: Path) -> None:
    domains = {
        "web": {"train": ["/w"], "validation": ["/w_valid", "/w_valid2"]},
        "wiki": {"train": ["/i"], "validation": ["/i_valid"]},
    }
    mixture = {"web": 1.0, "wiki": 0.0}
    text = exported(tmp_path, "nemo", mixture, domains)
    assert "'validation': ['/w_valid', '/w_valid2', '/i_valid']" in text


def test_olmo_core_may_repeat_a_hundredth_more_often_than_the_run_needs(tmp_path: Path) -> None:
    """The margin of 1 % is not lost to rounding: a source that is 0.5 % smaller suffices."""
    for pool in (2.9e8, 7.77e8):
        domains = {
            "web": {"train": ["/w.npy"], "unique_tokens": 9e9},
            "wiki": {"train": ["/i.npy"], "unique_tokens": pool},
        }
        config = consumers.olmo_config(exported(tmp_path, "olmo-core", {"web": 0.7, "wiki": 0.3}, domains, 1e10))
        ratios = {source.source_name: source.max_repetition_ratio for source in config.source_list.sources}
        needed = 1.01 * 3e9 / pool
        assert ratios["web"] == 1 and needed <= ratios["wiki"] < needed + 0.01 and config.requested_tokens == 10**10
        assert ratios["wiki"] == round(ratios["wiki"], 2)
        assert consumers.olmo_builds(config, {"web": 9 * 10**9, "wiki": int(pool * 0.995)})
        assert not consumers.olmo_builds(config, {"web": 9 * 10**9, "wiki": int(pool * 0.98)})


def test_the_epoch_of_a_stream_is_the_run(tmp_path: Path) -> None:
    domains = {
        "web": {"train": ["/w"], "tokens_per_document": 500},
        "code": {"train": ["/c"], "tokens_per_document": 250},
    }
    mixture = {"web": 0.5, "code": 0.5}
    samples = exported(tmp_path, "streaming", mixture, domains, 1e6, records="samples", sequence_length=100)
    assert yaml.safe_load(samples)["train_loader"]["dataset"]["epoch_size"] == 10_000
    documents = exported(tmp_path, "streaming", mixture, domains, 1e6, records="documents")
    loader = yaml.safe_load(documents)["train_loader"]["dataset"]
    assert loader["epoch_size"] == 1000 + 2000
    assert {name: stream["proportion"] for name, stream in loader["streams"].items()} == {
        "web": 0.333333333,
        "code": 0.666666667,
    }


def test_the_table_has_shares_tokens_and_epochs(tmp_path: Path, capsys) -> None:
    domains = {
        "web": {"train": files(["/w"], [2e6]), "unit": "samples"},
        "wiki": {"train": files(["/i"], [1e6]), "unit": "documents", "tokens_per_document": 300},
        "books": {"train": ["/b"]},
    }
    mixture = {"web": 0.5, "wiki": 0.3, "books": 0.2}
    exported(tmp_path, "nanotron", mixture, domains, 6e9, sequence_length=1000)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["domain", "proportion", "run", "tokens", "unique", "tokens", "epochs"],
        ["books", "0.200000", "1.2e+09", "-", "-"],
        ["web", "0.500000", "3e+09", "2e+09", "1.5"],
        ["wiki", "0.300000", "1.8e+09", "3e+08", "6"],
    ]


def test_pools_come_from_the_table_of_tokens(tmp_path: Path, capsys) -> None:
    (tmp_path / "pools.csv").write_text("domain,tokens\nweb,1000\nweb,1000\n")
    domains = {"web": {"train": ["/w"], "unique_tokens": 5}}
    exported(tmp_path, "csv", {"web": 1.0}, domains, 3000, f"--tokens={tmp_path}/pools.csv")
    assert capsys.readouterr().out.splitlines()[1].split() == ["web", "1.000000", "3000", "2000", "1.5"]


WEB = {"train": ["/w"]}
DOCUMENTS_OF = {"records": "documents"}
SAMPLES = {"records": "samples"}
# format, domains of data.json (a mixture of web alone), other keys, the sentence
WRONG = [
    ("csv", {"web": {"train": ["/a\nb"]}}, {}, "data.json: domains/web/train/0: "),
    ("csv", {"web": WEB | {"files": 3}}, {}, "domains/web/files: unknown key; there are train,"),
    (
        "csv",
        {"web": {"train": files(["/w"], [0])}},
        {},
        "domains/web/train/0/size: 0 is given; it must be greater than 0",
    ),
    ("csv", {"web": WEB}, {"sequence_length": 1.5}, "sequence_length: 1.5 is given; it must be a multiple of 1"),
    ("csv", {"web": WEB, "wiki": WEB}, {}, "domains: '/w' is there twice, of 'web' and of 'wiki'."),
    ("csv", {"weib": WEB}, {}, 'data.json: no domain "web"; did you mean weib'),
    ("csv", {"web": {"train": ["/a", "/b"]}}, {}, "has 2 files and no 'size' of '/a': csv weighs each file"),
    ("megatron", {"web": {"train": ["12"]}}, {}, "Megatron would take it for a weight; write ./ before it"),
    ("megatron", {"web": {"train": ["-w"]}}, {}, "the path '-w' cannot be exported"),
    ("nemo", {"web": {"train": [" w"]}}, {}, "Megatron strips blanks around a prefix"),
    ("olmo-core", {"web": WEB}, {}, "--format olmo-core needs --run-tokens"),
    ("olmo-core", {"web": WEB}, {"run": 1e9}, "--format olmo-core needs the unique tokens of 'web'"),
    ("huggingface", {"web": WEB}, SAMPLES, "its ending is none of .jsonl"),
    ("huggingface", {"web": {"train": ["/w.tsv"]}}, SAMPLES, "its ending is none of .jsonl"),
    (
        "huggingface",
        {"web": {"train": ["/a.jsonl", "/b.csv"]}},
        SAMPLES,
        "'/a.jsonl' of the same domain is read as json",
    ),
    ("streaming", {"web": WEB}, {}, "data.json has no key 'records': streaming draws records of the files"),
    ("streaming", {"web": WEB}, DOCUMENTS_OF, "no key 'domains/web/tokens_per_document': it says how many tokens one"),
    ("streaming", {"web": {"train": ["/${w}"]}}, SAMPLES, "llm-foundry would replace"),
]


def test_what_is_missing_or_cannot_be_held_ends_in_a_sentence(tmp_path: Path) -> None:
    for form, domains, top, words in WRONG:
        refused(words, exported, tmp_path, form, {"web": 1}, domains, **top)
        assert not list(tmp_path.glob("out*"))


def test_tokens_are_a_number_and_those_of_the_mixture(tmp_path: Path) -> None:
    for flag, words in (
        ("--run-tokens=-1", "--run-tokens is -1: it must be a number of tokens"),
        ('--tokens={"wiki": 5}', "--tokens has no tokens of 'web', which is in the mixture"),
    ):
        refused(words, exported, tmp_path, "csv", {"web": 1}, {"web": WEB}, None, flag)


def test_the_example_of_the_page_is_what_comes_out(tmp_path: Path, capsys) -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    found = re.findall(r"<!-- (?:file: )?([\w.]+) -->\n```\w*\n(.*?)```", page, flags=re.DOTALL)
    files = dict(found)
    for name in ("chosen.json", "data.json"):
        (tmp_path / name).write_text(files[name])
    flags = ["--mixture", str(tmp_path / "chosen.json"), "--data", str(tmp_path / "data.json"), "--run-tokens", "1e12"]
    export_mixture.main([*flags, "--format", "megatron-file", "--out", str(tmp_path / "blend.txt")])
    assert (tmp_path / "blend.txt").read_text() == files["example"]
    assert f"```\n{capsys.readouterr().out}```" in page
