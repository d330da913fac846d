"""The query "second moments": sums of x x', y x and y^2, noised once, and linear regression that knows the noise.

Write M = X'X + E, u = X'y + e for the noised sums, E symmetric with variance tau^2 on and tau^2/2 off the diagonal, e
with variance s^2. Then u - M theta = X'(y - X theta) + e - E theta has mean 0 and covariance

    S(theta) = sigma^2 X'X + s^2 I + (tau^2 / 2) (|theta|^2 I + theta theta'),

so theta is the unknown of a linear Gaussian model u = M theta + N(0, S) with its prior. S is taken at the current mean
and the two are iterated (compare Bernstein & Sheldon 2019). Rows of length at most 1 make the eigenvalues of X'X lie
between 0 and n, so those of M are first brought into that range: a direction that noise has drowned then says little,
or nothing, and falls back to the prior.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sordino.algorithm.noise import sums as exact
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.noise.sums import checked_rows
from sordino.algorithm.posterior.laws import DenseGaussianPosterior
from sordino.algorithm.rounds.described import SumsRelease, query
from sordino.algorithm.rounds.exact_rounds import HAIR, ExactRounds
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up, widen_up
from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Scheme, Spec
from sordino.core.validate import POSITIVE, Interval, check_numbers, instance_of, refuse
from sordino.model.families.regression import GaussianLinear

_ROUNDS = 30


class NoisedSecondMoments(NamedTuple):
    """Sums over records with noise, the noise's standard deviations, and how many records there are said to be."""

    gram: Array
    cross: Array
    square: float
    gram_noise: float
    cross_noise: float
    records: int
    square_noise: float = 0.0


class Fitted(NamedTuple):
    """Mean and covariance of the coefficients, and the variance of the residuals."""

    mean: Array
    covariance: Array
    residual_variance: float


# Under so much noise the truncated law is flat between its limits, and its moments are lost in cancellation.
_FLAT = 1e4
# So many deviations outside the limits it is at the nearer one, and its moments are lost as well.
_FAR = 8.0


def fit(sums: NoisedSecondMoments, prior_precision: float, least_variance: float) -> Fitted:
    """The posterior; residual variances are kept between `least_variance` and 1, the most that scaled targets have."""
    values, vectors = np.linalg.eigh(sums.gram)
    gram = (vectors * np.clip(values, 0.0, sums.records)) @ vectors.T
    identity = np.eye(len(values))
    mean, variance = np.zeros(len(values)), 1.0
    covariance = identity / prior_precision
    for _ in range(_ROUNDS):
        spread = sums.gram_noise**2 / 2 * (mean @ mean * identity + np.outer(mean, mean))
        noise = variance * gram + sums.cross_noise**2 * identity + spread
        weighted = np.linalg.solve(noise + least_variance * 1e-9 * identity, gram)
        precision = gram @ weighted + prior_precision * identity
        covariance = np.linalg.inv((precision + precision.T) / 2)
        moved = covariance @ (weighted.T @ sums.cross)
        variance = _residual_variance(sums, gram, moved, least_variance)
        settled = np.linalg.norm(moved - mean) <= 1e-10 * (1 + np.linalg.norm(moved))
        mean = moved
        if settled:
            break
    return Fitted(mean, (covariance + covariance.T) / 2, variance)


def _residual_variance(sums: NoisedSecondMoments, gram: Array, mean: Array, least: float) -> float:
    """A standard deviation above the mean of the variance, given its noised value and that it lies between the limits.

    So noise neither makes it 0 nor, but rarely, makes predictive intervals too narrow.
    """
    left = (sums.square - 2 * mean @ sums.cross + mean @ gram @ mean) / sums.records
    length = float(mean @ mean)
    noise = np.sqrt(sums.square_noise**2 + 4 * length * sums.cross_noise**2 + (length * sums.gram_noise) ** 2)
    noise = float(noise) / sums.records
    if noise <= 1e-12 or not least - _FAR * noise < left < 1.0 + _FAR * noise:
        return float(np.clip(left, least, 1.0))
    from scipy import stats  # noqa: PLC0415  (slow to load, and few fits come here)

    if noise >= _FLAT:
        middle, square = (1.0 + least) / 2, (1.0 - least) ** 2 / 12
    else:
        low, high = (least - left) / noise, (1.0 - left) / noise
        middle, square = stats.truncnorm.stats(low, high, loc=left, scale=noise, moments="mv")
    return float(np.clip(middle + np.sqrt(square), least, 1.0))


