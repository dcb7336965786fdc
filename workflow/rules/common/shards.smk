# The raw files of a corpus, near or far away, and the shards that they are put together into.


def raw_files(dataset, split, patterns):
    """Files that paths, globs and lists (@file: one path to a line, bytes after a tab) stand for: (name, path, bytes)."""
    target = config["datasets"][dataset]["corpus"]["shard_megabytes"] * 10**6
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        if pattern.startswith("@"):
            found = list_files_of(dataset, split, Path(pattern[1:]), target)
            folder = os.path.commonprefix([os.path.dirname(path) + "/" for path, _ in found])
            folder = folder[: folder.rfind("/") + 1]
        elif not has_wildcards(pattern):
            # one file, perhaps not there yet or far away: it fills a shard
            found, folder = [(pattern, target)], pattern[: pattern.rfind("/") + 1]
        elif is_remote(pattern):
            found, folder = list_remote(dataset, split, pattern), re.split(r"[^/]*[*?\[]", pattern)[0]
        else:
            paths = sorted(glob(pattern, recursive=True))
            found, folder = [(path, os.path.getsize(path)) for path in paths if os.path.isfile(path)], re.split(
                r"[^/]*[*?\[]", pattern
            )[0]
        if not found:
            refuse(f"datasets/{dataset}/corpus/{split}", f"no file matches {pattern!r}.")
        yield from ((name_file(path, folder), path, size) for path, size in found)


def list_files_of(dataset, split, path, size):
    """Files (path, bytes) that a list names, one to a line; `size` of those without a number after a tab."""
    try:
        entries = [line.partition("\t") for line in path.read_text(encoding="utf-8").split("\n") if line]
        return [(name, int(given) if tab else size) for name, tab, given in entries]
    except (OSError, ValueError) as error:
        refuse(f"datasets/{dataset}/corpus/{split}", f"{str(path)!r} cannot be read as a list of files ({error}).")


def list_remote(dataset, split, pattern):
    """Files (path, bytes) far away that match a glob, as their store lists them."""
    from bimix.errors import InputError  # here only: most corpora lie on a disk
    from bimix.listing import list_files

    try:
        return list_files(pattern)
    except InputError as error:
        refuse(f"datasets/{dataset}/corpus/{split}", str(error))


def validation_kind(dataset):
    """How a dataset's validation documents are found: share (by hash), tokens (so many are drawn) or files."""
    validation = config["datasets"][dataset]["corpus"]["validation"]
    keys = [
        key
        for key in ("tokens", "share")
        if isinstance(validation, dict) and isinstance(validation.get(key), (int, float))
    ]
    return keys[0] if keys else "files"


def plan_shards(dataset):
    """All shards of a dataset by name."""
    corpus = config["datasets"][dataset]["corpus"]
    by_hash = validation_kind(dataset) == "share"
    published = corpus["validation"]
    if validation_kind(dataset) == "tokens":
        published = {
            domain: f"results/{dataset}/held_out/{domain}.jsonl" for domain in config["datasets"][dataset]["domains"]
        }
    if "harvest" in corpus:
        train = {domain: f"results/{dataset}/corpus/{domain}.jsonl" for domain in corpus["harvest"]}
    else:
        train = corpus["train"]
    planned = {}
    for split, source in (("train", train), ("validation", {} if by_hash else published)):
        for domain, patterns in (source if isinstance(source, dict) else {None: source}).items():
            files = raw_files(dataset, split, patterns)
            for name, paths in group_files(files, corpus["shard_megabytes"] * 10**6):
                name = ".".join(([split] if split == "validation" else []) + ([domain] if domain else []) + [name])
                if name in planned:
                    refuse(
                        f"datasets/{dataset}/corpus/{split}",
                        f"{paths[-1]!r} and {planned[name].files[-1]!r} share a name.",
                    )
                planned[name] = Shard(name, "hash" if by_hash else split, domain, paths)
    return planned


SHARDS = {}


