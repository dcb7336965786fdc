"""Questions with their accepted answers, and how answers are scored, for the task files of this folder."""

import math
import re
import string

LONGEST = 100  # characters; 11 of WebQuestions' 2,032 questions have a longer answer
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')


def read_questions(records):
    """The columns `question` and `answers` of WebQuestions and TriviaQA, in each form they are published in."""
    return records.map(question_of, remove_columns=records.column_names)


def question_of(record):
    """A question and its accepted answers, the canonical one first."""
    question = next(record[name] for name in ("question", "Question", "utterance") if record.get(name))
    answers = next(record[name] for name in ("answers", "answer", "Answer", "targetValue") if record.get(name))
    if isinstance(answers, str):  # WebQuestions: (list (description "Padmé Amidala") (description Leia))
        found = [quoted.replace('\\"', '"') or plain for quoted, plain in DESCRIPTION.findall(answers)]
        answers = found or [answers]
    elif isinstance(answers, dict):  # TriviaQA: the value, then its aliases
        answers = [answers.get("value") or answers["Value"], *(answers.get("aliases") or answers.get("Aliases") or [])]
    stripped = [answer.strip() for answer in answers]
    return {"question": question.strip(), "answers": list(dict.fromkeys(filter(None, stripped)))}


def split_last_words(records):
    """Passages of LAMBADA as `question`, all but the last word, and `answers`, that word."""
    return records.map(last_word_of, remove_columns=records.column_names)


def last_word_of(record):
    passage, word = record["text"].rsplit(None, 1)
    return {"question": passage.strip(), "answers": [word]}


def normalise(answer):
    """An answer in lower case, without ASCII punctuation, white space collapsed."""
    return " ".join(answer.lower().translate(WITHOUT_PUNCTUATION).split())


def match_answers(doc, results):
    """Whether the first line of what was generated is an accepted answer, exactly and after `normalise`."""
    prediction = results[0].split("\n", 1)[0].strip()
    exact = prediction in doc["answers"]
    normalised = normalise(prediction)
    accepted = [normalise(answer) for answer in doc["answers"]]
    return {"exact_match": exact, "normalised_match": exact or (normalised != "" and normalised in accepted)}


def scored_answers(doc):
    """Accepted answers; of one that is a passage the beginning, so that it fits into a short context."""
    return [answer[:LONGEST] for answer in doc["answers"]]


def count_bits(doc, results):
    """Bits per byte of the likeliest accepted answer after the prompt, with the space before it."""
    bits = [
        -log_likelihood / math.log(2) / len(f" {answer}".encode())
        for answer, (log_likelihood, _) in zip(scored_answers(doc), results, strict=True)
    ]
    return {"bits_per_byte": min(bits)}
