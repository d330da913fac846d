"""The query "gradients": noised full gradients of a linear score, exact on the host; and minimisers, released once.

The gradient of record i is r_i x_i', with r_i the derivative of its loss in the scores; a loss registers its own. It
is taken as (r_i |x_i|) times the direction of x_i, each cut to digits of a public unit, so every product and sum is a
whole number, whatever the order of the records (`integer_sums`). Scores are exact too: the parameters, which are
public, are rounded to 32 digits before they meet the rows. All records are used in every round, and every round is
seen, so how the next point is chosen from the noised gradients is post-processing.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.gaussian import narrow
from sordino.core.spec import AverageNoiseKind, OutputPerturbation, Spec
from sordino.core.validate import NON_NEGATIVE, Interval, check_numbers, instance_of, refuse
from sordino.mechanisms.rounds.registry import ExactRounds, query
from sordino.models.base import LinearScoreModel
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.regression import Huber
from sordino.noise import integer_sums as exact
from sordino.noise.gaussian import ExactGaussians
from sordino.noise.integer_sums import checked_rows
from sordino.noise.port import noised_numbers
from sordino.noise.randomness import Randomness


@singledispatch
def residuals(model: LinearScoreModel, _scores: Array, _y: Array) -> Array:
    """The derivative of each record's loss in its scores, shape (records, outputs)."""
    raise refuse("the model", "to have registered residuals", type(model).__name__)


@residuals.register
def _(_model: Softmax, scores: Array, y: Array) -> Array:
    found = special.softmax(scores, axis=1)
    found[np.arange(len(y)), y.astype(np.int64)] -= 1.0
    return found


residuals.register(Logistic, lambda _, scores, y: -y[:, None] * special.expit(-y[:, None] * scores))
residuals.register(Huber, lambda model, scores, y: np.clip(scores - y[:, None], -model.threshold, model.threshold))
# Directions have length 2^20 at most, so scores stay below 2^53 (Cauchy and Schwarz).
_PARAMETER_DIGITS = 32


class OuterProducts(ABC):
    """Private rows, each to be multiplied by values of its own and summed, products longer than the clip shortened."""

    def __init__(self, X: Array, clip: float, outputs: int) -> None:
        exact.check_size(X)
        self._clip, self._outputs = clip, outputs
        self._directions, self._lengths = exact.directions(X)
        self._clip_exponent = math.frexp(clip)[1]
        self.exponent = self._clip_exponent + exact.PRODUCT_EXPONENT

    @abstractmethod
    def values(self, scores: Array, part: slice) -> Array:
        """What rows of this part are multiplied by, shape (rows, outputs); a row's own scores are all it may need."""

    def sums(self, theta: Array) -> exact.Sums:
        """The sum over records at the parameters, in units of 2^exponent; one record changes it by its clip at most."""
        weights, unit = _whole(theta.reshape(-1, self._outputs))
        gathered = np.zeros((self._directions.shape[1], self._outputs), np.int64)
        for first in range(0, len(self._lengths), exact.ROWS_PER_BLOCK):
            part = slice(first, first + exact.ROWS_PER_BLOCK)
            rows, lengths = self._directions[part], self._lengths[part, None]
            scores = (rows @ weights) * math.ldexp(1.0, unit - exact.DIGITS) * lengths
            found = self.values(scores, part) * lengths
            gathered += exact.products(rows, exact.shortened(found, self._clip, self._clip_exponent))
        return gathered.ravel()

    def total(self, theta: Array) -> Array:
        """The same as floats."""
        return np.ldexp(self.sums(theta).astype(np.float64), self.exponent)


class ClippedGradients(OuterProducts):
    """Gradients: rows times the derivatives of their losses in the scores."""

    def __init__(self, model: LinearScoreModel, X: Array, y: Array, clip: float) -> None:
        super().__init__(X, clip, model.outputs)
        self._model, self._y = model, y

    def values(self, scores: Array, part: slice) -> Array:
        return residuals(self._model, scores, self._y[part])


def _whole(weights: Array) -> tuple[Array, int]:
    """Parameters as whole numbers of 2^unit; those of one score have length at most 2^32 units."""
    longest = float(np.sqrt(np.sum(weights * weights, axis=0)).max())
    unit = math.frexp(longest)[1] - _PARAMETER_DIGITS
    return np.trunc(np.ldexp(weights, -unit)), unit


class NoiseLeft(NamedTuple):
    """For each eigenvalue: the variance of the noise in the averaged point, and the share of the start's error."""

    variance: Array
    start_share: Array


