# Mixtures that any search must beat: by the tokens there are, and the best that was tried.
#   tokens/train.parquet -> mixtures/baseline.json, mixtures/temperature.json, mixtures/unimax.json
#   tokens/train.parquet, the reference or cross_entropy.csv -> mixtures/wanted_8.json and the like
#   losses of a search -> mixtures/best.json


rule mix_tokens:
    """Baseline: each domain's share of the tokens (paper Sec. 4, Candidate Mixtures).

    Temperature: token shares raised to a power. UniMax: as equal as a cap of epochs allows.
    """
    input:
        index="results/{dataset}/tokens/train.parquet",
    output:
        mixture="results/{dataset}/mixtures/{rule}.json",
    log:
        "results/{dataset}/logs/mix_tokens/{rule}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        rule=made_by("mix_tokens"),
    conda:
        "../../envs/analysis.yaml"
    params:
        # of another rule constants: a change of what it does not read must not train on it again
        exponent=lambda wildcards: (
            config["mixtures"]["temperature"]["exponent"] if wildcards.rule == "temperature" else 1
        ),
        run_tokens=planned(lambda dataset, rule: inputs.compared_tokens(dataset) if rule == "unimax" else 0),
    shell:
        RUN + r"""mix_tokens.py \
            --index {input.index:q} \
            --rule {wildcards.rule:q} \
            --exponent {params.exponent} \
            --most-epochs 4 \
            --run-tokens {params.run_tokens} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule mix_wanted:
    """Rules by hand: so many epochs of the wanted domains, the rest as the name says."""
    input:
        tokens="results/{dataset}/tokens/train.parquet",
        reference=planned(inputs.hand_reference),
        cross_entropy=planned(
            lambda dataset, wanted: [f"{dataset.folder}/cross_entropy.csv"] if wanted.endswith("_kin") else []
        ),
    output:
        mixture="results/{dataset}/mixtures/{wanted}.json",
    log:
        "results/{dataset}/logs/mix_wanted/{wanted}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        wanted=made_by("mix_wanted"),
    conda:
        "../../envs/analysis.yaml"
    params:
        **{key: SOUGHT[key] for key in ("lower", "upper", "limits", "max_epochs")},
        weights=planned(inputs.hand_weights),
        run_tokens=planned(inputs.compared_tokens),
    shell:
        RUN + r"""mix_wanted.py \
            --name {wildcards.wanted:q} \
            --tokens {input.tokens:q} \
            --reference {input.reference:q} \
            --cross-entropy {input.cross_entropy:q} \
            --run-tokens {params.run_tokens} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule mix_best:
    """The mixture of the best run of a search: what a law must beat."""
    input:
        losses=planned(
            lambda dataset, best: "{0}/losses/{1[0]}/{1[1]}.parquet".format(
                dataset.folder, dataset.searched_runs(best)
            )
        ),
        mixtures=planned(lambda dataset, best: dataset.mixture_table(dataset.searched_runs(best)[1])),
    output:
        mixture="results/{dataset}/mixtures/{best}.json",
    log:
        "results/{dataset}/logs/mix_best/{best}.log",
    wildcard_constraints:
        best=made_by("mix_best"),
    conda:
        "../../envs/analysis.yaml"
    params:
        step=planned(lambda dataset, best: dataset.searched_runs(best)[2]),
        weights=bound("weights"),
        objective=bound("objective"),
    shell:
        RUN + r"""mix_best.py \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --step {params.step} \
            --weights {params.weights:q} \
            --objective {params.objective:q} \
            --out {output.mixture:q} \
            >{log:q} 2>&1
        """
