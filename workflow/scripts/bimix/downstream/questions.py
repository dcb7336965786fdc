"""Task files in their published formats: records become questions with their accepted answers, or
are rejected with a reason.

The formats are JSON lines, one JSON array, TriviaQA's official object with `Data`, parquet (as on
the hub) and plain text with one passage per line (LAMBADA's release).
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bimix.corpus.sources import BROKEN_STREAM, COMPRESSED, Rejected, Rejects, open_stream, parse_record
from bimix.digests import digest_file
from bimix.errors import InputError, masked

QUESTION_FIELDS = ("question", "Question", "utterance")
ANSWER_FIELDS = ("answers", "answer", "Answer", "targetValue")
ID_FIELDS = ("id", "question_id", "QuestionId")
DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')


@dataclass(frozen=True)
class Question:
    """A question and its accepted `answers`, the first of which a shot shows. `place` is file and
    line, `identity` the id of the record, or its number if it has none.
    """

    identity: str
    place: str
    text: str
    answers: tuple[str, ...]


def parse_question(record: object) -> tuple[str, tuple[str, ...]]:
    """Question and answers in any form of WebQuestions and TriviaQA. Raises Rejected."""
    text = _first_field(record, QUESTION_FIELDS, "question")
    answers = _first_field(record, ANSWER_FIELDS, "answer")
    if not isinstance(text, str):
        raise Rejected("another schema", f"the question is {type(text).__name__}, not a string")
    if not text.strip():
        raise Rejected("empty question", "the question is empty")
    found = tuple(dict.fromkeys(answer.strip() for answer in _answers(answers) if answer.strip()))
    if not found:
        raise Rejected("no answer", "the question has no answer")
    return text.strip(), found


def parse_passage(record: object) -> tuple[str, tuple[str, ...]]:
    """A passage of LAMBADA (Paperno et al. 2016) and its last word. Raises Rejected."""
    text = _first_field(record, ("text",), "passage")
    if not isinstance(text, str):
        raise Rejected("another schema", f"the passage is {type(text).__name__}, not a string")
    words = text.rsplit(None, 1)
    if not words:
        raise Rejected("empty question", "the passage is empty")
    if len(words) == 1:
        raise Rejected("no answer", "the passage is one word, which leaves none to be completed")
    return words[0].lstrip(), (words[1],)


PARSERS: dict[str, Callable[[object], tuple[str, tuple[str, ...]]]] = {
    "question": parse_question,
    "last_word": parse_passage,
}


def _first_field(record: object, names: Iterable[str], what: str) -> object:
    for name in names if isinstance(record, dict) else ():
        if name in record:
            return record[name]
    has = f"its fields are {', '.join(map(str, record))}" if isinstance(record, dict) else "it is no object"
    raise Rejected("another schema", f"the record has no {what} in a field {' or '.join(names)} ({has})")


def _answers(value: object) -> list[str]:
    """Accepted answers of one record, the canonical one first; none where the value has none."""
    if isinstance(value, str):
        described = [quoted or plain for quoted, plain in DESCRIPTION.findall(value)]
        return [text.replace('\\"', '"') for text in described] or [value]
    if isinstance(value, list):
        return [answer for answer in value if isinstance(answer, str)]
    if isinstance(value, dict):  # TriviaQA: the value, then its aliases
        main = value.get("value", value.get("Value"))
        aliases = value.get("aliases", value.get("Aliases")) or []
        return [answer for answer in [main, *aliases] if isinstance(answer, str)]
    return []


def read_records(raw: bytes, name: str) -> Iterator[tuple[int, object]]:
    """Records of one unpacked task file, each with its line (of parquet: its row); a record may be
    a Rejected. Errors: a .parquet file that is none; another file that is not text.
    """
    if name.endswith(".parquet"):
        try:
            yield from enumerate(pl.read_parquet(io.BytesIO(raw)).iter_rows(named=True), start=1)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{name} is damaged or no parquet ({error}); fetch it again.") from error
        return
    lines = [(number, line) for number, line in enumerate(raw.splitlines(), start=1) if line.strip()]
    if name.endswith(".txt"):
        for number, line in lines:
            try:
                yield number, {"text": line.decode("utf-8")}
            except UnicodeDecodeError as error:
                yield number, Rejected("invalid UTF-8", f"the line is not UTF-8 ({error.reason} at byte {error.start})")
        return
    whole = re.match(rb'\s*(\[|\{\s*"(?:Data|Domain|VerifiedEval|Version)"\s*:)', raw)
    if whole:
        yield from _read_array(raw, name)
        return
    for number, line in lines:
        try:
            yield number, parse_record(line)
        except Rejected as rejection:
            yield number, rejection


def _read_array(raw: bytes, name: str) -> Iterator[tuple[int, object]]:
    """Elements of a JSON array, or of an object's array `Data`, with the lines where they begin."""
    try:
        text = raw.decode("utf-8")
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON ({error}); fetch it again.") from error
    if isinstance(content, dict) and not isinstance(content.get("Data"), list):
        raise InputError(f"{name} has no list `Data`, as TriviaQA's files have; give a file of questions.")
    place = 0 if isinstance(content, list) else re.search(r'"Data"\s*:\s*\[', text).end() - 1
    place, line, decoder = text.index("[", place) + 1, 1 + text.count("\n", 0, place), json.JSONDecoder()
    while True:
        start = re.compile(r"[\s,]*").match(text, place).end()
        line += text.count("\n", place, start)
        if text[start] == "]":
            return
        record, place = decoder.raw_decode(text, start)
        yield line, record
        line += text.count("\n", start, place)


def take_questions(records: Iterable[tuple[int, object]], name: str, kind: str, faults: Rejects) -> Iterator[Question]:
    """The questions of a file called `name`; invalid records go to `faults`."""
    for number, (line, record) in enumerate(records):
        faults.records += 1
        try:
            if isinstance(record, Rejected):
                raise record
            text, answers = PARSERS[kind](record)
        except Rejected as rejection:
            faults.add(f"{name}:{line}", rejection)
            continue
        own = next((record[field] for field in ID_FIELDS if isinstance(record.get(field), str)), str(number))
        yield Question(own, f"{name}:{line}", text, answers)


def read_questions(path: str, kind: str, faults: Rejects) -> list[Question]:
    """The questions of one file, local or at an address."""
    if "://" not in path and not Path(path).is_file():
        raise InputError(f"There is no task file {path}; set items and shots of the task under downstream.tasks.")
    with open_stream(path) as stream:
        try:
            raw = stream.read()
        except BROKEN_STREAM as error:
            raise InputError(f"{path}: the file breaks off or is damaged ({error}); fetch it again.") from error
    return list(take_questions(read_records(raw, re.sub(COMPRESSED, "", path)), path, kind, faults))


def origin(source: str | None) -> dict | None:
    """The file that was read: its path or address and, if it is local, its digest."""
    if source is None:
        return None
    return {"file": masked(source)} | ({} if "://" in source else {"digest": digest_file(Path(source))})
