# Data: raw text -> tokenizer -> shards of token rows and counts -> index, n-gram counts, vectors -> entropies.
#
# datasets/{dataset}/corpus and tokenizer of the config -> results/{dataset}/tokens/{train,validation}.parquet
# and results/{dataset}/entropy.csv
#
# Cheap rules list their script and the modules that decide the result as inputs. The tokenizer's and the shards' do not:
# no corpus is tokenised again because a comment changed.


rule collect_text:
    """Harvest one domain of the demo's corpus from the installed packages."""
    output:
        "results/{dataset}/corpus/{domain}.jsonl",
    log:
        "results/{dataset}/logs/collect_text/{domain}.log",
    benchmark:
        "results/{dataset}/benchmarks/collect_text/{domain}.tsv"
    conda:
        "../../envs/torch.yaml"
    params:
        kind=lookup("datasets/{dataset}/corpus/harvest/{domain}/kind", within=config),
        packages=lookup("datasets/{dataset}/corpus/harvest/{domain}/packages", within=config),
        suffixes=lookup("datasets/{dataset}/corpus/harvest/{domain}/suffixes", within=config),
        megabytes=lookup("datasets/{dataset}/corpus/harvest/{domain}/megabytes", within=config),
        characters=setting("corpus/cut_characters"),
    shell:
        r"""
        python workflow/scripts/collect_text.py \
            --kind {params.kind:q} \
            --packages {params.packages:q} \
            --suffixes {params.suffixes:q} \
            --megabytes {params.megabytes:q} \
            --characters {params.characters:q} \
            --out {output:q} \
            2>{log:q}
        """


