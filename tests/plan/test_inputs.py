"""What jobs read because of the config: the tokens and the run of an optimum, rounds, exports."""

import pytest

from bimix.errors import InputError
from bimix.plan.dataset import Dataset
from bimix.plan.inputs import (
    epoch_run_tokens,
    epoch_tokens,
    export_data,
    export_run,
    export_tokens,
    pool_tokens,
    reused_tables,
    reused_versions,
)


def test_tokens_are_read_for_epochs_and_for_regmix(config: dict) -> None:
    table = ["results/own/tokens/train.parquet"]
    assert epoch_tokens(Dataset(config, "own")) == epoch_tokens(Dataset(config, "own"), "transfer") == table
    assert epoch_tokens(Dataset(config, "own"), "regmix") == table
    assert epoch_run_tokens(Dataset(config, "own"), "bimix") == "none"
    # the run under `optimum`, 800 updates of 4 rows of 10 tokens, and not the swarm's 50
    assert epoch_run_tokens(Dataset(config, "own"), "bimix_swarm") == 32_000
    config["datasets"]["own"]["optimum"]["max_epochs"] = 4
    assert epoch_tokens(Dataset(config, "own")) == epoch_tokens(Dataset(config, "own"), "bimix") == table
    assert epoch_tokens(Dataset(config, "seen"), "regmix") == []
    config["datasets"]["seen"]["observations"]["tokens"] = "tokens.csv"
    assert epoch_tokens(Dataset(config, "seen"), "regmix") == ["tokens.csv"]


def test_all_tables_of_older_runs_are_inputs_of_what_joins_them(config: dict) -> None:
    tables = {"losses": "old.csv", "mixtures": "shares.csv"}
    config["datasets"]["seen"]["observations"]["reuse"] = ["results/before", tables, {"folder": "results/first"}]
    assert reused_tables(Dataset(config, "seen")) == ["old.csv", "shares.csv"]


def test_older_runs_in_folders_are_joined_again_where_their_reports_change(config: dict, tmp_path) -> None:
    for name, sources in (("own", config["datasets"]["own"]), ("seen", config["datasets"]["seen"]["observations"])):
        report = tmp_path / name / "runs/tiny/uniform/run.json"
        report.parent.mkdir(parents=True)
        report.write_text("{}")
        sources["reuse"] = [str(tmp_path / name)]
        (before,) = reused_versions(Dataset(config, name))
        report.write_text("{ }")
        assert reused_versions(Dataset(config, name)) != [before] and before.startswith(f"{report} ")


def test_runs_that_repeat_as_the_large_one_will_count_its_tokens(config: dict) -> None:
    table, own = ["results/own/tokens/train.parquet"], Dataset(config, "own")
    assert pool_tokens(Dataset(config, "seen")) == []
    own.block["simulate_epochs"] = True
    own.block["compare"] = {"model": "large", "mixtures": ["baseline"]}
    own.block["training"]["large"] = {"steps": 5000, "batch_rows": 8}
    assert pool_tokens(own) == epoch_tokens(own) == epoch_tokens(own, "bimix") == table
    assert epoch_run_tokens(own, "bimix") == epoch_run_tokens(own, "bimix_swarm") == 400_000


@pytest.fixture
def exported() -> dict:
    own = {"corpus": {}, "training": {"tiny": {"batch_rows": 4, "steps": 700}}, "sequence_length": 10}
    return {"datasets": {"own": own | {"compare": {"model": "tiny"}}, "seen": {"observations": {}}}}


def test_an_export_names_the_datasets_own_files_or_those_of_the_config(exported: dict) -> None:
    own = exported["datasets"]["own"]
    assert export_data(Dataset(exported, "own"), "levanter") == "results/own/export/raw.json"
    assert export_data(Dataset(exported, "own"), "olmo-core") == "results/own/export/rows.json"
    assert export_tokens(Dataset(exported, "own")) == ["results/own/tokens/train.parquet"]
    assert export_run(Dataset(exported, "own"), "run_tokens") == [700 * 4 * 10]
    assert export_run(Dataset(exported, "own"), "run_steps") == [700]  # by which its stages begin
    own["export"] = {"data": "files.json", "run_tokens": 5}
    assert export_data(Dataset(exported, "own"), "olmo-core") == "files.json"
    assert (export_tokens(Dataset(exported, "own")), export_run(Dataset(exported, "own"), "run_tokens")) == ([], [5])
    assert export_run(Dataset(exported, "own"), "run_steps") == []


def test_an_export_of_observed_losses_needs_files_of_its_own(exported: dict) -> None:
    with pytest.raises(InputError, match="config: datasets/seen/export/data: an export names the files of each domain"):
        export_data(Dataset(exported, "seen"), "csv")
    assert export_run(Dataset(exported, "seen"), "run_tokens") == []
    exported["datasets"]["seen"]["export"] = {"data": "files.json"}
    assert export_data(Dataset(exported, "seen"), "csv") == "files.json"


def test_an_export_of_stages_needs_a_run_of_known_updates(exported: dict) -> None:
    block = exported["datasets"]["own"]
    block["stages"] = {"late": [{"share": 0.5, "mixture": "se"}, {"share": 0.5, "mixture": "ce"}]}
    assert export_run(Dataset(exported, "own"), "run_steps", "late") == [700]
    block["export"] = {"run_tokens": 10**12}
    assert export_run(Dataset(exported, "own"), "run_steps", "se") == []
    with pytest.raises(InputError, match=r"datasets/own/export/run_tokens: late has stages, which begin after updates"):
        export_run(Dataset(exported, "own"), "run_steps", "late")