def shards(dataset):
    """Shards of a dataset by name, as its manifest lists them.

    The manifest is written here, when Snakemake plans what it will run, so that all shards are known before the first job
    runs and no command line has to hold their names. Jobs on other machines read it, instead of asking for 10,000 files
    each. A call that runs nothing (-n, --dag) leaves it alone: jobs of another call may be reading it.
    """
    if dataset not in SHARDS:
        manifest = Path(f"results/{dataset}/shards.jsonl")
        written = manifest.read_text(encoding="utf-8") if manifest.exists() else ""
        runs_jobs = workflow.executor_plugin is not None and not workflow.dryrun
        if workflow.is_main_process or not written:
            try:
                SHARDS[dataset] = plan_shards(dataset)
            except InputError as error:
                end_planning(f"config: datasets/{dataset}/corpus: {error}")
            planned = write_shards(SHARDS[dataset].values())
            if planned != written and runs_jobs:
                manifest.parent.mkdir(parents=True, exist_ok=True)
                temporary = manifest.with_name(f".shards.{os.getpid()}.partial")
                # jobs need addresses as they are; those with secrets are for their owner alone
                temporary.touch(mode=0o666 if masked(planned) == planned else 0o600)
                temporary.write_text(planned, encoding="utf-8")
                os.replace(temporary, manifest)
        else:
            SHARDS[dataset] = read_shards(written.splitlines())
    return SHARDS[dataset]


def shard_folders(split):
    """A function of the wildcards that gives the folders of all shards."""
    return lambda wildcards: [
        f"results/{wildcards.dataset}/shards/{split}/{name}" for name in shards(wildcards.dataset)
    ]


def is_remote(path):
    return "://" in path


def local_files(dataset, paths):
    """Inputs that stand for raw files: those far away are none, drawn validation files are one folder."""
    drawn = Path("results", dataset, "held_out")
    return list(
        dict.fromkeys(str(drawn) if Path(path).parent == drawn else path for path in paths if not is_remote(path))
    )


def shard_files(wildcards):
    """Inputs of one shard."""
    return local_files(wildcards.dataset, shards(wildcards.dataset)[wildcards.shard].files)


def shard_hashes(wildcards):
    """Hashes of the documents that a shard of training files must leave out."""
    published = shards(wildcards.dataset)[wildcards.shard].split == "train"
    return [f"results/{wildcards.dataset}/held_out.hashes"] if published else []


def published_hashes(wildcards):
    """Those that the tokenizer must not be trained on; drawn ones are of the share that it does not read."""
    published = validation_kind(wildcards.dataset) == "files"
    return [f"results/{wildcards.dataset}/held_out.hashes"] if published else []


def shard_settings(wildcards):
    """What decides the shard's content besides its local files."""
    shard = shards(wildcards.dataset)[wildcards.shard]
    far = list(filter(is_remote, shard.files))
    # Snakemake keeps and prints parameters: a digest stands for what is hidden
    own = (
        [hashlib.sha256("\n".join(far).encode()).hexdigest()[:16]] if any(masked(path) != path for path in far) else []
    )
    return [shard.split, shard.domain, *map(masked, far), *own]


def shard_domains(wildcards):
    """Domains that the files of a shard may hold."""
    domain = shards(wildcards.dataset)[wildcards.shard].domain
    return [domain] if domain else config["datasets"][wildcards.dataset]["domains"]


def training_files(wildcards):
    """All files that training documents come from."""
    own = [shard for shard in shards(wildcards.dataset).values() if shard.split != "validation"]
    return [path for shard in own for path in shard.files]


def corpus_files(wildcards):
    return local_files(wildcards.dataset, training_files(wildcards))


def validation_paths(wildcards):
    """All files of validation documents."""
    own = [shard for shard in shards(wildcards.dataset).values() if shard.split == "validation"]
    return [path for shard in own for path in shard.files]


def validation_files(wildcards):
    return local_files(wildcards.dataset, validation_paths(wildcards))


def digest(names):
    """A function of the wildcards that stands for a long list as a parameter: what has it runs again with the list."""
    return lambda wildcards: hashlib.sha256("\n".join(names(wildcards)).encode()).hexdigest()[:16]


def shard_names(wildcards):
    return list(shards(wildcards.dataset))


def vectors_model(wildcards):
    """The FastText model of a dataset: a file that the config names, or the one trained on the corpus."""
    vectors = config["datasets"][wildcards.dataset]["vectors"]
    return vectors.get("file", f"results/{wildcards.dataset}/vectors/model.bin")