def noise_left(eigenvalues: Array, paces: Array, noise: float, averaged: int) -> NoiseLeft:
    """How much of the noise, and of the start's error, is left in the average of the last points."""
    # Along an eigenvector of the mean loss's curvature with value a, a round moves the error by delta <- delta - p (a
    # delta + e) with a public pace p and noise e of known size. Both answers are sums over rounds; momentum is left
    # out, which shifts noise between neighbouring rounds and hardly changes what an average holds of it. A pace that
    # would overshoot is taken as one that lands on the optimum.
    shares = np.ones_like(eigenvalues)
    variance, with_sum, of_sum, summed = (np.zeros_like(eigenvalues) for _ in range(4))
    for k, pace in enumerate(paces):
        kept = 1.0 - np.minimum(pace * eigenvalues, 1.0)
        step = np.where(pace * eigenvalues > 1.0, 1.0 / np.maximum(eigenvalues, 1e-300), pace)
        shares = shares * kept
        variance = kept * kept * variance + (step * noise) ** 2
        with_sum = kept * with_sum
        if k >= len(paces) - averaged:
            of_sum = of_sum + 2.0 * with_sum + variance
            with_sum = with_sum + variance
            summed = summed + shares
    return NoiseLeft(of_sum / averaged**2, summed / averaged)


_SHARE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class MovingRule:
    """Adam's direction (Kingma & Ba 2015) and the share of the last rounds whose points are averaged."""

    mean_share: float = 0.9
    square_share: float = 0.999
    averaged: float = 0.5
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        shares = {"mean_share": _SHARE, "square_share": _SHARE, "averaged": _SHARE}
        check_numbers(self, **shares, prior_precision=NON_NEGATIVE)


@dataclass(frozen=True, eq=False)
class GradientsRelease:
    """Every point, the noised mean gradient there, and the pace that turned it into a move."""

    # `gradient_noise` is the standard deviation, public, of the noise on each entry of a mean gradient.
    spec: Spec
    model: LinearScoreModel
    rule: MovingRule
    points: Array
    gradients: Array
    paces: Array
    gradient_noise: float

    @property
    def point(self) -> Array:
        """The average of the last points."""
        return self.points[-self.averaged :].mean(axis=0)

    @property
    def gradient(self) -> Array:
        """The average of the noised gradients at the same points."""
        return self.gradients[-self.averaged :].mean(axis=0)

    @property
    def averaged(self) -> int:
        """How many points are averaged."""
        return max(1, int(self.rule.averaged * len(self.gradients)))


@query("gradients")
class NoisedGradients:
    """The noised mean gradient of a described run, at the point that is asked about in each round."""

    # `noise` is the standard deviation of the noise on each entry in the first round.
    name: ClassVar[str]

    def __init__(
        self, spec: Spec, model: LinearScoreModel, features: Any, target: Any, randomness: Randomness, size: int
    ) -> None:
        instance_of("model", model, LinearScoreModel)
        if spec.view is not View.ALL_ITERATES:
            raise refuse("the spec", "to be seen whole", spec.view.value, "use the view all-iterates")
        X, y = checked_rows(features, target, np.float64)
        self._rounds = ExactRounds(spec, self.name, len(X), size, randomness)
        self.algorithm = self._rounds.algorithm
        X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
        self._sums = ClippedGradients(model, X, y, self.algorithm.contribution)
        self.noise = self._rounds.scale(0) / self.algorithm.records

    def __call__(self, theta: Array, k: int) -> Array:
        """The answer of round k, which is to be asked for once: a second one would have the same noise."""
        return self._rounds.noised(k, self._sums.sums(theta), self._sums.exponent) / self.algorithm.records


def run_full_gradients(
    spec: Spec,
    model: LinearScoreModel,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    start: Array,
    rule: MovingRule,
) -> GradientsRelease:
    """Release the points and noised gradients of a described run; `start` is public, or released before."""
    noised = NoisedGradients(spec, model, features, target, randomness, len(start))
    algorithm = noised.algorithm
    step_sizes = algorithm.schedule("step_size").values(algorithm.rounds)
    found = descend(noised, start, step_sizes, rule, rule.prior_precision / algorithm.records)
    return GradientsRelease(spec, model, rule, *found, noised.noise)


def descend(
    noised: Callable[[Array, int], Array], start: Array, step_sizes: Array, rule: MovingRule, decay: float
) -> tuple[Array, Array, Array]:
    """Follow Adam's directions; points, gradients as noised, and the pace of each round, averaged over coordinates."""
    theta, mean, square = np.array(start, np.float64), np.zeros(len(start)), np.zeros(len(start))
    points, gradients = np.empty((2, len(step_sizes), len(start)))
    paces = np.empty(len(step_sizes))
    for k, step_size in enumerate(step_sizes):
        points[k], gradients[k] = theta, noised(theta, k)
        drift = gradients[k] + decay * theta
        mean = rule.mean_share * mean + (1.0 - rule.mean_share) * drift
        square = rule.square_share * square + (1.0 - rule.square_share) * drift * drift
        spread = np.sqrt(square / (1.0 - rule.square_share ** (k + 1))) + 1e-8
        theta = theta - step_size * mean / (1.0 - rule.mean_share ** (k + 1)) / spread
        paces[k] = step_size / float(spread.mean())
    return points, gradients, paces


