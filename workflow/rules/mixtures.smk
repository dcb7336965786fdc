# Mixtures that need no training, and groups of mixtures of any kind.
#   tokens/train.parquet, entropy.csv, resources/mixtures/*.csv, files of one's own
#       -> mixtures/{mixture}.json
#   mixtures/{mixture}.json -> mixtures/groups/{group}.parquet -> figures/mixtures.svg
# Who makes which mixture is listed in bimix/mixtures/names.py. As everywhere on the way to a
# training, scripts are no inputs: a comment must not train a model again.


rule mix_uniform:
    """Uniform: the same proportion for every domain."""
    output:
        mixture="results/{dataset}/mixtures/uniform.json",
    log:
        "results/{dataset}/logs/mix_uniform/uniform.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
    shell:
        RUN + r"mix_uniform.py --domains {params.domains:q} --out {output.mixture:q} 2>{log:q}"


rule mix_entropy:
    """Softmax of one entropy measure over the domains (paper Sec. 4, Candidate Mixtures)."""
    input:
        entropy="results/{dataset}/entropy.csv",
    output:
        mixture="results/{dataset}/mixtures/{measure}.json",
    log:
        "results/{dataset}/logs/mix_entropy/{measure}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        measure=made_by("mix_entropy"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""mix_entropy.py \
            --entropy {input.entropy:q} \
            --measure {wildcards.measure:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule mix_given:
    """A mixture file of the user's own, or what DoReMi and DoGE found, with its domains checked."""
    input:
        mixture=planned(inputs.given_mixture),
    output:
        mixture="results/{dataset}/mixtures/{own}.json",
    log:
        "results/{dataset}/logs/mix_given/{own}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        own=made_by("mix_given"),
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        version=planned(lambda dataset, own: file_version(dataset, inputs.own_mixture(dataset, own)) or []),
    shell:
        RUN + r"""mix_given.py \
            --mixture {input.mixture:q} \
            --name {wildcards.own:q} \
            --domains {params.domains:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """


use rule mix_given as mix_published with:
    # a column of a published table of mixtures, scaled to sum to one
    input:
        mixture=planned(lambda dataset: published_table(dataset.block["published"], code(""))),
    output:
        mixture="results/{dataset}/mixtures/published_{own}.json",
    log:
        "results/{dataset}/logs/mix_published/{own}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    params:
        domains=setting("domains"),
        version=planned(lambda dataset: file_version(dataset, dataset.block["published"]) or dataset.block["domains"]),


rule mix_stages:
    """Mixtures of others one after the other, each for a share of the run."""
    input:
        mixtures=planned(lambda dataset, staged: list(map(dataset.mixture, dataset.staged(staged)))),
    output:
        mixture="results/{dataset}/mixtures/{staged}.json",
    log:
        "results/{dataset}/logs/mix_stages/{staged}.log",
    wildcard_constraints:
        dataset=datasets_with("stages"),
        staged=made_by("mix_stages"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=planned(lambda dataset, staged: dataset.staged(staged)),  # Snakemake compares inputs in no order
        shares=planned(lambda dataset, staged: [stage["share"] for stage in dataset.block["stages"][staged]]),
    shell:
        RUN + r"mix_stages.py --mixtures {input.mixtures:q} --shares {params.shares} --out {output.mixture:q} 2>{log:q}"


rule gather_mixtures:
    """The mixtures of a group as one tidy table: mixture, domain, proportion."""
    input:
        mixtures=collect("results/{{dataset}}/mixtures/{mixture}.json", mixture=setting("groups/{group}")),
        tokens=planned(inputs.pool_tokens),
    output:
        table="results/{dataset}/mixtures/groups/{group}.parquet",
    log:
        "results/{dataset}/logs/gather_mixtures/{group}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=setting("groups/{group}"),
        pool_share=planned(inputs.pool_share),
    shell:
        RUN + r"""gather_mixtures.py \
            --mixtures {input.mixtures:q} \
            --names {params.names:q} \
            --tokens {input.tokens:q} \
            --pool-share {params.pool_share} \
            --out {output.table:q} \
            2>{log:q}
        """


rule plot_mixtures:
    """All mixtures side by side."""
    input:
        compared="results/{dataset}/mixtures/groups/compare.parquet",
        fitted=fitted("results/{{dataset}}/mixtures/groups/{group}.parquet"),
        held_out=collect("results/{{dataset}}/mixtures/groups/{group}.parquet", group=setting("held_out")),
        code=script("plot_mixtures", "results/figures"),
    output:
        figure=figure("mixtures", "2 Mixtures", "Proportions of the domains"),
    log:
        "results/{dataset}/logs/plot_mixtures.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""plot_mixtures.py \
            --mixtures {input.compared:q} {input.fitted:q} {input.held_out:q} \
            --out {output.figure:q} \
            2>{log:q}
        """
