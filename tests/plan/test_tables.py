"""Small JSON that users write, in a file or as a flag: what cannot be meant is refused."""

import json

import pytest

from bimix.errors import InputError, run
from bimix.optimum.objective import objective_block
from bimix.tables import read_json, read_numbers, read_size


def test_numbers_that_cannot_be_meant(tmp_path):
    given, infinite = "the JSON given", "the value of 'a' is inf: it must be a finite number"
    for text, words in (
        ('{"a": 0.1, "a": 0.5}', f"{given}: the key 'a' stands there twice in one object"),
        ('{"a": ' + "9" * 5000 + "}", f"{given}: {infinite}"),
        ('{"a": ' + "9" * 400 + "}", f"{given}: {infinite}"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", f"{given} is not valid JSON: its lists or objects lie too"),
        ('{"a": 0.1', f"{given} is not valid JSON"),
        ('{"a": NaN}', "the value of 'a' is nan"),
    ):
        path = tmp_path / "n.json"
        path.write_text(text)
        for source, said in ((text, words), (path, words.replace(given, str(path)))):
            with pytest.raises(InputError) as error:
                read_numbers(source)
            assert said in str(error.value)


def test_families_and_sizes_are_read_alike(tmp_path):
    with pytest.raises(InputError, match="--objective: the key 'a' stands there twice"):
        objective_block('{"families": {"a": ["x"], "a": ["y"]}}')
    (tmp_path / "r.json").write_text('{"parameters": ' + "9" * 5000 + ', "tokens": 1}')
    with pytest.raises(InputError, match="parameters is inf: it must be a finite number above 0"):
        read_size(tmp_path / "r.json")
    (tmp_path / "r.json").write_text("[1]")
    with pytest.raises(InputError, match="holds a list: a JSON object is needed"):
        read_json(tmp_path / "r.json")
    (tmp_path / "r.json").write_text(json.dumps({"a": 10**30}))
    assert read_json(tmp_path / "r.json") == {"a": 10**30}


def test_a_folder_that_may_not_be_written_to_is_a_sentence(capsys):
    def main():
        raise PermissionError(13, "Permission denied", "results/law.json")

    assert run(main) == 1
    assert capsys.readouterr().err.endswith("error: results/law.json: Permission denied.\n")

    def broken():
        raise OSError(5, "Input/output error", "results/law.json")

    with pytest.raises(OSError, match="Input/output"):
        run(broken)
