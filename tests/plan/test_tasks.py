"""The files of tasks: those on a disk are inputs, others are only named."""

from bimix.plan import tasks


def test_task_files_far_away_are_no_inputs() -> None:
    given = {
        "far": {"kind": "question", "items": "https://host/a.json", "shots": "near.jsonl"},
        "hub": {"kind": "last_word", "items": {"hub": "x/y", "file": "z"}, "shots": None},
        "made": {"kind": "question", "generate": {"items": 3}},
    }
    config = {"datasets": {"own": {"downstream": {"tasks": given}}}}
    made = "results/own/downstream/tasks/made.jsonl"
    found = tasks.task_files(config, "own")
    assert found["made"] == {"kind": "question", "items": made, "shots": None}
    assert found["hub"]["items"] == {"hub": "x/y", "file": "z"}
    assert tasks.task_inputs(config, "own") == ["near.jsonl", made]
