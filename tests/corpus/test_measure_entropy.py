"""From text to entropy.csv: sources of known entropy, the chain rule, shards that add up."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tiny_run import READING
from tokenised import call
from tokenizers import Tokenizer, models, pre_tokenizers

import embed_documents
import index_tokens
import measure_entropy
import merge_counts
import tokenize_shard
import train_vectors
from bimix.corpus.shards import Shard, write_shards

WORDS = 12
FASTTEXT = {"vector_size": 10, "epochs": 2, "min_count": 1, "bucket": 100, "min_n": 2, "max_n": 3, "seed": 1}


def draw(transitions: np.ndarray, length: int, seed: int) -> list[str]:
    """Words of a Markov chain."""
    cumulative = transitions.cumsum(axis=1)
    state, states = 0, []
    for number in np.random.default_rng(seed).random(length):
        state = min(int(np.searchsorted(cumulative[state], number)), len(transitions) - 1)
        states.append(f"w{state}")
    return states


class Chain:
    """A folder in which domains of text go through the scripts, a shard for each file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shards = folder, []
        vocabulary = {f"w{number}": number for number in range(WORDS)} | {"END": WORDS}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="w0"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        tokenizer.save(str(folder / "tokenizer.json"))

    def tokenize(self, domain: str, documents: list[str], length: int, cut: int | None = None) -> None:
        for split in ("train", "validation"):
            shard = f"{len(self.shards)}"
            raw = self.folder / f"{shard}.jsonl"
            self.shards.append(Shard(shard, split, domain, (str(raw),)))
            (self.folder / "shards.jsonl").write_text(write_shards(self.shards))
            raw.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
            call(
                tokenize_shard,
                shards=self.folder / "shards.jsonl",
                shard=shard,
                tokenizer=self.folder / "tokenizer.json",
                backend="tokenizers",
                end_of_text="END",
                sequence_length=length,
                reading=json.dumps(READING | {"cut_characters": cut}),
                domain_field="null",
                domains=domain,
                labels="{}",
                held_out_characters=20000,
                validation_share=0,
                held_out=[],
                sample_documents=40,
                threads=1,
                train=self.folder / "train" / shard,
                validation=self.folder / "validation" / shard,
            )

    def measure(self, domains: list[str]) -> pl.DataFrame:
        folder, train = self.folder, self.folder / "train.parquet"
        indices = {"train": train, "validation": folder / "validation.parquet"}
        call(index_tokens, folder=folder, shards=folder / "shards.jsonl", domains=domains, **indices)
        endings = {"unigrams": "unigrams.parquet", "bigrams": "bigrams.parquet", "moments": "npz"}
        files = {name: [f"{folder}/{domain}.{ending}" for domain in domains] for name, ending in endings.items()}
        sampled = {"index": train, "domains": domains, "documents": 40}
        call(train_vectors, **sampled, settings=json.dumps(FASTTEXT), out=folder / "model.bin")
        for domain, unigrams, bigrams, moments in zip(domains, *files.values(), strict=True):
            call(merge_counts, index=train, domain=domain, bigrams=bigrams, unigrams=unigrams)
            call(embed_documents, model=folder / "model.bin", **sampled, domain=domain, out=moments)
        call(measure_entropy, domains=domains, **files, out=folder / "entropy.csv")
        return pl.read_csv(folder / "entropy.csv")


def nats(table: pl.DataFrame, domain: str, measure: str) -> float:
    return table.filter(pl.col("domain") == domain, pl.col("measure") == measure)["nats"].item()


def test_entropies_of_known_sources(tmp_path):
    generator = np.random.default_rng(1)
    p = generator.dirichlet(np.full(WORDS, 1.0))
    rates = generator.dirichlet(np.full(WORDS, 0.5), size=WORDS)
    values, vectors = np.linalg.eig(rates.T)
    stationary = np.abs(np.real(vectors[:, np.argmax(np.real(values))]))
    stationary /= stationary.sum()

    chain = Chain(tmp_path)
    length, cycle = 120_000, [f"w{number % 4}" for number in range(8_000)]
    # few documents, so that the end of text hardly enters; several, so that vectors
    # have something to sample
    for domain, states in {
        "independent (i.i.d.)": draw(np.tile(p, (WORDS, 1)), length, 2),
        "markov": draw(rates, length, 3),
        "cycle": cycle,
    }.items():
        chain.tokenize(domain, [" ".join(part) for part in np.array_split(states, 4)], 64)
    domains = ["independent (i.i.d.)", "markov", "cycle"]
    table = chain.measure(domains)
    files = {kind: [f"{tmp_path}/{domain}.{kind}.parquet" for domain in domains] for kind in ("unigrams", "bigrams")}
    call(measure_entropy, domains=domains, **files, moments=[], out=tmp_path / "counted.csv")
    counted = table.filter(pl.col("measure") != "VNE")
    # without vectors the rest is the same
    assert pl.read_csv(tmp_path / "counted.csv", schema=table.schema).equals(counted)

    shannon = -(p * np.log(p)).sum()
    assert nats(table, "independent (i.i.d.)", "SE") == pytest.approx(shannon, abs=0.01)
    assert nats(table, "independent (i.i.d.)", "CE") == pytest.approx(shannon, abs=0.01)
    assert nats(table, "independent (i.i.d.)", "JE") == pytest.approx(2 * shannon, abs=0.02)
    entropy, rate = -(stationary * np.log(stationary)).sum(), -(stationary[:, None] * rates * np.log(rates)).sum()
    assert nats(table, "markov", "SE") == pytest.approx(entropy, abs=0.01)
    assert nats(table, "markov", "CE") == pytest.approx(rate, abs=0.01)
    assert nats(table, "markov", "JE") == pytest.approx(entropy + rate, abs=0.02)
    assert nats(table, "cycle", "SE") == pytest.approx(np.log(4), abs=0.01)
    assert nats(table, "cycle", "CE") == pytest.approx(0, abs=0.01)
    assert table["nats"].min() >= 0


