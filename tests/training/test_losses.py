"""The losses that a trainer leaves: both forms of them, every fault in them."""

import json
from pathlib import Path

import polars as pl
from refusals import refused

from bimix.training.command import cut_last_line, read_losses

DOMAINS = ["web", "code"]
EXPECTED = [(2, 16, "code", 2.5), (2, 16, "web", 3.0), (4, 32, "code", 2.0), (4, 32, "web", 2.75)]
ROWS = [(0, "web", 9.0), (0, "code", 9.0), (2, "web", 3.0), (2, "code", 2.5), (3, "web", 2.9), (4, "web", 2.75)]
ROWS += [(4, "code", 2.0)]


def read(path: Path) -> list[tuple]:
    return read_losses(path, DOMAINS, [2, 4], 8).rows()


def write(path: Path, rows: list[tuple], mode: str = "w") -> Path:
    """Append lines of JSON."""
    with path.open(mode) as file:
        file.writelines(json.dumps(dict(zip(("step", "domain", "loss"), row, strict=True))) + "\n" for row in rows)
    return path


def test_a_table_and_lines_of_json_are_read(tmp_path: Path) -> None:
    assert read(write(tmp_path / "own.jsonl", ROWS)) == EXPECTED
    frame = pl.DataFrame(ROWS, ["step", "domain", "loss"], orient="row")
    frame.write_csv(tmp_path / "own.csv", separator=";")
    assert read(tmp_path / "own.csv") == EXPECTED


def test_what_an_attempt_repeats_after_another_takes_its_place(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", [*ROWS[:4], (4, "web", float("nan"))])
    with path.open("a") as file:
        file.write('{"step": 4, "dom')  # killed here, and the next writes on
    refused(r"own\.jsonl, line 6 is not valid JSON", read, path)
    cut_last_line(path)
    cut_last_line(path)
    refused(r"own\.jsonl, line 5, 'web': nan is no loss", read, path)
    assert read(write(path, [(2, "web", 3.0), *ROWS[5:]], "a")) == EXPECTED


def test_a_fault_of_the_losses_is_a_sentence(tmp_path: Path) -> None:
    for rows, sentence in (
        (ROWS[:5], r"no loss of web, code at step 4; there are losses at the steps 0, 2, 3, and"),
        ([*ROWS[:2], *ROWS[4:]], r"no loss of web, code at step 2"),
        ([*ROWS, (4, "wep", 2)], r"line 8: no measured domain \"wep\"; did you mean web"),
        ([*ROWS, (6, "web", 2)], r"step 6 lies beyond the run's 4 steps"),
        ([*ROWS, (4.5, "web", 2)], r"4.5 is no training step"),
        ([*ROWS[:6], (4, "code", 0)], r"0 is no loss"),
        ([*ROWS[:6], (4, "code", "oops")], r"'oops' is no loss"),
        ([*ROWS[:6], (4, "code", 31.2)], r"line 7: the loss of 'code' is 31.2, and losses are in nats"),
    ):
        refused(sentence, read, write(tmp_path / "own.jsonl", rows))
    refused(r"own\.csv is not there: the command has left no losses", read, tmp_path / "own.csv")
    for text, sentence in (
        ("step,loss\n2,1.0\n", r"own\.csv, row 1: it has no 'domain'"),
        ("step,domain,loss\n2,,1.0\n", "row 1: no measured domain"),
        ("step,domain,loss\n2,web\n", r"own\.csv, row 1, 'web': None is no loss"),
        ("step,domain,loss\n2,web,1.0,3\n", r"own\.csv, line 2 has 4 cells"),
    ):
        (tmp_path / "own.csv").write_text(text)
        refused(sentence, read, tmp_path / "own.csv")
