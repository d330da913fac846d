"""Where to ask for the next noised gradient, and what all of them say: noise-aware steps with a fixed curvature.

Rows are centred by a released centre. With H a public slope times their covariance, b = H theta - g averaged over the
last points theta and noised gradients g is Gaussian around H theta* up to the error of the quadratic, so `shrinkage`
gives effects from it: those are the next point, and after the last round the answer. Since H is fixed, a point where
the gradients vanish is kept whatever H is; a slope near the largest keeps the steps from overshooting. The intercept
has a prior of its own, from the released number of positive labels where there are two classes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.estimators.second_moments import SecondMoments
from sordino.estimators.shrinkage import Effects, PriorRule, effects

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
_NODE_SHARES = _WEIGHTS / _WEIGHTS.sum()
# Scores drawn to average the curvature of several classes over, from a fixed seed: they are no data.
_SEED, _DRAWN = 20_266, 1024
_FLAT = 1e-9
_LEAST_SLOPE = 0.02
# How far the mean score may be off its guess from the share of positives, for each unit of the scores' variance.
_GUESS_ERROR = 0.2
_VAGUE_INTERCEPT = 4.0


class Share(NamedTuple):
    """The log-odds of the positive class as released, and their variance."""

    log_odds: float
    variance: float


@dataclass(frozen=True, eq=False)
class GuidedFit:
    """All that is known before the first gradient; points have shape (1 + columns, outputs), the intercept first.

    Attributes:
        moments: centre and covariance of the columns.
        share: the log-odds of the positive class; None where there are more than two classes.
        records: how many there are said to be.
        gradient_noise: the deviation of the noise on each entry of a mean gradient.
        slope: the fixed slope of H.
        averaged: the share of the rounds so far that are averaged.
        rule: the prior of effects.
    """

    moments: SecondMoments
    share: Share | None
    records: int
    gradient_noise: float
    slope: float
    averaged: float
    rule: PriorRule

    def start(self, outputs: int) -> Array:
        """The best constant as far as it is known."""
        first = np.zeros((1 + len(self.moments.centre), outputs))
        first[0] = 0.0 if self.share is None else self.share.log_odds
        return first

    def next_point(self, points: Array, gradients: Array) -> Array:
        """From the points and noised gradients so far, shapes (rounds, columns, outputs)."""
        point, gradient, noise = self._averaged(points, gradients)
        found = self._effects(point, gradient, noise)
        intercept, _ = self._intercept(point, gradient, noise, self.slope, self._score_variance(points[-1]))
        return np.concatenate([intercept[None], found.mean])

    def posterior(self, points: Array, gradients: Array) -> tuple[Array, Array]:
        """Mean and covariance of the coefficients of rows that are not centred, shapes (p,) and (p, p)."""
        return self._uncentred(*self.answer(points, gradients))

    def answer(self, points: Array, gradients: Array) -> tuple[Array, Array]:
        """The same for centred rows: the mean in the shape of a point, and the covariance.

        The curvature at the next point takes the place of the fixed one, so that what early rounds were off by does not
        stay in the average; the privacy noise and the error that finitely many records leave are in the covariance.
        """
        point, gradient, noise = self._averaged(points, gradients)
        found, best = self._effects(point, gradient, noise), self.next_point(points, gradients)
        guess, variance = self._guess(self._score_variance(best))
        outputs = best.shape[1]
        curvature = self._curvature(best)
        prior = np.repeat(np.concatenate([[variance], found.prior]), outputs)
        centre = np.repeat(np.concatenate([[guess], np.zeros(len(found.prior))]), outputs)
        wanted = curvature @ (point.ravel() - centre) - gradient.ravel()
        errors = noise * np.eye(len(centre)) + curvature / self.records
        scaled = curvature * prior
        gain = np.linalg.solve(scaled @ curvature + errors, scaled).T
        mean = (centre + gain @ wanted).reshape(best.shape)
        # What the last step still changed may be off by as much: the loss is no quadratic.
        changed = (mean - best).ravel()
        return mean, np.diag(prior) - gain @ scaled + np.outer(changed, changed)

    def _averaged(self, points: Array, gradients: Array) -> tuple[Array, Array, float]:
        used = max(1, math.ceil(self.averaged * len(points)))
        return points[-used:].mean(axis=0), gradients[-used:].mean(axis=0), self.gradient_noise**2 / used

    def _effects(self, point: Array, gradient: Array, noise: float) -> Effects:
        moments = self.moments
        values = self.slope * moments.values
        b = (moments.vectors * values) @ (moments.vectors.T @ point[1:]) - gradient[1:]
        return effects(b, values, moments.vectors, noise + values / self.records, moments.blocks, self.rule)

    def _intercept(
        self, point: Array, gradient: Array, noise: float, slope: float, score_variance: float
    ) -> tuple[Array, float]:
        """Mean for each output, and variance."""
        guess, variance = self._guess(score_variance)
        gain = variance * slope / (slope * slope * variance + noise + slope / self.records)
        return guess + gain * (slope * (point[0] - guess) - gradient[0]), variance * (1.0 - gain * slope)

    def _guess(self, score_variance: float) -> tuple[float, float]:
        """The prior of the intercept; scores that vary make the log-odds of a share too small for their mean."""
        if self.share is None:
            return 0.0, _VAGUE_INTERCEPT
        grown = math.sqrt(1.0 + math.pi * score_variance / 8.0)
        variance = grown**2 * self.share.variance + (_GUESS_ERROR * score_variance) ** 2 + 1e-4
        return grown * self.share.log_odds, variance

    def _score_variance(self, point: Array) -> float:
        turned = self.moments.vectors.T @ point[1:]
        return float((self.moments.values[:, None] * turned**2).sum()) / point.shape[1]

    def _curvature(self, point: Array) -> Array:
        """The mean of x x' times the curvature of the loss in the scores, as a matrix over all coefficients.

        Rows are taken as Gaussian: x = B u + r with u = (1, standardised scores) and r apart from it. Then it is the
        covariance of r times the mean curvature, plus B E[u u' times the curvature] B'.
        """
        covariance, outputs = self.moments.covariance, point.shape[1]
        values, vectors = np.linalg.eigh(point[1:].T @ covariance @ point[1:])
        spread = np.sqrt(np.maximum(values, 1e-12))
        nodes, weights = _standard(outputs)
        curved = _curvatures(point[0] + (nodes * spread) @ vectors.T)
        basis = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        along = np.zeros((len(point), 1 + outputs))
        along[0, 0], along[1:, 1:] = 1.0, covariance @ point[1:] @ vectors / spread
        along[1:, 1:][:, values < _FLAT] = 0.0  # a direction in which scores do not vary explains no column
        whole = np.zeros((len(point), len(point)))
        whole[0, 0], whole[1:, 1:] = 1.0, covariance
        rest = np.kron(whole - along @ along.T, np.einsum("n,nab->ab", weights, curved))
        seen = np.einsum("n,np,nq,nab->paqb", weights, basis, basis, curved, optimize=True)
        spanned = np.einsum("ip,jq,paqb->iajb", along, along, seen, optimize=True).reshape(rest.shape)
        found = rest + spanned
        return (found + found.T) / 2

    def _uncentred(self, point: Array, spread: Array) -> tuple[Array, Array]:
        centring = np.eye(len(point))
        centring[0, 1:] = -self.moments.centre
        whole = np.kron(centring, np.eye(point.shape[1]))
        covariance = whole @ spread @ whole.T
        return (centring @ point).ravel(), (covariance + covariance.T) / 2 + 1e-12 * np.eye(point.size)


def _standard(outputs: int) -> tuple[Array, Array]:
    """Points and weights that stand for a standard Gaussian vector; for several outputs drawn from a fixed seed."""
    if outputs == 1:
        return _NODES[:, None], _NODE_SHARES
    drawn = np.random.default_rng(_SEED).standard_normal((_DRAWN // 2, outputs))
    return np.concatenate([drawn, -drawn]), np.full(_DRAWN, 1.0 / _DRAWN)


def _curvatures(scores: Array) -> Array:
    """The second derivative of the loss in the scores, shape (points, outputs, outputs)."""
    if scores.shape[1] == 1:
        share = special.expit(scores)
        return np.maximum(share * (1.0 - share), _LEAST_SLOPE)[:, :, None]
    shares = special.softmax(scores, axis=1)
    return shares[:, :, None] * np.eye(scores.shape[1]) - shares[:, :, None] * shares[:, None, :]


def centred(X: Array, moments: SecondMoments) -> Array:
    """Rows with the intercept first, the other columns less the centre; one row at a time, entry by entry."""
    rows = np.array(X, np.float64)
    rows[:, 1:] -= moments.centre
    return rows
