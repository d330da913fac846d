"""Effects given noised gradients: b = H theta + noise, with a prior whose width is learned and may be 0.

In the eigenbasis of H everything is independent: b_i is Gaussian around h_i theta_i with a known variance. Effects have
prior variance t, where t is 0 with some probability (nothing can be learned) or one of a grid; answers are averaged
over t with its posterior probabilities. Where "nothing" is out of the question, every feature gets a prior variance of
its own, learned by expectation maximisation and drawn towards the common one (compare MacKay 1994 on relevance).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NOTHING = 1e-6
_ROUNDS = 8
# Above this probability of "nothing", and above this many columns, features share one variance.
_SURE, _MOST_COLUMNS = 0.05, 400


class PriorRule(NamedTuple):
    """The probability of nothing, the largest variance, how many there are, and the weight of the common one."""

    nothing: float
    largest: float
    steps: int
    common: float

    @property
    def grid(self) -> Array:
        """The variances looked at; the first stands for nothing."""
        return np.concatenate([[_NOTHING], np.geomspace(3e-3, self.largest, self.steps)])


class Effects(NamedTuple):
    """The mean of the effects, the prior variance of each, and the probability that there is nothing."""

    mean: Array
    prior: Array
    nothing: float


def effects(
    b: Array, values: Array, vectors: Array, noise: Array, blocks: tuple[slice, ...], rule: PriorRule
) -> Effects:
    """Of b with shape (columns, outputs), H with these eigenpairs, and noise variances along the eigenvectors."""
    turned = vectors.T @ b
    grid = rule.grid[:, None]
    spread = grid * values**2 + noise
    outputs = b.shape[1]
    fit = -0.5 * ((turned**2)[None] / spread[:, :, None]).sum(axis=(1, 2)) - 0.5 * outputs * np.log(spread).sum(axis=1)
    prior = np.full(len(grid), (1.0 - rule.nothing) / rule.steps)
    prior[0] = rule.nothing
    weights = np.exp(fit - fit.max()) * prior
    weights /= weights.sum()
    gains = weights @ (grid * values / spread)
    common = float(rule.grid[np.argmax(weights)])
    mean = vectors @ (gains[:, None] * turned)
    variances = np.full(len(b), float(weights @ rule.grid))
    if weights[0] > _SURE or common <= _NOTHING or len(b) > _MOST_COLUMNS:
        return Effects(mean, variances, float(weights[0]))
    mean, variances = _by_feature(b, values, vectors, noise, blocks, common, rule.common)
    return Effects((1.0 - weights[0]) * mean, variances, float(weights[0]))


def _by_feature(
    b: Array, values: Array, vectors: Array, noise: Array, blocks: tuple[slice, ...], common: float, weight: float
) -> tuple[Array, Array]:
    variances = np.full(len(b), common)
    mean, left = posterior_of(b, values, vectors, noise, variances)
    for _ in range(_ROUNDS):
        squares = (mean**2).mean(axis=1) + np.diag(left)
        for block in blocks:
            width = block.stop - block.start
            variances[block] = (squares[block].sum() + weight * common) / (width + weight)
        mean, left = posterior_of(b, values, vectors, noise, variances)
    return mean, variances


def posterior_of(b: Array, values: Array, vectors: Array, noise: Array, variances: Array) -> tuple[Array, Array]:
    """Mean and covariance of the effects under independent priors with these variances."""
    H, errors = (vectors * values) @ vectors.T, (vectors * noise) @ vectors.T
    spread = H * variances  # H times the diagonal prior
    gain = np.linalg.solve(spread @ H + errors, spread).T
    covariance = np.diag(variances) - gain @ spread
    return gain @ b, (covariance + covariance.T) / 2
