"""The losses that a trainer leaves: every way to read them, every fault in them."""

import json
from pathlib import Path

import polars as pl
from refusals import refused

from bimix.training.command import read, tidy

DOMAINS = ["web", "code"]
EXPECTED = [(2, 16, "code", 2.5), (2, 16, "web", 3.0), (4, 32, "code", 2.0), (4, 32, "web", 2.75)]
LINES = [
    {"step": 0, "eval/web/loss": 9.0, "eval/code/loss": 9.0},
    {"step": 1, "train/loss": 3.3},
    {"step": 2, "eval/web/loss": 3.0, "eval/code/loss": 2.5},
    {"step": 3, "eval/web/loss": 2.9, "eval/code/loss": 2.2},
    {"step": 4, "eval/web/loss": 2.75},
    {"step": 4, "eval/code/loss": 2.0},
]
ASKED = {"lines": "{folder}/log.jsonl", "loss": "eval/{domain}/loss"}
TABLE = {"table": "{folder}/own.csv"}


def table_of(asked: dict, folder: Path, begun: tuple[int, ...] = (0,)) -> pl.DataFrame:
    return tidy(read(asked, folder, begun), DOMAINS, [2, 4], 8)


def write_lines(path: Path, lines: list[dict], mode: str = "w") -> int:
    """Append lines of JSON; the bytes of the file before."""
    size = path.stat().st_size if path.exists() else 0
    with path.open(mode) as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return size


def test_lines_of_json_are_read_by_one_name_or_one_of_each_domain_and_any_key_of_the_step(tmp_path: Path) -> None:
    write_lines(tmp_path / "log.jsonl", LINES)
    for loss in ("eval/{domain}/loss", {"web": "eval/web/loss", "code": "eval/code/loss"}):
        assert table_of({"lines": "{folder}/log.jsonl", "loss": loss}, tmp_path).rows() == EXPECTED
    write_lines(tmp_path / "log.jsonl", [{"_step": line.pop("step"), **line} for line in map(dict, LINES)])
    assert table_of(ASKED | {"step": "_step"}, tmp_path).rows() == EXPECTED
    refused("'step': None is no training step", table_of, ASKED, tmp_path)


def test_a_table_text_and_a_trainer_state_are_read(tmp_path: Path) -> None:
    frame = pl.DataFrame([row[:1] + row[2:] for row in EXPECTED], ["step", "domain", "loss"], orient="row")
    frame.write_csv(tmp_path / "own.csv", separator=";")
    assert table_of(TABLE, tmp_path).rows() == EXPECTED
    said = [f"step {step}: {domain} loss {loss}, 12 tokens/s" for step, _, domain, loss in EXPECTED]
    (tmp_path / "train.log").write_text("\n".join(["begin", *said]))
    pattern = r"step (?P<step>\d+): (?P<domain>\w+) loss (?P<loss>[\d.]+)"
    assert table_of({"pattern": pattern, "file": "{folder}/train.log"}, tmp_path).rows() == EXPECTED
    log = [{"step": step, f"eval_{domain}_loss": loss, "epoch": 0.1} for step, _, domain, loss in EXPECTED]
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"log_history": [{"step": 1, "loss": 3.0}, *log]}, indent=2))
    asked = {"lines": "{folder}/trainer_state.json", "loss": "eval_{domain}_loss"}
    assert table_of(asked, tmp_path).rows() == EXPECTED
    path.write_text('{"log": []}')
    refused("has no list 'log_history' as a", table_of, asked, tmp_path)


def test_what_an_attempt_repeats_after_another_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write_lines(path, LINES[:3])
    with path.open("a") as file:
        file.write('{"step": 4, "eval/w')  # killed here, and the next writes on
    begun = write_lines(path, [{"step": 2, "eval/web/loss": 3.0, "eval/code/loss": 2.5}, *LINES[4:]], "a")
    assert table_of(ASKED, tmp_path, (0, begun)).rows() == EXPECTED
    refused(r"log.jsonl, line 4: .* no line of JSON", table_of, ASKED, tmp_path)


def test_a_diverged_loss_counts_where_no_later_attempt_replaced_it(tmp_path: Path) -> None:
    for loss in (40.0, float("nan"), float("inf")):
        path, asked = tmp_path / "log.jsonl", {"lines": "{folder}/log.jsonl", "loss": "eval/{domain}/loss"}
        write_lines(path, [*LINES[:3], {"step": 4, "eval/web/loss": loss, "eval/code/loss": loss}])
        refused(r"log\.jsonl, line 4", table_of, asked, tmp_path)
        begun = write_lines(path, LINES[4:], "a")
        assert table_of(asked, tmp_path, (0, begun)).rows() == EXPECTED


def test_a_fault_of_the_losses_is_a_sentence(tmp_path: Path) -> None:
    for lines, sentence in (
        ([{"step": 2}], "log.jsonl has no loss that 'eval/{domain}/loss' finds"),
        (LINES[:4], r"no loss of web, code at step 4; there are losses at the steps 0, 2, 3, and"),
        ([*LINES[:2], *LINES[3:]], r"no loss of web, code at step 2"),
        ([*LINES, LINES[2]], r"line 7: a second loss of 'web' at step 2, after .*line 3"),
        ([*LINES, {"step": 4, "eval/wep/loss": 2}], r"line 7: no measured domain \"wep\"; did you mean web"),
        ([*LINES, {"step": 6, "eval/web/loss": 2}], r"step 6 lies beyond the run's 4 steps"),
        ([*LINES[:5], {"step": 4, "eval/code/loss": float("nan")}], r"nan is no loss"),
        ([*LINES, {"step": 4.5, "eval/web/loss": 2}], r"4.5 is no training step"),
        ([*LINES[:5], {"step": 4, "eval/code/loss": 0}], r"0 is no loss"),
        ([*LINES[:5], {"step": 4, "eval/code/loss": "oops"}], r"'oops' is no loss"),
        (
            [*LINES[:5], {"step": 4, "eval/code/loss": 31.2}],
            r"line 6: the loss of 'code' is 31.2, and losses are in nats",
        ),
    ):
        write_lines(tmp_path / "log.jsonl", lines)
        refused(sentence, table_of, ASKED, tmp_path)
    refused(r"own\.csv is not there: the command has left no losses", table_of, TABLE, tmp_path)
    for text, sentence in (
        ("step,loss\n2,1.0\n", "no column 'domain'"),
        ("step,domain,loss\n2,,1.0\n", 'line 2: no measured domain ""'),
        ("step,domain,loss\n2,web,3\n2,web,3\n", r"own\.csv, line 3: a second loss of 'web' at step 2, after .*line 2"),
        ("step,domain,loss\n2,web\n", r"own\.csv, line 2: it has 2 values for 3 columns"),
    ):
        (tmp_path / "own.csv").write_text(text)
        refused(sentence, table_of, TABLE, tmp_path)
