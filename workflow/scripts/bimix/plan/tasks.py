"""The files of the tasks that trained models answer."""


def task_files(config: dict, dataset: str) -> dict[str, dict]:
    """{task: kind, and the places of its items and shots}; generated tasks have no shots."""
    tasks = {}
    for name, task in config["datasets"][dataset]["downstream"]["tasks"].items():
        generated = {"items": f"results/{dataset}/downstream/tasks/{name}.jsonl", "shots": None}
        places = generated if "generate" in task else task
        tasks[name] = {key: places[key] for key in ("items", "shots")} | {"kind": task["kind"]}
    return tasks


def task_inputs(config: dict, dataset: str) -> list[str]:
    """The task files that lie on a disk: inputs of a job, which those far away are not."""
    places = [task[key] for task in task_files(config, dataset).values() for key in ("items", "shots")]
    return [place for place in places if isinstance(place, str) and "://" not in place]
