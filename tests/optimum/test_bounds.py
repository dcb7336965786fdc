"""Flags of an optimum's bounds and run."""

import pytest

from bimix.optimum.flags import asked_tokens, note_unlimited, run_tokens_of


def test_domains_without_a_count_are_named_where_counts_are_used(capsys: pytest.CaptureFixture) -> None:
    fitted = {"law": "bimix", "domains": ["web", "code", "law"]}
    for tokens, run_tokens in ((None, 1e9), ({"web": 1e9}, None), ({"web": 1, "code": 2, "law": 3}, 1e9)):
        note_unlimited(fitted, tokens, run_tokens)
    assert capsys.readouterr() == ("", "")
    note_unlimited(fitted, {"code": 1e9}, 1e9)
    said, warned = capsys.readouterr()
    assert said == "" and warned == "--tokens does not name web, law: taken to be never repeated.\n"


def test_tokens_that_no_epochs_follow_from_are_said_where_the_law_reads_them(capsys: pytest.CaptureFixture) -> None:
    note_unlimited({"law": "transfer", "domains": ["web"]}, {"web": 1e9}, None)
    assert "--run-tokens): no text is taken to be repeated" in capsys.readouterr().err


def test_a_run_trains_on_what_is_given_or_on_its_steps_of_the_fitted_runs() -> None:
    fitted = {"tokens_per_step": 500.0}
    assert run_tokens_of(fitted, None, 40) == 20_000
    assert run_tokens_of(fitted, 7e9, 40) == run_tokens_of({}, 7e9, None) == 7e9
    assert run_tokens_of(fitted, None, None) is None
    assert run_tokens_of({}, None, 40) is None and run_tokens_of({"tokens_per_step": None}, None, 40) is None
    # a law over sizes is asked for the tokens of its own run
    sized = {"rows": "all", "tokens_per_step": 500.0, "coefficients": {"web": {"run": {"tokens": 9e6}}}}
    assert asked_tokens(sized, None, 40, None) == 9e6
    assert asked_tokens(sized, 7e9, 40, None) == asked_tokens(sized, 7e9, 40, 1e8) == 7e9
    assert asked_tokens(sized, None, 40, 1e8) is None  # another size: its tokens were not said
    assert asked_tokens({"tokens_per_step": 500.0}, None, 40, None) == 20_000
