"""The whole workflow for real on a few kilobytes: what it makes and repeats."""

import functools
import json
import os
import random
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
import yaml
from checkout import call, copy_checkout, planned, said

WORDS = {
    "sea": "tide wave salt gull harbour mast rope keel foam anchor",
    "kitchen": "salt pan oven whisk dough knife stew simmer",
}
SETTINGS = """
run: [mini]
models:
  atom: {shape: {layers: 1, width: 16, heads: 2}, launch: {nodes: 1, gpus: 0, threads: 1, micro_batch: 4, loss_chunk: all, compile: "no"}}
laws: {compare: [bimix, transfer], optimise: [bimix], intervals: {resamples: 20}}
datasets:
  mini: &mini
    domains: [sea, kitchen (all)]
    corpus:
      train: corpus/*.jsonl
      shard_megabytes: 0.0001
      validation: {share: 0.2}
      text_field: text
      domain_field: meta.kind
      labels: {kitchen (all): kitchen}
      cut_characters: null
      rejects: 0.0
    tokenizer: {train: {vocabulary: 300, share: 1.0}, end_of_text: "<|endoftext|>"}
    sequence_length: 16
    vectors: {train: {vector_size: 20, sg: 0, epochs: 2, min_count: 1, min_n: 3, max_n: 3, bucket: 100, seed: 1}, documents: 20}
    groups: {entropy: [se, ce, vne], held_out: [uniform]}
    training: # all that the kept results depend on
      atom: {recipe: demo, steps: 24, batch_rows: 4, evaluate_every: 4, validation_rows: 4, learning_rate: 3.0e-3,
        final_learning_rate: 3.0e-4, schedule: exponential, warmup_share: 0.06}
    optimum: {model: atom, group: entropy, step: 24}
    swarm: {model: atom, runs: 10, seed: 0, step: 12, training: {steps: 12, evaluate_every: 12}}
    held_out: [held_out]
    compare: {model: atom, mixtures: [baseline, bimix, doremi]}
    downstream:
      model: atom
      steps: [24]
      tasks: [words, words_bits]
      task_files: tasks
    reweighting: {model: atom, reference: baseline, training: {steps: 12}}
  other: *mini
"""


