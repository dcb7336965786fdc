# Data: raw text -> tokenizer -> shards of token rows, n-gram counts and samples -> the index that
# trainings read.
#   corpus, tokenizer of the dataset's block
#       -> tokenizer.json, shards/{split}/{shard}/, tokens/{split}.parquet
# The scripts are no inputs: no corpus is tokenised again because a comment changed.


rule collect_text:
    """Harvest one domain of the demo's corpus from the installed packages."""
    output:
        "results/{dataset}/corpus/{domain}.jsonl",
    log:
        "results/{dataset}/logs/collect_text/{domain}.log",
    conda:
        "../../envs/torch.yaml"
    params:
        kind=setting("corpus/harvest/{domain}/kind"),
        packages=setting("corpus/harvest/{domain}/packages"),
        suffixes=setting("corpus/harvest/{domain}/suffixes"),
        megabytes=setting("corpus/harvest/{domain}/megabytes"),
    shell:
        RUN + r"""collect_text.py \
            --kind {params.kind:q} \
            --packages {params.packages:q} \
            --suffixes {params.suffixes:q} \
            --megabytes {params.megabytes:q} \
            --out {output:q} \
            2>{log:q}
        """


rule train_tokenizer:
    """Train the dataset's tokenizer on its training documents.

    No digest of these is a parameter, nor are lengths by domain and what to do with few words: text
    that comes later keeps the tokenizer, or all losses would be in other units than those of the
    runs before it.
    """
    input:
        # No hashes of validation documents, not as `ancient` ones either: Snakemake looks at no
        # setting of jobs behind one that must run, so that shards would keep the text they had.
        files=planned(lambda shards: shards.made_inputs("train", "validation")),
    output:
        "results/{dataset}/tokenizer.json",
    log:
        "results/{dataset}/logs/train_tokenizer.log",
    benchmark:
        "results/{dataset}/benchmarks/train_tokenizer.tsv"
    wildcard_constraints:
        dataset=datasets_with("tokenizer/train"),
    conda:
        "../../envs/analysis.yaml"
    threads: 4
    params:
        shards="results/{dataset}/shards.jsonl",
        reading=as_json(planned(reading)),
        validation_share=setting("corpus/validation/share", 0),
        held_out_characters=uncompared(as_json("datasets/{dataset}/corpus/held_out_characters")),
        length=planned(held_out_length),
        share=setting("tokenizer/train/share"),
        vocabulary=setting("tokenizer/train/vocabulary"),
        fewer=uncompared(as_json("datasets/{dataset}/tokenizer/train/fewer", False)),
        usual="false",  # as `fewer` was compared: tokenizers of a set vocabulary stay
        end_of_text=setting("tokenizer/end_of_text"),
    shell:
        RUN + r"""train_tokenizer.py \
            --shards {params.shards:q} \
            --reading {params.reading:q} \
            --validation-share {params.validation_share:q} \
            --held-out-characters {params.held_out_characters:q} \
            --share {params.share:q} \
            --vocabulary {params.vocabulary:q} \
            --fewer {params.fewer:q} \
            --end-of-text {params.end_of_text:q} \
            --threads {threads} \
            --out {output:q} \
            2>{log:q}
        """


rule fetch_tokenizer:
    """Copy the dataset's tokenizer from a file or from the hub."""
    output:
        "results/{dataset}/tokenizer.json",
    log:
        "results/{dataset}/logs/fetch_tokenizer.log",
    wildcard_constraints:
        dataset=datasets_with("tokenizer", but="tokenizer/train"),
    conda:
        "../../envs/analysis.yaml"
    params:
        source=as_json("datasets/{dataset}/tokenizer"),
        version=planned(lambda dataset: file_version(dataset, dataset.block["tokenizer"].get("file"))),
        end_of_text=setting("tokenizer/end_of_text"),
    shell:
        RUN + r"""fetch_tokenizer.py \
            --source {params.source:q} \
            --end-of-text {params.end_of_text:q} \
            --out {output:q} \
            2>{log:q}
        """


