"""What rules read, by their config; numbers and names of its tables."""

import json
import os
from pathlib import Path

import pytest
from refusals import refused

from bimix.errors import InputError, run
from bimix.optimum.objective import objective_block
from bimix.plan import shards
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import (
    byte_counts,
    epoch_run_tokens,
    export_data,
    export_run,
    export_tokens,
    large_runs,
    pool_tokens,
    token_table,
    trainer,
    trainer_data,
    trainer_text,
)
from bimix.plan.shards import table_versions, vectors_version
from bimix.tables import read_json, read_numbers, read_size


def test_epochs_are_counted_in_the_tokens_of_the_run_that_is_optimised_for(own: Dataset, seen: Dataset) -> None:
    assert token_table(own) == pool_tokens(own) == ["results/demo/tokens/train.parquet"]
    assert token_table(seen) == pool_tokens(seen) == []
    seen.block["observations"]["tokens"] = "tokens.csv"
    assert (token_table(seen), pool_tokens(seen)) == (["tokens.csv"], [])
    assert epoch_run_tokens(own, "bimix") == "none"
    # the run under `optimum`, 400 updates of 8 rows of 128 tokens, and not the swarm's 50
    assert epoch_run_tokens(own, "bimix_swarm") == 400 * 8 * 128
    own.block["simulate_epochs"] = True  # then runs repeat text as the large one will, of 160 updates
    assert epoch_run_tokens(own, "bimix") == epoch_run_tokens(own, "bimix_swarm") == 160 * 8 * 128


def test_tables_and_vectors_are_known_by_their_content_whatever_their_time(
    own: Dataset, seen: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen.block["observations"] |= {"tokens": "tokens.csv", "metrics": "gone.csv"}
    for name in ("losses", "mixtures", "tokens"):
        Path(f"{name}.csv").write_text("a")
    assert table_versions(own) == []
    before = table_versions(seen)
    assert before[2] is None and len(before) == 4 and len({*before}) == 2
    for n, name in ((0, "losses"), (1, "mixtures"), (3, "tokens")):
        stamp = os.stat(f"{name}.csv")
        Path(f"{name}.csv").write_text("b")
        os.utime(f"{name}.csv", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        after = table_versions(seen)
        assert [one != other for one, other in zip(after, before, strict=True)] == [k == n for k in range(4)]
        before = after
    monkeypatch.setattr(shards, "MOST_DIGESTED", 0)
    assert vectors_version(own, True) == 300  # trained here
    own.block["vectors"] = {"file": "v.bin", "documents": 3}
    assert vectors_version(own, True) == 3
    Path("v.bin").write_text("a")
    kept = vectors_version(own, True)
    os.utime("v.bin", (1, 1))
    assert vectors_version(own, False) != kept
    Path("v.bin").unlink()
    assert vectors_version(own, True) == kept


def test_an_export_has_files_tokens_and_a_run_of_the_dataset_or_of_the_config(own: Dataset, seen: Dataset) -> None:
    own.block["stages"] = {"late": [{"share": 1, "mixture": "se"}]}
    assert export_data(own, "torchtitan") == "results/demo/export/raw.json"
    assert export_data(own, "olmo-core") == "results/demo/export/rows.json"
    assert export_tokens(own) == ["results/demo/tokens/train.parquet"]
    assert export_run(own, "run_tokens") == [160 * 8 * 128]
    assert export_run(own, "run_steps", "late") == [160]  # by which its stages begin
    own.block["export"] = {"data": "files.json", "run_tokens": 10**12}
    assert (export_data(own, "olmo-core"), export_tokens(own)) == ("files.json", [])
    assert (export_run(own, "run_tokens"), export_run(own, "run_steps", "se")) == ([10**12], [])
    refused("datasets/demo/export/run_tokens: late has stages", export_run, own, "run_steps", "late")
    refused("datasets/seen/export/data: an export names the files", export_data, seen, "csv")
    seen.block["export"] = {"data": "files.json"}
    assert (export_data(seen, "csv"), export_run(seen, "run_tokens")) == ("files.json", [])


def test_what_is_planned_for_a_command(own: Dataset) -> None:
    model = own.config["models"]["target"] = {"command": "train {mixture} {folder}", "launch": {"gpus": 0}}
    assert trainer(own, "target") == {"command": model["command"]}
    assert trainer_data(own, "target") == byte_counts(own) == []
    model["format"] = "olmo-core"
    assert trainer_data(own, "target") == ["results/demo/export/rows.json"]
    text = [f"results/demo/tokens/{split}.parquet" for split in ("train", "validation")]
    assert trainer_text(own) == text  # or changed text would plan nothing
    own.block["export"] = {"data": "own.json"}
    assert trainer_text(own) == [] and not large_runs(own)


def test_numbers_that_cannot_be_meant(tmp_path):
    given, infinite = "the JSON given", "the value of 'a' is inf: it must be a finite number"
    for text, words in (
        ('{"a": 0.1, "a": 0.5}', f"{given}: the key 'a' stands there twice in one object"),
        ('{"a": ' + "9" * 5000 + "}", f"{given}: {infinite}"),
        ('{"a": ' + "9" * 400 + "}", f"{given}: {infinite}"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", f"{given} is not valid JSON: its lists or objects lie too"),
        ('{"a": 0.1', f"{given} is not valid JSON"),
        ('{"a": NaN}', "the value of 'a' is nan"),
    ):
        path = tmp_path / "n.json"
        path.write_text(text)
        for source, said in ((text, words), (path, words.replace(given, str(path)))):
            with pytest.raises(InputError) as error:
                read_numbers(source)
            assert said in str(error.value)


def test_families_and_sizes_are_read_alike(tmp_path):
    refused("--objective: the key 'a' stands there twice", objective_block, '{"families": {"a": ["x"], "a": ["y"]}}')
    (tmp_path / "r.json").write_text('{"parameters": ' + "9" * 5000 + ', "tokens": 1}')
    refused("parameters is inf: it must be a finite number above 0", read_size, tmp_path / "r.json")
    (tmp_path / "r.json").write_text("[1]")
    refused("holds a list: a JSON object is needed", read_json, tmp_path / "r.json")
    (tmp_path / "r.json").write_text(json.dumps({"a": 10**30}))
    assert read_json(tmp_path / "r.json") == {"a": 10**30}


def test_a_folder_that_may_not_be_written_to_is_a_sentence(capsys):
    def main():
        raise PermissionError(13, "Permission denied", "results/law.json")

    assert run(main) == 1
    assert capsys.readouterr().err.endswith("error: results/law.json: Permission denied.\n")

    def broken():
        raise OSError(5, "Input/output error", "results/law.json")

    with pytest.raises(OSError, match="Input/output"):
        run(broken)
