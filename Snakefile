# Find the mixture of data domains to pretrain a language model on, and prove it (BiMix). The chain, chapter by chapter:
#   data.smk      raw text -> tokenizer, rows of tokens, n-gram counts, entropies
#   mixtures.smk  token shares, entropies, published columns, files of one's own -> mixtures
#   pretrain.smk  mixtures -> losses of trained models
#   reweighting.smk  losses while a model trains -> mixtures of methods that weigh domains on the way (DoReMi, DoGE)
#   observations.smk  losses measured elsewhere, in the place of all of the above
#   swarm.smk     a swarm of small runs on drawn mixtures -> their losses, for the laws that need many runs
#   laws.smk      losses -> fitted law, its scores, the optimised mixture (which pretrain.smk then trains on)
#   downstream.smk  the weights of a run at several steps -> its answers to questions
#   methods.smk   what each method has cost and what its mixture is worth
#   figures.smk   all of it -> figures, tables, the summary that is printed at the end
import time


include: "workflow/rules/common/config.smk"


check_files()


configfile: "config.yaml"


prepare_config()
if config["container"]:

    container: config["container"]


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/mixtures.smk"
include: "workflow/rules/pretrain.smk"
include: "workflow/rules/reweighting.smk"
include: "workflow/rules/observations.smk"
include: "workflow/rules/swarm.smk"
include: "workflow/rules/laws.smk"
include: "workflow/rules/downstream.smk"
include: "workflow/rules/methods.smk"
include: "workflow/rules/figures.smk"


started = time.time()


rule all:
    """Everything for the datasets that `run` names in config.yaml."""
    default_target: True
    input:
        collect("results/{dataset}/summary.txt", dataset=config["run"]),


onsuccess:
    # Prints the summaries that this call has made, and no old ones.
    shell("find results -maxdepth 2 -name summary.txt -newermt @{started} -exec cat {{}} +")
