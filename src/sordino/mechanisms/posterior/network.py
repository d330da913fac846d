"""The posterior of a network with a linear part: its scores on the host, a Gaussian over its parameters, its errors.

Scores are linear around the mean of the parameters. The law of errors of a regression is read off noised counts of
their sizes: from tails heavier than a double exponential's to a nearly flat law, of density exp(-|r / a|^exponent),
where 2 is the normal law and 1 the double exponential.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import instance_of, refuse
from sordino.mechanisms.posterior.laws import StoredGaussian, as_doubles
from sordino.models.families.networks import SkipNetwork
from sordino.noise.integer_sums import own_products


@dataclass(frozen=True, eq=False)
class NetworkPosterior(StoredGaussian):
    """Mean and covariance of the parameters, and the released map from encoded rows to those the network reads.

    Rows are (x, 1) times `transform`. Scores of a draw are those of the mean plus derivative times difference, a
    linearised Laplace posterior (Immer, Korzepa & Bauer 2021).
    """

    stored = ("transform", "means", "covariances")

    model: SkipNetwork
    transform: Array
    means: Array
    covariances: Array

    def __post_init__(self) -> None:
        instance_of("model", self.model, SkipNetwork)
        for name, own in zip(self.stored, as_doubles(self, *self.stored), strict=True):
            if own.ndim != (1 if name == "means" else 2) or not np.isfinite(own).all():
                raise refuse(name, "to be finite numbers in one or two dimensions", f"shape {own.shape}")
        wanted = self.model.dim(self.transform.shape[1])
        if self.means.shape != (wanted,) or self.covariances.shape != (wanted, wanted):
            raise refuse("means and covariances", f"to be of {wanted} parameters", f"{self.means.shape}")
        if not np.linalg.eigvalsh(self.covariances)[0] > 0.0:
            raise refuse("covariances", "to be positive definite", "others")

    @property
    def columns(self) -> int:
        return len(self.transform) - 1

    def rows(self, X: Array) -> Array:
        """What the network reads of encoded rows."""
        return np.asarray(X, np.float64) @ self.transform[:-1] + self.transform[-1]

    def scores(self, thetas: Array, X: Array) -> Array:
        """Scores of draws at encoded rows, shape (draws, rows, outputs)."""
        forward, outputs = Forward(self.model, self.means, self.rows(X)), self.model.outputs
        found = np.empty((len(thetas), len(X), outputs))
        for place in range(outputs):
            slopes = forward.gradients(np.broadcast_to(np.eye(outputs)[place], (len(X), outputs)))
            found[:, :, place] = forward.scores[:, place] + (thetas - self.means) @ slopes.T
        return found

    def spread(self, X: Array) -> tuple[Array, Array]:
        """The mean of the first score at encoded rows, and its variance."""
        forward = Forward(self.model, self.means, self.rows(X))
        turned = forward.gradients(np.eye(1, self.model.outputs).repeat(len(X), axis=0)) @ self._root
        return forward.scores[:, 0], np.einsum("nd,nd->n", turned, turned)


def parts(model: SkipNetwork, theta: Array, columns: int) -> tuple[Array, Array, Array, Array, Array]:
    """W, b, V, c and L of flat parameters."""
    W, b, V, c, L = np.split(np.asarray(theta, np.float64), np.cumsum(model.sizes(columns))[:-1])
    return W.reshape(model.seen, -1), b, V.reshape(model.hidden, -1), c, L.reshape(columns, -1)


class Forward:
    """A network's scores at some rows, and its gradients there: of each row alone, wherever it stands."""

    # Sums over a row's entries are exact products (`own_products`); all else works entry by entry.

    def __init__(self, model: SkipNetwork, theta: Array, rows: Array) -> None:
        self.model, self.rows = model, np.clip(rows, -model.cut, model.cut)
        W, b, self._output, c, L = parts(model, theta, rows.shape[1])
        self._seen = self.rows[:, : model.seen]
        self._activity = np.tanh(own_products(self._seen, W) + b)
        self._slopes = 1.0 - self._activity * self._activity
        self.scores: Array = own_products(self._activity, self._output) + c + own_products(self.rows, L)

    def gradients(self, residuals: Array) -> Array:
        """The derivative of residuals . scores in every parameter, shape (rows, parameters); residuals are fixed."""
        model, (count, columns) = self.model, self.rows.shape
        signals = self._slopes * own_products(residuals, self._output.T)
        found = np.empty((count, model.dim(columns)))
        first, second, third, fourth, fifth = np.split(found, np.cumsum(model.sizes(columns))[:-1], axis=1)
        _outer(self._seen, signals, first)
        second[:] = signals
        _outer(self._activity, residuals, third)
        fourth[:] = residuals
        _outer(self.rows, residuals, fifth)
        return found


