"""The tables that say how many tokens there are of each domain."""


def token_table(config: dict, dataset: str) -> list[str]:
    """The table of the tokens there are of each domain; an observed dataset may have none."""
    block = config["datasets"][dataset]
    if "observations" in block:
        return [block["observations"]["tokens"]] if "tokens" in block["observations"] else []
    return [f"results/{dataset}/tokens/train.parquet"]


def pool_tokens(config: dict, dataset: str) -> list[str]:
    """That table for the pools of the mixtures, so that laws read each run at its own epochs.

    Observed mixtures have pools in their own table, or none.
    """
    return [] if "observations" in config["datasets"][dataset] else token_table(config, dataset)


def epoch_tokens(config: dict, dataset: str) -> list[str]:
    """That table for optima: `max_epochs` caps epochs, and the law transfer counts repeated text
    less. None where the mixture of a stage is optimised: its law was fitted without pools, and its
    tokens are not those of the run.
    """
    return [] if "stage" in config["datasets"][dataset]["optimum"] else token_table(config, dataset)
