# Chapter 3: training.
#   tokens/*.parquet, mixtures/{mixture}.json -> runs/{model}/{run}/ -> losses/{model}/{group}.parquet
# The optimised mixture is trained on like any other. Scripts are no inputs here: a week of GPUs is never thrown away
# because a comment changed. What a run must be repeated for is in its fingerprint: it names the folder in state/ that holds
# the checkpoints and, at the end, the outputs, so that another configuration begins beside it and an older one comes back.


rule plan_runs:
    """What a dataset's trainings will cost, before any is started: runs, FLOPs, hours at a stated utilisation, disk."""
    input:
        tokenizer=branch(
            lookup("datasets/{dataset}/tokenizer/train", within=config, default=None),
            then=[],
            otherwise="results/{dataset}/tokenizer.json",
        ),
        script="workflow/scripts/plan_runs.py",
        module="workflow/scripts/bimix/budget.py",
    output:
        plan="results/{dataset}/plan.csv",
    log:
        "results/{dataset}/logs/plan_runs.log",
    benchmark:
        "results/{dataset}/benchmarks/plan_runs.tsv"
    wildcard_constraints:
        dataset=TRAINED,
    conda:
        "../../envs/torch.yaml"
    params:
        runs=planned_runs,
        models=as_json("models"),
        hardware=as_json("hardware"),
        vocabulary=setting("tokenizer/train/vocabulary", default=0),
        sequence_length=setting("sequence_length"),
        domains=lambda wildcards: len(DATASETS[wildcards.dataset]["domains"]),
    shell:
        r"""
        python workflow/scripts/plan_runs.py \
            --runs {params.runs:q} \
            --models {params.models:q} \
            --hardware {params.hardware:q} \
            --vocabulary {params.vocabulary} \
            --tokenizer {input.tokenizer:q} \
            --sequence-length {params.sequence_length} \
            --domains {params.domains} \
            --out {output.plan:q} \
            2>{log:q}
        """


rule pretrain_model:
    """Pretrain one model on one mixture; checkpoints live in state/, which Snakemake does not know and never deletes."""
    input:
        train="results/{dataset}/tokens/train.parquet",
        validation="results/{dataset}/tokens/validation.parquet",
        tokenizer="results/{dataset}/tokenizer.json",
        mixture=lambda wildcards: f"results/{wildcards.dataset}/mixtures/{wildcards.run.split('@')[0]}.json",
    output:
        losses="results/{dataset}/runs/{model}/{run}/losses.parquet",
        weights="results/{dataset}/runs/{model}/{run}/model.safetensors",
        report="results/{dataset}/runs/{model}/{run}/run.json",
    log:
        "results/{dataset}/logs/pretrain_model/{model}/{run}.log",
    benchmark:
        "results/{dataset}/benchmarks/pretrain_model/{model}/{run}.tsv"
    conda:
        "../../envs/torch.yaml"
    threads: entry("models/{model}/launch/threads")
    resources:
        gpu=gpus_of,
        nodes=entry("models/{model}/launch/nodes"),
        runtime=0,  # minutes; 0: no limit. A profile says how long (set-resources), and no run is repeated because of it
        micro_batch=entry("models/{model}/launch/micro_batch"),
        loss_chunk=entry("models/{model}/launch/loss_chunk"),
        compile=entry("models/{model}/launch/compile"),
        verify_shards=verifies_shards,
        keep=kept_steps,
    params:
        shape=as_json("models/{model}/shape"),
        recipe=recipe_json,
        state="results/{dataset}/runs/{model}/{run}/state",
    shell:
        r"""
        exec bash workflow/scripts/launch_training.sh {resources.gpu} {resources.nodes} {threads} {resources.runtime} \
            {log:q} {params.state:q}/logs \
            workflow/scripts/pretrain_model.py \
            --micro-batch {resources.micro_batch} \
            --loss-chunk {resources.loss_chunk} \
            $([ {resources.compile} = no ] || echo --compile) \
            $([ {resources.verify_shards} = yes ] || echo --trust-shards) \
            --train {input.train:q} \
            --validation {input.validation:q} \
            --tokenizer {input.tokenizer:q} \
            --mixture {input.mixture:q} \
            --shape {params.shape:q} \
            --recipe {params.recipe:q} \
            --state {params.state:q} \
            $([ {resources.keep} = none ] || echo --keep {resources.keep} | tr , ' ') \
            --losses {output.losses:q} \
            --weights {output.weights:q} \
            --report {output.report:q}
        """


rule gather_losses:
    """The losses of a group's runs as one tidy table: mixture, seed, step, tokens, domain, loss."""
    input:
        losses=run_losses,
    output:
        table="results/{dataset}/losses/{model}/{group}.parquet",
    log:
        "results/{dataset}/logs/gather_losses/{model}/{group}.log",
    benchmark:
        "results/{dataset}/benchmarks/gather_losses/{model}/{group}.tsv"
    wildcard_constraints:
        dataset=TRAINED,
        group=GATHERED,
    conda:
        "../../envs/analysis.yaml"
    params:
        names=run_column(1),
        seeds=run_column(2),
    shell:
        r"""
        python workflow/scripts/gather_losses.py \
            --losses {input.losses:q} \
            --names {params.names:q} \
            --seeds {params.seeds:q} \
            --out {output.table:q} \
            2>{log:q}
        """


rule export_model:
    """A trained model as a folder for transformers, vLLM and lm-evaluation-harness; made when it is asked for."""
    input:
        weights="results/{dataset}/runs/{model}/{mixture}/model.safetensors",
        tokenizer="results/{dataset}/tokenizer.json",
        script="workflow/scripts/export_model.py",
        module="workflow/scripts/bimix/export.py",
    output:
        folder=directory("results/{dataset}/runs/{model}/{mixture}/export"),
    log:
        "results/{dataset}/logs/export_model/{model}/{mixture}.log",
    benchmark:
        "results/{dataset}/benchmarks/export_model/{model}/{mixture}.tsv"
    conda:
        "../../envs/torch.yaml"
    params:
        end_of_text=lookup("datasets/{dataset}/tokenizer/end_of_text", within=config),
        sequence_length=lookup("datasets/{dataset}/sequence_length", within=config),
    shell:
        r"""
        python workflow/scripts/export_model.py \
            --weights {input.weights:q} \
            --tokenizer {input.tokenizer:q} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length} \
            --out {output.folder:q} \
            2>{log:q}
        """