def _outer(left: Array, right: Array, out: Array) -> None:
    for place in range(left.shape[1]):
        np.multiply(left[:, place, None], right, out=out[:, place * right.shape[1] : (place + 1) * right.shape[1]])


def label_residuals(scores: Array) -> tuple[Array, Array]:
    """For every label a row might have: its probability, and the derivative of its loss in the scores.

    Shapes (labels, rows) and (labels, rows, outputs). The sum over labels of the one times the other is 0.
    """
    if scores.shape[1] == 1:
        second = special.expit(scores)
        return np.stack([1.0 - second[:, 0], second[:, 0]]), np.stack([second, second - 1.0])
    # Added class by class: a reduction along rows may add in another order where there are few rows.
    largest = scores[:, 0].copy()
    for column in scores.T[1:]:
        np.maximum(largest, column, out=largest)
    raised = np.exp(scores - largest[:, None])
    total = np.zeros(len(scores))
    for column in raised.T:
        total += column
    shares = raised / total[:, None]
    return shares.T, shares[None] - np.eye(scores.shape[1])[:, None, :]


MOST_PEAKED, FLATTEST = 0.5, 6.0


def unit_quantile(level: float, exponent: float) -> float:
    """How far from 0 a symmetric error of variance 1 is with this probability at most; exponent 2 is the Gaussian.

    >>> round(unit_quantile(0.9, 2.0), 4)
    1.6449
    """
    reach = special.gammaincinv(1.0 / exponent, level) ** (1.0 / exponent)
    return float(reach * np.exp(0.5 * (special.gammaln(1.0 / exponent) - special.gammaln(3.0 / exponent))))


def unit_shares(ends: Array, exponent: float) -> Array:
    """The probability that an error of variance 1 is at most these sizes."""
    scale = np.exp(0.5 * (special.gammaln(1.0 / exponent) - special.gammaln(3.0 / exponent)))
    return special.gammainc(1.0 / exponent, (np.asarray(ends) / scale) ** exponent)


def median_size(counts: Array, ends: Array, records: int) -> float:
    """The end of the bin in which half of the records are reached."""
    reached = [*np.flatnonzero(np.cumsum(counts) >= 0.5 * records), len(ends)]
    return float(ends[min(int(reached[0]), len(ends) - 1)])


_EXPONENTS = np.geomspace(MOST_PEAKED, FLATTEST, 32)
_DEVIATIONS = np.geomspace(0.2, 5.0, 120)
# Prior standard deviation of the logarithm of an exponent over 2.
_SHAPES = 0.3


def residual_law(counts: Array, ends: Array, records: int, noise: float) -> tuple[float, float]:
    """Variance and exponent of a symmetric law whose expected counts are closest to noised ones, and near a normal."""
    scale, best = float(ends[len(ends) // 2]), (math.inf, 1.0, 2.0)
    for exponent in _EXPONENTS:
        inner = unit_shares(ends[None] / (scale * _DEVIATIONS[:, None]), float(exponent))
        expected = records * np.diff(inner, axis=1, prepend=0.0, append=1.0)
        misfit = ((counts - expected) ** 2 / (noise**2 + np.maximum(expected, 1.0))).sum(axis=1)
        misfit = misfit + (math.log(exponent / 2.0) / _SHAPES) ** 2
        place = int(np.argmin(misfit))
        best = min(best, (float(misfit[place]), float(scale * _DEVIATIONS[place]), float(exponent)))
    return best[1] ** 2, best[2]
