"""Greedy continuations against transformers' generate, prompt by prompt, in any batch."""

import json

import numpy as np
import pytest
import torch
import transformers  # its models are imported where they are used: they bring scikit-learn
from safetensors.numpy import save_file

from bimix.model import generation
from bimix.model.export import neox_config, neox_weights
from bimix.model.generation import TIE, continue_batch, generate, plan_batches, stop_ids
from bimix.model.transformer import Shape, Transformer

SHAPE = Shape(layers=3, width=64, heads=4, vocabulary=270)
NEW = 20


@pytest.fixture(scope="module")
def model() -> Transformer:
    """A random model whose answers are many: what the blocks add outweighs the
    embedding, and attention is sharp.

    Where the embedding prevails, the tied head answers with the last token over and over,
    whatever attention does.
    """
    torch.manual_seed(0)
    made = Transformer(SHAPE)
    for name, weight in made.blocks.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(weight, std=0.02)
        elif not name.endswith("norm.weight"):
            torch.nn.init.normal_(weight, std=0.3 if "query_key_value" in name else 0.2)
    return made


@pytest.fixture(scope="module")
def prompts() -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    return [draw.integers(0, SHAPE.vocabulary, length).astype(np.uint32) for length in draw.integers(1, 90, 30)]


def answers(model: Transformer, prompts: list[np.ndarray], stops: list[int], cache_tokens: int) -> dict[int, list[int]]:
    return dict(generate(model, prompts, plan_batches([len(ids) for ids in prompts], NEW, cache_tokens), NEW, stops))


def test_the_answers_are_many(model: Transformer, prompts: list[np.ndarray]) -> None:
    """Else the tests below would compare one token with itself."""
    written = list(answers(model, prompts, [], 800).values())
    assert len({tuple(ids) for ids in written}) == len(prompts)
    assert len({token for ids in written for token in ids}) > 100
    assert sum(len(set(ids)) for ids in written) > 10 * len(prompts)


def test_tokens_are_those_of_transformers_prompt_by_prompt(model, prompts, tmp_path) -> None:
    weights = {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    save_file(neox_weights(weights, SHAPE), tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(neox_config(SHAPE, 128, 0)))
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    free = answers(model, prompts, [], 800)
    settings = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
    for stops in ([], sorted({ids[5] for ids in free.values()})[:8]):
        own, lengths = answers(model, prompts, stops, 800), set()
        settings["eos_token_id"] = stops or [SHAPE.vocabulary]
        for position, prompt in enumerate(prompts):
            row = torch.from_numpy(prompt.astype(np.int64))[None]
            written = peer.generate(row, attention_mask=torch.ones_like(row), **settings)[0, len(prompt) :].tolist()
            assert own[position] == written
            lengths.add(len(written))
        assert (lengths == {NEW}) != bool(stops)


def test_neither_order_nor_size_of_batches_changes_an_answer(model: Transformer, prompts: list[np.ndarray]) -> None:
    alone = answers(model, prompts, [0, 5], 1)
    for cache_tokens in (110, 500, 10_000):
        assert answers(model, prompts, [0, 5], cache_tokens) == alone
    backwards = answers(model, prompts[::-1], [0, 5], 700)
    assert [backwards[len(prompts) - 1 - position] for position in range(len(prompts))] == [
        alone[position] for position in range(len(prompts))
    ]


def test_what_rounding_could_decide_is_computed_alone(prompts: list[np.ndarray], monkeypatch) -> None:
    torch.manual_seed(0)
    tied = Transformer(SHAPE)
    tied.embedding.weight.data[1::2] = tied.embedding.weight.data[::2]  # every id has a twin with the same score
    sizes = []
    one_batch = generation.continue_batch

    def counted(model: Transformer, some: list[np.ndarray], *rest: object) -> list:
        sizes.append(len(some))
        return one_batch(model, some, *rest)

    monkeypatch.setattr(generation, "continue_batch", counted)
    answers(tied, prompts, [], 10_000)
    assert sizes == [30] + [1] * 30


def test_answers_are_over_at_a_line_end_and_batches_hold_all_prompts_once() -> None:
    lengths = np.random.default_rng(1).integers(1, 300, 500).tolist()
    batches = plan_batches(lengths, NEW, 2000)
    assert sorted(position for batch in batches for position in batch) == list(range(500))
    longest = [max(lengths[position] for position in batch) for batch in batches]
    assert all(len(batch) * (long + NEW) <= 2000 for batch, long in zip(batches, longest, strict=True))
    assert longest == sorted(longest, reverse=True)
    assert [len(batch) for batch in plan_batches([50, 40], NEW, 1)] == [1, 1]
    # they fill their room to the last token
    assert plan_batches([5, 5, 5, 5], 5, 20) == [[0, 1], [2, 3]]
    assert plan_batches([5, 5, 5, 5], 5, 19) == [[0], [1], [2], [3]]
    assert plan_batches([1, 9, 5], 1, 12) == [[1], [2, 0]]
    assert plan_batches([], 5, 100) == []
    # an answer is over at a line end or the end of text
    texts = ["<end>", "a", "\n", "b\n", " c", "\n\n"]
    assert stop_ids(lambda ids: texts[ids[0]], len(texts), 0) == [0, 2, 3, 5]


def test_no_step_is_computed_after_the_last_stop(model: Transformer, prompts: list[np.ndarray], monkeypatch) -> None:
    (written,) = answers(model, prompts[:1], [], 1).values()
    last = next(place for place in range(3, NEW) if written[place] not in written[:place])
    steps, real = [], generation.State.advance

    def counted(state: generation.State) -> torch.Tensor:
        steps.append(state.positions.tolist())
        return real(state)

    monkeypatch.setattr(generation.State, "advance", counted)
    ((ids, _),) = continue_batch(model, prompts[:1], NEW, torch.tensor([written[last]]), False)
    # the token after the prompt needs no step, and none follows the stop
    assert ids == written[: last + 1] and steps == [[len(prompts[0]) + place] for place in range(last)]


def test_a_choice_within_rounding_is_a_tie(model: Transformer, monkeypatch) -> None:
    """Scores of one step, made by hand; the second step's are clear, or come after the end."""
    for gap, tied in ((0.5, True), (2.0, False)):
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
            found = continue_batch(model, [np.array([3, 7, 11]), np.array([20])], 2, torch.tensor([9, 6]), False)
            return [ids for ids, _ in found], [was for _, was in found]

        assert scripted(near, clear) == ([[6], [4, 4]], [tied, False])
        # the first has ended with 6 before its scores come near each other
        over = clear.clone()
        over[0, 6] = 2.0
        assert scripted(over, near) == ([[6], [4, 4]], [False, False])
        assert scripted(clear, near) == ([[4, 6], [4, 4]], [tied, False])
