"""Section 6.1's mixture: 1000 points of four Gaussians in four dimensions, and its true posterior by sampling."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from sordino.core.validate import refuse

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
