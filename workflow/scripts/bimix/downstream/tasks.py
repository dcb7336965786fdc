"""The tasks of one call, the models that answer them, and what decides whether an answer is done
already.
"""

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from tokenizers import Tokenizer

from bimix.addresses import hub_commit, masked
from bimix.corpus.encoders import Encode
from bimix.corpus.sources import BROKEN_STREAM, COMPRESSED, open_stream
from bimix.digests import digest_file
from bimix.downstream import answers, golds, prompts, questions
from bimix.downstream.answers import Task, build_task
from bimix.downstream.questions import Faults, Question, read_records, take_questions
from bimix.errors import InputError
from bimix.model import generation, likelihood, linear, transformer
from bimix.model.generation import generate, plan_batches
from bimix.model.likelihood import negative_log_likelihoods
from bimix.model.transformer import Transformer
from bimix.training.checkpoints import kept_weights, read_weights

# Their text decides what is written, too.
DECIDING = (
    *(answers, golds, prompts, questions, sys.modules[__name__]),
    *(generation, likelihood, linear, transformer),
)


def read_task(name: str, task: dict, seed: int, rejects: float, encode: Encode, room: int) -> Task:
    """The prompts of a task {kind, items, shots}, whose files `locate` has found.

    Without `shots` of its own, its other items are the examples.

    `seed` is that of the draw of the shots, `rejects` the share of records that may be no question,
    `room` the tokens of a prompt. Errors: as of `build_task` and `read_questions`.
    """
    faults = Faults(rejects)
    items = read_questions(task["items"], task["kind"], faults)
    shots = items if task.get("shots") is None else read_questions(task["shots"], task["kind"], faults)
    return build_task(name, task["kind"], items, shots, seed, encode, room, faults)


def locate(source: str | dict | None) -> str | None:
    """Where a file of questions is: here, at an address, or, of a data set of the hub, in the local
    cache.
    """
    return fetch(**source) if isinstance(source, dict) else source


def origin(source: str | dict | None, path: str | None) -> dict | None:
    """What says which questions were asked: the place, of a data set of the hub its commit, of a
    file its digest.
    """
    if path is None:
        return None
    if isinstance(source, dict):
        return {"revision": None} | source | {"commit": hub_commit(path), "digest": digest_file(Path(path))}
    return {"file": masked(source)} | ({} if "://" in source else {"digest": digest_file(Path(source))})


def read_questions(path: str, kind: str, faults: Faults) -> list[Question]:
    """The questions of one file, which lies here or at an address."""
    if "://" not in path and not Path(path).is_file():
        raise InputError(f"There is no task file {path}; set items and shots of the task under downstream.tasks.")
    with open_stream(path) as stream:
        try:
            raw = stream.read()
        except BROKEN_STREAM as error:
            raise InputError(f"{path}: the file breaks off or is damaged ({error}); fetch it again.") from error
    return list(take_questions(read_records(raw, re.sub(COMPRESSED, "", path)), path, kind, faults))


def fetch(hub: str, file: str, revision: str | None = None) -> str:
    """Path of one file of a data set of the hub at a branch, tag or commit (None: main).

    From the local cache where it is there.
    """
    try:
        return hf_hub_download(hub, file, repo_type="dataset", revision=revision)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        at = f" at {revision!r}" if revision else ""
        raise InputError(
            f"The hub gave no {file!r} of the data set {hub!r}{at} ({error}); check the task and the network, or fetch the"
            f" file by hand and name its path."
        ) from error


def find_weights(report: dict, weights: Path, state: Path, steps: Sequence[int]) -> dict[int, Path]:
    """Where the weights of each of `steps` lie: the last in `weights`, earlier ones in the folder
    `state`.

    `report` is run.json, which names the folder of its configuration there. Errors: a step whose
    weights were not kept.
    """
    last, own = report["recipe"]["steps"], state / report.get("state", "")
    places = {step: weights if step == last else kept_weights(own, step) for step in steps}
    missing = [str(step) for step, path in places.items() if not path.exists()]
    if missing:
        kept = sorted(int(path.stem.split("-")[1]) for path in kept_weights(own, 0).parent.glob("step-*"))
        raise InputError(
            f"{own} has no weights of step {', '.join(missing)}, only of {', '.join(map(str, [*kept, last]))}: the"
            f" run ended before they were asked for. Take those steps out of downstream.steps, or move that folder away"
            f" to train anew."
        )
    return places


def what_decides(*settings: object) -> list[object]:
    """The settings of a call, and the text of the modules, on which the answers to given prompts
    depend.
    """
    return [*settings, *map(inspect.getsource, DECIDING)]


def load_model(path: Path, tokenizer: Tokenizer, place: Path, precision: str) -> Transformer:
    """The model in a file of weights, in fp32 or `bf16`.

    Errors: the tokenizer, read from `place`, has other ids.
    """
    weights, shape = read_weights(path, "pt")
    if tokenizer.get_vocab_size() != shape.vocabulary:
        raise InputError(
            f"{place} has {tokenizer.get_vocab_size()} ids but the model in {path} was trained on"
            f" {shape.vocabulary}; give the tokenizer of that run."
        )
    model = Transformer(shape)
    model.load_state_dict(weights)
    return model.to(torch.bfloat16) if precision == "bf16" else model


def answer(
    accelerator: Accelerator,
    model: Transformer,
    task: Task,
    stops: list[int],
    new_tokens: int,
    cache_tokens: int,
    graphs: bool,
) -> list[list[int]]:
    """Ids of the continuation of each prompt, `new_tokens` at most; the batches keep `cache_tokens`
    keys and values.

    Processes take batches in turn, which are the same however many processes there are.
    """
    prompts = [prompt.ids for prompt in task.prompts]
    batches = plan_batches([len(ids) for ids in prompts], new_tokens, cache_tokens)
    own = batches[accelerator.process_index :: accelerator.num_processes]
    written = np.zeros((len(prompts), new_tokens), dtype=np.int64)  # 0: no token, others one higher
    for position, ids in generate(model, prompts, own, new_tokens, stops, graphs):
        written[position, : len(ids)] = np.array(ids) + 1
    together = accelerator.reduce(torch.from_numpy(written).to(accelerator.device), reduction="sum")
    return [[token - 1 for token in row if token] for row in together.tolist()]


def score(
    accelerator: Accelerator, model: Transformer, task: Task, length: int, cache_tokens: int
) -> list[list[float]]:
    """Negative log-likelihoods, in nats, of each prompt's golds after it.

    Batches have `cache_tokens` at most.

    The model sees `length` tokens: before an answer of many of them the prompt is cut further.
    Processes take batches in turn, as in `answer`.
    """
    pairs = [(prompt.ids[-(length - len(gold.ids)) :], gold.ids) for prompt in task.prompts for gold in prompt.golds]
    batches = plan_batches([len(before) + len(ids) for before, ids in pairs], 0, cache_tokens)
    own = batches[accelerator.process_index :: accelerator.num_processes]
    found = np.zeros(len(pairs))
    for position, nats in negative_log_likelihoods(model, pairs, own):
        found[position] = nats
    together = iter(accelerator.reduce(torch.from_numpy(found).to(accelerator.device), reduction="sum").tolist())
    return [[next(together) for _ in prompt.golds] for prompt in task.prompts]
