"""A model and a recipe of a second, and how the tests read their raw files."""

SHAPE = {"layers": 1, "width": 16, "heads": 2}
RECIPE = {
    "steps": 40,
    "batch_rows": 6,
    "evaluate_every": 10,
    "validation_rows": 4,
    "learning_rate": 0.01,
    "final_learning_rate": 0.001,
    "schedule": "exponential",
    "warmup_share": 0.0,
    "beta1": 0.9,
    "beta2": 0.99,
    "epsilon": 1e-8,
    "weight_decay": 0.01,
    "max_gradient_norm": 1.0,
    "precision": "no",
    "seed": 1,
}
READING = {
    "formats": {".jsonl": "lines", ".parquet": "parquet", ".txt": "text"},
    "text_field": "text",
    "document_megabytes": 8,
    "cut_characters": None,
    "rejects": 0.0,
}
