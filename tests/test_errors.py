"""What may be a secret is hidden wherever an address is printed or kept."""

import sys

from bimix.errors import InputError, masked, run


def test_an_address_loses_user_password_and_query(capsys, monkeypatch) -> None:
    for text, hidden in (
        ("https://me:secret@host/a.jsonl: the file", "https://***@host/a.jsonl: the file"),
        ("'https://host/a.jsonl?token=secret' is", "'https://host/a.jsonl?***' is"),
        ("(s3://key:se/cret@bucket/a?x=1&y=2, hf://datasets/a/b)", "(s3://***@bucket/a?*** hf://datasets/a/b)"),
        ("https://host:8080/a@b.jsonl", "https://host:8080/a@b.jsonl"),
        ("s3://bucket/a@b.jsonl", "s3://bucket/a@b.jsonl"),
        ("data/a?b@c.jsonl", "data/a?b@c.jsonl"),
    ):
        assert masked(text) == hidden

    def main():
        raise InputError("https://me:secret@host/a?token=secret cannot be opened.")

    monkeypatch.setattr(sys, "argv", ["script.py"])
    assert run(main) == 1
    assert capsys.readouterr().err == "script.py: error: https://***@host/a?*** cannot be opened.\n"
