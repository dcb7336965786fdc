"""The size ladder: parameters are the model's; text, time and published formulas hold."""

import dataclasses
import itertools
import math

import pytest

from bimix.settings import ladder
from bimix.settings.ladder import RUNGS, Choice, choose

LAPTOP = {"tokens": 1e6, "least": 2e5, "domains": 3, "flops": 3.6e13, "fitted": 5, "compared": 5}


def spent(choice: Choice) -> float:
    """FLOPs of ten runs by LAPTOP on 1,024 ids and rows of 128, without evaluations."""
    shapes = [rung.shape(1024) for rung in (choice.larger, choice.proxy)]
    return choice.tokens(128) * sum(5 * shape.flops_per_token(128) for shape in shapes)


def test_each_rung_is_some_times_larger() -> None:
    for smaller, larger in itertools.pairwise(RUNGS):
        for words in (512, 1000, 32768):
            assert 1.2 < larger.shape(words).parameters / smaller.shape(words).parameters < 4


def test_a_choice_keeps_to_text_and_time() -> None:
    for tokens, flops, least in itertools.product((0, 1e5, 1e12), (1e12, 1e23), (0.001, 0.3)):
        bounds = LAPTOP | {"tokens": tokens, "least": tokens * least, "flops": flops}
        choice = choose(1024, 128, **bounds)
        run, smallest = choice.tokens(128), 10 * 128  # ten steps of a row are the least run there is
        assert run <= max(4 * tokens, smallest)
        assert run <= max(16 * 3 * bounds["least"], smallest)
        shortest = dataclasses.replace(choice, steps=10, batch_rows=1)
        assert spent(choice) <= max(flops, spent(shortest))
        assert run <= 20 * choice.larger.shape(1024).parameters
        assert choice.steps % 10 == 0 and choice.steps >= 10 and choice.batch_rows >= 1
        assert RUNGS.index(choice.proxy) < RUNGS.index(choice.larger)
        assert 0 < choice.larger_rate <= choice.proxy_rate <= 3e-3
        assert 8 <= choice.validation_rows <= 512


def test_more_text_and_time_never_choose_a_smaller_model() -> None:
    def larger(tokens: float, flops: float) -> int:
        bounds = LAPTOP | {"tokens": tokens, "least": tokens / 5, "flops": flops}
        return RUNGS.index(choose(1024, 128, **bounds).larger)

    powers = [10.0**power for power in range(5, 13)]
    by_text = [larger(tokens, 1e22) for tokens in powers]
    by_time = [larger(1e12, 10.0**power) for power in range(12, 24)]
    assert by_text == sorted(by_text) and by_time == sorted(by_time)
    assert by_text[0] == by_time[0] == 1 and by_text[-1] == by_time[-1] == len(RUNGS) - 1


def test_where_there_is_enough_a_run_has_twenty_tokens_a_parameter() -> None:
    choice = choose(32768, 1024, **(LAPTOP | {"tokens": 1e12, "least": 1e11, "flops": 1e19}))
    shape = choice.larger.shape(32768)
    assert choice.tokens(1024) == pytest.approx(20 * shape.parameters, rel=0.05)
    assert choice.proxy.shape(32768).parameters == pytest.approx(shape.parameters / 8, rel=0.5)
    compute = choice.tokens(1024) * shape.flops_per_token(1024)
    assert choice.batch_rows * 1024 == pytest.approx(0.2920 * compute**0.3271, rel=0.42)  # a power of two of rows


def test_rates_are_those_of_the_published_fit() -> None:
    assert ladder.rate(1e20) == pytest.approx(0.3118 / math.sqrt(1e5), rel=0.03)  # 1e20^0.125 = 1e2.5
    assert ladder.rate(1e12) == 3e-3


def test_vocabulary_and_validation_fit_the_text() -> None:
    assert [ladder.vocabulary_size(text, "cpu") for text in (0, 10**5, 2 * 10**6, 10**9)] == [512, 512, 1024, 2048]
    assert ladder.vocabulary_size(10**9, "gpu") == 16384
    assert ladder.validation_share(10**9) == 0.01
    assert ladder.validation_share(2 * 10**6) == 0.03
    assert ladder.validation_share(0) == 0.1
    lengths = {"web": 4 * 10**6, "books": 10**6, "none": 0}
    longest = {"web": 20_000, "books": 6000, "none": 1000}
    assert ladder.longest_held_out(lengths, 3, 0.06) == longest
    assert ladder.longest_held_out({"": 8 * 10**6}, 2, 0.06) == longest["books"]
    assert ladder.smallest({"": 800}, 2) == 100 and ladder.smallest({"a": 3, "b": 2}, 2) == 2
