"""The command of a trainer: split before it is filled, and refused where it cannot be."""

from bimix.training.command import FIELDS, fault, fill

VALUES = dict.fromkeys(FIELDS, 1) | {"mixture": "a b.json", "folder": "/c; rm -rf 'd"}


def test_a_value_is_one_word_whatever_is_in_it() -> None:
    words = fill("python 'my train.py' --data={mixture} --out {folder}/{seed} '{{x}}'", VALUES)
    assert words == ["python", "my train.py", "--data=a b.json", "--out", "/c; rm -rf 'd/1", "{x}"]


def test_a_command_that_cannot_be_filled_is_a_sentence() -> None:
    for command, sentence in (
        ("train {mixture} {folder} {sed}", "no field {sed}; there are mixture, folder, steps"),
        ("train {mixture}", "it never says {folder}: all runs would write to one place"),
        ("train {folder}", "it never says {mixture}"),
        ("train {mixture} {folder} 'open", "No closing quotation: close it"),
        ("train {mixture} {folder} {", "a brace that is meant as such is written twice"),
        ("train {mixture} {folder} {seed:03d}", "more than a name"),
        ("train {mixture} {folder} {seed.real}", "more than a name"),
        ("  ", "it has no word"),
    ):
        assert sentence in str(fault(command))
