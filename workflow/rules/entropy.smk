# Entropy: how much each domain holds, by n-gram counts and by vectors of its documents.
#   shards of tokens/train.parquet -> counts/, unigrams/, vectors/
#       -> entropy.csv, figures/entropy.svg
#   counts/, shards of tokens/validation.parquet -> cross_entropy.csv, figures/cross_entropy.svg


rule merge_counts:
    """Add up the n-gram counts of one domain over the shards."""
    input:
        index="results/{dataset}/tokens/train.parquet",
    output:
        bigrams="results/{dataset}/counts/{domain}.parquet",
        unigrams="results/{dataset}/unigrams/{domain}.parquet",
    log:
        "results/{dataset}/logs/merge_counts/{domain}.log",
    benchmark:
        "results/{dataset}/benchmarks/merge_counts/{domain}.tsv"
    priority: 1  # trainings of the mixtures that need entropies wait for it
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"""merge_counts.py \
            --index {input.index:q} \
            --domain {wildcards.domain:q} \
            --bigrams {output.bigrams:q} \
            --unigrams {output.unigrams:q} \
            2>{log:q}
        """


rule train_vectors:
    """Train word vectors on the sampled documents of all domains."""
    input:
        index="results/{dataset}/tokens/train.parquet",
    output:
        "results/{dataset}/vectors/model.bin",
    log:
        "results/{dataset}/logs/train_vectors.log",
    benchmark:
        "results/{dataset}/benchmarks/train_vectors.tsv"
    wildcard_constraints:
        dataset=datasets_with("vectors/train"),
    priority: 1  # trainings of the mixtures that need entropies wait for it
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        documents=setting("vectors/documents"),
        settings=as_json("datasets/{dataset}/vectors/train"),
    shell:
        RUN + r"""train_vectors.py \
            --index {input.index:q} \
            --domains {params.domains:q} \
            --documents {params.documents:q} \
            --settings {params.settings:q} \
            --out {output:q} \
            2>{log:q}
        """


rule embed_documents:
    """Second moment of the document vectors of one domain."""
    input:
        model=planned(
            lambda dataset, domain: there(
                dataset, [inputs.vectors_file(dataset)], f"{dataset.folder}/vectors/{domain}.npz"
            )
        ),
        index="results/{dataset}/tokens/train.parquet",
    output:
        "results/{dataset}/vectors/{domain}.npz",
    log:
        "results/{dataset}/logs/embed_documents/{domain}.log",
    benchmark:
        "results/{dataset}/benchmarks/embed_documents/{domain}.tsv"
    priority: 1  # trainings of the mixtures that need entropies wait for it
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        documents=setting("vectors/documents"),
        version=planned(lambda dataset: vectors_version(dataset, writes_into(dataset.folder))),
    shell:
        RUN + r"""embed_documents.py \
            --model {input.model:q} \
            --index {input.index:q} \
            --domain {wildcards.domain:q} \
            --domains {params.domains:q} \
            --documents {params.documents:q} \
            --out {output:q} \
            2>{log:q}
        """


rule measure_entropy:
    """Shannon, joint, conditional and, with vectors, von Neumann entropy of every domain."""
    input:
        unigrams=collect("results/{{dataset}}/unigrams/{domain}.parquet", domain=setting("domains")),
        bigrams=collect("results/{{dataset}}/counts/{domain}.parquet", domain=setting("domains")),
        moments=planned(inputs.vector_moments),
    output:
        "results/{dataset}/entropy.csv",
    log:
        "results/{dataset}/logs/measure_entropy.log",
    benchmark:
        "results/{dataset}/benchmarks/measure_entropy.tsv"
    priority: 1  # trainings of the mixtures that need entropies wait for it
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
    shell:
        RUN + r"""measure_entropy.py \
            --domains {params.domains:q} \
            --unigrams {input.unigrams:q} \
            --bigrams {input.bigrams:q} \
            --moments {input.moments:q} \
            --out {output:q} \
            2>{log:q}
        """


rule measure_cross_entropy:
    """Whose text resembles whose: held-out text of every domain under bigram models of all."""
    input:
        bigrams=collect("results/{{dataset}}/counts/{domain}.parquet", domain=setting("domains")),
        validation="results/{dataset}/tokens/validation.parquet",
    output:
        "results/{dataset}/cross_entropy.csv",
    log:
        "results/{dataset}/logs/measure_cross_entropy.log",
    benchmark:
        "results/{dataset}/benchmarks/measure_cross_entropy.tsv"
    wildcard_constraints:
        dataset=datasets_with("corpus"),
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
    shell:
        RUN + r"""measure_cross_entropy.py \
            --domains {params.domains:q} \
            --bigrams {input.bigrams:q} \
            --validation {input.validation:q} \
            --out {output:q} \
            2>{log:q}
        """


rule plot_entropy:
    """Entropy measures of the domains."""
    input:
        entropy="results/{dataset}/entropy.csv",
        code=script("plot_entropy", "results/figures"),
    output:
        figure=figure("entropy", "2 Mixtures", "Entropy of the domains"),
    log:
        "results/{dataset}/logs/plot_entropy.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        RUN + r"plot_entropy.py --entropy {input.entropy:q} --out {output.figure:q} 2>{log:q}"


rule plot_cross_entropy:
    """Whose text resembles whose."""
    input:
        cross_entropy=planned(inputs.prior),
        code=script("plot_cross_entropy", "results/figures"),
    output:
        figure=figure("cross_entropy", "3 Law", "Cross-entropies of the domains"),
    log:
        "results/{dataset}/logs/plot_cross_entropy.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        brought=brought(setting("domains", default=())),
    shell:
        RUN + r"plot_cross_entropy.py --cross-entropy {input.cross_entropy:q} --out {output.figure:q} 2>{log:q}"
