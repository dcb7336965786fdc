"""What a mixture is exported with: the files of each domain, their tokens, the run it is for."""

from bimix.errors import InputError
from bimix.plan.pools import token_table


def export_data(config: dict, dataset: str, format: str) -> str:
    """The files of each domain that an export names: those of the config's file, else the dataset's
    own. OLMo-core reads its rows of tokens as they are.

    Errors: observed losses have no files.
    """
    block = config["datasets"][dataset]
    if "data" in block.get("export", {}):
        return block["export"]["data"]
    if "observations" in block:
        raise InputError(
            f"config: datasets/{dataset}/export/data: an export names the files of each domain: give a file of them."
        )
    return f"results/{dataset}/export/{'rows' if format == 'olmo-core' else 'raw'}.json"


def export_tokens(config: dict, dataset: str) -> list[str]:
    """The pools of an export: the table of tokens where the dataset's own files are exported, else
    what the config's file says of them.
    """
    block = config["datasets"][dataset]
    return [] if "data" in block.get("export", {}) else token_table(config, dataset)


def export_run_steps(config: dict, dataset: str) -> list[int]:
    """Updates of the run that an export is for, likewise; none where the config gives its tokens
    alone.
    """
    block = config["datasets"][dataset]
    if "run_steps" in block.get("export", {}):
        return [block["export"]["run_steps"]]
    if "observations" in block or "run_tokens" in block.get("export", {}):
        return []
    return [block["training"][block["compare"]["model"]]["steps"]]


def export_run_tokens(config: dict, dataset: str) -> list[int]:
    """Tokens of the run that an export is for: as the config says, else of the larger model's run;
    none of observed losses.
    """
    block = config["datasets"][dataset]
    if "run_tokens" in block.get("export", {}):
        return [block["export"]["run_tokens"]]
    if "observations" in block:
        return []
    large = block["training"][block["compare"]["model"]]
    return [large["steps"] * large["batch_rows"] * block["sequence_length"]]
