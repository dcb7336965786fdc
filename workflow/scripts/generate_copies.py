"""Write a task with a known answer: made-up words that are to be said again.

seed -> a task file of JSON lines: id, question, answers
"""

import argparse
import json
import random
import sys
from pathlib import Path

from bimix.errors import run
from bimix.outputs import replacing

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, required=True, help="questions to write")
    parser.add_argument("--words", type=int, required=True, help="words of a question")
    parser.add_argument("--seed", type=int, required=True, help="of the words")
    parser.add_argument("--out", type=Path, required=True, help="jsonl")
    options = parser.parse_args(argv)

    draw = random.Random(options.seed)
    with replacing(options.out) as temporary, temporary.open("w", encoding="utf-8") as lines:
        for number in range(options.items):
            syllables = [
                "".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(2)) for _ in range(options.words)
            ]
            words = " ".join(syllables)
            lines.write(json.dumps({"id": f"copy{number}", "question": words, "answers": [words]}) + "\n")


if __name__ == "__main__":
    sys.exit(run(main))
