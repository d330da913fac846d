"""Second moments: sums of x x', y x and y^2, noised once."""

import math
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up, widen_up
from sordino.core.spec import Batch, ConstantSchedule, NoisedSums, Scheme, Spec
from sordino.core.validate import POSITIVE, Declared, Interval, instance_of, refuse
from sordino.mechanisms.rounds import ExactRounds
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import ACCURACY, checked_rows, shortened
from sordino.noise.port import symmetric, triangle_weights
from sordino.noise.randomness import Randomness


@dataclass(frozen=True)
class StatisticsStack(Declared):
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

    cross: Annotated[float, Interval(0.0, math.sqrt(2.0), True)] = 1.0
    square: Annotated[float, Interval(0.0, 10.0, True)] = 0.5

    @property
    def length(self) -> float:
        """The largest length of one record's stack, rounded up."""
        return widen_up(math.sqrt(1.0 + self.cross**2 + self.square**2), ACCURACY)

    def sensitivity(self, relation: Relation) -> float:
        """How far one record moves the sum, rounded up."""
        if relation is Relation.ADD_REMOVE:
            return self.length
        return widen_up(math.sqrt(0.5 * (2.0 + self.cross**2) ** 2 + self.square**2), ACCURACY)

    def size(self, features: int) -> int:
        return features * (features + 1) // 2 + features + 1

    def products(self, X: Array, y: Array) -> exact.Contributions:
        """What records add before weighing, in units of 2^-40, each inside the unit ball and interval."""
        exact.check_size(X)

        def pairs(part: slice) -> Array:
            target = exact.digits(np.clip(y[part], -1.0, 1.0))[:, None]
            return np.concatenate([shortened(X[part], 1.0, 0), target], axis=1)

        return exact.pairs(len(X), None, pairs)

    def weights(self, features: int) -> Array:
        """What each sum is multiplied by in the stack."""
        return np.concatenate([triangle_weights(features), np.full(features, self.cross), [self.square]])

    def parts(self, stack: Array, features: int) -> tuple[Array, Array, float]:
        """x x', y x and y^2 summed, from a stack."""
        sums, pairs = stack / self.weights(features), features * (features + 1) // 2
        return symmetric(sums[:pairs]), sums[pairs:-1], float(sums[-1])


@dataclass(frozen=True)
class StatisticsOptions(Declared):
    """Public bounds and choices."""

    row_norm: Annotated[float, POSITIVE]  # rows are scaled by this length, and shortened to it
    target_bound: Annotated[float, POSITIVE]  # targets are scaled by this number, and cut to it
    stack: StatisticsStack = field(default_factory=StatisticsStack)  # how the sums are weighed against one another

    def __post_init__(self) -> None:
        super().__post_init__()
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


class StatisticsRelease(NamedTuple):
    """The noised stack, and the standard deviation of the noise on each of its entries."""

    spec: Spec
    statistics: Array
    noise: float


def run_statistics(
    spec: Spec, features: ArrayLike, target: ArrayLike, randomness: Randomness, options: StatisticsOptions
) -> StatisticsRelease:
    """The noised stack of a described run: rows are scaled by public bounds, summed, and noised once."""
    X, y = checked_rows(features, target, np.float64)
    stack, weights = options.stack, options.stack.weights(X.shape[1])
    moved = stack.sensitivity(Relation.REPLACE_ONE)
    rounds = ExactRounds(spec, "second moments", len(X), stack.size(X.shape[1]), randomness, moved)
    algorithm = rounds.algorithm
    if algorithm.rounds != 1:
        raise refuse("algorithm.rounds", "to be 1", algorithm.rounds)
    if algorithm.contribution < stack.length:
        raise refuse("algorithm.contribution", f"to be at least the stack's {stack.length:.6g}", algorithm.contribution)
    rows, targets = np.asarray(X, np.float64) / options.row_norm, np.asarray(y, np.float64) / options.target_bound
    # Sums are noised before they are weighed, because weighing would round them.
    noised = weights * rounds.noised(0, stack.products(rows, targets), exact.PRODUCT_EXPONENT, shares=1.0 / weights)
    return StatisticsRelease(spec, noised, float(rounds.sum_noise[0]))