@dataclass(frozen=True)
class StatisticsStack:
    """The weights w of y x and v of y^2 beside x x'; they share one noise level.

    Rows are in the unit ball and targets in [-1, 1], by public scaling and clipping. The stack is (x x', w y x, v y^2),
    the matrix with every off-diagonal pair once, times sqrt(2), so that its length is the Frobenius norm.

    Adding or removing a record moves the sum by at most sqrt(1 + w^2 + v^2). Replacing (x, y) by (x', y') moves it by
    D,

        D^2 = |x|^4 + |x'|^4 - 2 (x.x')^2 + w^2 |y x - y' x'|^2 + v^2 (y^2 - y'^2)^2.

    Let A = |x|^2, B = |x'|^2 and t the cosine between the rows. Since 2 sqrt(AB) <= A + B, D^2 is at most A^2 + B^2 - 2
    A B t^2 + w^2 (1 + |t|) (A + B) + v^2, which is convex in (A, B) and so largest at a corner of the unit square: 2 -
    2 t^2 + 2 w^2 (1 + |t|) + v^2 at (1, 1), where |t| = w^2 / 2 is worst if w^2 <= 2, and 1 + w^2 (1 + |t|) + v^2 at
    (1, 0), which is less. Hence D <= sqrt((2 + w^2)^2 / 2 + v^2); twice the length would be some sqrt(2) times as much.
    """

    cross: float = 1.0
    square: float = 0.5

    def __post_init__(self) -> None:
        check_numbers(
            self, cross=Interval(0.0, math.sqrt(2.0), low_open=True), square=Interval(0.0, 10.0, low_open=True)
        )

    @property
    def length(self) -> float:
        """The largest length of one record's stack, rounded up."""
        return widen_up(math.sqrt(1.0 + self.cross**2 + self.square**2), exact.ACCURACY)

    def sensitivity(self, relation: Relation) -> float:
        """How far one record moves the sum, rounded up."""
        if relation is Relation.ADD_REMOVE:
            return self.length
        return widen_up(math.sqrt(0.5 * (2.0 + self.cross**2) ** 2 + self.square**2), exact.ACCURACY)

    def size(self, features: int) -> int:
        """Length of the stack."""
        return features * (features + 1) // 2 + features + 1

    def sums(self, X: Array, y: Array) -> exact.Sums:
        """The sums over records before weighing, exact, in units of 2^-40."""
        # Each record is brought into the unit ball and interval first, and its digits behind 2^-20 are cut off, so what
        # is proved about any records of this size holds for the sums as computed.
        exact.check_size(X)
        rows, columns = np.triu_indices(X.shape[1])
        summed = np.zeros(self.size(X.shape[1]), np.int64)
        for first in range(0, len(X), exact.ROWS_PER_BLOCK):
            part = slice(first, first + exact.ROWS_PER_BLOCK)
            inside = exact.inside_ball(X[part])
            target = exact.digits(np.clip(y[part], -1.0, 1.0))[:, None]
            gram = exact.products(inside, inside)[rows, columns]
            cross, square = exact.products(inside, target)[:, 0], exact.products(target, target)[0]
            summed += np.concatenate([gram, cross, square])
        return summed

    def weights(self, features: int) -> Array:
        """What each sum is multiplied by in the stack."""
        rows, columns = np.triu_indices(features)
        of_products = np.where(rows == columns, 1.0, math.sqrt(2.0))
        return np.concatenate([of_products, np.full(features, self.cross), [self.square]])

    def total(self, X: Array, y: Array) -> Array:
        """The sum over records as a stack."""
        return self.weights(X.shape[1]) * np.ldexp(self.sums(X, y).astype(np.float64), exact.PRODUCT_EXPONENT)

    def parts(self, stack: Array, features: int) -> tuple[Array, Array, float]:
        """x x', y x and y^2 summed, from a stack."""
        rows, columns = np.triu_indices(features)
        sums = stack / self.weights(features)
        gram = np.zeros((features, features))
        gram[rows, columns] = sums[: len(rows)]
        gram[columns, rows] = sums[: len(rows)]
        return gram, sums[len(rows) : -1], float(sums[-1])


