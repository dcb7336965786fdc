"""What sizes of files say of a corpus: no text, no row, epochs that no mixture keeps to."""

from pathlib import Path

import pytest
from made_configs import ROOT

from bimix.errors import InputError
from bimix.settings import complete, prepare
from bimix.settings.complete import expanded, with_defaults
from bimix.settings.disk import check_text
from bimix.settings.files import located, merged, over
from bimix.settings.ladder import Machine

DEFAULTS = merged([ROOT / "workflow/defaults.yaml"])
TRAIN = {"web": "web*.jsonl", "code": ["code.jsonl", "empty.jsonl"]}


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text of two domains, of about 300,000 tokens, on a machine with two cores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(complete, "seen_machine", lambda wanted, count: Machine("cpu", 2, 1))
    for name, size in (("web1", 600_000), ("web2", 0), ("code", 200_000), ("empty", 0)):
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * size)


def lines(train: object = None, **block: object) -> tuple[list[str], list[str]]:
    """Faults and remarks."""
    block = {"corpus": {"train": train or TRAIN}} | block
    config, _ = with_defaults(over(DEFAULTS, {"run": ["mine"], "datasets": {"mine": block}}))
    found = list(located(("datasets", "mine"), check_text(expanded(config), "mine")))
    return [str(one) for one in found if not one.remark], [str(one) for one in found if one.remark]


EMPTY = "0 bytes, so there is no text in it."


def test_files_without_text_are_named_and_a_domain_of_them_is_refused() -> None:
    faults, remarks = lines()
    assert faults == []
    assert remarks == [
        f"datasets/mine/corpus/train/web: web2.jsonl: {EMPTY}",
        f"datasets/mine/corpus/train/code: empty.jsonl: {EMPTY}",
    ]
    faults, _ = lines({"web": "web1.jsonl", "code": "empty.jsonl"})
    assert faults == [f"datasets/mine/corpus/train/code: empty.jsonl: {EMPTY}"]


@pytest.mark.parametrize(
    ("block", "fault", "remark"),
    [
        ({}, None, None),
        ({"sequence_length": 10_000}, None, "sequence_length: 10,000 tokens are a row, and of code the 0."),
        (
            {"sequence_length": 10**6},
            "sequence_length: 1,000,000 tokens are a row, and of code its text is about",
            None,
        ),
        ({"optimum": {"max_epochs": 100}}, None, None),
        ({"optimum": {"max_epochs": 1}}, None, "optimum/max_epochs: 1 epochs of all text are about 3"),
        ({"optimum": {"max_epochs": 0.001}}, "optimum/max_epochs: 0.001 epochs of all text are about 3", None),
        ({"optimum": {"max_epochs": 0.001, "step": 1}}, None, "of 2x32 to step 1 reads"),
    ],
)
def test_a_fault_is_what_ten_times_the_text_would_not_do_for_and_else_it_is_remarked(
    block: dict, fault: str | None, remark: str | None
) -> None:
    faults, remarks = lines({"web": "web1.jsonl", "code": "code.jsonl"}, **block)
    for sentence, found in ((fault, faults), (remark, remarks)):
        assert len(found) == (sentence is not None) and all(sentence in line for line in found), (faults, remarks)


def test_nothing_is_said_of_text_whose_size_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("http://host/code.jsonl\n")
    for far in ("http://host/code.jsonl", "@list"):
        train = {"web": "web1.jsonl", "code": far}
        assert lines(train, optimum={"max_epochs": 0.001}, sequence_length=10**6) == ([], [])


def test_a_call_stops_before_its_first_job_with_the_line_of_the_key(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(
        "run: [mine]\ndatasets:\n  mine:\n    corpus: {train: {web: web1.jsonl, code: code.jsonl}}\n"
        "    optimum:\n      max_epochs: 0.001\n"
    )

    def call(*words: str) -> prepare.Prepared:
        return prepare.prepare(merged([own]), prepare.Call(ROOT, f"{ROOT}/", [own], 1, {}, words))

    with pytest.raises(InputError, match=r"mine\.yaml:6: datasets/mine/optimum/max_epochs: 0\.001 epochs"):
        call()
    call("results/mine/tokenizer.json")  # needs no optimum
    (tmp_path / "code.jsonl").unlink()
    for words in ((), ("results/mine/tokenizer.json",)):
        said = 'mine.yaml:4: datasets/mine/corpus/train/code: "code.jsonl" cannot be found'
        if words:  # which may need no text: then Snakemake's own sentence follows
            assert any(said in remark for remark in call(*words).remarks)
        else:
            with pytest.raises(InputError, match=said):
                call()
    Path("results/mine/tokens").mkdir(parents=True)
    Path("results/mine/tokens/train.parquet").touch()
    assert not any("cannot be found" in remark for remark in call("results/mine/tokenizer.json").remarks)
