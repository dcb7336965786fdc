"""The file of a fitted law: its digest, and checks that a file holds a fitted law."""

import hashlib
import json
import math
from pathlib import Path

import numpy as np

from bimix.errors import InputError
from bimix.laws.fitted import predict_defined
from bimix.laws.table import LAWS
from bimix.tables import read_json

FIXED = ("law", "domains", "loss_domains", "steps", "mixtures", "proportions_seen", "coefficients", "warnings")


def digest_law(fitted: dict) -> str:
    """blake2b (32 hexadecimal digits) of a law without its provenance, keys in their order."""
    text = json.dumps({name: value for name, value in fitted.items() if name != "provenance"}, ensure_ascii=False)
    return hashlib.blake2b(text.encode("utf-8"), digest_size=16).hexdigest()


def checked_law(path: Path | str) -> dict:
    """The fitted law in a file.

    Errors: no fitted law, or one that differs from its digest; an unknown law; domains, steps or
    coefficients that contradict each other; no finite loss at equal proportions.
    """
    fitted = read_json(path)
    noted = fitted.get("provenance", {})
    digest = noted.get("digest") if isinstance(noted, dict) else None
    if digest is not None and digest != digest_law(fitted):
        raise InputError(
            f"{path} is not the law that was fitted: its digest is {digest_law(fitted)}, {digest} in its provenance; fit"
            f" it again, or take provenance out where the change is your own."
        )
    check_law(fitted, path)
    return fitted


def check_law(fitted: dict, path: Path | str) -> None:
    """Errors, which name `path`: the dict is no fitted law."""
    missing = [name for name in FIXED if name not in fitted]
    if missing:
        raise InputError(f"{path} is no fitted law: it has no key {missing[0]!r}.")
    law = fitted["law"]
    if not isinstance(law, str) or law not in LAWS:
        raise InputError(f"{path}: there is no law {law!r}; there are {', '.join(LAWS)}.")
    steps = fitted["steps"]
    if not isinstance(steps, list) or not steps or not all(type(step) is int and step > 0 for step in steps):
        raise InputError(f"{path}: steps is {steps!r}: it must be a list of whole numbers above 0.")
    for key, domains in (("coefficients", "loss_domains"), ("proportions_seen", "domains")):
        names = list(fitted[key]) if isinstance(fitted[key], dict) else []
        if names != fitted[domains]:
            raise InputError(f"{path}: {key} is of {', '.join(names)}, but {domains} are {', '.join(fitted[domains])}.")
    fault = wrong_number(fitted["coefficients"])
    if fault:
        raise InputError(f"{path}: {fault}")
    shares = np.full((1, len(fitted["domains"])), 1 / len(fitted["domains"]))
    try:
        with np.errstate(all="ignore"):
            losses = predict_defined(fitted, shares, np.array(steps))
        sound = losses.shape == (1, len(steps), len(fitted["loss_domains"])) and not np.isinf(losses).any()
        # A per-step law has no loss at a step that fewer than two runs reach.
        sound = sound and np.isfinite(losses).any(axis=1).all()
    except InputError:
        raise
    except Exception as error:  # of coefficients that are none each law raises something else
        raise InputError(f"{path} is no fitted law {law} ({type(error).__name__}: {error}).") from error
    if not sound:
        raise InputError(f"{path}: the law predicts no finite loss where all domains have one proportion.")


def wrong_number(value: object, place: str = "coefficients") -> str | None:
    """A sentence on the first invalid number: not finite, alpha below 0, effect not above 0."""
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        if isinstance(value, float) and not math.isfinite(value):
            return f"{place} is {value!r}: it must be a finite number."
        number = isinstance(value, int | float)
        if place.endswith("/alpha") and number and value < 0:
            return f"{place} is {value!r}: it must be 0 or more, as a loss does not rise with its proportion."
        if place.rpartition("/")[0].endswith("/effects") and number and value <= 0:
            return f"{place} is {value!r}: it must be above 0, or the law has no certain optimum."
        return None
    return next(filter(None, (wrong_number(one, f"{place}/{name}") for name, one in inner)), None)
