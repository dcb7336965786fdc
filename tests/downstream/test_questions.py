"""Task files in the forms they are published in, and what is wrong with those that are not."""

import json
from pathlib import Path

import polars as pl
import pytest
import smart_open
from refusals import refused

from bimix.corpus.sources import Rejected, Rejects
from bimix.downstream.questions import parse_passage, parse_question, read_records, take_questions
from bimix.errors import InputError

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "qa"
real = pytest.mark.skipif(not DATA.is_dir(), reason="the sample question sets are not there")

OFFICIAL = {
    "Data": [
        {
            "Answer": {"Aliases": ["Mt Blanc", "Mont Blanc"], "Value": "Mont Blanc"},
            "Question": "Highest?",
            "QuestionId": "t1",
        },
        {"Answer": {"Aliases": [], "Value": "Nile"}, "Question": "Longest?", "QuestionId": "t2"},
    ],
    "Domain": "Web",
    "Version": 1.0,
}
WEBQUESTIONS = [
    {"url": "u", "targetValue": '(list (description "Jamaican English") (description Lawyer))', "utterance": "what?"},
    {"url": "u", "targetValue": '(list (description "a \\"b\\" c"))', "utterance": "which?"},
]


def take(raw: bytes | str, name: str, kind: str = "question", rejects: float = 0.0):
    faults = Rejects(rejects, "downstream.rejects")
    raw = raw.encode() if isinstance(raw, str) else raw
    questions = list(take_questions(read_records(raw, name), name, kind, faults))
    faults.check()
    return questions, faults


def test_every_published_form_and_official_files_give_questions_with_their_lines() -> None:
    expected = ("who?", ("Ann Lee", "Ann"))
    for record in (
        {"question": "who?", "answers": ["Ann Lee", "Ann", " Ann "]},
        {"question": " who? ", "answer": {"value": "Ann Lee", "aliases": ["Ann", "Ann Lee"], "normalized_aliases": []}},
        {"Question": "who?", "Answer": {"Value": "Ann Lee", "Aliases": ["Ann"]}},
        {"utterance": "who?", "targetValue": '(list (description "Ann Lee") (description Ann))'},
    ):
        assert parse_question(record) == expected
    assert parse_question({"question": "q", "answer": "one"}) == ("q", ("one",))
    # official files are read with the line of each entry
    for indent in (None, 2):
        questions, _ = take(json.dumps(OFFICIAL, indent=indent), "triviaqa.json")
        assert [question.answers for question in questions] == [("Mont Blanc", "Mt Blanc"), ("Nile",)]
        assert [question.identity for question in questions] == ["t1", "t2"]
    assert [question.place for question in questions] == ["triviaqa.json:3", "triviaqa.json:14"]
    questions, _ = take(json.dumps(WEBQUESTIONS), "webquestions.json")
    assert [question.answers for question in questions] == [("Jamaican English", "Lawyer"), ('a "b" c',)]


def test_passages_lose_their_last_word_and_what_is_no_task_is_refused() -> None:
    assert parse_passage({"text": " In my palm is\na  stone "}) == ("In my palm is\na", ("stone",))
    questions, _ = take("one two\n\nthree four five\n", "lambada.txt", "last_word")
    assert [(question.text, question.answers) for question in questions] == [
        ("one", ("two",)),
        ("three four", ("five",)),
    ]
    assert [question.place for question in questions] == ["lambada.txt:1", "lambada.txt:3"]
    # a file that is no task is refused
    refused("not JSON", take, '[{"question": ', "t.json")
    refused("no list `Data`", take, '{"Version": 1.0, "Rows": []}', "t.json")
    with pytest.raises(Rejected):
        parse_question(["a"])


def test_parquet_of_the_hub(tmp_path: Path) -> None:
    rows = [{"question": "who?", "answer": {"value": "Ann", "aliases": ["Anna"]}}] * 2
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    questions, _ = take((tmp_path / "a.parquet").read_bytes(), "a.parquet")
    assert [question.answers for question in questions] == [("Ann", "Anna")] * 2
    refused("no parquet", take, b"PAR1", "a.parquet")


def test_a_bad_item_is_a_sentence_with_file_and_line_or_counted() -> None:
    good = '{"question": "what?", "answers": ["it"], "text": "good word"}'
    for kind, line, sentence in (
        ("question", '{"question": "who?", "answers": []}', "the question has no answer"),
        ("question", '{"question": " ", "answers": ["x"]}', "the question is empty"),
        ("question", '{"text": "a b"}', "the record has no question .*its fields are text"),
        ("question", '{"question": "who?"}', "the record has no answer in a field"),
        ("question", '{"question": 3, "answers": ["x"]}', "the question is int"),
        ("question", "[1]", ".*it is no object"),
        ("last_word", '{"text": " "}', "the passage is empty"),
        ("last_word", '{"text": "word"}', "the passage is one word"),
        ("last_word", '{"question": "who?", "answers": ["x"]}', "the record has no passage"),
    ):
        refused(rf"t\.jsonl:2: {sentence}.*downstream.rejects", take, f"{good}\n{line}\n{good}", "t.jsonl", kind)
        questions, faults = take(f"{good}\n{line}\n{good}", "t.jsonl", kind, rejects=0.4)
        assert len(questions) == 2 and faults.records == 3 and faults.reasons.total() == 1
        with pytest.raises(InputError, match=r"1 of 3 records were rejected, more than the share 0\.2"):
            take(f"{good}\n{line}\n{good}", "t.jsonl", kind, rejects=0.2)


@real
def test_real_question_sets() -> None:
    for name, kind, items in (
        ("webquestions_train.jsonl.zst", "question", 3778),
        ("webquestions_test.jsonl.zst", "question", 2032),
        ("lambada_test.jsonl.zst", "last_word", 5153),
        ("triviaqa_dev_sample.jsonl.zst", "question", 1136),
        ("triviaqa_native_schema_sample.jsonl", "question", 7),
        ("triviaqa_official_schema_sample.json", "question", 1),
    ):
        with smart_open.open(DATA / name, "rb") as file:
            questions, _ = take(file.read(), name.removesuffix(".zst"), kind)
        assert len(questions) == items
        assert "triviaqa" not in name or max(len(question.answers) for question in questions) > 1
