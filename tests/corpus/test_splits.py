"""What is held out: whole documents, or ends of long ones, decided by the text alone."""

import random
from pathlib import Path

import pytest
from tiny_run import READING
from tokenised import reading, tokenize, write_records

import hash_validation
from bimix.corpus.documents import Reader, Reading, hash_text, split_document, split_hashes
from bimix.corpus.shards import Shard, write_shards
from bimix.corpus.stream import Division, Piece

LONGEST = 1000


def story(seed: str, words: int) -> str:
    """A text whose every line is found in no other."""
    generator = random.Random(seed)
    lines = [f"{seed} {number} {generator.random()}" for number in range(max(words // 4, 1))]
    return "".join(line + generator.choice("\n \t") for line in lines)


def pieces(folder: Path, files: list[list[str]], cut: int | None, division: Division) -> list[Piece]:
    """Pieces of files of these texts."""
    paths = [folder / f"{number}.jsonl" for number in range(len(files))]
    for path, texts in zip(paths, files, strict=True):
        write_records(path, [{"text": text} for text in texts])
    read = Reading(**READING | {"cut_characters": cut})
    return list(division.pieces(Reader(read), map(str, paths)))


def sides(found: list[Piece]) -> dict[str, str]:
    """The text of each split, one piece after the other."""
    return {split: "".join(one.text for one in found if one.split == split) for split in ("train", "validation")}


def test_no_piece_of_a_document_that_is_held_out_trains(tmp_path: Path) -> None:
    for cut in (None, 100):
        files = [[story(f"{file}.{number}", number % 60) for number in range(150)] for file in range(3)]
        found = pieces(tmp_path, files, cut, Division("hash", 0.2, LONGEST))
        documents = [text for texts in files for text in texts]
        assert sum(one.records for one in found) == len(documents)
        text = sides(found)
        held_out = [one for one in documents if one in text["validation"]]
        assert len(held_out) == pytest.approx(0.2 * len(documents), rel=0.3)
        for one in documents:
            whole = [split for split in text if one in text[split]]
            if len(one) <= LONGEST:
                assert len(whole) == 1
                unique = [line for line in one.split() if len(line) > 12]  # random numbers
                assert not any(number in text[split] for split in text if split not in whole for number in unique)
            trains, rest = split_document(one, hash_text(one), 0.2, LONGEST)  # whatever files and pieces there are
            assert trains in text["train"] and rest in text["validation"]


def test_ends_are_after_a_line_and_few_documents_hold_out_as_much_as_many() -> None:
    for count, words in ((1, 20_000), (11, 2000), (2000, 8)):
        share, total, held_out, texts = 0.1, 0, 0, 0
        for number in range(count):
            text = story(f"{count}.{number}", words)
            trains, rest = split_document(text, hash_text(text), share, LONGEST)
            assert trains + rest == text
            assert not (trains and rest) or len(text) > LONGEST  # a shorter one is whole
            assert not (trains and rest) or len(rest) >= LONGEST / 2
            total, held_out, texts = total + len(text), held_out + len(rest), texts + bool(rest)
        assert texts > 0 and held_out / total == pytest.approx(share, rel=0.5)
    # the end of a document begins after a line
    text = "x" * 3000 + " y" + "z" * 300 + "\nthe end\n" + "w" * 900
    trains, rest = split_document(text, bytes(16), 0.1, LONGEST)
    assert trains.endswith("\n") and rest == "the end\n" + "w" * 900
    trains, rest = split_document(text.replace("\n", "_"), bytes(16), 0.1, LONGEST)
    assert trains.endswith("_the") and rest.startswith(" end_w")
    trains, rest = split_document("v" * 5000, bytes(16), 0.1, LONGEST)
    assert (len(trains), len(rest)) == (4000, 1000)
    for place, begins in ((4400, 4401), (4600, 4000)):  # at most half of the end is cut away
        trains, _ = split_document("v" * place + "\n" + "v" * (4999 - place), bytes(16), 0.1, LONGEST)
        assert len(trains) == begins
    assert split_document(text, b"\xff" * 16, 0.1, LONGEST) == (text, "")


def hashes(folder: Path, texts: list[str], cut: int | None) -> frozenset[bytes]:
    """Of validation files that hold these texts."""
    (folder / "held").mkdir()
    shard = Shard("v", "validation", "", (str(write_records(folder / "held/v.jsonl", [{"text": t} for t in texts])),))
    (folder / "held/shards.jsonl").write_text(write_shards([shard]))
    flags = ["--shards", str(folder / "held/shards.jsonl"), "--reading", reading(cut_characters=cut)]
    hash_validation.main([*flags, "--out", str(folder / "held/hashes")])
    return split_hashes((folder / "held/hashes").read_bytes())


def test_training_leaves_out_documents_of_validation_files_and_their_pieces(tmp_path: Path) -> None:
    texts = [story(str(number), 100) for number in range(20)]
    header = "x" * 100  # a piece of a held-out document that begins others, too
    texts = [*texts[:10], *(header + text for text in texts[10:])]
    keys = hashes(tmp_path, texts[5:15], 100)
    division = Division("train", 0.0, LONGEST, keys)
    found = pieces(tmp_path, [texts], 100, division)
    assert sides(found) == {"train": "".join(texts[:5] + [text[100:] for text in texts[15:]]), "validation": ""}
    assert division.left_out > 10 and sum(one.records for one in found) == 10


def test_ends_are_counted_in_reports(tmp_path: Path, tokenizer: Path) -> None:
    texts = [story(str(number), 60 if number % 2 else 900) for number in range(40)]
    file = write_records(tmp_path / "raw.jsonl", [{"text": text} for text in texts])
    settings = {"domains": "c", "domain-field": "null", "held-out-characters": str(LONGEST)}
    reports = tokenize(tmp_path, [file], tokenizer, reading=reading(cut_characters=300), **settings)
    parts = [split_document(text, hash_text(text), 0.3, LONGEST) for text in texts]
    counts = {split: report["domains"]["c"] for split, report in reports.items()}
    assert counts["train"]["records"] == sum(bool(trains) for trains, _ in parts)
    assert counts["validation"]["records"] == sum(not trains for trains, _ in parts) > 0
    assert counts["validation"]["ends"] == sum(bool(trains and rest) for trains, rest in parts) > 0
    assert counts["train"]["documents"] > counts["train"]["records"] and counts["train"]["ends"] == 0
