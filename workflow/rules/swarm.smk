# A swarm of small runs, for laws that need many (RegMix, the exponential law).
#   mixtures/{centre}.json -> mixtures/groups/swarm.parquet -> swarm/{model}/{part}/
#       -> losses/{model}/swarm.parquet
# The group `swarm` is then like any other: laws are fitted to laws/{model}/{law}/swarm/. As of
# pretrain_model, scripts are no inputs.


rule sample_mixtures:
    """The mixtures of the swarm, drawn around the token shares as RegMix does.

    More of them leave the first as they were.
    """
    input:
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("centre", default="baseline")),
        tokens=planned(inputs.pool_tokens),
    output:
        table="results/{dataset}/mixtures/groups/swarm.parquet",
    log:
        "results/{dataset}/logs/sample_mixtures.log",
    wildcard_constraints:
        dataset=datasets_with("swarm"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=setting("groups/swarm"),
        seed=setting("swarm/seed"),
        strengths=setting("strengths", default=()),
        pool_share=planned(lambda dataset: inputs.pool_share(dataset, "swarm")),
    shell:
        RUN + r"""sample_mixtures.py \
            --baseline {input.baseline:q} \
            --names {params.names:q} \
            --seed {params.seed} \
            --strengths {params.strengths} \
            --tokens {input.tokens:q} \
            --pool-share {params.pool_share} \
            --out {output.table:q} \
            2>{log:q}
        """


use rule mix_observed as mix_swarm with:
    # one of the swarm's mixtures, for a run of it alone
    input:
        mixtures="results/{dataset}/mixtures/groups/swarm.parquet",
    wildcard_constraints:
        dataset=datasets_with("swarm"),
        mixture=made_by("mix_swarm"),


rule train_swarm:
    """Train a part of the swarm, run after run in one process on one device; a finished
    run is never trained again.
    """
    input:
        **TOKENS,
        mixtures="results/{dataset}/mixtures/groups/swarm.parquet",
    output:
        losses="results/{dataset}/swarm/{model}/{part}/losses.parquet",
        runs="results/{dataset}/swarm/{model}/{part}/runs.parquet",
    log:
        "results/{dataset}/logs/train_swarm/{model}/{part}.log",
    benchmark:
        "results/{dataset}/benchmarks/train_swarm/{model}/{part}.tsv"
    wildcard_constraints:
        dataset=datasets_with("swarm"),
    conda:
        "../../envs/torch.yaml"
    threads: planned(inputs.process_threads)
    resources:
        **LAUNCH,
        gpu=planned(lambda config, model: min(config["models"][model]["launch"]["gpus"], 1)),
    params:
        names=planned(inputs.swarm_part),
        shape=as_json("models/{model}/shape"),
        recipe=as_json(planned(lambda dataset: dataset.swarm_recipe)),
        state="results/{dataset}/swarm/{model}/state",
    shell:
        LAUNCHER
        + r"""{resources.gpu} 1 {threads} {resources.runtime} \
            {log:q} {params.state:q}/logs/{wildcards.part} \
            train_swarm.py """
        + TRAINING_FLAGS
        + r"""--log-with none \
            --mixtures {input.mixtures:q} \
            --names {params.names:q} \
            --losses {output.losses:q} \
            --runs {output.runs:q}
        """


rule gather_swarm:
    """The losses of all runs of the swarm as one tidy table, and what each run cost."""
    input:
        losses=collect("results/{{dataset}}/swarm/{{model}}/{part}/losses.parquet", part=planned(inputs.swarm_parts)),
        runs=collect("results/{{dataset}}/swarm/{{model}}/{part}/runs.parquet", part=planned(inputs.swarm_parts)),
    output:
        losses="results/{dataset}/losses/{model}/swarm.parquet",
        runs="results/{dataset}/swarm/{model}/runs.parquet",
    log:
        "results/{dataset}/logs/gather_swarm/{model}.log",
    wildcard_constraints:
        dataset=datasets_with("swarm"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=setting("groups/swarm"),
    shell:
        RUN + r"""gather_swarm.py \
            --losses {input.losses:q} \
            --runs {input.runs:q} \
            --names {params.names:q} \
            --gathered-losses {output.losses:q} \
            --gathered-runs {output.runs:q} \
            2>{log:q}
        """
