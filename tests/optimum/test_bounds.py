"""The flags of what an optimum is asked for."""

import argparse

import pytest

from bimix.optimum.flags import add_bounds, add_run_tokens


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_bounds(parser)
    add_run_tokens(parser)
    return parser


def test_nothing_is_asked_for_without_a_flag(parser: argparse.ArgumentParser) -> None:
    asked = {"weights", "lower", "upper", "max_epochs", "tokens", "run_tokens"}
    assert vars(parser.parse_args([])) == dict.fromkeys(asked)


def test_the_tokens_of_a_run_are_a_number_or_none(parser: argparse.ArgumentParser) -> None:
    assert parser.parse_args(["--run-tokens", "819200"]).run_tokens == 819_200
    assert parser.parse_args(["--run-tokens", "none"]).run_tokens is None
    with pytest.raises(SystemExit):
        parser.parse_args(["--run-tokens", "many"])


def test_a_table_of_tokens_may_be_left_out(parser: argparse.ArgumentParser) -> None:
    given = parser.parse_args(["--max-epochs", "inf", "--tokens", "--lower", '{"web": 0.1}'])
    assert given.tokens is None and given.max_epochs == float("inf") and given.lower == '{"web": 0.1}'
