"""The losses of each tool's logs are those that were logged; all else is one sentence."""

import json
import sys
from pathlib import Path

import forked
import polars as pl
import pytest
from refusals import refused

import import_losses
import take_observations
from bimix.errors import InputError

EXAMPLES = Path(__file__).parents[2] / "resources" / "examples"
LOGS, OWN = EXAMPLES / "logs", EXAMPLES / "own_losses"
PATTERN = ["--pattern", "eval/{domain}/loss"]
EXAMPLE = {
    "wandb": [*sorted(map(str, LOGS.glob("wandb/*.csv"))), *PATTERN],
    "tensorboard": [str(LOGS / "tensorboard"), *PATTERN],
    "trainer": [*sorted(map(str, LOGS.glob("trainer/*/trainer_state.json"))), "--pattern", "eval_{domain}_loss"],
}
WIDE = "mixture,web,code\na,0.25,0.75\nb,1,0\n"


def imported(folder: Path, *arguments: str, mixtures: Path | None = None) -> pl.DataFrame:
    """The losses that come out, in the order of their keys; `folder` has them in `out`."""
    mixtures = mixtures or folder / "mixtures.csv"
    import_losses.main([*arguments, "--mixtures", str(mixtures), "--out", str(folder / "out")])
    return pl.read_csv(folder / "out" / "losses.csv", schema_overrides={"mixture": pl.String, "seed": pl.String})


def write(folder: Path, name: str, text: str | bytes) -> str:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return str(folder / name)


def keyed(table: pl.DataFrame, *key: str) -> dict:
    return {tuple(row[:-1]): row[-1] for row in table.select(*key, table.columns[-1]).rows()}


def test_an_example_gives_the_losses_that_were_logged(tmp_path: Path) -> None:
    for kind in EXAMPLE:
        losses = imported(tmp_path, *EXAMPLE[kind], mixtures=LOGS / "mixtures.csv")
        own, key = pl.read_csv(OWN / "losses.csv"), ("mixture", "step", "domain")
        # event files have losses as float32
        assert losses.columns == own.columns
        assert keyed(losses, *key) == pytest.approx(keyed(own, *key), rel=1e-7, abs=0)
        shares = pl.read_csv(tmp_path / "out" / "mixtures.csv")
        assert keyed(shares, "mixture", "domain") == keyed(pl.read_csv(OWN / "mixtures.csv"), "mixture", "domain")


def test_the_workflow_takes_what_comes_out(tmp_path: Path) -> None:
    imported(tmp_path, *EXAMPLE["trainer"], mixtures=LOGS / "mixtures.csv")
    tables = [f"--{name}={tmp_path / 'out' / name}.csv" for name in ("losses", "mixtures")]
    out = [f"--group-{name}={tmp_path / name}.parquet" for name in ("losses", "mixtures")]
    take_observations.main([*tables, *out, "--names", "run01", "run02"])
    assert pl.read_parquet(tmp_path / "losses.parquet").height == 2 * 5 * 4


def test_the_logs_of_the_examples_are_those_that_the_script_writes(tmp_path: Path) -> None:
    """All but the times in event files, which hold when they were written."""
    (tmp_path / "own_losses").symlink_to(OWN)
    (tmp_path / "logs").mkdir()
    script = tmp_path / "logs" / "write_logs.py"
    script.write_bytes((LOGS / "write_logs.py").read_bytes())
    done = forked.run([sys.executable, str(script)])
    assert done.returncode == 0, done.stderr
    for path in (path for path in LOGS.rglob("*.*") if path.suffix in (".csv", ".json")):
        assert (tmp_path / "logs" / path.relative_to(LOGS)).read_bytes() == path.read_bytes(), path.name
    written, committed = tmp_path / "logs" / "tensorboard", LOGS / "tensorboard"
    both = [
        imported(tmp_path, str(folder), *PATTERN, mixtures=LOGS / "mixtures.csv") for folder in (written, committed)
    ]
    assert both[0].equals(both[1])