rule hash_validation:
    """Hashes of the documents in validation files, which no training shard may hold."""
    input:
        files=planned(lambda shards: shards.made_inputs("validation")),
    output:
        "results/{dataset}/held_out.hashes",
    log:
        "results/{dataset}/logs/hash_validation.log",
    benchmark:
        "results/{dataset}/benchmarks/hash_validation.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        shards="results/{dataset}/shards.jsonl",
        files=planned(lambda shards: shards.digest("validation")),
        reading=as_json(planned(reading)),
    shell:
        RUN + r"hash_validation.py --shards {params.shards:q} --reading {params.reading:q} --out {output:q} 2>{log:q}"


rule tokenize_shard:
    """Read a shard's raw files once; write rows, counts, samples and a report of both splits."""
    input:
        tokenizer="results/{dataset}/tokenizer.json",
        files=planned(
            lambda dataset, shards, shard: there(
                dataset, shards.local_files(shards.by_name[shard].files), f"{dataset.folder}/shards/train/{shard}"
            )
        ),
        held_out=planned(lambda shards, shard: shards.hashes(shard)),
    output:
        train=directory("results/{dataset}/shards/train/{shard}"),
        validation=directory("results/{dataset}/shards/validation/{shard}"),
    log:
        "results/{dataset}/logs/tokenize_shard/{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/tokenize_shard/{shard}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: planned(lambda shards, shard: shards.threads(shard))
    resources:  # which encodes is no parameter: the ids are the same, so nothing runs again when it changes
        backend=setting("corpus/backend"),
    params:
        end_of_text=setting("tokenizer/end_of_text"),
        sequence_length=setting("sequence_length"),
        reading=as_json(planned(reading)),
        domain_field=as_json("datasets/{dataset}/corpus/domain_field"),
        domains=planned(lambda shards, shard: shards.domains(shard)),
        labels=as_json("datasets/{dataset}/corpus/labels"),
        shards="results/{dataset}/shards.jsonl",
        shard=planned(lambda shards, shard: shards.settings(shard)),
        validation_share=setting("corpus/validation/share", 0),
        held_out_characters=planned(lambda shards, shard: shards.longest_held_out(shard)),
        # as many where there are no vectors yet: no corpus is tokenised again for the mixture vne
        sample_documents=setting("vectors/documents", SAMPLED),
    shell:
        RUN + r"""tokenize_shard.py \
            --shards {params.shards:q} \
            --shard={wildcards.shard:q} \
            --tokenizer {input.tokenizer:q} \
            --backend {resources.backend} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length:q} \
            --reading {params.reading:q} \
            --domain-field {params.domain_field:q} \
            --domains {params.domains:q} \
            --labels {params.labels:q} \
            --validation-share {params.validation_share:q} \
            --held-out-characters {params.held_out_characters:q} \
            --held-out {input.held_out:q} \
            --sample-documents {params.sample_documents:q} \
            --threads {threads} \
            --train {output.train:q} \
            --validation {output.validation:q} \
            2>{log:q}
        """


rule index_tokens:
    """List the rows of all shards, by split; a domain without a row stops here."""
    input:
        train=collect("results/{{dataset}}/shards/train/{shard}", shard=planned(lambda shards: list(shards.by_name))),
        validation=collect(
            "results/{{dataset}}/shards/validation/{shard}", shard=planned(lambda shards: list(shards.by_name))
        ),
    output:
        train="results/{dataset}/tokens/train.parquet",
        validation="results/{dataset}/tokens/validation.parquet",
    log:
        "results/{dataset}/logs/index_tokens.log",
    localrule: True
    conda:
        "../../envs/analysis.yaml"
    params:
        shards="results/{dataset}/shards.jsonl",
        names=planned(lambda shards: digest(shards.by_name)),
        folder="results/{dataset}/shards",
        domains=setting("domains"),
        weights=uncompared(bound("weights")),  # for a remark
    shell:
        RUN + r"""index_tokens.py \
            --folder {params.folder:q} \
            --shards {params.shards:q} \
            --domains {params.domains:q} \
            --weights {params.weights:q} \
            --train {output.train:q} \
            --validation {output.validation:q} \
            2>{log:q}
        """
