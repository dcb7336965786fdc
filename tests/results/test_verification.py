"""A finished dataset agrees with itself; every kind of damage is a fault of its own."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import forked
import numpy as np
import polars as pl
import pytest
import tiny_run
from accelerate.state import AcceleratorState
from conftest import ROW_TOKENS, TRAIN_ROWS, VALIDATION_ROWS, markov_rows
from tiny_run import SHAPE

import fit_law
import gather_losses
import gather_mixtures
import index_tokens
import measure_entropy
import merge_counts
import optimize_mixture
import pretrain_model
import verify_results
from bimix.corpus.counts import NgramCounter
from bimix.corpus.stream import write_pairs
from bimix.digests import digest_file
from bimix.laws.document import digest_law
from bimix.outputs import replacing, replacing_folder, write_json, write_table
from bimix.settings.lock import hold
from bimix.tables import read_table

ROOT = Path(__file__).parents[2]
RAW = b'{"text": "a bee"}\n'
DATASET = Path("results/small")
RUN = "runs/proxy/even"
MIXTURES = {
    "even": {"bees": 0.4, "cats": 0.3, "dogs": 0.3},
    "bees": {"bees": 0.7, "cats": 0.2, "dogs": 0.1},
    "dogs": {"bees": 0.2, "cats": 0.1, "dogs": 0.7},
    "cats": {"bees": 0.1, "cats": 0.6, "dogs": 0.3},
}
RECIPE = tiny_run.RECIPE | {"steps": 20, "evaluate_every": 5}


def training(*more: str) -> list[str]:
    given = ["--cpu", "--processes", "1", "--micro-batch", "4", "--loss-chunk", "all", "--lock-seconds", "2"]
    for split in ("train", "validation"):
        given += [f"--{split}", str(DATASET / f"tokens/{split}.parquet")]
    given += ["--tokenizer", str(DATASET / "tokenizer.json")]
    return [*given, "--shape", json.dumps(SHAPE), "--recipe", json.dumps(RECIPE), *more]


def make_tokens(corpus: Path) -> None:
    """Two shards of both splits, their counts and reports, the manifest and the indices."""
    for split in ("train", "validation"):
        for name, part in (("part", 0), ("rest", 1)):
            domains = {}
            with replacing_folder(DATASET / "shards" / split / name) as shard:
                for seed, (domain, rows) in enumerate(TRAIN_ROWS.items()):
                    count = rows // 2 if split == "train" else VALIDATION_ROWS
                    own = markov_rows(seed + 100 * part, count)
                    own.tofile(shard / f"{domain}.bin")
                    write_counts(own, shard, domain)
                    entry = {"documents": count, "rows": count, "tokens_in_rows": count * ROW_TOKENS, "dtype": "uint16"}
                    entry |= {"records": count, "ends": 0, "dropped_tail": 0}
                    domains[domain] = entry | {"digest": digest_file(shard / f"{domain}.bin")}
                digest = hashlib.blake2b(RAW, digest_size=16).hexdigest()
                raw = {"raw.jsonl": {"bytes": len(RAW), "digest": digest}} if name == "part" else {}
                write_json(shard / "report.json", {"sequence_length": ROW_TOKENS, "raw": raw, "domains": domains})
    Path("raw.jsonl").write_bytes(RAW)
    lines = [
        {"name": name, "split": "hash", "domain": None, "files": files}
        for name, files in (("part", ["raw.jsonl"]), ("rest", []))
    ]
    (DATASET / "shards.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.copy(corpus / "tokenizer.json", DATASET / "tokenizer.json")
    (DATASET / "tokens").mkdir()
    flags = ["--folder", str(DATASET / "shards"), "--shards", str(DATASET / "shards.jsonl"), "--domains", *TRAIN_ROWS]
    for split in ("train", "validation"):
        flags += [f"--{split}", str(DATASET / f"tokens/{split}.parquet")]
    index_tokens.main(flags)


def write_counts(rows: np.ndarray, shard: Path, domain: str) -> None:
    """The n-gram counts of the rows of a shard."""
    counter = NgramCounter()
    counter.add(rows)
    tokens, counts = counter.tokens()
    pl.DataFrame({"token": tokens, "n": counts}).write_parquet(shard / f"{domain}.unigrams.parquet")
    write_pairs(counter.pairs(), shard / f"{domain}.bigrams.parquet")


def make_entropies() -> None:
    """The counts of the domains, and their entropies."""
    files = {"bigrams": "counts", "unigrams": "unigrams"}
    for domain in TRAIN_ROWS:
        flags = [word for kind, name in files.items() for word in (f"--{kind}", f"{DATASET}/{name}/{domain}.parquet")]
        merge_counts.main(["--index", str(DATASET / "tokens/train.parquet"), "--domain", domain, *flags])
    flags = ["--domains", *TRAIN_ROWS, "--moments"]
    for kind, name in files.items():
        flags += [f"--{kind}", *(f"{DATASET}/{name}/{domain}.parquet" for domain in TRAIN_ROWS)]
    measure_entropy.main([*flags, "--out", str(DATASET / "entropy.csv")])


def make_runs() -> None:
    """A run for each mixture."""
    for name, mixture in MIXTURES.items():
        run = DATASET / "runs/proxy" / name
        write_json(DATASET / "mixtures" / f"{name}.json", mixture)
        places = {"mixture": DATASET / "mixtures" / f"{name}.json", "losses": run / "losses.parquet"}
        places |= {"weights": run / "model.safetensors", "report": run / "run.json", "state": run / "state"}
        flags = [word for flag, place in places.items() for word in (f"--{flag}", str(place))]
        assert pretrain_model.main(training(*flags, "--keep", "10")) == 0


def make_laws() -> None:
    """The tables of the group of all four mixtures, and a law fitted to them."""
    names = list(MIXTURES)
    losses, mixtures = DATASET / "losses/proxy/all.parquet", DATASET / "mixtures/groups/all.parquet"
    runs = [str(DATASET / f"runs/proxy/{name}/losses.parquet") for name in names]
    gather_losses.main(["--losses", *runs, "--names", *names, "--seeds", *["1"] * len(names), "--out", str(losses)])
    files = [str(DATASET / f"mixtures/{name}.json") for name in names]
    gather_mixtures.main(["--mixtures", *files, "--names", *names, "--out", str(mixtures)])
    out = DATASET / "laws/proxy/bimix/all/coefficients.json"
    out.parent.mkdir(parents=True)
    fit_law.main(["--law", "bimix", "--losses", str(losses), "--mixtures", str(mixtures), "--out", str(out)])
    asked = ["--objective", "minimax", "--reference", files[0], "--upper", '{"bees": 0.5}', "--max-epochs", "3"]
    asked += ["--tokens", '{"bees": 2000, "cats": 900, "dogs": 3000}', "--run-tokens", "2000", "--step", "20"]
    written = ["--out", str(DATASET / "mixtures/bimix.json"), "--report", str(DATASET / "optima/bimix.json")]
    optimize_mixture.main(["--coefficients", str(out), *asked, *written])


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with results/small, a finished dataset."""
    AcceleratorState._reset_state(reset_partial_state=True)
    folder = tmp_path_factory.mktemp("verified")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.chdir(folder)
        make_tokens(corpus)
        make_entropies()
        make_runs()
        make_laws()
    yield folder
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may spoil, and is in."""
    shutil.copytree(made / DATASET, tmp_path / DATASET)
    shutil.copy2(made / "raw.jsonl", tmp_path)
    monkeypatch.chdir(tmp_path)
    return DATASET


def test_a_sound_dataset_has_no_fault_and_says_what_was_not_checked(place: Path, capsys) -> None:
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert verify_results.main([str(place), "--out", "verify.txt"]) == 0, capsys.readouterr().err
    page = Path("verify.txt").read_text()
    assert "Faults:\n  none" in page
    for line in (
        "4 finished runs",
        "1 laws fitted again",
        "1 optima found again",
    ):
        assert f"  {line}\n" in page
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before


def test_files_that_nobody_vouches_for_are_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("own/b.csv", "own/a.csv", "logs/fit_law/x.log", ".shards.7.partial"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("a,b\n")
    (place / "unigrams/bees.parquet").unlink()
    (place / ".digests/entropy.csv.json").unlink()
    assert verify_results.main([str(place)]) == 0
    page = capsys.readouterr().out.partition("Not checked:\n")[2]
    assert page.endswith("\n5 files NOT CHECKED\n\n")
    assert verify_results.main([str(place), "--strict", "--out", "verify.txt"]) == 1 and not Path("verify.txt").exists()
    for line in (
        "results/small: nothing vouches for entropy.csv, tokenizer.json.",
        "results/small/own: nothing vouches for a.csv, b.csv.",
        "results/small/unigrams: bees.parquet is not there any more.",
    ):
        assert f"  {line}\n" in page
    assert " files are logs, benchmarks, curves and progress.\n" in page
    assert page.count("nothing vouches for") == 2 and "Faults:\n  none" in page


def test_a_run_alone_is_verified_and_what_is_gone_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = place / "runs/proxy/even"
    assert verify_results.main([str(run)]) == 0
    assert "  1 finished runs\n" in capsys.readouterr().out
    shutil.rmtree(run / "state")
    assert verify_results.main([str(run)]) == 0
    page = capsys.readouterr().out
    assert "step-000000010.safetensors is not there." in page and page.endswith("\n1 files NOT CHECKED\n\n")


def test_a_run_that_is_gone_is_no_sound_dataset(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(place / "tokenizer.json", json.loads((place / "tokenizer.json").read_text()))
    strict = [str(place), "--strict", "--out", str(place / "verify.txt")]
    for _ in range(2):  # its own record is no file that is gone
        assert verify_results.main(strict) == 0, capsys.readouterr().err
        (place / "verify.txt").unlink()
    shutil.rmtree(place / RUN)
    assert verify_results.main(strict) == 1
    page = capsys.readouterr().err
    assert "results/small/runs/proxy/even: run.json is not there any more." in page
    assert page.endswith("\n1 files NOT CHECKED\n\n")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()  # the other name of a file in the state keeps its bytes
    path.write_bytes(bytes(content))


def change_json(path: Path, *keys: str, value: object) -> None:
    content = json.loads(path.read_text())
    at = content
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    write_json(path, content)


def change_table(path: Path, column: str) -> None:
    """Another number in the last row, of a table whose digest is right."""
    table = read_table(path)
    last = pl.int_range(pl.len()) == pl.len() - 1
    value = pl.col(column) * 2 if table[column].dtype.is_numeric() else pl.lit("other")
    write_table(table.with_columns(pl.when(last).then(value).otherwise(column).alias(column)), path)


def forge(path: Path, text: str) -> None:
    """Other content, whose digest is right."""
    with replacing(path) as temporary:
        temporary.write_text(text)


def swap(one: Path, other: Path) -> None:
    """Two files with their times, as `cp -a` swaps them."""
    kept = shutil.copy2(one, "kept")
    shutil.copy2(other, one)
    shutil.copy2(kept, other)


LAW = "laws/proxy/bimix/all/coefficients.json"
# Files of which a bit is flipped, all at once: each is a fault of its own.
BITS = [
    *("unigrams/dogs.parquet", "shards/validation/rest/bees.bigrams.parquet", "shards/train/part/bees.bin"),
    *("entropy.csv", "runs/proxy/cats/run.json"),
    *(f"{RUN}/losses.parquet", f"{RUN}/model.safetensors", f"{RUN}/state/*/losses.parquet"),
    *(f"{RUN}/state/*/weights/step-000000010.safetensors", "runs/proxy/dogs/state/*/fingerprint.json"),
]
# {entries of a law with the digest of what it holds then: another value, its fault}
OF_LAW = {
    ("coefficients", "bees", "C"): (0.1, "away from those of the law fitted again"),
    ("tokens_per_step",): (1, "json: tokens_per_step is not"),
    ("proportions_seen", "bees", "min"): (0.9, "proportions_seen/bees/min is not that of the law fitted again"),
    ("steps",): ([1, 2, 3, 4], "json: steps/0 is not that"),
    ("mixtures",): (["x"], "json: mixtures is not that"),
    ("warnings",): (["none"], "json: warnings"),
    ("law",): ("../../evil", "there is no law '../../evil'"),
    ("coefficients",): ({}, "coefficients.json: coefficients is of , but loss_domains are bees, cats, dogs"),
}


FITTED_AGAIN = "away from those of the law fitted again"
DAMAGE = {
    "counts of two domains swapped": (
        lambda at: swap(at / "counts/bees.parquet", at / "counts/cats.parquet"),
        "counts/bees.parquet is not as it was written",
    ),
    "a record": (lambda at: (at / ".digests/entropy.csv.json").write_text("{"), "entropy.csv.json is damaged"),
    "a record of a file outside": (
        lambda at: (at / ".digests/counts.json").write_text(json.dumps({"../../../raw.jsonl": "0"})),
        "raw.jsonl does not lie in results/small, and was not read",
    ),
    "copied without its digests": (lambda at: shutil.rmtree(at / ".digests"), "results/small has no .digests"),
    "run.json is no JSON": (lambda at: forge(at / RUN / "run.json", "{"), "run.json is not valid JSON"),
    "run.json without digests": (
        lambda at: write_json(at / RUN / "run.json", {"state": "x"}),
        "run.json has no entry 'files'",
    ),
    "another law under its digest": (
        lambda at: change_json(at / LAW, "tokens_per_step", value=1),
        "coefficients.json is not the law that was fitted",
    ),
    "the table of mixtures": (
        lambda at: write_table(
            read_table(at / "mixtures/groups/all.parquet").with_columns(pl.col("proportion").reverse()),
            at / "mixtures/groups/all.parquet",
        ),
        FITTED_AGAIN,
    ),
    "the table of losses": (lambda at: change_table(at / "losses/proxy/all.parquet", "loss"), FITTED_AGAIN),
    "another mixture than the optimum": (
        lambda at: write_json(at / "mixtures/bimix.json", {"bees": 0.48, "cats": 0.26, "dogs": 0.26}),
        "% worse by its law than the optimum found again",
    ),
    "an optimum of an older version": (
        lambda at: write_json(at / "optima/bimix.json", {"law": "bimix"}),
        "optima/bimix.json does not say what was requested",
    ),
}


def faults_of(place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert verify_results.main([str(place), "--out", "verify.txt"]) == 1
    assert not Path("verify.txt").exists()
    return capsys.readouterr().err.partition("Faults:\n")[2].replace("\n", " ")


def test_every_bit_is_looked_at(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [next(place.glob(pattern)) for pattern in BITS]
    for path in files:
        flip(path)
    page = faults_of(place, capsys)
    assert not [path for path in files if f"{path} is not as it was written" not in page]


@pytest.mark.parametrize("damage", DAMAGE)
def test_every_damage_is_a_fault(place: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    spoil, sentence = DAMAGE[damage]
    spoil(place)
    assert sentence in faults_of(place, capsys)


def test_another_law_is_a_fault(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("runs", "shards", "tokens"):  # the law is compared with its tables alone
        shutil.rmtree(place / folder)
    fitted = json.loads((place / LAW).read_text())
    for entry, (value, sentence) in OF_LAW.items():
        write_json(place / LAW, fitted)
        change_json(place / LAW, *entry, value=value)
        change_json(place / LAW, "provenance", "digest", value=digest_law(json.loads((place / LAW).read_text())))
        assert sentence in faults_of(place, capsys), entry


def test_a_call_that_works_in_the_folder_is_named_with_a_fault(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    DAMAGE["a record"][0](place)
    held, _ = hold("small")
    assert verify_results.main([str(place)]) == 1
    assert f"Process {os.getpid()} works here since " in capsys.readouterr().err
    held.close()


def test_what_is_no_folder_of_results_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = forked.run([sys.executable, str(ROOT / "workflow/scripts/verify_results.py"), str(tmp_path)])
    assert done.returncode == 1 and "is neither a dataset's folder of results nor that of a finished run" in done.stderr
    assert "Traceback" not in done.stderr