def write_corpus(folder: Path) -> None:
    draw = random.Random(1)
    folder.mkdir()
    for part in range(2):
        with (folder / f"{part}.jsonl").open("w") as lines:
            for _ in range(150):
                kind = draw.choice(list(WORDS))
                text = " ".join(draw.choices(WORDS[kind].split(), k=draw.randint(5, 60)))
                lines.write(json.dumps({"text": text, "meta": {"kind": kind}}) + "\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the dataset `mini` has been made."""
    folder = tmp_path_factory.mktemp("built")
    copy_checkout(folder)
    (folder / "mini.yaml").write_text(SETTINGS)
    write_corpus(folder / "corpus")
    (folder / "tasks").mkdir()
    for name, kind in (("words", "_generated"), ("words_bits", "_bits")):
        task = {"task": name, "include": [f"../resources/tasks/{kind}", "../resources/tasks/_lambada"]}
        task |= {"dataset_kwargs": {"data_files": {"test": "words.jsonl"}}}
        if kind == "_generated":
            task |= {"generation_kwargs": {"until": ["\n"], "do_sample": False, "max_gen_toks": 4}}
        (folder / f"tasks/{name}.yaml").write_text(yaml.safe_dump(task))
    passages = [f"{' '.join(words.split()[:end])}" for words in WORDS.values() for end in (3, 4, 5)]
    (folder / "words.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in passages))
    printed = said(folder, "--configfile", "mini.yaml")
    assert re.search("^Take +", printed, re.MULTILINE)
    take = json.loads((folder / "results/mini/verdict.json").read_text())["take"]
    assert (folder / f"results/mini/mixtures/{take}.json").is_file()
    return folder


@pytest.mark.slow
def test_a_second_call_has_nothing_to_do(built: Path) -> None:
    assert "Nothing to be done" in said(built, "--configfile", "mini.yaml")


@pytest.mark.slow
def test_the_contract_of_files_is_kept(built: Path) -> None:
    results = built / "results/mini"
    assert pl.read_parquet(results / "runs/atom/se/losses.parquet").columns == ["step", "tokens", "domain", "loss"]
    mixture = json.loads((results / "mixtures/bimix.json").read_text())
    assert list(mixture) == ["kitchen (all)", "sea"]
    assert sum(mixture.values()) == pytest.approx(1, abs=1e-12)
    index = pl.read_parquet(results / "tokens/train.parquet")
    assert index.columns[:6] == ["domain", "path", "rows", "tokens", "documents", "dtype"]
    counts = pl.read_parquet(results / "counts/sea.parquet")
    assert counts.columns == ["first", "second", "n"]
    assert counts["n"].sum() == index.filter(pl.col("domain") == "sea")["rows"].sum() * 15
    answers = pl.read_csv(results / "downstream/atom/bimix.csv")
    assert answers.columns == ["task", "metric", "step", "value", "stderr", "n"]
    assert answers.select("task", "metric", "step").rows() == [
        ("words", "exact_match", 24),
        ("words", "normalised_match", 24),
        ("words_bits", "bits_per_byte", 24),
    ]
    assert set(answers["n"]) == {6} and pl.read_csv(results / "tables/downstream.csv").height == 3 * 5
    assert "Questions answered right after step 24" in (results / "summary.txt").read_text()
    details = (results / "summary_details.txt").read_text()
    assert "atom ends " in details and "von Neumann entropies are of 20 pieces of each domain" in details
    report = json.loads((results / "shards/train/0/report.json").read_text())["records"]
    assert report["in"] == report["kept"] + sum(report["rejected"].values())


@pytest.mark.slow
def test_mixtures_and_losses_are_what_they_were(built: Path) -> None:
    """`FREEZE=1` writes them again. Torch's and OpenBLAS' oldest kernels move a loss by 1e-7."""
    results, frozen = built / "results/mini", Path(__file__).parent / "frozen/small_run.json"
    names = ("baseline", "se", "ce", "vne", "bimix")
    found = {"mixtures": {name: json.loads((results / f"mixtures/{name}.json").read_text()) for name in names}}
    tables = {name: pl.read_parquet(results / f"runs/atom/{name}/losses.parquet") for name in names}
    found["losses"] = {
        name: {
            domain: own["loss"].to_list() for (domain,), own in sorted(table.group_by("domain", maintain_order=True))
        }
        for name, table in tables.items()
    }
    if os.environ.get("FREEZE"):
        frozen.write_text(json.dumps(found, indent=1) + "\n")
    kept = json.loads(frozen.read_text())
    assert found["mixtures"] == {name: pytest.approx(own, abs=2e-6) for name, own in kept["mixtures"].items()}
    for name, own in kept["losses"].items():
        assert found["losses"][name] == {domain: pytest.approx(values, abs=1e-6) for domain, values in own.items()}


@pytest.mark.slow
def test_a_swarm_gives_the_mixtures_of_the_laws_that_need_one(built: Path) -> None:
    results = built / "results/mini"
    names = ["regmix", "exponential", "transfer_swarm"]
    said(built, *(f"results/mini/mixtures/{name}.json" for name in names), "--configfile", "mini.yaml")
    for name in names:
        assert sum(json.loads((results / f"mixtures/{name}.json").read_text()).values()) == pytest.approx(1, abs=1e-12)
    losses = pl.read_parquet(results / "losses/atom/swarm.parquet")
    assert losses["mixture"].n_unique() == 10 and losses["step"].unique().to_list() == [12]


@pytest.mark.slow
def test_a_change_of_the_config_repeats_what_it_changes_and_nothing_else(built: Path) -> None:
    assert not planned_with(built, "other/training/atom/steps", 28)
    jobs = planned_with(built, "mini/training/atom/steps", 28)
    assert jobs["pretrain_model"] == 7 and "tokenize_shard" not in jobs
    # a mixture that is added later is one run more, and one of the new optimum
    jobs = planned_with(built, "mini/groups/entropy", ["se", "ce", "vne", "je"])
    assert jobs["pretrain_model"] == 2 and "tokenize_shard" not in jobs
    # steps asked for later train nothing again
    jobs = planned_with(built, "mini/downstream/steps", [8, 24])
    assert jobs["answer_questions"] == 3 and "pretrain_model" not in jobs


def planned_with(built: Path, key: str, value: object) -> dict[str, int]:
    """The jobs that are planned where a key under `datasets` has another value."""
    settings = yaml.safe_load(SETTINGS)
    settings["datasets"] = json.loads(json.dumps(settings["datasets"]))  # two datasets, not one twice
    *above, last = key.split("/")
    block = functools.reduce(dict.__getitem__, above, settings["datasets"])
    block[last] = value
    (built / "changed.yaml").write_text(yaml.safe_dump(settings))
    return planned(built, "--configfile", "changed.yaml")


@pytest.mark.slow
def test_a_figure_is_drawn_again_alone_and_a_new_law_fitted_to_the_old_losses(built: Path) -> None:
    target = "results/mini/figures/mixtures.svg"
    assert planned(built, target, "--force", "--configfile", "mini.yaml") == {"plot_mixtures": 1}
    (built / target).unlink()
    assert planned(built, target, "--configfile", "mini.yaml") == {"plot_mixtures": 1}
    target = "results/mini/laws/atom/exponential/entropy/coefficients.json"
    assert planned(built, target, "--configfile", "mini.yaml") == {"fit_law": 1}
    said(built, target, "--configfile", "mini.yaml")
    assert json.loads((built / target).read_text())["law"] == "exponential"


@pytest.mark.slow
def test_a_comment_in_a_script_never_trains_again(built: Path) -> None:
    for script in built.glob("workflow/scripts/**/*.py"):
        script.write_text(script.read_text() + "# a comment\n")
    jobs = planned(built, "--configfile", "mini.yaml")
    assert "pretrain_model" not in jobs
    assert "tokenize_shard" not in jobs


@pytest.mark.slow
def test_a_run_that_is_asked_for_again_writes_the_same_losses_without_training(built: Path) -> None:
    target = "results/mini/runs/atom/se/losses.parquet"
    before = (built / target).read_bytes()
    (built / target).unlink()
    said(built, target, "--configfile", "mini.yaml")
    assert (built / target).read_bytes() == before
    log = (built / "results/mini/logs/pretrain_model/atom/se.log").read_text()
    assert "has come to its end: " in log and "losses.parquet put back" in log and "update" not in log


@pytest.mark.slow
def test_a_bad_record_is_one_sentence_with_file_and_line(built: Path) -> None:
    settings = yaml.safe_load(SETTINGS)
    settings["datasets"]["broken"] = json.loads(json.dumps(settings["datasets"]["mini"]))
    settings["datasets"]["broken"]["corpus"]["train"] = "broken/*.jsonl"
    (built / "broken.yaml").write_text(yaml.safe_dump(settings))
    shutil.copytree(built / "corpus", built / "broken", dirs_exist_ok=True)
    with (built / "broken/1.jsonl").open("a") as lines:
        lines.write('{"text": "half a rec\n')
    done = call(built, "results/broken/tokens/train.parquet", "--configfile", "broken.yaml")
    printed = done.stdout + done.stderr
    assert done.returncode != 0
    assert "broken/1.jsonl:151" in printed
    assert "Traceback" not in printed
    assert not (built / "results/broken/shards/train/1").exists()
