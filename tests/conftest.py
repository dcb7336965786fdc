"""A tiny tokenised corpus, made once: three Markov domains that can be learnt."""

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from file_scheduling import pytest_xdist_make_scheduler  # noqa: F401  a hook
from forked import pytest_configure  # noqa: F401  a hook
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from bimix.digests import digest_file

# The processes share the cores, and threads that wait for one another would take three times the time. Nor may the
# OpenMP of LightGBM and scikit-learn have threads beside that of torch in one process.
os.environ["OMP_NUM_THREADS"] = "1"

VOCABULARY = 40
ROW_TOKENS = 16
TRAIN_ROWS = {"bees": 50, "cats": 30, "dogs": 20}
VALIDATION_ROWS = 5
# Files that take more than a hundredth of all computing, the longest first: begun last, one would
# be waited for alone. A name that several folders have is that of each.
LONGEST = [
    *("slurm", "small_run", "crashes", "workflow", "frozen_plans", "report", "pages", "verification", "doctor"),
    *("observed_workflow", "reweighting", "compiled", "moved_settings", "answer_questions", "pretraining"),
    *("command", "two_nodes", "elsewhere", "trainer_runs", "changed_text", "launch_training", "state", "benchmarks"),
]


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are cores: the tests on a cluster mostly wait for Slurm."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {f"test_{name}": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.stem, len(ranks)))


def markov_rows(seed: int, rows: int) -> np.ndarray:
    """Rows of a random Markov chain over the vocabulary, uint16 (rows, ROW_TOKENS)."""
    chain = np.random.default_rng(seed).dirichlet(np.full(VOCABULARY, 0.05), size=VOCABULARY).cumsum(axis=1)
    draws = np.random.default_rng(seed + 1000 * rows).random((rows, ROW_TOKENS))
    tokens = np.zeros((rows, ROW_TOKENS), dtype=np.uint16)
    for position in range(1, ROW_TOKENS):
        tokens[:, position] = (chain[tokens[:, position - 1]] < draws[:, position : position + 1]).sum(axis=1)
    return np.minimum(tokens, VOCABULARY - 1).astype(np.uint16)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.parquet, validation.parquet, tokenizer.json and mixture.json."""
    folder = tmp_path_factory.mktemp("corpus")
    for split in ("train", "validation"):
        lines = []
        for seed, (domain, rows) in enumerate(TRAIN_ROWS.items()):
            count = rows if split == "train" else VALIDATION_ROWS
            path = folder / f"{split}.{domain}.bin"
            markov_rows(seed, count).tofile(path)
            lines.append((domain, str(path), count, count * ROW_TOKENS, count, "uint16", digest_file(path)))
        columns = ["domain", "path", "rows", "tokens", "documents", "dtype", "digest"]
        pl.DataFrame(lines, columns, orient="row").write_parquet(folder / f"{split}.parquet")
    words = {f"w{number}": number for number in range(VOCABULARY)}
    Tokenizer(WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))
    (folder / "mixture.json").write_text(json.dumps({"bees": 0.5, "cats": 0.3, "dogs": 0.2}))
    return folder
