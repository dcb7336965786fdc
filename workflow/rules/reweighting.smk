# Chapter 3b: mixtures that a method finds while it trains a model of its own.
#   tokens/*.parquet, runs/{model}/{reference}/model.safetensors -> reweighting/{model}/{method}/ -> mixtures/{method}.json
# Which model and which reference: `reweighting` in the dataset's block. Like pretrain_model, nothing here lists its scripts.


checkpoint train_doremi:
    """DoReMi's proxy beside the reference; round 2 and later take the mixture of the round before for the reference.

    A checkpoint, since only its mixture says whether another round is needed (and only where `rounds` is above 1).
    """
    input:
        train="results/{dataset}/tokens/train.parquet",
        validation="results/{dataset}/tokens/validation.parquet",
        tokenizer="results/{dataset}/tokenizer.json",
        reference=doremi_reference("results/{dataset}/runs/{model}/{reference}/model.safetensors"),
        reference_mixture=doremi_reference("results/{dataset}/mixtures/{reference}.json"),
    output:
        path="results/{dataset}/reweighting/{model}/doremi/{round}/path.parquet",
        losses="results/{dataset}/reweighting/{model}/doremi/{round}/losses.parquet",
        report="results/{dataset}/reweighting/{model}/doremi/{round}/run.json",
        mixture="results/{dataset}/reweighting/{model}/doremi/{round}/mixture.json",
    log:
        "results/{dataset}/logs/train_doremi/{model}/{round}.log",
    benchmark:
        "results/{dataset}/benchmarks/train_doremi/{model}/{round}.tsv"
    wildcard_constraints:
        dataset=REWEIGHTED,
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        gpu=gpus_of,
        nodes=entry("models/{model}/launch/nodes"),
        runtime=0,  # as of pretrain_model
        micro_batch=entry("models/{model}/launch/micro_batch"),
        loss_chunk=entry("models/{model}/launch/loss_chunk"),
        compile=entry("models/{model}/launch/compile"),
    params:
        shape=as_json("models/{model}/shape"),
        recipe=reweighting_recipe("doremi"),
        step_size=setting("reweighting/doremi/step_size"),
        smoothing=setting("reweighting/doremi/smoothing"),
        state="results/{dataset}/reweighting/{model}/doremi/{round}/state",
    shell:
        r"""
        exec bash workflow/scripts/launch_training.sh {resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            workflow/scripts/train_doremi.py \
            --micro-batch {resources.micro_batch} \
            --loss-chunk {resources.loss_chunk} \
            $([ {resources.compile} = no ] || echo --compile) \
            --train {input.train:q} \
            --validation {input.validation:q} \
            --tokenizer {input.tokenizer:q} \
            --reference {input.reference:q} \
            --reference-mixture {input.reference_mixture:q} \
            --shape {params.shape:q} \
            --recipe {params.recipe:q} \
            --step-size {params.step_size} \
            --smoothing {params.smoothing} \
            --state {params.state:q} \
            --mixture {output.mixture:q} \
            --path {output.path:q} \
            --losses {output.losses:q} \
            --report {output.report:q} \
            2>{log:q}
        """


rule train_doge:
    """DoGE's proxy; towards the targets of another dataset where the block `reweighting` names them."""
    input:
        train="results/{dataset}/tokens/train.parquet",
        validation="results/{dataset}/tokens/validation.parquet",
        tokenizer="results/{dataset}/tokenizer.json",
        targets=doge_targets("results/{dataset}/tokens/train.parquet"),
        target_tokenizer=doge_targets("results/{dataset}/tokenizer.json"),
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
        dataset=REWEIGHTED,
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        gpu=gpus_of,
        nodes=entry("models/{model}/launch/nodes"),
        runtime=0,  # as of pretrain_model
        micro_batch=entry("models/{model}/launch/micro_batch"),
        loss_chunk=entry("models/{model}/launch/loss_chunk"),
        compile=entry("models/{model}/launch/compile"),
    params:
        shape=as_json("models/{model}/shape"),
        recipe=reweighting_recipe("doge"),
        target=setting("reweighting/doge/target"),
        regularization=doge_regularization,
        score_limit=setting("reweighting/doge/score_limit"),
        target_domains=setting("reweighting/targets/domains", default=[]),
        state="results/{dataset}/reweighting/{model}/doge/state",
    shell:
        r"""
        exec bash workflow/scripts/launch_training.sh {resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            workflow/scripts/train_doge.py \
            --micro-batch {resources.micro_batch} \
            --loss-chunk {resources.loss_chunk} \
            $([ {resources.compile} = no ] || echo --compile) \
            --train {input.train:q} \
            --validation {input.validation:q} \
            --tokenizer {input.tokenizer:q} \
            --target {params.target} \
            --targets {input.targets:q} \
            --target-tokenizer {input.target_tokenizer:q} \
            --target-domains {params.target_domains:q} \
            --shape {params.shape:q} \
            --recipe {params.recipe:q} \
            --regularization {params.regularization} \
            --score-limit {params.score_limit} \
            --state {params.state:q} \
            --mixture {output.mixture:q} \
            --path {output.path:q} \
            --losses {output.losses:q} \
            --report {output.report:q} \
            2>{log:q}
        """


rule take_weights:
    """The mixture of a method that reweighs, or of one round of DoReMi, among the others."""
    input:
        mixture=reweighted_mixture,
    output:
        mixture="results/{dataset}/mixtures/{reweighted}.json",
    log:
        "results/{dataset}/logs/take_weights/{reweighted}.log",
    benchmark:
        "results/{dataset}/benchmarks/take_weights/{reweighted}.tsv"
    wildcard_constraints:
        dataset=REWEIGHTED,
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=lookup("datasets/{dataset}/domains", within=config),
    shell:
        r"""
        python workflow/scripts/take_weights.py \
            --mixture {input.mixture:q} \
            --domains {params.domains:q} \
            --out {output.mixture:q} \
            2>{log:q}
        """
