"""The query "natural gradients": a network with a linear part, by noised sums of contributions of length 1.

With g the gradient of a record's loss in the parameters, let F be the mean of g g' over rows drawn from a standard
normal law, and over the labels or unit errors that the network expects there, at the released parameters. A record
contributes A g / c, A = F^(-1/2), shortened to length 1; the noised sum moves the parameters by A times itself. In that
metric no direction is louder than another, so neither the clip c nor the noise is spent on loud ones. F reads no
record: where rows that earlier releases have whitened are far from its law, only accuracy suffers. c is chosen from
releases too; contributions are divided by it, so the sensitivity is the same whatever it is.

*Sensitivity.* A contribution depends on its record and on releases alone: derivatives and products with A come from
exact products or entry by entry, in double precision. It is scaled to a length of at most 1 - 2^-14 as computed and
rounded to whole numbers of 2^-34. Computed lengths are off by less than 2^-40 of themselves, products with the scale by
2^-52, and rounding p entries adds at most sqrt(p) / 2 units, less than 2^-20 for p up to 2^20: so it is no longer than
1. Adding or removing a record moves the sum by at most 1, replacing one by at most 2. Whole numbers of at most 2^34
from at most 2^23 records add up exactly, and noise is drawn exactly (`noise.integer_sums`).

*Classes.* A gradient shortened by its own length would pull less the more a label surprises, and bend probabilities. So
a row is weighed by the longest contribution that any label could give it: then the weighted mean gradient is zero at
the truth. *Numbers* are shortened by their own length, so that residuals beyond c / |A j| pull no harder: nearly the
median where c is small, which costs the least noise.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec import Spec
from sordino.core.validate import instance_of, refuse
from sordino.data.scaling import row_lengths
from sordino.mechanisms.posterior.network import Forward, label_residuals
from sordino.mechanisms.rounds import ExactRounds, noised_counts
from sordino.models.families.networks import SkipNetwork, SkipRegression
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import checked_rows, own_products
from sordino.noise.randomness import Randomness

# Contributions are whole numbers of 2^-34, and a hair shorter than 1 before they are rounded.
UNIT_EXPONENT = -34
_INSIDE = 1.0 - 2.0**-14
_ROWS_PER_BLOCK = 4096
# Parameters beyond this belong to a run that noise has blown up; cut, so that no product overflows.
FAR = 1e3
_TINY = 1e-300
# A network that noise has made sure of every label has no metric; these keep what is computed from it finite.
_LEAST_WEIGHT, _LEAST_SLOPE = 1e-9, 1e-6


class MetricPoint(NamedTuple):
    """Where gradients are taken: parameters, the metric A = F^(-1/2) there, and the clip in that metric."""

    theta: Array
    inverse_root: Array
    clip: float


def contributions(model: SkipNetwork, point: MetricPoint, rows: Array, targets: Array) -> Array:
    """What each row contributes, of length at most 1 before it is rounded; classes are coded 0, 1, ..."""
    forward = Forward(model, point.theta, rows)
    if model.outputs == 1:
        turned = own_products(forward.gradients(np.ones((len(rows), 1))), point.inverse_root)
        if isinstance(model, SkipRegression):
            own = forward.scores[:, 0] - targets
            longest = np.abs(own) * row_lengths(turned)
        else:
            first, second = label_residuals(forward.scores)[1][:, :, 0]
            own = np.where(targets > 0.5, second, first)
            longest = np.maximum(np.abs(first), np.abs(second)) * row_lengths(turned)
        return turned * (own * _INSIDE / np.maximum(longest, point.clip))[:, None]
    residuals = label_residuals(forward.scores)[1]
    longest, chosen = np.zeros(len(rows)), np.zeros((len(rows), len(point.theta)))
    for label, of_label in enumerate(residuals):
        turned = own_products(forward.gradients(of_label), point.inverse_root)
        np.maximum(longest, row_lengths(turned), out=longest)
        own = targets == label
        chosen[own] = turned[own]
    return chosen * (_INSIDE / np.maximum(longest, point.clip))[:, None]


def whole_contributions(model: SkipNetwork, point: MetricPoint, rows: Array, targets: Array) -> exact.Contributions:
    """What all rows contribute, in units of 2^-34."""

    def whole(part: slice) -> Array:
        found = contributions(model, point, rows[part], targets[part])
        found *= math.ldexp(1.0, -UNIT_EXPONENT)
        return np.rint(found, out=found)

    return exact.vectors(len(rows), None, whole)


class NaturalGradients(ExactRounds):
    """The noised mean contribution of a described run, at the point that is asked about in each round."""

    name: ClassVar[str] = "natural gradients"

    def __init__(self, spec: Spec, model: SkipNetwork, rows: Array, targets: Array, randomness: Randomness) -> None:
        self._model = instance_of("model", model, SkipNetwork)
        if spec.view is not View.ALL_ITERATES:
            raise refuse("the spec", "to be seen whole", spec.view.value, "use the view all-iterates")
        X, y = checked_rows(rows, targets, np.float64)
        exact.check_size(X)
        self._rows, self._targets = np.asarray(X, np.float64), np.asarray(y, np.float64)
        super().__init__(spec, self.name, len(X), model.dim(X.shape[1]), randomness)
        if self.algorithm.contribution < 1.0:
            raise refuse("algorithm.contribution", "to be at least 1", self.algorithm.contribution)

    def __call__(self, point: MetricPoint, k: int) -> Array:
        """The answer of round k, which is to be asked for once: a second one would have the same noise."""
        asked = whole_contributions(self._model, point, self._rows, self._targets)
        return self.noised(k, asked, UNIT_EXPONENT) / self.algorithm.records


def residual_counts(spec: Spec, sizes: Array, ends: Array, randomness: Randomness) -> Array:
    """Noised numbers of residuals between these ends, the first bin from 0 on and the last one open."""
    bins = np.searchsorted(ends, sizes).astype(np.int64)
    return noised_counts(spec, "sizes of residuals", bins, len(ends) + 1, randomness)


def class_counts(spec: Spec, codes: Array, classes: int, randomness: Randomness) -> Array:
    """Noised numbers of records with each label; labels are coded 0, 1, ... and their number is public."""
    bins = codes.astype(np.int64)
    if bins.size and not 0 <= bins.min() <= bins.max() < classes:
        raise refuse("labels", f"to be coded 0 to {classes - 1}", "others")
    return noised_counts(spec, "records of each class", bins, classes, randomness)


def residual_sizes(model: SkipNetwork, theta: Array, rows: Array, targets: Array) -> Array:
    """The size of each row's residual, from that row alone."""
    parts = [slice(first, first + _ROWS_PER_BLOCK) for first in range(0, len(rows), _ROWS_PER_BLOCK)]
    found = [np.abs(Forward(model, theta, rows[part]).scores[:, 0] - targets[part]) for part in parts]
    return np.concatenate([np.empty(0), *found])