def test_chain_rule_and_diagnostics_of_domains_one_of_whose_names_is_a_glob_of_the_other(tmp_path):
    chain = Chain(tmp_path)
    generator = np.random.default_rng(4)
    domains = ("s* [en]?.b", "sea [en]x.b")
    for domain in domains:
        documents = [" ".join(f"w{word}" for word in generator.integers(0, WORDS, 30)) for _ in range(60)]
        chain.tokenize(domain, documents, 16)
    table = chain.measure(list(domains))
    assert table["measure"].to_list() == ["SE", "JE", "CE", "VNE"] * 2
    for domain in domains:
        paths = [path for path in tmp_path.glob("train/*/*.bin") if path.stem == domain]
        rows = np.concatenate([np.fromfile(path, "<u2").reshape(-1, 16) for path in paths])
        first = np.bincount(rows[:, :-1].ravel())
        first = first[first > 0] / first.sum()
        chained = nats(table, domain, "CE") - (first * np.log(first)).sum()
        assert nats(table, domain, "JE") == pytest.approx(chained, abs=1e-12)
        _, own = np.unique(rows[:, :-1].ravel() * 100 + rows[:, 1:].ravel(), return_counts=True)
        entry = table.row(by_predicate=(pl.col("domain") == domain) & (pl.col("measure") == "JE"), named=True)
        assert (entry["tokens"], entry["pairs"]) == (rows.size, rows[:, 1:].size)
        assert (entry["distinct"], entry["singletons"]) == (len(own), (own == 1).sum())
        assert entry["coverage"] == pytest.approx(1 - (own == 1).sum() / own.sum())
        entry = table.row(by_predicate=(pl.col("domain") == domain) & (pl.col("measure") == "VNE"), named=True)
        assert (entry["documents"], entry["zeros"], entry["tokens"]) == (40, 0, None)


def test_few_long_documents_give_as_many_pieces_as_many_short_ones_and_the_log_says_how_many(tmp_path, capsys):
    generator, found = np.random.default_rng(7), []
    for cut in (60, None):
        (tmp_path / str(cut)).mkdir()
        chain = Chain(tmp_path / str(cut))
        for domain, (documents, words) in {"long": (3, 400), "short": (30, 15)}.items():
            texts = [" ".join(f"w{word}" for word in generator.integers(0, WORDS, words)) for _ in range(documents)]
            chain.tokenize(domain, texts, 16, cut)
        sampled = chain.measure(["long", "short"]).filter(measure="VNE").select("documents", "zeros")
        found.append(sampled.rows())
        assert f"are of {found[-1][0][0]} pieces of each domain: none can be above" in capsys.readouterr().err
    assert found == [[(30, 0)] * 2, [(3, 0)] * 2]


def test_sharding_changes_neither_counts_nor_vectors(tmp_path):
    generator = np.random.default_rng(5)
    # 15 words and the end of text fill a row, so that no shard drops a tail
    documents = [" ".join(f"w{word}" for word in generator.integers(0, WORDS, 15)) for _ in range(90)]
    tables = []
    for parts in (1, 4):
        (tmp_path / str(parts)).mkdir()
        chain = Chain(tmp_path / str(parts))
        for start in range(parts):
            chain.tokenize("a", documents[start::parts], 16)
        tables.append(chain.measure(["a"]))
    assert tables[0].equals(tables[1])
    first = (tmp_path / "4/model.bin").read_bytes()
    chain.measure(["a"])
    assert (tmp_path / "4/model.bin").read_bytes() == first  # the same text, the same vectors
