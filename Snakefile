# Find the mixture of data domains to pretrain a language model on, and prove it (BiMix). The chain
# is in the chapters below.
import time


include: "workflow/rules/common/config.smk"


check_files()


configfile: code("config.yaml")


if has_own_config():

    configfile: "config.yaml"


config = prepared()
if config["container"]:

    container: config["container"]


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/common/progress.smk"
include: "workflow/rules/data.smk"  # raw text -> tokenizer, rows of tokens, n-gram counts
include: "workflow/rules/entropy.smk"  # counts and vectors -> entropies of the domains
include: "workflow/rules/mixtures.smk"  # token shares, entropies, published columns, files of one's own -> mixtures
include: "workflow/rules/simple.smk"  # rules that a search must beat -> mixtures
include: "workflow/rules/training.smk"  # mixtures -> losses of trained models
include: "workflow/rules/trainers.smk"  # a command of the user's instead of our own training
include: "workflow/rules/reweighting.smk"  # losses while a model trains -> mixtures that weigh them
include: "workflow/rules/observations.smk"  # losses measured elsewhere, instead of all of the above
include: "workflow/rules/swarm.smk"  # small runs on drawn mixtures -> their losses, for the laws that need many runs
include: "workflow/rules/sizes.smk"  # losses of several sizes of models -> one table, how well it predicts a larger one
include: "workflow/rules/laws.smk"  # losses -> fitted laws and what they predict
include: "workflow/rules/scores.smk"  # how well each law predicts, and the laws side by side
include: "workflow/rules/optimum.smk"  # fitted law -> the optimised mixture, which is trained on like any other
include: "workflow/rules/search.smk"  # losses -> the runs to make next, by rounds, and whether to go on
include: "workflow/rules/downstream.smk"  # the weights of a run at several steps -> its answers to questions
include: "workflow/rules/exports.smk"  # mixtures as configurations of other training stacks, on request
include: "workflow/rules/costs.smk"  # what trainings will cost
include: "workflow/rules/results.smk"  # all of it -> the summary that is printed at the end


started = time.time()


rule all:
    """Everything for the datasets that `run` names in config.yaml."""
    default_target: True
    input:
        planned(all_targets),


onstart:
    # Before the first job; the manifest of shards, which planning writes, is held earlier.
    for dataset in planned_datasets():
        hold_results(dataset)


onsuccess:
    # Prints the summaries that this call has made, and no old ones.
    shell("find -L results -maxdepth 2 -name summary.txt -newermt @{started} -exec sed '1,/^$/!d' {{}} \\;")


onerror:
    # Repeat the list of failed jobs at the end.
    logger.error("\n".join(call_lines.failed.values()))
