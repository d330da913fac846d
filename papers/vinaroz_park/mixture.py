"""Section 6.1's mixture: 1000 points of four Gaussians in four dimensions, and its true posterior by sampling."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.optimize import linear_sum_assignment

from papers.round_words import rounds
from papers.vinaroz_park.budget import Budget
from papers.vinaroz_park.refinements import linear_decay
from sordino.core.bound import Relation, View
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.core.validate import refuse
from sordino.mechanisms.messages import CentredCoordinates, Prior, Refinement, Repair, run_message_passing
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.mechanisms.posterior.laws import GaussianPosterior
from sordino.models.families.regression import GaussianMixture
from sordino.models.message_passing.sites import MixtureSite
from sordino.noise.randomness import SeededRandomness

Array = NDArray[np.float64]

COMPONENTS, DIM, RECORDS, SPREAD = 4, 4, 1000, 0.5
WEIGHTS = (1.0 / COMPONENTS,) * COMPONENTS
PRIOR_PRECISION = 1.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """Mean of every component's mean, (components, dim), and its covariance, (components, dim, dim)."""

    means: Array
    covariances: Array


@dataclass(frozen=True, eq=False)
class Points:
    """A data set, the component of every point, and the means it was drawn from."""

    X: Array
    labels: NDArray[np.intp]
    means: Array


def points(seed: int) -> Points:
    """One data set as in the paper, with prior mean 0."""
    generator = np.random.default_rng(seed)
    means = generator.normal(size=(COMPONENTS, DIM))
    labels = generator.integers(0, COMPONENTS, RECORDS)
    return Points(means[labels] + SPREAD * generator.normal(size=(RECORDS, DIM)), labels, means)


def by_gibbs(data: Points, seed: int, draws: int) -> Posterior:
    """The posterior from a Gibbs sampler that starts at the true means, so that components keep their names."""
    generator, means, kept = np.random.default_rng(seed), data.means.copy(), []
    for k in range(draws + draws // 5):
        logs = -((data.X[:, None] - means) ** 2).sum(axis=2) / (2.0 * SPREAD**2)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        chosen = (shares.cumsum(axis=1) < generator.random((RECORDS, 1))).sum(axis=1).clip(0, COMPONENTS - 1)
        counts = np.bincount(chosen, minlength=COMPONENTS).astype(float)
        sums = np.stack([data.X[chosen == j].sum(axis=0) for j in range(COMPONENTS)])
        precision = counts / SPREAD**2 + PRIOR_PRECISION
        means = (sums / SPREAD**2 + np.sqrt(precision)[:, None] * generator.normal(size=means.shape)) / precision[
            :, None
        ]
        if k >= draws // 5:
            kept.append(means)
    return _moments(np.stack(kept))


def by_nuts(data: Points, seed: int, draws: int) -> Posterior:
    """The posterior from NumPyro's No-U-Turn sampler on the marginal likelihood, started at the true means."""
    try:
        from numpyro.infer import MCMC, NUTS  # noqa: PLC0415  (an extra: loaded only when asked for)
    except ImportError:
        raise refuse("the package numpyro", "to be installed", "none", "install sordino[numpyro]") from None
    X = jnp.asarray(data.X)

    def potential(means: jax.Array) -> jax.Array:
        logs = -jnp.sum((X[:, None] - means) ** 2, axis=2) / (2.0 * SPREAD**2)
        return 0.5 * PRIOR_PRECISION * jnp.sum(means**2) - jnp.sum(jax.nn.logsumexp(logs, axis=1))

    sampler = MCMC(NUTS(potential_fn=potential), num_warmup=draws // 2, num_samples=draws, progress_bar=False)
    sampler.run(jax.random.PRNGKey(seed), init_params=jnp.asarray(data.means))
    return _moments(np.asarray(sampler.get_samples(), np.float64))


def distances(found: Posterior, truth: Posterior) -> tuple[float, float]:
    """Frobenius distances of means and of covariances, components matched by their means."""
    squared = ((found.means[:, None] - truth.means) ** 2).sum(axis=2)
    rows, columns = linear_sum_assignment(squared)
    gap = found.covariances[rows] - truth.covariances[columns]
    return float(np.sqrt(squared[rows, columns].sum())), float(np.sqrt((gap**2).sum()))


def _moments(draws: Array) -> Posterior:
    centred = draws - draws.mean(axis=0)
    return Posterior(draws.mean(axis=0), np.einsum("nki,nkj->kij", centred, centred) / len(draws))


# Ways to approximate the mixture's posterior: message passing with and without noise, private EM, and the prior.

SITE = MixtureSite(WEIGHTS, SPREAD)
# Chosen on data sets 200 to 205 of the same law. Centred messages, and a floor that keeps every round's step short.
ROUNDS, CLIP, FIRST_RHO, LAST_RHO, FLOOR = 200, 4.0, 0.3, 0.01, 100.0
# Restarts where the budget has room for them, and the share of it that tells them apart.
MOST_RESTARTS, MU_PER_RESTART, SELECTION = 4, 0.37, 0.1
# Log densities of records are cut to this range when restarts are compared.
LOG_DENSITIES = (-14.0, -2.0)
EM_ROUNDS, EM_CLIP = 5, 3.0
_CENTRED = Refinement(CentredCoordinates(1.0), Repair(FLOOR), start_scale=1.0)


def from_prior() -> Posterior:
    """The prior itself: what an answer that ignores the data scores."""
    covariances = np.broadcast_to(np.eye(DIM) / PRIOR_PRECISION, (COMPONENTS, DIM, DIM))
    return Posterior(np.zeros((COMPONENTS, DIM)), np.array(covariances))


def restarts(budget: Budget) -> int:
    """How many runs share the budget: one at epsilon 1, more where each still has enough of it."""
    return min(MOST_RESTARTS, max(1, round(budget.mu / MU_PER_RESTART)))


def sep_spec(budget: Budget, records: int, share: float = 1.0) -> Spec:
    """Private full-batch rounds in words."""
    algorithm = rounds(
        "message-passing",
        budget.relation,
        records=records,
        steps=ROUNDS,
        sampling=Scheme.FULL,
        clip=CLIP,
        noise_multiplier=ConstantSchedule(budget.multiplier(share, ROUNDS)),
        damping=linear_decay(FIRST_RHO * records, LAST_RHO * records, ROUNDS),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def fit_spec(budget: Budget, records: int, share: float) -> Spec:
    """The noised sum of cut log densities, minus the middle of their range, as one round."""
    low, high = LOG_DENSITIES
    algorithm = rounds(
        "message-passing",
        budget.relation,
        records=records,
        steps=1,
        sampling=Scheme.FULL,
        clip=0.5 * (high - low),
        noise_multiplier=ConstantSchedule(budget.multiplier(share, 1)),
        damping=ConstantSchedule(float(records)),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def private_rounds(X: Array, budget: Budget, seed: int) -> tuple[Posterior, tuple[Spec, ...]]:
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
    algorithm = rounds(
        "em",
        budget.relation,
        records=len(X),
        steps=EM_ROUNDS,
        sampling=Scheme.FULL,
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
