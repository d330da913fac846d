"""Run it: every round sums the clipped gradients of all records, adds noise, and moves.

In the words of a spec this is a variational run with a point mass, all records a round, seen whole: the theorem of
Gaussian composition covers every released gradient, so how the next point is chosen from them is post-processing. Sums
and noise are exact (`exact_noise`, `clipped_gradients`): what is released is what is certified, rounded to a grid.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise import ExactGaussians, noised_sums
from sordino.algorithm.full_gradients.clipped_gradients import ClippedGradients
from sordino.algorithm.randomness import Randomness
from sordino.algorithm.records import checked_rows
from sordino.algorithm.rounds.feed import RoundFeed
from sordino.core.spec import Sampling, Spec, Variational
from sordino.core.validate import NON_NEGATIVE, Interval, instance_of, number, refuse
from sordino.core.view import View
from sordino.model.base import LinearScoreModel

Array = NDArray[np.float64]
_HAIR = 2.0**-50
_SHARE = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class MovingRule:
    """Adam's direction (Kingma & Ba 2015) and the share of the last rounds whose points are averaged."""

    mean_share: float = 0.9
    square_share: float = 0.999
    averaged: float = 0.5
    prior_precision: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean_share", "square_share", "averaged"):
            object.__setattr__(self, name, number(name, getattr(self, name), _SHARE))
        object.__setattr__(self, "prior_precision", number("prior_precision", self.prior_precision, NON_NEGATIVE))


@dataclass(frozen=True, eq=False)
class GradientsRelease:
    """Every point, the noised mean gradient there, and the pace that turned it into a move.

    `gradient_noise` is the standard deviation, public, of the noise on each entry of a mean gradient.
    """

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
    noised, noise = noised_gradients(spec, model, features, target, randomness, len(start))
    algorithm = instance_of("spec.algorithm", spec.algorithm, Variational)
    found = descend(
        noised,
        start,
        algorithm.step_size.values(algorithm.steps),
        rule,
        rule.prior_precision / algorithm.records,
    )
    return GradientsRelease(spec, model, rule, *found, noise)


def noised_gradients(
    spec: Spec, model: LinearScoreModel, features: Any, target: Any, randomness: Randomness, size: int
) -> tuple[Callable[[Array, int], Array], float]:
    """The noised mean gradient at a point in round k of a described run, and the deviation of its noise in round 0.

    Each round is to be asked for once: a second answer would have the same noise.
    """
    instance_of("model", model, LinearScoreModel)
    instance_of("randomness", randomness, Randomness)
    algorithm = instance_of("spec.algorithm", spec.algorithm, Variational)
    if algorithm.sampling is not Sampling.FULL or spec.view is not View.ALL_ITERATES:
        raise refuse(
            "the spec", "to use all records a round and to be seen whole", f"{algorithm.sampling}, {spec.view}"
        )
    X, y = checked_rows(features, target, np.float64)
    feed = RoundFeed(spec, algorithm, len(X), randomness, np.float64)
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    # A hair more, because the product of multiplier and sensitivity is rounded.
    scales = feed.sum_noise * (1.0 + _HAIR)
    noise = ExactGaussians.of(randomness, algorithm.steps * size)
    gradients = ClippedGradients(model, X, y, algorithm.clip)

    def noised(theta: Array, k: int) -> Array:
        part = slice(k * size, (k + 1) * size)
        return noised_sums(gradients.sums(theta), gradients.exponent, scales[k], noise, part) / algorithm.records

    return noised, float(scales[0]) / algorithm.records


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
