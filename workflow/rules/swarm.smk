# A swarm of small runs, for laws that need many (RegMix, the exponential law).
#   mixtures/{centre}.json -> mixtures/swarm.parquet -> mixtures/swarm_{number}.json
# The group `swarm` is then like any other: pretrain_model trains its runs, and laws are fitted to
# laws/{model}/{law}/swarm/.


rule sample_mixtures:
    """The mixtures of the swarm, drawn around the token shares as RegMix does.

    More of them leave the first as they were.
    """
    input:
        baseline=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("centre", default="baseline")),
    output:
        table="results/{dataset}/mixtures/swarm.parquet",
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
    shell:
        RUN + r"""sample_mixtures.py \
            --baseline {input.baseline:q} \
            --names {params.names:q} \
            --seed {params.seed} \
            --strengths {params.strengths} \
            --out {output.table:q} \
            2>{log:q}
        """


use rule mix_observed as mix_swarm with:
    # one of the swarm's mixtures, for its run
    input:
        mixtures="results/{dataset}/mixtures/swarm.parquet",
    wildcard_constraints:
        dataset=datasets_with("swarm"),
        mixture=made_by("mix_swarm"),
