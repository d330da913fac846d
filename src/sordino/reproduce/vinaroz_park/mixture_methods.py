"""Ways to approximate the mixture's posterior: message passing with and without noise, private EM, and the prior."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.em import EmOptions, run_em
from sordino.algorithm.message_passing import (
    CentredCoordinates,
    NaturalCoordinates,
    Prior,
    RaiseEigenvalues,
    Refinement,
    linear_decay,
    run_message_passing,
    stochastic_ep,
)
from sordino.algorithm.posterior import GaussianPosterior
from sordino.algorithm.randomness import SeededRandomness
from sordino.core.relation import Relation
from sordino.core.spec import ConstantSchedule, ExpectationMaximisation, MessagePassing, Sampling, Spec
from sordino.core.view import View
from sordino.model.mixture import GaussianMixture
from sordino.model.sites import MixtureSite
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.mixture import COMPONENTS, DIM, PRIOR_PRECISION, SPREAD, WEIGHTS, Posterior

Array = NDArray[np.float64]
SITE = MixtureSite(WEIGHTS, SPREAD)
# Chosen on data sets 200 to 205 of the same law. Centred messages, and a floor that keeps every round's step short.
ROUNDS, CLIP, FIRST_RHO, LAST_RHO, FLOOR = 200, 4.0, 0.3, 0.01, 100.0
# Restarts where the budget has room for them, and the share of it that tells them apart.
MOST_RESTARTS, MU_PER_RESTART, SELECTION = 4, 0.37, 0.1
# Log densities of records are cut to this range when restarts are compared.
LOG_DENSITIES = (-14.0, -2.0)
EM_ROUNDS, EM_CLIP = 5, 3.0
_CENTRED = Refinement(CentredCoordinates(1.0), RaiseEigenvalues(FLOOR), start_scale=1.0)


def from_prior() -> Posterior:
    """The prior itself: what an answer that ignores the data scores."""
    covariances = np.broadcast_to(np.eye(DIM) / PRIOR_PRECISION, (COMPONENTS, DIM, DIM))
    return Posterior(np.zeros((COMPONENTS, DIM)), np.array(covariances))


def sep(X: Array, clip: float | None, start: Array, seed: int) -> Posterior:
    """Not private: SEP with natural messages, the prior's means moved to `start` so that components can part."""
    result = stochastic_ep(
        SITE,
        X,
        np.zeros(len(X)),
        SeededRandomness(seed),
        prior=Prior(PRIOR_PRECISION, tuple(start.ravel().tolist())),
        refinement=Refinement(NaturalCoordinates(), RaiseEigenvalues(1e-2)),
        steps=100,
        sampling=Sampling.FULL,
        damping=0.2 * len(X),
        clip=clip,
    )
    return _posterior(result.posterior)


def restarts(budget: Budget) -> int:
    """How many runs share the budget: one at epsilon 1, more where each still has enough of it."""
    return min(MOST_RESTARTS, max(1, round(budget.mu / MU_PER_RESTART)))


def sep_spec(budget: Budget, records: int, share: float = 1.0) -> Spec:
    """Private full-batch rounds in words."""
    algorithm = MessagePassing(
        records=records,
        steps=ROUNDS,
        sampling=Sampling.FULL,
        clip=CLIP,
        noise_multiplier=ConstantSchedule(budget.multiplier(share, ROUNDS)),
        damping=linear_decay(FIRST_RHO * records, LAST_RHO * records, ROUNDS),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def fit_spec(budget: Budget, records: int, share: float) -> Spec:
    """The noised sum of cut log densities, minus the middle of their range, as one round."""
    low, high = LOG_DENSITIES
    algorithm = MessagePassing(
        records=records,
        steps=1,
        sampling=Sampling.FULL,
        clip=0.5 * (high - low),
        noise_multiplier=ConstantSchedule(budget.multiplier(share, 1)),
        damping=ConstantSchedule(float(records)),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def dp_sep(X: Array, budget: Budget, seed: int) -> tuple[Posterior, tuple[Spec, ...]]:
    """Private message passing in rounds; of several runs from random starts, the one with the best noised fit."""
    number = restarts(budget)
    if number == 1:
        spec = sep_spec(budget, len(X))
        return _one_run(X, spec, seed), (spec,)
    spec, fit = (
        sep_spec(budget, len(X), (1.0 - SELECTION) / number),
        fit_spec(budget, len(X), SELECTION / number),
    )
    found = [_one_run(X, spec, number * seed + k) for k in range(number)]
    generator, low, high = np.random.default_rng([seed, 1]), *LOG_DENSITIES
    clips = 2.0 if budget.relation is Relation.REPLACE_ONE else 1.0
    noise = budget.multiplier(SELECTION / number, 1) * clips * 0.5 * (high - low)
    # Centred: a record that is added or removed moves the sum by half the range, as one that is replaced by all of it.
    cut = [np.clip(_log_densities(X, one.means), low, high) - 0.5 * (low + high) for one in found]
    fits = [one.sum() + noise * generator.normal() for one in cut]
    return found[int(np.argmax(fits))], (spec,) * number + (fit,) * number


def _one_run(X: Array, spec: Spec, seed: int) -> Posterior:
    randomness, prior = SeededRandomness(seed), Prior(PRIOR_PRECISION)
    release = run_message_passing(spec, SITE, X, np.zeros(len(X)), randomness, prior=prior, refinement=_CENTRED)
    return _posterior(release.posterior)


def _log_densities(X: Array, means: Array) -> Array:
    squared = ((X[:, None] - means) ** 2).sum(axis=2) / (2.0 * SPREAD**2)
    constant = 0.5 * DIM * math.log(2.0 * math.pi * SPREAD**2)
    return np.asarray(special.logsumexp(-squared, axis=1)) - constant - math.log(COMPONENTS)


def dp_em(X: Array, budget: Budget, seed: int) -> tuple[Posterior, tuple[Spec, ...]]:
    """Private expectation maximisation, its posterior with the privacy noise in it."""
    algorithm = ExpectationMaximisation(
        records=len(X),
        steps=EM_ROUNDS,
        sampling=Sampling.FULL,
        clip=EM_CLIP,
        components=COMPONENTS,
        noise_multiplier=ConstantSchedule(budget.multiplier(1.0, EM_ROUNDS)),
    )
    spec = Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)
    options = EmOptions(prior_precision=PRIOR_PRECISION, least_count=100.0)
    release = run_em(spec, GaussianMixture(weights=WEIGHTS, spread=SPREAD), X, SeededRandomness(seed), options=options)
    found = release.posterior
    covariances = np.stack([np.diag(part) for part in np.reshape(found.variance, (COMPONENTS, DIM))])
    return Posterior(found.mean.reshape(COMPONENTS, DIM), covariances), (spec,)


def _posterior(found: GaussianPosterior) -> Posterior:
    blocks = found.covariance.reshape(COMPONENTS, DIM, COMPONENTS, DIM)
    covariances = np.stack([blocks[k, :, k] for k in range(COMPONENTS)])
    return Posterior(found.mean.reshape(COMPONENTS, DIM), covariances)
