"""The files that tasks of lm_eval read: what is included, groups, data near and far."""

from pathlib import Path

import pytest
from refusals import refused

from bimix.corpus.tasks import OWN, task_files, task_folders


def test_a_task_reads_what_it_includes_its_code_and_its_data(tmp_path: Path) -> None:
    (tmp_path / "_shared").write_text(
        "process_docs: !function code.read\ndataset_kwargs: {data_files: {test: old.jsonl}}\n"
    )
    (tmp_path / "code.py").touch()
    data = "{data_dir: data, data_files: {test: [a.jsonl, hf://far/b.jsonl], train: c.jsonl}}"
    (tmp_path / "one.yaml").write_text(f"task: one\ninclude: _shared\ndataset_kwargs: {data}\n")
    (tmp_path / "two.yaml").write_text("task: two\ninclude: [_shared]\n")
    (tmp_path / "both.yaml").write_text("group: both\ntask: [one, {task: two}, arc_easy]\n")
    own = [str(tmp_path / name) for name in ("one.yaml", "_shared", "code.py")]
    found = task_files(["one", "two", "both", "arc_easy"], [str(tmp_path)])
    assert found["one"] == [*own, "data/a.jsonl", "hf://far/b.jsonl", "data/c.jsonl"]
    assert found["two"][-1] == "old.jsonl" and set(found["both"]) >= {*found["one"], *found["two"]}
    assert "arc_easy" not in found


def test_the_papers_tasks_are_always_there_and_names_of_the_user_win(tmp_path: Path) -> None:
    names = ["webquestions", "triviaqa", "lambada_last_word"]
    names += [f"{name}_bits" for name in names]
    found = task_files(names, [str(OWN)])
    assert list(found) == names
    assert {path for paths in found.values() for path in paths if path.startswith("data/qa/")} == {
        *(f"data/qa/{name}.jsonl" for name in ("webquestions_train", "webquestions_test", "lambada_test")),
        *(f"data/qa/{name}.json" for name in ("triviaqa_train", "triviaqa_dev")),
    }
    (tmp_path / "mine.yaml").write_text("{task: triviaqa, dataset_kwargs: {data_files: mine.jsonl}}")
    assert task_files(["triviaqa"], task_folders(str(tmp_path)))["triviaqa"][-1] == "mine.jsonl"


@pytest.mark.parametrize("text", ["task: [", "- a\n", "include: none\ntask: a\n"])
def test_what_is_no_task_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    refused("is no task file of lm_eval", task_files, ["a"], [str(tmp_path)])
