"""Every output's digest is noted and compared: swaps, single bits and damage are reported."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from refusals import refused

import fit_law
import measure_entropy
import merge_counts
import mix_entropy
from bimix.digests import check, digest_file, record_of
from bimix.outputs import replacing, replacing_folder, write_json, write_table
from bimix.tables import read_json, read_table

HOME = Path("results/mine")
DOMAINS = ("law", "sea")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


def measure() -> None:
    """entropy.csv of the counts of the domains."""
    counts = ["--domains", *DOMAINS, "--moments"]
    for kind, folder in (("--unigrams", "unigrams"), ("--bigrams", "counts")):
        counts += [kind, *(str(HOME / folder / f"{domain}.parquet") for domain in DOMAINS)]
    measure_entropy.main([*counts, "--out", str(HOME / "entropy.csv")])


@pytest.fixture
def counted(place: None) -> None:
    """Counts of two domains, merged from two shards each, and their entropies."""
    lines = []
    for number, domain in enumerate(DOMAINS):
        for shard in ("one", "two"):
            draw = np.random.default_rng([number, len(shard), ord(shard[0])])
            pairs = np.unique(draw.integers(0, 9 + 5 * number, (60, 2)), axis=0).astype(np.uint32)
            bigrams = pl.DataFrame({"first": pairs[:, 0], "second": pairs[:, 1]}).with_columns(
                n=pl.Series(draw.integers(1, 50, len(pairs)).astype(np.uint64))
            )
            unigrams = bigrams.group_by("first").agg(pl.sum("n")).rename({"first": "token"}).sort("token")
            with replacing_folder(HOME / f"shards/train/{domain}.{shard}") as folder:
                bigrams.write_parquet(folder / f"{domain}.bigrams.parquet")
                write_json(folder / "report.json", {"domain": domain})
                unigrams.write_parquet(folder / f"{domain}.unigrams.parquet")
            lines.append((domain, str(HOME / f"shards/train/{domain}.{shard}/{domain}.bin"), 1))
    write_table(pl.DataFrame(lines, ["domain", "path", "rows"], orient="row"), HOME / "tokens/train.parquet")
    for domain in DOMAINS:
        merge(domain)
    measure()


def merge(domain: str) -> None:
    outputs = ["--bigrams", str(HOME / f"counts/{domain}.parquet")]
    outputs += ["--unigrams", str(HOME / f"unigrams/{domain}.parquet")]
    merge_counts.main(["--index", str(HOME / "tokens/train.parquet"), "--domain", domain, *outputs])


def test_counts_of_two_domains_that_were_swapped_are_a_sentence(counted: None) -> None:
    law, sea = (HOME / f"counts/{domain}.parquet" for domain in DOMAINS)
    for source, target in ((law, Path("kept")), (sea, law), (Path("kept"), sea)):
        shutil.copy2(source, target)  # with its times, as `cp -a` does
    refused(r"results/mine/counts/law\.parquet is not as it was written", measure)
    entropy = HOME / "entropy.csv"
    entropy.write_text(entropy.read_text().replace("law,", "x,").replace("sea,", "law,").replace("x,", "sea,"))
    flags = ["--measure", "je", "--out", "je.json"]
    refused(r"entropy\.csv is not as it was written", mix_entropy.main, ["--entropy", str(entropy), *flags])


def test_single_bits_of_a_shard_are_a_sentence_and_its_folder_has_one_record(counted: None) -> None:
    path = HOME / "shards/train/sea.two/sea.bigrams.parquet"
    record = HOME / ".digests/shards/train/sea.two.json"
    assert set(json.loads(record.read_text())) == {"report.json", "sea.bigrams.parquet", "sea.unigrams.parquet"}
    assert len(list(record.parent.iterdir())) == 4
    flip(path, 4000)
    refused(r"sea\.two/sea\.bigrams\.parquet is not as it was written", merge, "sea")
    merge("law")


def test_tables_and_json_are_compared_with_what_was_written_last() -> None:
    table, document = HOME / "losses/proxy/all.parquet", HOME / "mixtures/je.json"
    for share in (0.25, 0.5):  # the file is made again, as after a change of the config
        write_table(pl.DataFrame({"mixture": ["a"], "loss": [share]}), table)
        write_json(document, {"a": share, "b": 1 - share})
    assert read_table(table)["loss"].item() == 0.5 and read_json(document)["a"] == 0.5
    document.write_text(document.read_text().replace("0.5", "0.4"))
    table.unlink()
    pl.DataFrame({"mixture": ["a"], "loss": [0.4]}).write_parquet(table)
    for read, path in ((read_json, document), (read_table, table)):
        refused(f"{path} is not as it was written", read, path)
        record_of(path).unlink()  # the owner says that the change is his
        read(path)


def test_what_nobody_vouches_for_is_read_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    mixtures = pl.DataFrame(
        {"mixture": ["a", "a", "b", "b"], "domain": ["x", "y"] * 2, "proportion": [0.2, 0.8, 0.6, 0.4]}
    )
    losses = mixtures.select("mixture", "domain", step=10, loss=pl.col("proportion") + 2)
    (HOME / "own").mkdir(parents=True)
    for name, table in (("mixtures", mixtures), ("losses", losses)):
        table.write_csv(HOME / f"own/{name}.csv")
    flags = ["--losses", str(HOME / "own/losses.csv"), "--mixtures", str(HOME / "own/mixtures.csv")]
    fit_law.main(["--law", "bimix", *flags, "--out", "coefficients.json"])
    assert not Path(".digests").exists() and not (HOME / ".digests").exists()
    assert record_of("coefficients.json") is None
    with replacing(HOME / "state/step-1.pt", vouched=False) as temporary:  # which vouches for itself
        temporary.write_bytes(b"weights")
    assert not (HOME / ".digests").exists()


def test_a_moved_dataset_takes_its_records_along() -> None:
    write_json(HOME / "mixtures/je.json", {"a": 1.0})
    shutil.copytree(HOME, "elsewhere")
    assert read_json("elsewhere/mixtures/je.json") == {"a": 1.0}
    Path("elsewhere/mixtures/je.json").write_text('{"a": 0.5}')
    refused(r"in .*elsewhere/\.digests/mixtures/je\.json", read_json, "elsewhere/mixtures/je.json")


def test_jobs_that_write_into_one_folder_at_once_each_leave_their_record() -> None:
    names = [f"{number}.json" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: write_json(HOME / "optima" / name, {"name": name}), names))
    for name in names:
        assert json.loads(record_of(HOME / "optima" / name).read_text()) == {name: digest_file(HOME / "optima" / name)}
    assert not list(HOME.rglob("*.partial"))


def test_a_kill_between_record_and_output_is_reported_and_the_next_writing_repairs(monkeypatch) -> None:
    path = HOME / "mixtures/je.json"
    write_json(path, {"a": 1.0})
    replace = os.replace

    def struck(source: Path, target: Path) -> None:
        if target == path:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", struck)
        with pytest.raises(KeyboardInterrupt):
            write_json(path, {"b": 1.0})
    refused("is not as it was written", read_json, path)
    write_json(path, {"b": 1.0})
    assert read_json(path) == {"b": 1.0}


def test_a_name_that_has_moved_on_the_server_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    path, listed = HOME / "mixtures/je.json", []
    write_json(path, {"a": 1.0})
    content = path.read_bytes()
    path.write_bytes(b"as this machine still has it")

    def asked(folder: Path) -> list[str]:
        listed.append(folder)
        path.write_bytes(content)
        return []

    monkeypatch.setattr(os, "listdir", asked)
    assert check(path) == path and listed == [record_of(path).parent, path.parent]


def test_an_output_is_on_the_disk_before_it_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    events = []
    monkeypatch.setattr(os, "fsync", lambda file: events.append(Path(os.readlink(f"/proc/self/fd/{file}")).name))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda source, target: (events.append(target.name), replace(source, target)))
    with replacing(HOME / "mixtures/je.json", vouched=False) as temporary:
        temporary.write_text("{}")
    assert events == [temporary.name, "je.json", "mixtures"]


def test_a_damaged_record_is_a_sentence() -> None:
    path = HOME / "mixtures/je.json"
    write_json(path, {"a": 1.0})
    for content in ("", "[1]", '{"je.json": 3}', "\x00"):
        record_of(path).write_text(content)
        refused(r"\.digests/mixtures/je\.json\.json is damaged", check, path)