rule train_tokenizer:
    """Train the dataset's tokenizer on its training documents."""
    input:
        files=corpus_files,
        held_out=published_hashes,
    output:
        "results/{dataset}/tokenizer.json",
    log:
        "results/{dataset}/logs/train_tokenizer.log",
    benchmark:
        "results/{dataset}/benchmarks/train_tokenizer.tsv"
    wildcard_constraints:
        dataset=TRAINED_TOKENIZERS,
    conda:
        "../../envs/analysis.yaml"
    threads: 4
    params:
        shards="results/{dataset}/shards.jsonl",
        files=digest(training_files),
        formats=as_json("datasets/{dataset}/corpus/formats"),
        text_field=setting("corpus/text_field"),
        document_megabytes=setting("corpus/document_megabytes"),
        cut_characters=as_json("datasets/{dataset}/corpus/cut_characters"),
        rejects=setting("corpus/rejects"),
        validation_share=setting("corpus/validation/share", 0),
        share=setting("tokenizer/train/share"),
        vocabulary=setting("tokenizer/train/vocabulary"),
        end_of_text=setting("tokenizer/end_of_text"),
    shell:
        r"""
        python workflow/scripts/train_tokenizer.py \
            --shards {params.shards:q} \
            --formats {params.formats:q} \
            --text-field {params.text_field:q} \
            --document-megabytes {params.document_megabytes:q} \
            --cut-characters {params.cut_characters:q} \
            --rejects {params.rejects:q} \
            --validation-share {params.validation_share:q} \
            --held-out {input.held_out:q} \
            --share {params.share:q} \
            --vocabulary {params.vocabulary:q} \
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
    benchmark:
        "results/{dataset}/benchmarks/fetch_tokenizer.tsv"
    wildcard_constraints:
        dataset=FETCHED_TOKENIZERS,
    conda:
        "../../envs/analysis.yaml"
    params:
        source=as_json("datasets/{dataset}/tokenizer"),
        end_of_text=setting("tokenizer/end_of_text"),
    shell:
        r"""
        python workflow/scripts/fetch_tokenizer.py \
            --source {params.source:q} \
            --end-of-text {params.end_of_text:q} \
            --out {output:q} \
            2>{log:q}
        """


rule draw_validation:
    """Draw a fixed number of validation tokens of each domain from the training files."""
    input:
        tokenizer="results/{dataset}/tokenizer.json",
        files=corpus_files,
    output:
        directory("results/{dataset}/held_out"),
    log:
        "results/{dataset}/logs/draw_validation.log",
    benchmark:
        "results/{dataset}/benchmarks/draw_validation.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        shards="results/{dataset}/shards.jsonl",
        files=digest(training_files),
        formats=as_json("datasets/{dataset}/corpus/formats"),
        text_field=setting("corpus/text_field"),
        domain_field=as_json("datasets/{dataset}/corpus/domain_field"),
        domains=setting("domains"),
        labels=as_json("datasets/{dataset}/corpus/labels"),
        document_megabytes=setting("corpus/document_megabytes"),
        cut_characters=as_json("datasets/{dataset}/corpus/cut_characters"),
        rejects=setting("corpus/rejects"),
        tokens=setting("corpus/validation/tokens"),
        share=setting("corpus/validation/share"),
    shell:
        r"""
        python workflow/scripts/draw_validation.py \
            --shards {params.shards:q} \
            --tokenizer {input.tokenizer:q} \
            --formats {params.formats:q} \
            --text-field {params.text_field:q} \
            --domain-field {params.domain_field:q} \
            --domains {params.domains:q} \
            --labels {params.labels:q} \
            --document-megabytes {params.document_megabytes:q} \
            --cut-characters {params.cut_characters:q} \
            --rejects {params.rejects:q} \
            --tokens {params.tokens:q} \
            --share {params.share:q} \
            --out {output:q} \
            2>{log:q}
        """


rule hash_validation:
    """Hashes of the documents in validation files, which no training shard may hold."""
    input:
        files=validation_files,
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
        files=digest(validation_paths),
        formats=as_json("datasets/{dataset}/corpus/formats"),
        text_field=setting("corpus/text_field"),
        document_megabytes=setting("corpus/document_megabytes"),
        cut_characters=as_json("datasets/{dataset}/corpus/cut_characters"),
        rejects=setting("corpus/rejects"),
    shell:
        r"""
        python workflow/scripts/hash_validation.py \
            --shards {params.shards:q} \
            --formats {params.formats:q} \
            --text-field {params.text_field:q} \
            --document-megabytes {params.document_megabytes:q} \
            --cut-characters {params.cut_characters:q} \
            --rejects {params.rejects:q} \
            --out {output:q} \
            2>{log:q}
        """


rule tokenize_shard:
    """Read the raw files of a shard once; write rows, counts, samples and a report of both splits."""
    input:
        tokenizer="results/{dataset}/tokenizer.json",
        files=shard_files,
        held_out=shard_hashes,
    output:
        train=directory("results/{dataset}/shards/train/{shard}"),
        validation=directory("results/{dataset}/shards/validation/{shard}"),
    log:
        "results/{dataset}/logs/tokenize_shard/{shard}.log",
    benchmark:
        "results/{dataset}/benchmarks/tokenize_shard/{shard}.tsv"
    conda:
        "../../envs/analysis.yaml"
    threads: 2
    resources:  # which encodes is no parameter: the ids are the same, so nothing runs again when it changes
        backend=setting("corpus/backend"),
    params:
        end_of_text=setting("tokenizer/end_of_text"),
        sequence_length=setting("sequence_length"),
        formats=as_json("datasets/{dataset}/corpus/formats"),
        text_field=setting("corpus/text_field"),
        domain_field=as_json("datasets/{dataset}/corpus/domain_field"),
        domains=shard_domains,
        labels=as_json("datasets/{dataset}/corpus/labels"),
        document_megabytes=setting("corpus/document_megabytes"),
        cut_characters=as_json("datasets/{dataset}/corpus/cut_characters"),
        rejects=setting("corpus/rejects"),
        shards="results/{dataset}/shards.jsonl",
        shard=shard_settings,
        validation_share=setting("corpus/validation/share", 0),
        sample_documents=setting("vectors/documents"),
    shell:
        r"""
        python workflow/scripts/tokenize_shard.py \
            --shards {params.shards:q} \
            --shard={wildcards.shard:q} \
            --tokenizer {input.tokenizer:q} \
            --backend {resources.backend} \
            --end-of-text {params.end_of_text:q} \
            --sequence-length {params.sequence_length:q} \
            --formats {params.formats:q} \
            --text-field {params.text_field:q} \
            --domain-field {params.domain_field:q} \
            --domains {params.domains:q} \
            --labels {params.labels:q} \
            --document-megabytes {params.document_megabytes:q} \
            --cut-characters {params.cut_characters:q} \
            --rejects {params.rejects:q} \
            --validation-share {params.validation_share:q} \
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
        train=shard_folders("train"),
        validation=shard_folders("validation"),
    output:
        train="results/{dataset}/tokens/train.parquet",
        validation="results/{dataset}/tokens/validation.parquet",
    log:
        "results/{dataset}/logs/index_tokens.log",
    benchmark:
        "results/{dataset}/benchmarks/index_tokens.tsv"
    localrule: True
    conda:
        "../../envs/analysis.yaml"
    params:
        shards="results/{dataset}/shards.jsonl",
        names=digest(shard_names),
        folder="results/{dataset}/shards",
        domains=setting("domains"),
    shell:
        r"""
        python workflow/scripts/index_tokens.py \
            --folder {params.folder:q} \
            --shards {params.shards:q} \
            --domains {params.domains:q} \
            --train {output.train:q} \
            --validation {output.validation:q} \
            2>{log:q}
        """


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
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/merge_counts.py \
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
        dataset=TRAINED_VECTORS,
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        documents=setting("vectors/documents"),
        settings=as_json("datasets/{dataset}/vectors/train"),
    shell:
        r"""
        python workflow/scripts/train_vectors.py \
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
        model=vectors_model,
        index="results/{dataset}/tokens/train.parquet",
    output:
        "results/{dataset}/vectors/{domain}.npz",
    log:
        "results/{dataset}/logs/embed_documents/{domain}.log",
    benchmark:
        "results/{dataset}/benchmarks/embed_documents/{domain}.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        documents=setting("vectors/documents"),
    shell:
        r"""
        python workflow/scripts/embed_documents.py \
            --model {input.model:q} \
            --index {input.index:q} \
            --domain {wildcards.domain:q} \
            --domains {params.domains:q} \
            --documents {params.documents:q} \
            --out {output:q} \
            2>{log:q}
        """


rule measure_entropy:
    """Shannon, joint, conditional and von Neumann entropy of every domain."""
    input:
        unigrams=collect(
            "results/{{dataset}}/unigrams/{domain}.parquet", domain=lookup("datasets/{dataset}/domains", within=config)
        ),
        bigrams=collect(
            "results/{{dataset}}/counts/{domain}.parquet", domain=lookup("datasets/{dataset}/domains", within=config)
        ),
        moments=collect(
            "results/{{dataset}}/vectors/{domain}.npz", domain=lookup("datasets/{dataset}/domains", within=config)
        ),
    output:
        "results/{dataset}/entropy.csv",
    log:
        "results/{dataset}/logs/measure_entropy.log",
    benchmark:
        "results/{dataset}/benchmarks/measure_entropy.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
    shell:
        r"""
        python workflow/scripts/measure_entropy.py \
            --domains {params.domains:q} \
            --unigrams {input.unigrams:q} \
            --bigrams {input.bigrams:q} \
            --moments {input.moments:q} \
            --out {output:q} \
            2>{log:q}
        """


rule trace_entropy:
    """Entropies of every domain against the tokens they are estimated from."""
    input:
        index="results/{dataset}/tokens/train.parquet",
    output:
        "results/{dataset}/entropy_curves.csv",
    log:
        "results/{dataset}/logs/trace_entropy.log",
    benchmark:
        "results/{dataset}/benchmarks/trace_entropy.tsv"
    conda:
        "../../envs/analysis.yaml"
    params:
        domains=setting("domains"),
        tokens=setting("entropy/curve_tokens"),
    shell:
        r"""
        python workflow/scripts/trace_entropy.py \
            --index {input.index:q} \
            --domains {params.domains:q} \
            --tokens {params.tokens:q} \
            --out {output:q} \
            2>{log:q}
        """


rule compare_choices:
    """How much each choice of an entropy estimate moves the mixtures."""
    input:
        script="workflow/scripts/compare_choices.py",
        entropy="results/{dataset}/entropy.csv",
        curves="results/{dataset}/entropy_curves.csv",
    output:
        "results/{dataset}/tables/entropy_choices.csv",
    log:
        "results/{dataset}/logs/compare_choices.log",
    benchmark:
        "results/{dataset}/benchmarks/compare_choices.tsv"
    conda:
        "../../envs/analysis.yaml"
    shell:
        r"""
        python workflow/scripts/compare_choices.py \
            --entropy {input.entropy:q} \
            --curves {input.curves:q} \
            --out {output:q} \
            2>{log:q}
        """
