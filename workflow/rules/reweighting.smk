# Mixtures that a method finds while it trains a model of its own: DoReMi, DoGE.
#   tokens/*.parquet, runs/{model}/{reference}/model.safetensors -> reweighting/{model}/{method}/
#       -> mixtures/{method}.json
# Which model and which reference: `reweighting` in the dataset's block. As of pretrain_model,
# scripts are no inputs.


rule train_doremi:
    """DoReMi's proxy next to the reference."""
    input:
        **TOKENS,
        reference=collect(
            "results/{{dataset}}/runs/{{model}}/{reference}/model.safetensors",
            reference=setting("reweighting/reference"),
        ),
    output:
        path="results/{dataset}/reweighting/{model}/doremi/path.parquet",
        losses="results/{dataset}/reweighting/{model}/doremi/losses.parquet",
        report="results/{dataset}/reweighting/{model}/doremi/run.json",
        mixture="results/{dataset}/reweighting/{model}/doremi/mixture.json",
    log:
        "results/{dataset}/logs/train_doremi/{model}.log",
    benchmark:
        "results/{dataset}/benchmarks/train_doremi/{model}.tsv"
    wildcard_constraints:
        dataset=datasets_with("reweighting"),
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        **LAUNCH,
        gpu=GPUS,
        nodes=entry("models/{model}/launch/nodes"),
    params:
        shape=as_json("models/{model}/shape"),
        recipe=as_json("datasets/{dataset}/reweighting/doremi"),
        state="results/{dataset}/reweighting/{model}/doremi/state",
    shell:
        LAUNCHER
        + r"""{resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            {log:q} {params.state:q}/logs train_doremi.py """
        + TRAINING_FLAGS
        + r"""--log-with {resources.log_with} \
            --reference {input.reference:q} \
            --mixture {output.mixture:q} \
            --path {output.path:q} \
            --losses {output.losses:q} \
            --report {output.report:q}
        """


rule train_doge:
    """DoGE's proxy."""
    input:
        **TOKENS,
    output:
        path="results/{dataset}/reweighting/{model}/doge/path.parquet",
        losses="results/{dataset}/reweighting/{model}/doge/losses.parquet",
        report="results/{dataset}/reweighting/{model}/doge/run.json",
        mixture="results/{dataset}/reweighting/{model}/doge/mixture.json",
    log:
        "results/{dataset}/logs/train_doge/{model}.log",
    benchmark:
        "results/{dataset}/benchmarks/train_doge/{model}.tsv"
    wildcard_constraints:
        dataset=datasets_with("reweighting"),
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        **LAUNCH,
        gpu=GPUS,
        nodes=entry("models/{model}/launch/nodes"),
    params:
        shape=as_json("models/{model}/shape"),
        recipe=as_json("datasets/{dataset}/reweighting/doge"),
        state="results/{dataset}/reweighting/{model}/doge/state",
    shell:
        LAUNCHER
        + r"""{resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            {log:q} {params.state:q}/logs train_doge.py """
        + TRAINING_FLAGS
        + r"""--log-with {resources.log_with} \
            --mixture {output.mixture:q} \
            --path {output.path:q} \
            --losses {output.losses:q} \
            --report {output.report:q}
        """
