# Find the mixture of data domains to pretrain a language model on, and prove it (BiMix). The chain,
# chapter by chapter:
#   data          raw text -> tokenizer, rows of tokens, n-gram counts
#   entropy       counts and vectors -> entropies of the domains
#   mixtures      token shares, entropies, published columns, files of one's own -> mixtures
#   simple        rules that a search must beat -> mixtures
#   training      mixtures -> losses of trained models
#   trainers      a command of the user's instead of our own training
#   reweighting   losses while a model trains -> mixtures of methods that weigh domains meanwhile
#   observations  losses measured elsewhere, instead of all of the above
#   swarm         small runs on drawn mixtures -> their losses, for the laws that need many runs
#   sizes         losses of models of several sizes -> one table, and how well it predicts a larger one
#   laws          losses -> fitted laws and what they predict
#   scores        how well each law predicts, and the laws side by side
#   optimum       fitted law -> the optimised mixture, which is trained on like any other
#   search        losses -> the runs to make next, by rounds or by design, and whether to go on
#   downstream    the weights of a run at several steps -> its answers to questions
#   exports       mixtures as configurations of other training stacks, on request
#   costs         what trainings will cost; what each method has cost and what its mixture is worth
#   results       all of it -> the summary that is printed at the end
import time


include: "workflow/rules/common/config.smk"


check_files()


configfile: code("config.yaml")


if has_own_config():

    configfile: "config.yaml"


config = prepared(config)
if config["container"]:

    container: config["container"]


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/common/progress.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/entropy.smk"
include: "workflow/rules/mixtures.smk"
include: "workflow/rules/simple.smk"
include: "workflow/rules/training.smk"
include: "workflow/rules/trainers.smk"
include: "workflow/rules/reweighting.smk"
include: "workflow/rules/observations.smk"
include: "workflow/rules/swarm.smk"
include: "workflow/rules/sizes.smk"
include: "workflow/rules/laws.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/optimum.smk"
include: "workflow/rules/search.smk"
include: "workflow/rules/downstream.smk"
include: "workflow/rules/exports.smk"
include: "workflow/rules/costs.smk"
include: "workflow/rules/results.smk"


started = time.time()


rule all:
    """Everything for the datasets that `run` names in config.yaml."""
    default_target: True
    input:
        planned(all_targets),


onstart:
    # Before the first job; the manifest of shards, which planning writes, is held earlier.
    for dataset in sorted({job.wildcards_dict.get("dataset") for job in workflow.dag.needrun_jobs()} - {None}):
        hold_results(dataset)
    check_arrays()


onsuccess:
    # Prints the summaries that this call has made, and no old ones.
    shell("find results -maxdepth 2 -name summary.txt -newermt @{started} -exec cat {{}} +")


onerror:
    # Repeat the list of failed jobs at the end.
    logger.error("\n".join(call_lines.failed.values()))
