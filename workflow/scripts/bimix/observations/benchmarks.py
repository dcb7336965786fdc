"""lm_eval's results.json: the metrics of its tasks.

Under `results` each task has `metric,filter` and `metric_stderr,filter`, and `n-samples` the number
of its questions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from bimix.errors import InputError
from bimix.observations.metrics import ERROR_RATE
from bimix.observations.tables import few
from bimix.tables import read_json


class Metric(NamedTuple):
    """A metric of a task; `stderr` and `n` are None where lm_eval has none."""

    task: str
    metric: str
    value: float
    stderr: float | None
    n: int | None


def is_results(content: Mapping | list) -> bool:
    """Whether the content of a JSON file is lm_eval's."""
    return isinstance(content, dict) and isinstance(content.get("results"), dict) and "n-shot" in content


def metrics_of(content: Mapping) -> Iterator[Metric]:
    """All metrics of all tasks and groups, in their order; a filter `none` is left out of the name."""
    for task, values in content["results"].items():
        samples = content.get("n-samples", {}).get(task, {})
        n = samples.get("effective", values.get("sample_len"))
        for key, value in values.items():
            metric, comma, filtered = key.partition(",")
            if not comma or metric.endswith("_stderr") or not isinstance(value, float | int):
                continue
            stderr = values.get(f"{metric}_stderr,{filtered}")
            name = metric if filtered == "none" else key
            yield Metric(task, name, float(value), stderr if isinstance(stderr, float) else None, n)


def run_of(content: Mapping, path: Path) -> str:
    """The run that was asked: the folder of its model, or, where that is not named, of the file."""
    named = Path(str(content.get("model_name") or path.resolve().parent.name))
    return (named.parent if re.fullmatch(r"export|model|checkpoint-\d+", named.name) else named).name


def metrics_table(paths: Sequence[Path], runs: Mapping[str, dict] | None) -> tuple[pl.DataFrame, str]:
    """mixture (and what else `runs` says of a run), metric and value of all metrics of which lower
    is better, and a remark on the others. Errors: a file without results; no such metric.
    """
    rows, left = [], []
    for path in paths:
        content = read_json(path)
        if not is_results(content):
            raise InputError(f"{path} has no `results` of lm_eval: name its results*.json, or one table.")
        run = run_of(content, path)
        for one in metrics_of(content) if runs is None or run in runs else ():
            name, direction = f"{one.task}/{one.metric}", content.get("higher_is_better", {}).get(one.task, {})
            if direction.get(one.metric.partition(",")[0]) is False:
                rows.append((runs[run] if runs else {"mixture": run}) | {"metric": name, "value": one.value})
            else:
                left.append(name)
    remark = f"left out are {few(dict.fromkeys(left))}, of which more is better: {ERROR_RATE}." if left else ""
    if not rows:
        raise InputError(
            f"{paths[0]} has no metric of which less is better: {remark or '--runs names none of its runs.'}"
        )
    return pl.DataFrame(rows), remark
