"""The checks of what laws are fitted to: the steps and the runs that there will be."""

from bimix.names import named
from bimix.plan.laws import LAWS, SWARM_LAWS
from bimix.plan.settings import evaluations
from bimix.settings.block import BlockChecker
from bimix.settings.complete import is_evaluated, measurements


def check_steps(checker: BlockChecker) -> None:
    """Steps of optima that no run reaches, or at which it has no loss."""
    block = checker.block
    if checker.sound("swarm"):
        recipe = checker.recipe(block["swarm"]["model"])
        recipe = recipe and recipe | block["swarm"].get("training", {})
        step = block["swarm"]["step"]
        if recipe and not is_evaluated(recipe, step):
            checker.fault(
                *("swarm", "step"),
                sentence=f"the losses of the swarm are measured {measurements(recipe)}, not at {step}.",
            )
    if checker.sound("optimum/step", "optimum/model", "optimum/group"):
        recipe = checker.recipe(block["optimum"]["model"])
        if recipe and block["optimum"]["group"] == "swarm" and checker.sound("swarm"):
            recipe = recipe | block["swarm"].get("training", {})
        if recipe:
            check_fitted(checker, evaluations(recipe))
            groups = block["groups"] if checker.sound("groups") else {}
            names = groups.get(block["optimum"]["group"])
            if names is not None and checker.sound("domains"):
                check_enough(checker, len(names), len(block["domains"]))


def check_fitted(checker: BlockChecker, measured: list[int]) -> None:
    """Steps at which the runs are measured that laws are fitted to, and the step that the
    optimum is for.
    """
    step = checker.block["optimum"]["step"]
    laws = checker.config["laws"]["optimise"] if checker.sound_elsewhere("laws/optimise") else []
    single = [law for law in laws if law in SWARM_LAWS or len(measured) == 1]
    curves = [law for law in laws if law not in single]
    wanted = checker.dataset in checker.checker.wanted
    if wanted and curves and len(measured) == 2:
        checker.fault(
            *("optimum", "group"),
            sentence=f"its runs are measured at two steps, {measured[0]:,} and {measured[1]:,}, from which {named(curves)}"
            " cannot tell a curve: measure at three or more, or at one.",
        )
    if step in measured:
        return
    if wanted and single:
        checker.fault(
            *("optimum", "step"),
            sentence=f"{named(single)} says nothing about the step {step:,}, at which no run is measured; there are"
            f" {named(f'{one:,}' for one in measured)}.",
        )
    elif step > measured[-1]:
        checker.remark(*("optimum", "step"), sentence=_beyond(step, measured[-1]))
    elif step < measured[0]:
        sentence = f"{step:,} comes before the first measured step, {measured[0]:,}: the law extrapolates."
        checker.remark("optimum", "step", sentence=sentence)
    else:
        before = max(one for one in measured if one < step)
        sentence = f"{step:,} lies between two measured steps, {before:,} and the next: the law fills in."
        checker.remark("optimum", "step", sentence=sentence)


def check_sizes(checker: BlockChecker) -> None:
    """Refuse laws of one size where the losses that they are fitted to are of models of several. A
    law over sizes reads the end of each run, so there are no steps to look at.
    """
    laws = checker.config["laws"]["optimise"] if checker.sound_elsewhere("laws/optimise") else []
    single = [law for law in laws if law in LAWS and not LAWS[law].over_sizes]
    if single and checker.dataset in checker.checker.wanted:
        checker.fault(
            *("optimum", "group"),
            sentence=f"its losses are of models of several sizes, and {named(single)} (in laws/optimise) is fitted to one:"
            " name transfer alone there, or the runs of one model here.",
        )


def check_enough(checker: BlockChecker, runs: int, domains: int) -> None:
    """Refuse laws that need more runs than the group under `optimum` has."""
    if checker.dataset not in checker.checker.wanted:
        return
    if runs < 2:
        checker.fault("optimum", "group", sentence="it has one mixture; a law needs the losses of two or more.")
    for law in checker.config["laws"]["optimise"] if checker.sound_elsewhere("laws/optimise") else []:
        least = LAWS[law].least_runs(domains)
        if LAWS[law].refuses_few and 2 <= runs < least:
            checker.fault(
                *("optimum", "group"),
                sentence=f"{law} (in laws/optimise) needs {least} runs at least for {domains} domains; the group has {runs}.",
            )


def _beyond(step: int, last: int) -> str:
    return f"{step:,} is {step / last:.3g} times the last measured step, {last:,}: the law extrapolates."
