# Mixtures that any search must beat: by the tokens there are, by one proxy, and the best that was
# tried.
#   tokens/train.parquet -> mixtures/temperature.json, mixtures/unimax.json
#   tokens/train.parquet, the reference or cross_entropy.csv -> mixtures/wanted_8.json and the like
#   runs/{proxy}/uniform/ -> embeddings.json -> mixtures/chameleon.json
#   losses of a search -> mixtures/best.json


rule mix_tokens:
    """Temperature: token shares raised to a power. UniMax: as equal as a cap of epochs allows."""
    input:
        index="results/{dataset}/tokens/train.parquet",
    output:
        mixture="results/{dataset}/mixtures/{rule}.json",
    log:
        "results/{dataset}/logs/mix_tokens/{rule}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        rule=one_of(sources.BY_TOKENS),
    conda:
        "../../envs/analysis.yaml"
    params:
        exponent=config["mixtures"]["temperature"]["exponent"],
        most_epochs=config["mixtures"]["unimax"]["most_epochs"],
        run_tokens=planned(sources.compared_tokens),
    shell:
        RUN + r"""mix_tokens.py \
            --index {input.index:q} \
            --rule {wildcards.rule:q} \
            --exponent {params.exponent} \
            --most-epochs {params.most_epochs} \
            --run-tokens {params.run_tokens} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule mix_wanted:
    """Rules by hand: so many epochs of the wanted domains, the rest as the name says."""
    input:
        tokens="results/{dataset}/tokens/train.parquet",
        reference=planned(sources.hand_reference),
        cross_entropy=planned(sources.kin_table),
    output:
        mixture="results/{dataset}/mixtures/{wanted}.json",
    log:
        "results/{dataset}/logs/mix_wanted/{wanted}.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
        wanted=sources.WANTED.pattern,
    conda:
        "../../envs/analysis.yaml"
    params:
        **{key: SOUGHT[key] for key in ("weights", "lower", "upper", "max_epochs")},
        softness=config["mixtures"]["wanted"]["softness"],
        run_tokens=planned(sources.compared_tokens),
    shell:
        RUN + r"""mix_wanted.py \
            --name {wildcards.wanted:q} \
            --tokens {input.tokens:q} \
            --reference {input.reference:q} \
            --cross-entropy {input.cross_entropy:q} \
            --softness {params.softness} \
            --run-tokens {params.run_tokens} \
            --weights {params.weights:q} \
            --lower {params.lower:q} \
            --upper {params.upper:q} \
            --max-epochs {params.max_epochs:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule embed_domains:
    """Embed the domains by the proxy that was trained on the uniform mixture, for chameleon."""
    input:
        index="results/{dataset}/tokens/train.parquet",
        weights=planned(sources.embedding_weights),
    output:
        "results/{dataset}/embeddings.json",
    log:
        "results/{dataset}/logs/embed_domains.log",
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    conda:
        "../../envs/torch.yaml"
    threads: 2
    params:
        domains=setting("domains"),
        rows=config["mixtures"]["chameleon"]["rows"],
    shell:
        RUN + r"""embed_domains.py \
            --weights {input.weights:q} \
            --index {input.index:q} \
            --domains {params.domains:q} \
            --rows {params.rows} \
            --threads {threads} \
            --out {output:q} \
            2>{log:q}
        """


rule mix_chameleon:
    """Chameleon: the more the others speak for a domain, the more of it."""
    input:
        embeddings="results/{dataset}/embeddings.json",
    output:
        mixture="results/{dataset}/mixtures/chameleon.json",
    log:
        "results/{dataset}/logs/mix_chameleon.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        ridge=config["mixtures"]["chameleon"]["ridge"],
        softness=config["mixtures"]["chameleon"]["softness"],
    shell:
        RUN + r"""mix_chameleon.py \
            --embeddings {input.embeddings:q} \
            --ridge {params.ridge} \
            --softness {params.softness} \
            --out {output.mixture:q} \
            2>{log:q}
        """


rule mix_best:
    """The mixture of the best run of a search: what a law must beat."""
    input:
        losses=planned(sources.searched_losses),
        mixtures=planned(sources.searched_mixtures),
    output:
        mixture="results/{dataset}/mixtures/{best}.json",
    log:
        "results/{dataset}/logs/mix_best/{best}.log",
    wildcard_constraints:
        best=one_of(sources.BEST),
    conda:
        "../../envs/analysis.yaml"
    params:
        step=planned(sources.searched_step),
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