@dataclass(frozen=True)
class StatisticsOptions:
    """Public bounds and choices."""

    row_norm: float  # rows are scaled by this length, and shortened to it
    target_bound: float  # targets are scaled by this number, and cut to it
    prior_precision: float = 1.0  # of the coefficients of scaled rows and targets, around 0
    least_variance: float = 1e-4  # residual variance of scaled targets is at least this
    stack: StatisticsStack = field(default_factory=StatisticsStack)  # how the sums are weighed against one another

    def __post_init__(self) -> None:
        check_numbers(self, row_norm=POSITIVE, target_bound=POSITIVE, prior_precision=POSITIVE, least_variance=POSITIVE)
        instance_of("stack", self.stack, StatisticsStack)


def statistics_spec(
    records: int, noise_multiplier: float, relation: Relation, options: StatisticsOptions, delta: float | None = None
) -> Spec:
    """The run in words: one full round whose noise is `noise_multiplier` times the sums' sensitivity."""
    length, moved = options.stack.length, options.stack.sensitivity(relation)
    replaced = relation is Relation.REPLACE_ONE
    algorithm = NoisedSums(
        query="second moments of rows and targets",
        records=records,
        rounds=1,
        sampling=Batch(Scheme.FULL),
        contribution=length,
        replacement=moved if replaced else None,
        noise_multiplier=ConstantSchedule(up(noise_multiplier * up(moved / length)) if replaced else noise_multiplier),
    )
    return Spec(algorithm=algorithm, relation=relation, view=View.POSTERIOR_PARAMETERS, delta=delta)


@dataclass(frozen=True, eq=False)
class StatisticsRelease(SumsRelease):
    """The noised sums; everything else is computed from them and from public numbers."""

    query: ClassVar[str] = "second moments"

    options: StatisticsOptions
    features: int
    statistics: Array

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on every entry of the stack."""
        return float(self.algorithm.sum_noise[0])

    @property
    def fitted(self) -> Fitted:
        """The posterior in scaled units."""
        stack = self.options.stack
        gram, cross, square = stack.parts(self.statistics, self.features)
        sums = NoisedSecondMoments(
            gram, cross, square, self.noise, self.noise / stack.cross, self.algorithm.records, self.noise / stack.square
        )
        return fit(sums, self.options.prior_precision, self.options.least_variance)

    @property
    def posterior(self) -> DenseGaussianPosterior:
        """The posterior in the units of the rows and targets that were given."""
        found, scale = self.fitted, self.options.target_bound / self.options.row_norm
        model = GaussianLinear(noise_precision=1.0 / (found.residual_variance * self.options.target_bound**2))
        return DenseGaussianPosterior(model, scale * found.mean, scale * scale * found.covariance)


@query("second moments")
class SecondMomentSums:
    """The noised stack of a described run."""

    name: ClassVar[str]

    def __call__(
        self, spec: Spec, features: Any, target: Any, randomness: Randomness, options: StatisticsOptions
    ) -> Array:
        """Scale by public bounds, sum, and add noise once."""
        X, y = checked_rows(features, target, np.float64)
        stack, weights = options.stack, options.stack.weights(X.shape[1])
        moved = stack.sensitivity(Relation.REPLACE_ONE)
        rounds = ExactRounds(spec, self.name, len(X), stack.size(X.shape[1]), randomness, moved)
        algorithm = rounds.algorithm
        if algorithm.rounds != 1:
            raise refuse("algorithm.rounds", "to be 1", algorithm.rounds)
        if algorithm.contribution < stack.length:
            raise refuse(
                "algorithm.contribution", f"to be at least the stack's {stack.length:.6g}", algorithm.contribution
            )
        scaled = np.asarray(X, np.float64) / options.row_norm, np.asarray(y, np.float64) / options.target_bound
        # Sums are noised before they are weighed, because weighing would round them.
        scales = rounds.sum_noise[0] / weights * (1.0 + HAIR)
        return weights * rounds.noised(0, stack.sums(*scaled), exact.PRODUCT_EXPONENT, scales)


def run_statistics(
    spec: Spec, features: Any, target: Any, randomness: Randomness, *, options: StatisticsOptions
) -> StatisticsRelease:
    """Release the noised sums of a described run."""
    statistics = SecondMomentSums()(spec, features, target, randomness, options)
    return StatisticsRelease(spec, options, np.shape(features)[1], statistics)