# Everything below is post-processing: it sees releases and public numbers only.


def inverse_root(model: SkipNetwork, theta: Array, law: Array, damping: float) -> Array:
    """A = F^(-1/2) at the parameters, over rows of a public law; `damping` is added to eigenvalues, in mean weights."""
    forward, weight = Forward(model, theta, law), 1.0
    if isinstance(model, SkipRegression):
        gradients = [forward.gradients(np.ones((len(law), 1)))]
    else:
        shares, residuals = label_residuals(forward.scores)
        gradients = [forward.gradients(of_label) for of_label in residuals * np.sqrt(shares)[:, :, None]]
        weight = max(_LEAST_WEIGHT, float(np.mean(np.einsum("kn,kno->no", shares, residuals**2))))
    metric = sum((one.T @ one for one in gradients), np.zeros((len(theta), len(theta)))) / len(law)
    values, vectors = np.linalg.eigh(metric)
    return (vectors / np.sqrt(np.maximum(values, 0.0) + damping * weight)) @ vectors.T


class Slope(NamedTuple):
    """How much of a natural step is left in mean contributions times the clip, and the mean square of that."""

    mean: float
    square: float


def clipped_slope(model: SkipNetwork, point: MetricPoint, law: Array) -> Slope:
    """What clipping leaves of steps, where rows follow the public law and the network is right.

    Of classes every row has a weight; of numbers errors are normal with deviation 1, and rows as long as the mean one.
    """
    if isinstance(model, SkipRegression):
        reach = point.clip / math.sqrt(len(point.theta))
        mean = float(special.erf(reach / math.sqrt(2.0)))
        beyond = mean - 2.0 * reach * math.exp(-0.5 * reach**2) / math.sqrt(2.0 * math.pi)
        return Slope(mean, beyond + reach**2 * (1.0 - mean))
    forward = Forward(model, point.theta, law)
    shares, residuals = label_residuals(forward.scores)
    squares = np.stack([row_lengths(forward.gradients(one) @ point.inverse_root) ** 2 for one in residuals])
    weights = np.minimum(1.0, point.clip / np.sqrt(np.maximum(squares.max(axis=0), _TINY)))
    expected = np.einsum("kn,kn->n", shares, squares)
    total = max(float(expected.mean()), _TINY)
    mean = max(_LEAST_SLOPE, float((weights * expected).mean()) / total)
    return Slope(mean, float((weights**2 * expected).mean()) / total)


@dataclass
class NaturalDescent:
    """Parameters that follow noised natural gradients, and what the last rounds say of where the gradient is zero."""

    theta: Array
    momentum: float
    kept: int  # rounds whose points and moves are averaged in the end
    rounds: int

    def __post_init__(self) -> None:
        self._direction, self._points, self._moves = np.zeros((3, len(self.theta)))
        self._noise, self._made = 0.0, 0

    def follow(self, inverse_root: Array, mean: Array, pace: float, step_size: float, noise: float) -> None:
        """One round: `pace` turns a mean contribution into a natural step, `noise` is the deviation of its entries."""
        move = pace * (inverse_root @ mean)
        if self._made >= self.rounds - self.kept:
            self._points += self.theta / self.kept
            self._moves += move / self.kept
            self._noise += (pace * noise / self.kept) ** 2
        self._made += 1
        self._direction = self.momentum * self._direction + (1.0 - self.momentum) * move
        self.theta = np.clip(self.theta - step_size * self._direction, -FAR, FAR)

    def settled(self, inverse_root: Array, *, shrunk: bool) -> "Settled":
        """Where the mean gradient of the last rounds vanishes.

        With gradients linear in the parameters, points less natural steps, both averaged, are that place up to the
        mean of the rounds' noises. `shrunk`: only as much of the averaged step is made as is not explained by noise
        (Stein). Otherwise that much of it is in doubt, because gradients are not linear.
        """
        along = np.linalg.solve(inverse_root, self._moves)
        share = max(0.0, 1.0 - len(along) * self._noise / max(float(along @ along), _TINY))
        made = share if shrunk else 1.0
        doubt = 0.0 * self._moves if shrunk else math.sqrt(share) * self._moves
        return Settled(np.clip(self._points - made * self._moves, -FAR, FAR), self._noise, np.clip(doubt, -FAR, FAR))


class Settled(NamedTuple):
    """A place, the variance of the noise in it along each axis of the metric, and a step that may be off by itself."""

    theta: Array
    noise: float
    doubt: Array


class Whitening(NamedTuple):
    """A map of rows with a 1 behind, and the share of each new column's unit variance that rows are known to have."""

    transform: Array
    variances: Array


def whitening(moments: Array, noise: float, seen: int) -> Whitening:
    """Centre, then scale the first columns to variance 1 among themselves, the others beside what those explain.

    `moments` is the noised mean of rows times themselves, the constant last, `noise` the deviation on its diagonal.
    Directions below the noise are scaled as far as it allows.
    """
    width, centre = len(moments) - 1, moments[:-1, -1]
    covariance = moments[:-1, :-1] - np.outer(centre, centre)
    made, known = np.zeros((width + 1, width + 1)), np.zeros(width)
    made[-1, -1] = 1.0

    def scaled(part: slice, spread: Array) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(0.5 * (spread + spread.T))
        kept = np.maximum(values, noise * math.sqrt(len(values)))
        made[part, part], known[part] = vectors / np.sqrt(kept), np.maximum(values, 0.0) / kept
        return vectors, kept

    vectors, kept = scaled(slice(seen), covariance[:seen, :seen])
    if seen < width:
        explained, rest = covariance[seen:, :seen] @ (vectors / kept) @ vectors.T, slice(seen, width)
        scaled(rest, covariance[seen:, seen:] - explained @ covariance[:seen, seen:])
        made[:seen, rest] = -explained.T @ made[rest, rest]
    made[-1, :-1] = -centre @ made[:-1, :-1]
    return Whitening(made, known)
