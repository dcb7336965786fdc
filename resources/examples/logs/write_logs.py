"""Write the runs of ../own_losses as other tools would have logged them: the same losses in each tool's own form.

../own_losses/{losses,mixtures}.csv -> wandb/, tensorboard/, trainer/, mixtures.csv, beside this script

It needs envs/requirements-test.txt: torch's SummaryWriter writes the event files, transformers the trainer_state.json.
A panel of wandb has a column `run - metric` for each line, with its least and largest value.
"""

import csv
from pathlib import Path

FOLDER = Path(__file__).parent
OWN = FOLDER.parent / "own_losses"
HOUR = 1_760_000_000.0  # seconds, when the first run began


def main() -> None:
    proportions, losses = read()
    write_wide(FOLDER / "mixtures.csv", "mixture", proportions)
    write_panels(losses)
    write_events(losses)
    write_states(losses)


def read() -> tuple[dict, dict]:
    """{run: {domain: proportion}} and {run: {step: {domain: loss}}}, the numbers as they are spelled."""
    proportions: dict[str, dict[str, str]] = {}
    losses: dict[str, dict[int, dict[str, str]]] = {}
    with (OWN / "mixtures.csv").open() as file:
        for row in csv.DictReader(file):
            proportions.setdefault(row["mixture"], {})[row["domain"]] = row["proportion"]
    with (OWN / "losses.csv").open() as file:
        for row in csv.DictReader(file):
            losses.setdefault(row["mixture"], {}).setdefault(int(row["step"]), {})[row["domain"]] = row["loss"]
    return proportions, losses


def write_wide(path: Path, name: str, table: dict[str, dict[str, str]]) -> None:
    columns = list(next(iter(table.values())))
    write(path, [[name, *columns], *([run, *(row[column] for column in columns)] for run, row in table.items())])


def write_panels(losses: dict) -> None:
    """A panel for each metric, of all runs, as its menu exports it: all cells in quotes."""
    steps = list(next(iter(losses.values())))
    for domain in next(iter(losses.values()))[steps[0]]:
        ends = ("", "__MIN", "__MAX")
        header = ["Step", *(f"{run} - eval/{domain}/loss{end}" for run in losses for end in ends)]
        rows = [[step, *(losses[run][step][domain] for run in losses for _ in ends)] for step in steps]
        write(FOLDER / "wandb" / f"{domain}.csv", [header, *rows], csv.QUOTE_ALL)


def write_events(losses: dict) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for run, steps in losses.items():
        folder = FOLDER / "tensorboard" / run
        with SummaryWriter(str(folder)) as writer:
            for step, row in steps.items():
                for domain, loss in row.items():
                    writer.add_scalar(f"eval/{domain}/loss", float(loss), step, walltime=HOUR + step)
        (written,) = folder.glob("*tfevents*")
        written.rename(folder / "events.out.tfevents.0")  # its own name has the machine's


def write_states(losses: dict) -> None:
    from transformers import TrainerState

    for run, steps in losses.items():
        log: list[dict[str, float]] = []
        for step, row in steps.items():
            log.append({"epoch": step / max(steps), "learning_rate": 0.001, "loss": 3.0, "step": step})
            log += [
                {f"eval_{domain}_loss": float(loss), f"eval_{domain}_runtime": 1.0, "step": step}
                for domain, loss in row.items()
            ]
        folder = FOLDER / "trainer" / run
        folder.mkdir(parents=True, exist_ok=True)
        TrainerState(global_step=max(steps), max_steps=max(steps), log_history=log).save_to_json(
            str(folder / "trainer_state.json")
        )


def write(path: Path, rows: list[list], quoting: int = csv.QUOTE_MINIMAL) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n", quoting=quoting).writerows(rows)


if __name__ == "__main__":
    main()
