"""Greedy continuations against scores computed anew for every token: where they end, how much is
computed, which choices are ties.
"""

import numpy as np
import pytest
import torch

from bimix.model import generation
from bimix.model.generation import TIE, begin, continue_batch, generate, plan_batches
from bimix.model.transformer import Shape, Transformer

SHAPE = Shape(layers=3, width=64, heads=4, vocabulary=270)


@pytest.fixture(scope="module")
def model() -> Transformer:
    """As in test_generation.py: what the blocks add outweighs the embedding, so that answers are
    many.
    """
    torch.manual_seed(0)
    made = Transformer(SHAPE)
    for name, weight in made.blocks.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.02)
        elif not name.endswith("norm.weight"):
            torch.nn.init.normal_(weight, std=0.3 if "query_key_value" in name else 0.2)
    return made


PROMPTS = [np.array([3, 7, 11], dtype=np.uint32), np.array([20], dtype=np.uint32), np.arange(9, dtype=np.uint32)]


def anew(model: Transformer, prompt: np.ndarray, count: int) -> list[int]:
    rows = torch.from_numpy(prompt.astype(np.int64))[None]
    with torch.no_grad():
        for _ in range(count):
            rows = torch.cat((rows, model.logits(rows)[:, -1, : SHAPE.vocabulary].argmax(-1, keepdim=True)), dim=1)
    return rows[0, len(prompt) :].tolist()


def test_a_batch_writes_what_each_prompt_would_alone(model: Transformer) -> None:
    wanted = [anew(model, prompt, 6) for prompt in PROMPTS]
    assert len({tuple(ids) for ids in wanted}) == 3 and len({token for ids in wanted for token in ids}) > 3
    found = continue_batch(model, PROMPTS, 6, torch.tensor([999]), False)
    assert [ids for ids, _ in found] == wanted and not any(tied for _, tied in found)
    by_place = dict(generate(model, PROMPTS, [[2, 0], [1]], 6, []))
    assert by_place == {place: wanted[place] for place in range(3)}


def test_a_model_of_one_layer_writes_as_well() -> None:
    torch.manual_seed(1)
    small = Transformer(Shape(layers=1, width=16, heads=2, vocabulary=30))
    for weight in small.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    wanted = [anew(small, prompt, 4) for prompt in PROMPTS]
    assert [ids for ids, _ in continue_batch(small, PROMPTS, 4, torch.tensor([999]), False)] == wanted


def test_an_answer_ends_with_its_first_stop(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [anew(model, prompt, 6) for prompt in PROMPTS]
    most = max(range(3), key=lambda number: len(set(wanted[number])))
    last = next(place for place in range(1, 6) if wanted[most][place] not in wanted[most][:place])
    stop, alone, length = wanted[most][last], PROMPTS[most : most + 1], len(PROMPTS[most])
    ends = [ids.index(stop) + 1 if stop in ids else 6 for ids in wanted]
    found = continue_batch(model, PROMPTS, 6, torch.tensor([stop]), False)
    assert [ids for ids, _ in found] == [ids[:end] for ids, end in zip(wanted, ends, strict=True)]
    steps, real = [], generation.State.advance

    def counted(state: generation.State) -> torch.Tensor:
        steps.append(state.positions.tolist())
        return real(state)

    monkeypatch.setattr(generation.State, "advance", counted)
    ((ids, _),) = continue_batch(model, alone, 6, torch.tensor([stop]), False)
    # the token after the prompt needs no step, and none follows the stop
    assert len(ids) == last + 1 and steps == [[length + place] for place in range(last)]
    steps.clear()
    continue_batch(model, alone, 6, torch.tensor([999]), False)
    assert steps == [[length + place] for place in range(5)]


def test_scores_after_the_prompts_are_of_their_last_tokens(model: Transformer) -> None:
    rows = torch.zeros(3, 9, dtype=torch.long)
    for row, prompt in zip(rows, PROMPTS, strict=True):
        row[: len(prompt)] = torch.from_numpy(prompt.astype(np.int64))
    with torch.no_grad():
        state, scores = begin(model, rows, torch.tensor([3, 1, 9]), 4)
        for prompt, own in zip(PROMPTS, scores, strict=True):
            alone = model.logits(torch.from_numpy(prompt.astype(np.int64))[None])[0, -1, : SHAPE.vocabulary]
            torch.testing.assert_close(own, alone, rtol=1e-4, atol=1e-4)
    assert scores.shape == (3, SHAPE.vocabulary) and state.positions.tolist() == [3, 1, 9]
    assert len(state.keys) == 3 and state.keys[0].shape == (3, 4, 13, 16)


@pytest.mark.parametrize(("gap", "tied"), [(0.5, True), (2.0, False)])
def test_a_choice_within_rounding_is_a_tie(model: Transformer, monkeypatch, gap: float, tied: bool) -> None:
    """Scores of one step, made by hand; the second step's are clear, or come after the end."""
    clear = torch.zeros(2, SHAPE.vocabulary)
    clear[:, 4] = 1.0
    near = clear.clone()
    near[0, 5] = -8.0
    near[0, [6, 7]] = torch.tensor([8.0, 8.0 - 8 * gap * TIE])

    def scripted(first: torch.Tensor, second: torch.Tensor):
        class State:
            tokens, positions = torch.zeros(2, dtype=torch.long), torch.zeros(2, dtype=torch.long)

            def advance(self) -> torch.Tensor:
                return second

        monkeypatch.setattr(generation, "begin", lambda *_: (State(), first))
        found = continue_batch(model, PROMPTS[:2], 2, torch.tensor([9, 6]), False)
        return [ids for ids, _ in found], [was for _, was in found]

    assert scripted(near, clear) == ([[6], [4, 4]], [tied, False])
    # the first has ended with 6 before its scores come near each other
    over = clear.clone()
    over[0, 6] = 2.0
    assert scripted(over, near) == ([[6], [4, 4]], [False, False])
    assert scripted(clear, near) == ([[4, 6], [4, 4]], [tied, False])


def test_batches_fill_their_room_to_the_last_token() -> None:
    assert plan_batches([5, 5, 5, 5], 5, 20) == [[0, 1], [2, 3]]
    assert plan_batches([5, 5, 5, 5], 5, 19) == [[0], [1], [2], [3]]
    assert plan_batches([1, 9, 5], 1, 12) == [[1], [2, 0]]
    assert plan_batches([], 5, 100) == []
