# Losses that were measured elsewhere take the place of training: a dataset with `observations`
# instead of a corpus.
#   two tidy tables
#       -> losses/observed/{group}.parquet, mixtures/groups/{group}.parquet, mixtures/{mixture}.json
#   those of the fitted group, the tokens there are -> mixtures/wanted_8.json, to train on


rule take_observations:
    """The losses and proportions of one group of mixtures."""
    input:
        losses=setting("observations/losses"),
        mixtures=setting("observations/mixtures"),
        metrics=setting("observations/metrics", default=[]),
        code=script("take_observations", "observations/metrics"),
    output:
        losses="results/{dataset}/losses/observed/{group}.parquet",
        mixtures="results/{dataset}/mixtures/groups/{group}.parquet",
    log:
        "results/{dataset}/logs/take_observations/{group}.log",
    wildcard_constraints:
        dataset=datasets_with("observations"),
    conda:
        "../../envs/analysis.yaml"
    params:
        names=setting("groups/{group}"),
        lower=setting("observations/lower_is_better", default=[]),
        brought=brought(setting("groups/{group}")),
    shell:
        RUN + r"""take_observations.py \
            --losses {input.losses:q} \
            --mixtures {input.mixtures:q} \
            --metrics {input.metrics:q} \
            --names {params.names:q} \
            --lower-is-better {params.lower:q} \
            --group-losses {output.losses:q} \
            --group-mixtures {output.mixtures:q} \
            2>{log:q}
        """


rule mix_observed:
    """One mixture of the observed ones."""
    input:
        mixtures=setting("observations/mixtures"),
        code=script("mix_given"),
    output:
        mixture="results/{dataset}/mixtures/{mixture}.json",
    log:
        "results/{dataset}/logs/mix_observed/{mixture}.log",
    wildcard_constraints:
        dataset=datasets_with("observations"),
        mixture=one_of(sources.observed_names(DATASETS.values())),
    conda:
        "../../envs/analysis.yaml"
    params:
        brought=brought(setting("observations/mixtures", default=())),
    shell:
        RUN
        + r"mix_given.py --mixture {input.mixtures:q} --name {wildcards.mixture:q} --out {output.mixture:q} 2>{log:q}"


rule mix_by_hand:
    """A rule by hand that was not run yet: so many epochs of the wanted domains."""
    input:
        losses=fitted("results/{{dataset}}/losses/{model}/{group}.parquet"),
        mixtures=collect("results/{{dataset}}/mixtures/groups/{group}.parquet", group=setting("optimum/group")),
        tokens=planned(inputs.hand_tokens),
        cross_entropy=planned(inputs.hand_prior),
        code=script("mix_wanted", "search/by_hand"),
    output:
        mixture="results/{dataset}/mixtures/{wanted}.json",
    log:
        "results/{dataset}/logs/mix_by_hand/{wanted}.log",
    wildcard_constraints:
        dataset=sources.by_hand_datasets(DATASETS.values()),
        wanted=made_by("mix_wanted"),
    conda:
        "../../envs/analysis.yaml"
    params:
        **{key: SOUGHT[key] for key in ("weights", "lower", "upper", "limits", "max_epochs", "brought")},
        step=setting("optimum/step"),
    shell:
        RUN + r"""mix_wanted.py \
            --name {wildcards.wanted:q} \
            --tokens {input.tokens:q} \
            --runs {input.losses:q} {input.mixtures:q} \
            --step {params.step} \
            --cross-entropy {input.cross_entropy:q} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """
