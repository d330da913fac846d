"""Ridge steps: noised gradients of centred, scaled rows; what is public about the columns takes the place of products.

Sums of all products of columns are too many numbers for a small budget, and for hundreds of columns. Three things do
without them. The centre is released. Columns are scaled by their declared kind, so that noise falls on them as they
matter; a released histogram of the lengths of rows says how much of their bounds columns use. And the products of rows
with a few public directions (a sketch, as in block power iteration) show the few directions in which many columns vary
together, where a step would overshoot.

The points of all rounds and the noised gradients g_k there say, with H the curvature, that the optimum t has
mean(H t_k - g_k) = H t, up to noise. The next point is the posterior mean of t under a normal prior: early noise is
averaged with late noise and nothing is lost by many rounds, whose points come so near that H hardly matters.

The gradient of record i is r_i x_i', with r_i the derivative of its loss in the scores; a loss registers its own. It
is taken as (r_i |x_i|) times the direction of x_i, each cut to digits of a public unit, so every product and sum is a
whole number, whatever the order of the records (`integer_sums`). Scores are exact too: the parameters, which are
public, are rounded to 32 digits before they meet the rows. All records are used in every round, and every round is
seen, so how the next point is chosen from the noised gradients is post-processing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec import Spec
from sordino.core.validate import instance_of, refuse
from sordino.data import Category, Measurement, Schema
from sordino.data.scaling import row_lengths
from sordino.mechanisms.rounds import ExactRounds, noised_counts
from sordino.models.base import LinearScoreModel
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.regression import Huber
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import Contributions, checked_rows, directions, outers, shortened
from sordino.noise.randomness import Randomness

# A number is spread over its bounds with about this variance; twice its encoded value is worth one of a category.
_VARIANCE, _LEAST_VARIANCE, _NUMBER = 0.15, 0.02, 2.0
_CENTRE_VARIANCE = 0.25
# How far the centre of a number counts for the public length of rows, before it is known.
_NUMBER_LENGTH = 0.3
# Shares of levels are at least this part of even ones, shares of flags at least the other.
_LEAST_OF_EVEN, _LEAST_SHARE = 0.1, 0.02
# Ends of the bins of lengths, half octaves around what is typical; and standard deviations of the log of a length:
# within a table, and of the middle one in the prior.
LENGTHS = 2.0 ** np.arange(-5.0, 1.5, 0.5)
_LENGTHS_SPREAD, _LENGTHS_PRIOR = 0.3, 1.0
# A direction counts if it is seen above this many times the largest that noise would show, and what columns explain.
_SEEN = 1.5
_SEED = 20_268
# Effects as parts of the declared ones, and the prior weights of those parts.
_SMALLER = np.array([0.25, 0.5, 1.0])
_WEIGHTS = np.array([0.3, 0.3, 0.4])


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


class OuterProducts:
    """Private rows, each to be multiplied by `values` of its own and summed, products longer than the clip shortened.

    `values` gives what some rows are multiplied by, (rows, outputs), of their own scores and what the slice names.
    """

    def __init__(self, X: Array, clip: float, outputs: int, values: Callable[[Array, slice], Array]) -> None:
        exact.check_size(X)
        self._clip, self._outputs, self._values = clip, outputs, values
        self._directions, self._lengths = directions(X)
        self._clip_exponent = math.frexp(clip)[1]
        self.exponent = self._clip_exponent + exact.PRODUCT_EXPONENT

    def products(self, theta: Array) -> Contributions:
        """What records add at the parameters, in units of 2^exponent, each at most its clip."""
        weights, unit = _whole(theta.reshape(-1, self._outputs))

        def values(part: slice) -> Array:
            lengths = self._lengths[part, None]
            scores = (self._directions[part] @ weights) * math.ldexp(1.0, unit - exact.DIGITS) * lengths
            return shortened(self._values(scores, part) * lengths, self._clip, self._clip_exponent)

        return outers(len(self._lengths), None, self._directions.__getitem__, values)


def clipped_gradients(model: LinearScoreModel, X: Array, y: Array, clip: float) -> OuterProducts:
    """Rows times the derivatives of their losses in the scores."""
    return OuterProducts(X, clip, model.outputs, lambda scores, part: residuals(model, scores, y[part]))


def _whole(weights: Array) -> tuple[Array, int]:
    """Parameters as whole numbers of 2^unit; those of one score have length at most 2^32 units."""
    unit = math.frexp(float(np.sqrt(np.sum(weights * weights, axis=0)).max()))[1] - _PARAMETER_DIGITS
    return np.trunc(np.ldexp(weights, -unit)), unit


class NoisedGradients(ExactRounds):
    """The noised mean gradient of a described run, at the point that is asked about in each round."""

    name: ClassVar[str] = "gradients"

    def __init__(
        self,
        spec: Spec,
        model: LinearScoreModel,
        features: Array,
        target: Array,
        randomness: Randomness,
        size: int,
    ) -> None:
        instance_of("model", model, LinearScoreModel)
        if spec.view is not View.ALL_ITERATES:
            raise refuse("the spec", "to be seen whole", spec.view.value, "use the view all-iterates")
        X, y = checked_rows(features, target, np.float64)
        super().__init__(spec, self.name, len(X), size, randomness)
        X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
        self._sums = clipped_gradients(model, X, y, self.algorithm.contribution)

    def __call__(self, theta: Array, k: int) -> Array:
        """The answer of round k, which is to be asked for once: a second one would have the same noise."""
        return self.noised(k, self._sums.products(theta), self._sums.exponent) / self.algorithm.records


class NoisedProducts(ExactRounds):
    """Noised means of rows times 1, their centre, or times their scores in public directions, a sketch of products."""

    name: ClassVar[str] = "products"

    def __init__(
        self, spec: Spec, features: Array, randomness: Randomness, outputs: int, *, ones: bool = False
    ) -> None:
        X, _ = checked_rows(features, np.zeros(len(features)), np.float64)
        super().__init__(spec, self.name, len(X), X.shape[1] * outputs, randomness)
        values = (lambda scores, _: np.ones_like(scores)) if ones else (lambda scores, _: scores)
        self._sums = OuterProducts(np.asarray(X, np.float64), self.algorithm.contribution, outputs, values)

    def __call__(self, directions: Array, k: int) -> Array:
        """The answer of round k, which is to be asked for once; directions are columns."""
        found = self.noised(k, self._sums.products(directions), self._sums.exponent) / self.algorithm.records
        return found.reshape(directions.shape)


def length_counts(spec: Spec, rows: Array, randomness: Randomness) -> Array:
    """Noised numbers of centred, scaled rows with a length between `LENGTHS`, the first bin from 0 on, the last open.

    The intercept, which comes first, has no part in a length.
    """
    bins = np.searchsorted(LENGTHS, row_lengths(np.ascontiguousarray(rows[:, 1:])))
    return noised_counts(spec, "lengths of rows", bins.astype(np.int64), len(LENGTHS) + 1, randomness)


def typical_length(counts: Array, records: int, noise: float) -> float:
    """The posterior geometric mean of the middle length, given noised counts: 1 where noise hides them."""
    middles = np.geomspace(LENGTHS[0], LENGTHS[-1], 81)
    inside = special.ndtr((np.log(LENGTHS)[:, None] - np.log(middles)) / _LENGTHS_SPREAD)
    expected = records * np.diff(inside, axis=0, prepend=0.0, append=1.0)
    misfit = np.sum((counts[:, None] - expected) ** 2 / (noise**2 + np.maximum(expected, 1.0)), axis=0)
    weights = special.softmax(-0.5 * (misfit + (np.log(middles) / _LENGTHS_PRIOR) ** 2))
    return math.exp(float(weights @ np.log(middles)))


def public_middle(schema: Schema) -> Array:
    """What rows are centred by before anything is known: even shares of levels, 0 for the rest, the intercept too."""
    middle = np.zeros(len(schema.feature_names))
    for feature, block in schema.blocks:
        if isinstance(feature.kind, Category):
            middle[block] = 1.0 / _levels(feature.kind, block)
    return middle


def public_length(schema: Schema) -> float:
    """About the length of a row less that middle, without the intercept."""
    kinds = ((feature.kind, block) for feature, block in schema.blocks)
    parts = (1.0 - 1.0 / _levels(kind, at) if isinstance(kind, Category) else _NUMBER_LENGTH for kind, at in kinds)
    return math.sqrt(math.fsum(parts))


def _levels(kind: Category, block: slice) -> int:
    return block.stop - block.start + int(kind.drop_first)


def level_shares(noised: Array, spread: float) -> Array:
    """Shares of the levels, drawn towards even ones by as much as noise explains of their differences."""
    even, found = 1.0 / len(noised), max(float(np.var(noised)) - spread**2, 1e-4)
    drawn = even + found / (found + spread**2) * (noised - even)
    inside = np.clip(drawn, _LEAST_OF_EVEN * even, 1.0)
    return inside / inside.sum()


@dataclass(frozen=True, eq=False)
class Geometry:
    """How rows are centred and scaled, with the intercept first and length about 1, and what their products are.

    Attributes:
        centre: subtracted from every column; 0 for the intercept.
        stretch: what columns are multiplied by then.
        products: the mean of z z' of such rows, as far as it is known.
        length: of rows before all of them were shortened to about 1.
    """

    centre: Array
    stretch: Array
    products: Array
    length: float

    def rows(self, X: Array) -> Array:
        """Rows in these units; one row at a time, entry by entry."""
        return np.asarray((np.asarray(X, np.float64) - self.centre) * self.stretch)

    def scaled_by(self, length: float) -> "Geometry":
        """The same where rows have this length instead of 1: numbers that use a part of their bounds are stretched."""
        stretch = self.stretch.copy()
        stretch[1:] /= length
        return replace(self, stretch=stretch)

    @cached_property
    def to_encoded(self) -> Array:
        """The map from coefficients of these rows to those of encoded ones."""
        found = np.diag(self.stretch)
        found[0, 1:] = -self.centre[1:] * self.stretch[1:]
        return found


def read_geometry(schema: Schema, mean: Array, noise: float) -> Geometry:
    """From noised means of columns less their public middle, the intercept's left out."""
    size = len(mean) + 1
    centre, stretch, products = np.zeros(size), np.ones(size), np.zeros((size, size))
    products[0, 0] = 1.0
    found = np.concatenate([[0.0], mean]) + public_middle(schema)
    for feature, block in schema.blocks:
        kind, first = feature.kind, block.start
        if isinstance(kind, Category):
            shares = found[block] if kind.drop_first else level_shares(found[block], noise)
            centre[block] = shares = np.clip(shares, 1e-4, 1.0)
            products[block, block] = np.diag(shares) - np.outer(shares, shares) * min(1.0, 1.0 / shares.sum())
            continue
        flags = slice(first + int(isinstance(kind, Measurement)), block.stop)
        if isinstance(kind, Measurement):
            far = kind.block_norm
            centre[first] = np.clip(found[first] * _CENTRE_VARIANCE / (_CENTRE_VARIANCE + noise**2), -far, far)
            stretch[first] = _NUMBER
            variance = min(_VARIANCE, max(far**2 - float(centre[first]) ** 2, _LEAST_VARIANCE))
            products[first, first] = variance * _NUMBER**2
        centre[flags] = shares = np.clip(found[flags], _LEAST_SHARE, 1.0 - _LEAST_SHARE)
        products[flags, flags] = np.diag(shares * (1.0 - shares))
    length = math.sqrt(float(np.trace(products)))
    return Geometry(centre, stretch / length, products / length**2, length)


def public_directions(columns: int, count: int) -> Array:
    """Orthonormal columns that everybody knows, drawn from a fixed seed: no data and no noise."""
    return np.linalg.qr(np.random.default_rng(_SEED).standard_normal((columns, count)))[0]


def with_sketch(geometry: Geometry, noised: Array, noise: float) -> Geometry:
    """Adds the directions that a sketch shows: `noised` is the mean of z z' times an orthonormal basis."""
    products, (size, count) = geometry.products, noised.shape
    vectors, values, _ = np.linalg.svd(noised, full_matrices=False)
    edge = noise * (math.sqrt(size) + math.sqrt(count))
    for direction, value in zip(vectors.T, values, strict=True):
        explained = float(direction @ products @ direction)
        if value > _SEEN * max(edge, explained):
            products = products + (value - explained) * np.outer(direction, direction)
    return replace(geometry, products=products)


class RidgePrior(NamedTuple):
    """Prior standard deviations: of effects, of the scores that they make together, and of the intercept.

    With many columns the deviation of scores decides, so that effects are as much smaller as there are more of them.
    """

    effects: float
    scores: float
    intercept: float


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Where rounds go next, and what they say in the end; rows have the units of a `Geometry`.

    With H = V diag(h) V' the curvature of the columns, b = mean(H t_k - g_k) has coordinates along V that are normal
    around h t with variance v + h / n: noise, and what finitely many records leave.
    """

    geometry: Geometry
    prior: RidgePrior
    slope: float  # of the loss: H is so many times the products
    records: int
    gradient_noise: float  # the deviation of the noise on each entry of a mean gradient
    rounds: int
    averaged: float  # the share of the rounds so far that are averaged

    def used(self, rounds: int) -> int:
        """How many of the last of so many rounds are averaged."""
        return max(1, math.ceil(self.averaged * rounds))

    @cached_property
    def _axes(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of H, the intercept by itself and first."""
        products = self.geometry.products
        values, vectors = np.linalg.eigh(products[1:, 1:])
        turned = np.eye(len(products))
        turned[1:, 1:] = vectors
        return self.slope * np.maximum(np.concatenate([products[:1, 0], values]), 1e-9), turned

    @cached_property
    def _variances(self) -> Array:
        """Prior variances of coefficients along the axes."""
        geometry, prior = self.geometry, self.prior
        columns = geometry.length**2 * float(np.trace(geometry.products[1:, 1:]))
        effects = min(prior.effects, prior.scores / math.sqrt(columns))
        found = np.full(len(geometry.centre), (effects * geometry.length) ** 2)
        found[0] = (prior.intercept * geometry.length) ** 2
        return found

    def _errors(self, rounds: int) -> Array:
        """Variances of b along the axes after the given number of rounds."""
        return self.gradient_noise**2 / self.used(rounds) + self._axes[0] / self.records

    @property
    def expected_share(self) -> float:
        """The share of the scores' variance that the rounds are expected to explain, by prior and noise alone."""
        values, variances = self._axes[0][1:], self._variances[1:]
        signal = variances * values**2
        return float(np.average(signal / (signal + self._errors(self.rounds)[1:]), weights=values * variances))

    def expected_offset(self, located: float) -> float:
        """The variance left in the intercept, in scores: its noised estimate drawn to a start of variance `located`."""
        known, prior = float(self._errors(self.rounds)[0] / self._axes[0][0]), self.prior.intercept**2
        weight = prior / (prior + known)
        return located * (1.0 - weight) ** 2 + known * weight**2

    def _candidates(self) -> Array:
        """The variances with effects as large as declared, or smaller: a row for each of `_SMALLER`."""
        found = np.outer(_SMALLER**2, self._variances)
        found[:, 0] = self._variances[0]
        return found

    def _seen(self, points: Array, gradients: Array) -> Array:
        """b along the axes, shape (columns, outputs)."""
        used, (values, vectors) = self.used(len(points)), self._axes
        point, gradient = points[-used:].mean(axis=0), gradients[-used:].mean(axis=0)
        return np.asarray(values[:, None] * (vectors.T @ point) - vectors.T @ gradient)

    def _weights(self, seen: Array, rounds: int) -> Array:
        """How far b speaks for effects as large as declared, or smaller; where noise explains it, nothing is there."""
        spread = (self._candidates() * self._axes[0] ** 2 + self._errors(rounds))[:, 1:]
        squares, outputs = np.sum(seen[1:] ** 2, axis=1), seen.shape[1]
        return special.softmax(np.log(_WEIGHTS) - 0.5 * np.sum(squares / spread + outputs * np.log(spread), axis=1))

    def next_point(self, points: Array, gradients: Array) -> Array:
        """From the points and noised mean gradients so far, shapes (rounds, columns, outputs)."""
        seen, (values, vectors), variances = self._seen(points, gradients), self._axes, self._candidates()
        # The last rounds' gain from the first round on: noise is averaged over all of them in the end.
        gains = variances * values / (variances * values**2 + self._errors(self.rounds))
        return np.asarray(vectors @ ((self._weights(seen, len(points)) @ gains)[:, None] * seen))

    def covariance(self, points: Array, gradients: Array) -> Array:
        """Of the coefficients of one score, if H were the table's and effects were apart."""
        seen, (values, vectors) = self._seen(points, gradients), self._axes
        variances, errors = self._candidates(), self._errors(self.rounds)
        left = self._weights(seen, len(points)) @ (variances * errors / (variances * values**2 + errors))
        return np.asarray((vectors * left) @ vectors.T)
