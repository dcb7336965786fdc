"""The setting of a design of runs, and what is known before: read from the flags and tables."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bimix.errors import InputError
from bimix.judge.evidence import noise_between
from bimix.judge.measured import Criterion
from bimix.laws.fitted import fit
from bimix.laws.transfer import own_domains
from bimix.observations.flags import read_tables
from bimix.observations.groups import by_name, read_groups, spread_of
from bimix.observations.observations import Observations, proportions_of
from bimix.observations.prior import offsets, read_gaps
from bimix.observations.tables import read_mixtures
from bimix.optimum.bounds import feasible_bounds, with_least
from bimix.optimum.flags import asked_objective, limits_of, note_unlimited, run_tokens_of
from bimix.optimum.objective import target_weights
from bimix.search.sensitivity import Numbers, fitted_numbers, guessed
from bimix.search.sizes import Model, read_budget, read_large, read_models
from bimix.tables import read_table, read_tokens
from bimix.transfer.repetition import PUBLISHED_R, counted
from bimix.transfer.run import form_of


@dataclass(frozen=True)
class Done:
    """Runs that are done: their mixtures, shares (n, m), those that count, and parameters (n,)."""

    mixtures: tuple[str, ...]
    shares: np.ndarray
    counted: np.ndarray
    parameters: np.ndarray | None = None  # None: of the cheapest model


@dataclass(frozen=True)
class Setting:
    """The setting of a design of m domains, and what is known before it."""

    domains: tuple[str, ...]
    lower: np.ndarray  # (m,)
    upper: np.ndarray  # (m,)
    weights: np.ndarray  # (d,) of the loss domains
    seed: int
    count: int | None  # mixtures, without the further seed
    budget: float  # FLOPs
    models: tuple[Model, ...]  # cheapest first
    large: Model | None
    pools: np.ndarray | None  # (m,) unique tokens, inf where not limited
    run_tokens: float | None  # of the large run
    match_epochs: bool  # whether small runs have pools that are smaller likewise
    R: float
    at: Numbers  # of the law
    done: Done
    fitted: dict | None  # the law fitted to the runs done, if they have losses
    noise: float | None  # of such a run

    @property
    def offered(self) -> tuple[Model | None, ...]:
        """The models; one that is None stands for one size, of unknown cost."""
        return self.models or (None,)

    def centre(self) -> np.ndarray:
        """The mean (m,) of the runs done; without any, equal shares."""
        if self.done.mixtures:
            return self.done.shares.mean(axis=0)
        return np.full(len(self.domains), 1 / len(self.domains))

    def pools_of(self, model: Model | None) -> np.ndarray | None:
        """Unique tokens (m,) that a run of a model has; None where pools are not known."""
        if self.pools is None or not self.match_epochs:
            return self.pools
        if model is None or self.run_tokens is None:
            raise InputError("--match-epochs needs --models and the tokens of the large run (--large or --run-tokens).")
        return self.pools * min(model.tokens / self.run_tokens, 1.0)

    def counting(self, shares: np.ndarray, tokens: float | None, pools: np.ndarray | None) -> np.ndarray:
        """The shares (n, m) that count of runs of so many tokens."""
        return shares if tokens is None or pools is None else counted(shares, tokens / pools, self.R)[0]

    def counting_of_large(self, shares: np.ndarray) -> np.ndarray:
        """Those of the large run."""
        return self.counting(shares, self.run_tokens, self.pools)


def read_setting(options: argparse.Namespace) -> Setting:
    """The setting. Errors: flags that do not belong together."""
    _refuse(options)
    tokens = read_tokens(options.tokens) if options.tokens else None
    objective = asked_objective(options)
    large = read_large(options.large, options.models) if options.large else None
    run_tokens = options.run_tokens or (large and large.tokens)
    observed = fitted = form = noise = None
    if options.losses:
        observed = read_tables(options)
        domains, loss_domains, fitted = observed.domains, observed.loss_domains, fit("transfer", observed)
        at, form = fitted_numbers(fitted, own_domains(observed)), form_of(fitted["coefficients"])
        known = noise_between(read_table(options.losses), Criterion("", weights=objective.domain_weights()))
        noise = known and known.deviation
        if "rows" not in fitted:  # as the optimum has it: a step and the tokens of one say how long the run is
            step = fitted["steps"][-1] if options.step is None else options.step
            run_tokens = run_tokens_of(fitted, run_tokens, step)
    else:
        names = tokens if options.mixtures is None else read_mixtures(options.mixtures).names("domain")
        domains = loss_domains = tuple(sorted(names))
        gaps = read_gaps(options.prior, domains, loss_domains) if options.prior else None
        groups = read_groups(options.domain_groups, domains) if options.domain_groups else by_name(domains)
        at = guessed(len(domains), np.arange(len(domains)), offsets(gaps), spread_of(groups, domains))
    lower, upper = _bounds(options, domains, tokens, run_tokens)
    R = PUBLISHED_R if form is None else form.R
    return Setting(
        domains=domains,
        lower=lower,
        upper=upper,
        weights=target_weights({"loss_domains": list(loss_domains)}, objective.domain_weights()),
        seed=options.seed,
        count=options.count,
        budget=np.inf if options.budget is None else read_budget(options.budget, large),
        models=tuple(read_models(options.models, options.offered)) if options.models else (),
        large=large,
        pools=None if tokens is None else np.array([tokens.get(name, np.inf) for name in domains]),
        run_tokens=run_tokens,
        match_epochs=options.match_epochs,
        R=R,
        at=at,
        done=_done(options.mixtures, domains, observed, R),
        fitted=fitted,
        noise=noise,
    )


def _refuse(options: argparse.Namespace) -> None:
    """Flags that belong together."""
    if options.mixtures is None and options.tokens is None:
        raise InputError("neither --mixtures nor --tokens is given: one of them names the domains.")
    for flag, needed in (
        ("losses", "mixtures"),
        ("harm", "models"),
        ("budget", "models"),
        ("models", "runs"),
        ("offered", "models"),
    ):
        if getattr(options, flag) and not getattr(options, needed):
            raise InputError(f"--{flag} needs --{needed}.")
    if options.harm and options.budget:
        raise InputError("--harm proposes --count runs and has no --budget.")
    if options.count is not None and options.count < 1:
        raise InputError(f"--count is {options.count}: it must be 1 or more.")


def _bounds(options, domains, tokens, run_tokens):
    epochs = options.max_epochs
    if epochs not in (None, np.inf) and (tokens is None or run_tokens is None):
        raise InputError("--max-epochs needs --tokens, and a run's: --run-tokens, --large, or losses with tokens.")
    if epochs is not None:
        note_unlimited({"law": "transfer", "domains": domains}, tokens, run_tokens)
    lower, upper = limits_of(options)
    low, high = feasible_bounds(domains, lower, upper, epochs, tokens, run_tokens)
    return with_least(low, high, domains, options.least, tokens, lower), high


def _done(mixtures: Path | None, domains: tuple[str, ...], observed: Observations | None, R: float) -> Done:
    """The runs that are done; of mixtures without losses one each, of unknown size."""
    if observed is not None:
        own = observed.proportions
        if observed.pools is not None:
            own = counted(own, observed.tokens[:, None] / observed.pools, R)[0]
        return Done(observed.mixtures, observed.proportions, own, observed.parameters)
    if mixtures is None:
        none = np.zeros((0, len(domains)))
        return Done((), none, none)
    names, shares = proportions_of(read_mixtures(mixtures).table, domains, str(mixtures))
    return Done(names, shares, shares)