# Minimisers within a proven distance: a strongly convex objective's gradient bounds how far its minimiser can be.
#
# If F is m-strongly convex, |theta - minimiser| <= |gradient at theta| / m, so a search ends where the gradient is
# short. Accelerated descent always gets there (Nesterov 2004, Theorem 2.2.3).
#
# The gradient is computed in double precision, and a sum of n terms of length L may be off by n L u times the number of
# additions a term goes through, u = 2^-53. Sums are taken in blocks of 4,096 rows, so that is at most
# 4,096 + n / 4,096, and for up to 2^24 records the error is below 1.6e-5 L. Scores of d products of at most 1,000 (a
# minimiser is no longer than n L / m) are off by d 1,000 u, which the slope of a loss turns into n d 250 u L: 1.5e-5 L
# for n d up to 2^29; elementary functions accurate to 2^-40 add 2^-40 n L, 1.6e-5 L at most. Together that is less than
# half of a tolerance of 1e-4 L / m, which is what private fits ask for. The search ends at the other half.
MOST_RECORDS, MOST_PRODUCTS = 2**24, 2**29

_ROWS_PER_BLOCK = 4096
MINIMISER_COVERED = (
    "noise from fair bits, without rounding, on a point whose gradient, roundings included, bounds its distance from "
    "the minimiser, elementary functions being accurate to 2^-40"
)


def minimiser(
    model: LinearScoreModel, X: Array, y: Array, *, smoothness: float, regulariser: float, tolerance: float
) -> Array:
    """Minimise sum of losses + (regulariser / 2) |theta|^2 to within the tolerance.

    `smoothness` bounds the second derivative of the sum of the losses along any direction.
    """
    size = X.shape[1] * model.outputs

    def gradient(theta: Array) -> Array:
        weights = theta.reshape(-1, model.outputs)
        found = summed(lambda part: X[part].T @ residuals(model, X[part] @ weights, y[part]), len(X), weights.shape)
        return found.ravel() + regulariser * theta

    return _descended(gradient, np.zeros(size), smoothness + regulariser, regulariser, 0.5 * tolerance)


def summed(of_rows: Callable[[slice], Array], rows: int, shape: tuple[int, ...]) -> Array:
    """The sum over blocks of rows of a function that sums over one block."""
    total = np.zeros(shape)
    for first in range(0, rows, _ROWS_PER_BLOCK):
        total += of_rows(slice(first, min(first + _ROWS_PER_BLOCK, rows)))
    return total


def _descended(
    gradient: Callable[[Array], Array], start: Array, smooth: float, convex: float, tolerance: float
) -> Array:
    """Nesterov's method with a constant step; ends as soon as the gradient is short enough."""
    ratio = np.sqrt(convex / smooth)
    momentum = (1.0 - ratio) / (1.0 + ratio)
    point, ahead = start, start
    while True:
        slope = gradient(ahead)
        if float(np.linalg.norm(slope)) <= convex * tolerance:
            return ahead
        moved = ahead - slope / smooth
        point, ahead = moved, moved + momentum * (moved - point)


def ridge_in_ball(gram: Array, cross: Array, regulariser: float, radius: float, tolerance: float = math.inf) -> Array:
    """Minimise theta' gram theta / 2 - cross' theta + (regulariser / 2) |theta|^2 over |theta| <= radius.

    However the eigenvectors were computed, what is answered is checked: with step 1 / L a projected step from theta
    moves it by at most m / (2 L) times the tolerance, so that the minimiser is within the tolerance (Nesterov 2018,
    Theorem 2.2.13); otherwise projected steps go on until that holds.
    """
    values, vectors = np.linalg.eigh(gram)
    turned, values = vectors.T @ cross, np.maximum(values, 0.0) + regulariser
    found = turned / values
    if float(np.linalg.norm(found)) > radius:
        high = float(np.linalg.norm(turned)) / radius
        _, pull = narrow(lambda pull: float(np.linalg.norm(turned / (values + pull))) <= radius, 0.0, high, near=0.0)
        found = turned / (values + pull)
    point = vectors @ found
    # The largest eigenvalue is at most the trace, whatever the decomposition said.
    smooth = float(np.trace(gram)) * (1.0 + 1e-9) + regulariser
    while True:
        moved = point - (gram @ point - cross + regulariser * point) / smooth
        moved = moved * min(1.0, radius / max(float(np.linalg.norm(moved)), 1e-300))
        if float(np.linalg.norm(moved - point)) * 2.0 * smooth <= regulariser * tolerance:
            return point
        point = moved


def run_output(spec: Spec, point: Array, randomness: Randomness) -> Array:
    """The point plus noise; the caller answers for the point being within the spec's tolerance of the minimiser."""
    algorithm = instance_of("spec.algorithm", spec.algorithm, OutputPerturbation)
    if len(point) != algorithm.dim:
        raise refuse("the point", f"to have algorithm.dim = {algorithm.dim} entries", len(point))
    if algorithm.noise.kind is not AverageNoiseKind.GAUSSIAN:
        raise refuse("algorithm.noise.kind", "to be gaussian for a run", algorithm.noise.kind.value)
    noise = ExactGaussians.of(randomness, algorithm.dim)
    return noised_numbers(point, algorithm.noise.scale, noise)