def test_a_run_of_the_trainer_is_read_from_its_state_and_from_its_event_files(tmp_path: Path, monkeypatch) -> None:
    """Two runs of Hugging Face's Trainer: both logs say the same, to float32."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    write(tmp_path, "mixtures.csv", WIDE)
    config = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0, eos_token_id=0)
    rows = [{"input_ids": row, "labels": row} for row in torch.arange(64).reshape(8, 8) % 16]
    for name in "ab":
        torch.manual_seed(ord(name))
        folder = tmp_path / "runs" / name
        monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events" / name))
        arguments = TrainingArguments(
            output_dir=str(folder / "saved"),
            report_to=["tensorboard"],
            max_steps=4,
            eval_strategy="steps",
            eval_steps=2,
            save_steps=4,
            per_device_train_batch_size=4,
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(
            GPT2LMHeadModel(config), arguments, train_dataset=rows, eval_dataset={"web": rows[:4], "code": rows[4:]}
        )
        trainer.train()
        (folder / "saved" / "checkpoint-4").rename(folder / "checkpoint-4")
    states = sorted(map(str, tmp_path.glob("runs/*/checkpoint-4/trainer_state.json")))
    said = imported(tmp_path, *states, "--pattern", "eval_{domain}_loss")
    assert said.select("mixture", "step", "domain").rows() == [
        (mixture, step, domain) for mixture in "ab" for step in (2, 4) for domain in ("code", "web")
    ]
    drawn = imported(tmp_path, str(tmp_path / "events"), "--pattern", "eval/{domain}_loss")
    key = ("mixture", "step", "domain")
    assert keyed(drawn, *key) == pytest.approx(keyed(said, *key), rel=1e-6)


HISTORY = [
    {"_step": 0, "eval/web/loss": 9.0, "eval/code/loss": 9.0},
    {"_step": 5, "train/loss": 3.0, "_runtime": 1.5, "gradients": {"bins": [1, 2]}},
    {"_step": 10, "eval/web/loss": 3.5, "eval/code/loss": 2.5},
]


def test_histories_of_wandb_are_runs_called_as_their_files(tmp_path: Path, capsys) -> None:
    for kind in ("jsonl", "csv", "parquet"):
        write(tmp_path, "mixtures.csv", WIDE)
        for name, shift in (("a", 0.0), ("b", 1.0)):
            rows = [{key: value + shift if "eval" in key else value for key, value in row.items()} for row in HISTORY]
            if kind == "jsonl":
                write(tmp_path, f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            else:
                frame = pl.DataFrame([{k: v for k, v in row.items() if k != "gradients"} for row in rows])
                getattr(frame, f"write_{kind}")(tmp_path / f"{name}.{kind}")
        losses = imported(tmp_path, *(str(tmp_path / f"{name}.{kind}") for name in "ab"), *PATTERN)
        assert losses.rows() == [
            ("a", 10, "code", 2.5),
            ("a", 10, "web", 3.5),
            ("b", 10, "code", 3.5),
            ("b", 10, "web", 4.5),
        ]
        assert "4 losses at step 0, before any training, are left out" in capsys.readouterr().err


def test_a_table_of_any_tool(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE.replace("web", "CC"))
    log = write(
        tmp_path, "log.csv", "Name,State,at,val CC ppl,val CC nll,val code nll\na,done,7,20,3,2\nb,done,7,30,4,\n"
    )
    common = [log, "--pattern", "val {domain} nll", "--run", "Name"]
    expected = [("a", 7, "CC", 3.0), ("a", 7, "code", 2.0), ("b", 7, "CC", 4.0)]
    assert imported(tmp_path, *common, "--step", "at").rows() == expected
    tokens = imported(tmp_path, *common, "--step", "8", "--tokens-per-step", "512")
    assert tokens.rows() == [(mixture, 8, domain, loss, 4096) for mixture, _, domain, loss in expected]


def test_the_pools_of_the_mixtures_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", "mixture,domain,proportion,pool\na,web,0.5,1000\na,code,0.5,\n")
    imported(tmp_path, write(tmp_path, "a.csv", "step,web\n5,3\n"), "--pattern", "{domain}", "--tokens-per-step", "512")
    rows = pl.read_csv(tmp_path / "out/mixtures.csv").select("mixture", "domain", "proportion", "pool").rows()
    assert rows == [("a", "web", 0.5, 1000), ("a", "code", 0.5, None)]


def test_runs_are_mixtures_seeds_and_sizes_as_the_table_says(tmp_path: Path, capsys) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    log = write(tmp_path, "log.csv", "id,step,web\nx1,5,3\nx2,5,3.1\nx3,5,4\nold,5,nan\n")
    runs = write(tmp_path, "runs.csv", "run,mixture,seed,parameters\nx1,a,0,1e6\nx2,a,1,1e6\nx3,a,0,2000000\n")
    losses = imported(tmp_path, log, "--pattern", "{domain}", "--run", "id", "--runs", runs)
    seen = losses.select("mixture", "seed", "parameters", "step", "domain", "loss").rows()
    assert seen == [("a", "0", 1e6, 5, "web", 3.0), ("a", "0", 2e6, 5, "web", 4.0), ("a", "1", 1e6, 5, "web", 3.1)]
    assert capsys.readouterr().out.startswith("1 mixtures of 2 domains"), "of two sizes"


def test_an_empty_cell_is_a_loss_that_was_not_measured_and_is_said(tmp_path: Path, capsys) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    log = write(tmp_path, "log.csv", "id,step,web,code\na,5,3,2\na,6,2.9,\na,7,,1.8\nb,5,3.1,2.1\nb,6,,\n")
    losses = imported(tmp_path, log, "--pattern", "{domain}", "--run", "id")
    assert losses.height == 6
    said = "losses.csv, line 4: mixture 'a' has no loss on code at step 6, as others have (evaluations that lack one: 2): it"
    assert said in capsys.readouterr().err


def test_of_two_columns_of_steps_the_trainings_own_is_taken_and_said(tmp_path: Path, capsys) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    log = write(tmp_path, "a.csv", "_step,step,web\n1,100,3\n2,200,2.9\n")
    assert imported(tmp_path, log, "--pattern", "{domain}")["step"].to_list() == [100, 200]
    said = "a.csv, line 2: of the columns step and _step, which differ, step counts; --step names another."
    assert said in capsys.readouterr().err
    assert imported(tmp_path, log, "--pattern", "{domain}", "--step", "_step")["step"].to_list() == [1, 2]
    assert "which differ" not in capsys.readouterr().err


def test_of_two_losses_at_a_step_one_is_chosen(tmp_path: Path, capsys) -> None:
    for which, loss in (("first", 3.0), ("last", 2.0)):
        write(tmp_path, "mixtures.csv", WIDE)
        log = write(tmp_path, "a.csv", "step,web\n5,3\n5,2\n")
        losses = imported(tmp_path, log, "--pattern", "{domain}", "--repeated", which)
        assert losses.rows() == [("a", 5, "web", loss)]
        assert f"Evaluated twice at a step, the {which} was taken: a." in capsys.readouterr().err


LOSS, ANY = PATTERN[1], "{domain}"
PANEL = "Step,a - eval/web/loss,a - eval/web/loss__MIN,a - eval/web/loss__MAX\n"
WRONG = [
    ("a.csv", "step,web\n5,3\n", "eval", "--pattern is 'eval': it needs {domain} once"),
    ("a.csv", "step,web\n5,3\n", LOSS, "a.csv: no metric fits 'eval/{domain}/loss'; it has web: name"),
    ("a.csv", "at,web\n5,3\n", ANY, "a.csv has no column 'step'; it has at, web: name it"),
    ("a.csv", "step,web\n5,3\n6,nan\n", ANY, "a.csv, line 3, 'web': 'nan' is no loss"),
    ("a.csv", "step,web\n5.5,3\n", ANY, "a.csv, line 2, 'step': 5.5 is no training"),
    ("a.csv", "step,web,day\n5,3,May\n", ANY, "a.csv, line 2, 'day': 'May' is no loss"),
    ("a.csv", "step,web\n5,3\n5,2\n", ANY, "has two losses of 'web' at step 5, 3 ("),
    ("c.csv", "step,web\n5,3\n", ANY, "mixtures.csv has no mixture 'c', of which there are"),
    ("a.csv", "step,web\n0,3\n", ANY, "the logs have no losses after step 0."),
    ("a.csv", "step,web\n5,33\n", ANY, r"^the losses for \S+/losses.csv, line 2 \(mixture 'a', step 5, domain 'web'\)"),
    ("a.csv", "step,web\n,3\n", ANY, "a.csv, line 2, 'step': None is no training step"),
    ("a.csv", "step,web_acc\n5,0.3\n", ANY, "a.csv: of 'web_acc' more is better, by its name"),
    ("p.csv", f"{PANEL}5,3,2.9,3.1\n", LOSS, "line 2, 'a - eval/web/loss': 3 is an average, and MIN is 2.9"),
    ("p.csv", f"{PANEL}0.5,3,3,3\n", LOSS, "p.csv, line 2, 'Step': 0.5 is no training step"),
    ("p.csv", f"{PANEL}5,3,3,3\n", "{domain}/ppl", "no metric fits '{domain}/ppl'; it has eval/web/loss"),
    ("a.jsonl", '{"_step": 5, "web": "NaN"}\n', ANY, "line 1, 'web': 'NaN' is no loss"),
    ("a.jsonl", '{"_step": 5}\n{"_st', ANY, "a.jsonl, line 2 is not valid JSON"),
    ("a.jsonl", b'{"_step": 5, "w\xe9b": 3}', ANY, "a.jsonl, line 1 is not valid JSON: 'utf-8' codec"),
    ("p.csv", "Step,a - eval/web/loss,a - eval/web/loss\n5,3,2\n", LOSS, "p.csv has 2 columns 'a - eval/web/loss'"),
    ("a.jsonl", "[5]", ANY, "a.jsonl, line 1 holds a list: a JSON object is needed"),
    ("a.jsonl", "[" * 9000, ANY, "a.jsonl, line 1 is not valid JSON: its lists or objects lie too deep"),
    ("a.jsonl", '{"step": 5, "web": 3, "web": 4}', ANY, "a.jsonl, line 1: the key 'web' stands there twice"),
    ("a.jsonl", "", ANY, "a.jsonl has no evaluation: no row, entry or scalar"),
    ("a.csv", "step,web\n", ANY, "a.csv has no evaluation"),
    ("a/trainer_state.json", '{"step": 5}', LOSS, "has no list 'log_history': it is no trainer_state.json."),
    ("a/trainer_state.json", '{"log_history": [{"eval/web/loss": 3}, {"step": 1}]}', LOSS, "entry 1 of log_history, 'step': None"),
    (
        "p.csv",
        "Step,a - eval/web/loss,b - eval/web/loss,a - lr,b - lr\n5,3,3,1,1\n",
        "{domain}/ppl",
        "no metric fits '{domain}/ppl'; it has eval/web/loss, lr: name",
    ),
]  # fmt: skip


def test_rows_without_any_loss_between_evaluations_are_none_and_at_the_end_a_fault(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    for none in ("NaN", "NA", "nan"):
        log = write(
            tmp_path,
            "a.csv",
            f"step,lr,eval/web/loss,eval/code/loss\n1,.1,{none},{none}\n2,.1,3,2\n3,.1,{none},\n4,.1,2.5,1.5\n",
        )
        losses = imported(tmp_path, log, "--pattern", "eval/{domain}/loss")
        assert losses["step"].to_list() == [2, 2, 4, 4]
    for rows, words in (
        ("2,3,2\n3,NaN,NaN\n", "line 3, 'eval/web/loss': nan is no loss: leave a run that diverged out by --runs"),
        ("2,NaN,2\n3,3,2\n", "line 2, 'eval/web/loss': nan is no loss: leave a run that diverged out"),
        ("2,inf,2\n", "inf is no loss: leave a run that diverged out"),
        ("2,0,2\n", "0 is no loss: it must be above 0; the laws fit logarithms"),
        ("2,far,2\n", "'far' is no loss: it must be a finite number"),
    ):
        log = write(tmp_path, "a.csv", f"step,eval/web/loss,eval/code/loss\n{rows}")
        refused(words, imported, tmp_path, log, *PATTERN)


def test_the_csv_of_tensorboards_page_long_tables_and_arrays_are_read(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    head, flags = "Wall time,Step,Value\n1.5,100,", ("--pattern", "eval_{domain}_loss")
    pages = [
        write(tmp_path, f"run-a-tag-eval_{name}_loss.csv", f"{head}{loss}\n")
        for name, loss in (("web", 3), ("code", 2))
    ]
    expected = {("a", 100, "code"): 2, ("a", 100, "web"): 3}
    assert keyed(imported(tmp_path, *pages, *flags), "mixture", "step", "domain") == expected
    refused("give the folder of event files", imported, tmp_path, write(tmp_path, "page.csv", f"{head}3\n"), *flags)
    for tag, more in (("tag", ""), ("metric", ""), ("Tag", ",wall_time")):
        rows = "".join(f"a,eval_{name}_loss,100,{loss}{more and ',1'}\n" for name, loss in (("web", 3), ("code", 2)))
        log = write(tmp_path, "long.csv", f"run,{tag},step,value{more}\n{rows}a,lr,100,0{more and ',1'}\n")
        assert keyed(imported(tmp_path, log, *flags), "mixture", "step", "domain") == expected
    entries = [{"step": 50, "lr": 1}, {"step": 100, "eval_web_loss": 3, "eval_code_loss": 2}]
    log = write(tmp_path, "a.json", b"\xef\xbb\xbf" + json.dumps(entries).encode())
    assert keyed(imported(tmp_path, log, *flags), "mixture", "step", "domain") == expected


def test_a_suite_below_the_pattern_is_no_domain_and_one_that_counts_is_said(tmp_path: Path, capsys) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    names = ["web", "code", "suite/news"]
    columns = ",".join(f"eval/{name}/loss" for name in names)
    log = write(tmp_path, "a.csv", f"step,{columns}\n5,3,2,4\n")
    assert set(imported(tmp_path, log, *PATTERN)["domain"]) == {"web", "code"}
    assert "Left out" in (said := capsys.readouterr().err) and "suite/news" in said
    write(tmp_path, "mixtures.csv", WIDE.replace("code", "suite/news"))
    assert set(imported(tmp_path, log, *PATTERN)["domain"]) == set(names)
    assert "no training domain, which count in averages and optima: code." in capsys.readouterr().err
    write(tmp_path, "mixtures.csv", WIDE)
    log = write(tmp_path, "a.csv", "step,eval/s/web/loss,eval/s/code/loss\n5,3,2\n")
    assert set(imported(tmp_path, log, *PATTERN)["domain"]) == {"s/web", "s/code"}  # nothing else fits


def test_what_cannot_be_read_ends_in_a_sentence(tmp_path: Path) -> None:
    for name, text, form, words in WRONG:
        write(tmp_path, "mixtures.csv", WIDE)
        refused(words, imported, tmp_path, write(tmp_path, name, text), "--pattern", form)
        assert not (tmp_path / "out").exists()


def test_a_table_of_runs_that_does_not_fit_ends_in_a_sentence(tmp_path: Path) -> None:
    for runs, words in (
        ("run,seed\nx,0\n", "runs.csv needs the columns run and mixture"),
        ("run,mixture\nx,\n", "runs.csv, line 2: a cell is empty"),
        ("run,mixture\nx,a\nx,b\n", "runs.csv, line 3: run 'x' is there twice"),
        ("run,mixture\ny,a\n", "--runs names 'y', of which there are no losses; there are x."),
        ("run,mixture,parameters\nx,a,7M\n", "runs.csv, line 2: parameters is '7M'"),
    ):
        write(tmp_path, "mixtures.csv", WIDE)
        log, named = write(tmp_path, "log.csv", "id,step,web\nx,5,3\n"), write(tmp_path, "runs.csv", runs)
        refused(words, imported, tmp_path, log, "--pattern", "{domain}", "--run", "id", "--runs", named)


def test_places_without_losses_and_inputs_that_would_be_overwritten_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    refused("has no event files", imported, tmp_path, str(tmp_path), *PATTERN)
    unnamed = write(tmp_path, "empty.csv", "id,step,web\n,5,3\n")
    words = "line 2: column 'id' is empty: it names the run"
    refused(words, imported, tmp_path, unnamed, "--pattern", "{domain}", "--run", "id")
    refused("nowhere does not exist", imported, tmp_path, str(tmp_path / "nowhere"), *PATTERN)
    log = write(tmp_path, "a.csv", "step,web\n5,3\n")
    flags = [log, "--pattern", "{domain}", "--mixtures", str(tmp_path / "mixtures.csv")]
    refused(r"mixtures\.csv would be overwritten", import_losses.main, [*flags, "--out", str(tmp_path)])
    assert (tmp_path / "mixtures.csv").read_text() == WIDE


def test_columns_of_panels_are_split_at_their_separator(tmp_path: Path) -> None:
    # empty cells are of other runs; wandb writes them in quotes
    write(tmp_path, "mixtures.csv", WIDE)
    a, b = "a - eval/web/loss", "b - eval/web/loss"
    rows = [("Step", a, b, f"{b}__MIN"), ("5", "3.5", "", "4.50"), ("6", "", "4.5", "4.50"), ("7", "", "", "")]
    text = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    losses = imported(tmp_path, write(tmp_path, "p.csv", text), *PATTERN)
    assert losses.rows() == [("a", 5, "web", 3.5), ("b", 6, "web", 4.5)]
    # names that hold the separator are split where the metric begins
    write(tmp_path, "mixtures.csv", "mixture,web\na - 1,1\n")
    losses = imported(tmp_path, write(tmp_path, "p.csv", "Step,a - 1 - eval/web/loss,a - 1 - lr\n5,3,x\n"), *PATTERN)
    assert losses.rows() == [("a - 1", 5, "web", 3.0)]
    # where runs have a column, one with the separator is of no panel
    write(tmp_path, "mixtures.csv", WIDE.replace("web", "my - web"))
    log = write(tmp_path, "log.csv", "id,step,my - web\na,5,3\nb,5,4\n")
    losses = imported(tmp_path, log, "--pattern", "{domain}", "--run", "id")
    assert losses.rows() == [("a", 5, "my - web", 3.0), ("b", 5, "my - web", 4.0)]
    # the name of the run says nothing of its metric
    write(tmp_path, "mixtures.csv", "mixture,web\nbest_acc,1\n")
    losses = imported(tmp_path, write(tmp_path, "p.csv", "Step,best_acc - web\n5,3\n"), "--pattern", "{domain}")
    assert losses.rows() == [("best_acc", 5, "web", 3.0)]


@pytest.mark.parametrize("purged", [True, False])
def test_steps_that_a_resumed_run_wrote_again(tmp_path: Path, purged: bool) -> None:
    """Taken once where its writer said so, else refused until it is said which."""
    from torch.utils.tensorboard import SummaryWriter

    write(tmp_path, "mixtures.csv", "mixture,web\nrun,1\n")
    for number, (steps, shift) in enumerate(((range(1, 5), 0.0), (range(3, 6), 0.5))):
        purge = {"purge_step": steps[0]} if purged else {}
        with SummaryWriter(str(tmp_path / "run"), filename_suffix=f".{number}", **purge) as writer:
            for step in steps:
                writer.add_scalar("eval/web/loss", step + shift, step)
        (written,) = tmp_path.glob(f"run/*.{number}")
        written.rename(tmp_path / "run" / f"events.out.tfevents.{number}")
    flags = [str(tmp_path / "run"), *PATTERN]
    if not purged:
        with pytest.raises(
            InputError, match=r"has two losses of 'web' at step 3, 3 \(.*\) and 3\.5: choose by --repeated"
        ):
            imported(tmp_path, *flags)
        flags += ["--repeated", "last"]
    losses = imported(tmp_path, *flags)
    assert losses["step"].to_list() == [1, 2, 3, 4, 5] and losses["loss"].to_list() == [1.0, 2.0, 3.5, 4.5, 5.5]


# lm_eval's results


def results(folder: Path, run: str, bits: float) -> str:
    content = {
        "results": {
            "words": {"alias": "words", "exact_match,none": 0.5, "exact_match_stderr,none": 0.1},
            "words_bits": {"bits_per_byte,none": bits, "bits_per_byte_stderr,none": "N/A"},
            "text": {"bits_per_byte,none": bits / 2, "word_perplexity,none": 40.0},
        },
        "n-shot": {"words": 1},
        "higher_is_better": {
            "words": {"exact_match": True},
            "words_bits": {"bits_per_byte": False},
            "text": {"bits_per_byte": False, "word_perplexity": False},
        },
        "model_name": f"/evals/{run}/export",
    }
    return write(folder, f"{run}/results_2026.json", json.dumps(content))


def test_results_of_lm_eval_are_read_as_metrics(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    files = [results(tmp_path, "a", 2.0), results(tmp_path, "b", 3.0)]
    losses = imported(tmp_path, *files, "--pattern", "{domain}/bits_per_byte", "--step", "10")
    assert losses.select("mixture", "step", "domain", "loss").rows() == [
        (run, 10, task, loss)
        for run, bits in (("a", 2.0), ("b", 3.0))
        for task, loss in (("text", bits / 2), ("words_bits", bits))
    ]
    assert losses["metric"].all()


def test_results_of_lm_eval_join_losses_without_their_accuracies(tmp_path: Path, capsys) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    log = write(tmp_path, "log.csv", "run,step,eval/web/loss\na,5,3\nb,5,2.5\na,10,2.9\nb,10,2.4\n")
    files = [results(tmp_path, "a", 2.0), results(tmp_path, "b", 3.0)]
    losses = imported(tmp_path, log, "--run", "run", *PATTERN, "--metrics", *files)
    assert losses.filter("metric").select("mixture", "step", "domain", "loss").rows() == [
        (run, 10, metric, loss)
        for run, bits in (("a", 2.0), ("b", 3.0))
        for metric, loss in (
            ("words_bits/bits_per_byte", bits),
            ("text/bits_per_byte", bits / 2),
            ("text/word_perplexity", 40.0),
        )
    ]
    assert "words/exact_match" in capsys.readouterr().err


def test_shares_of_right_answers_are_refused_and_so_are_files_without_results(tmp_path: Path) -> None:
    write(tmp_path, "mixtures.csv", WIDE)
    file = results(tmp_path, "a", 2.0)
    arguments = ["--pattern", "{domain}/exact_match", "--step", "10"]
    refused("a share of right answers is no logarithm", imported, tmp_path, file, *arguments)
    log = write(tmp_path, "log.csv", "run,step,eval/web/loss\na,5,3\n")
    other = write(tmp_path, "other.json", "{}")
    refused("other.json has no `results`", imported, tmp_path, log, "--run", "run", *PATTERN, "--metrics", file, other)
    content = json.loads(Path(file).read_text())
    content["results"] = {"words": content["results"]["words"]}
    Path(file).write_text(json.dumps(content))
    arguments = [log, "--run", "run", *PATTERN, "--metrics", file]
    refused("no metric of which less is better", imported, tmp_path, *arguments)
