"""The trainings of DoReMi, round after round, and of DoGE: their folders and what they end with."""

from collections.abc import Callable

# The size of DoReMi's last move of a proportion in a round, by its number from 1.
Moved = Callable[[int], float]


def round_reference(config: dict, dataset: str, round: str) -> str:
    """The mixture that a round of DoReMi, numbered from 1, is measured against."""
    before = int(round) - 1
    return f"doremi_round{before}" if before else config["datasets"][dataset]["reweighting"]["reference"]


def last_round(config: dict, dataset: str, moved: Moved) -> int:
    """The number of DoReMi's last round: the first that has settled, else the most allowed."""
    doremi = config["datasets"][dataset]["reweighting"]["doremi"]
    for number in range(1, doremi["rounds"]):
        if moved(number) < doremi["settled"]:
            return number
    return doremi["rounds"]


def reweighting_folders(config: dict, dataset: str, reweighted: str, moved: Moved) -> list[str]:
    """Folders of the trainings behind a mixture: of `doremi` all rounds, of doremi_round2 one."""
    method, _, number = reweighted.partition("_round")
    folder = f"results/{dataset}/reweighting/{config['datasets'][dataset]['reweighting']['model']}/{method}"
    if method == "doge":
        return [folder]
    rounds = [int(number)] if number else range(1, last_round(config, dataset, moved) + 1)
    return [f"{folder}/{each}" for each in rounds]


def reweighted_mixture(config: dict, dataset: str, reweighted: str, moved: Moved) -> str:
    """The file of the mixture that the last of these trainings ended with."""
    return f"{reweighting_folders(config, dataset, reweighted, moved)[-1]}/mixture.json"


def reweighting_paths(config: dict, dataset: str, reweighted: str, moved: Moved) -> list[str]:
    """The files of the weights on the way, one of each of these trainings."""
    return [f"{folder}/path.parquet" for folder in reweighting_folders(config, dataset, reweighted, moved)]


def doge_regularization(config: dict, dataset: str) -> float:
    """The mu of DoGE, which is another where its targets are elsewhere."""
    settings = config["datasets"][dataset]["reweighting"]
    return settings["doge"]["targets_regularization" if "targets" in settings else "regularization"]
