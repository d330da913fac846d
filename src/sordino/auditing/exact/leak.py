"""Lower bounds on the privacy loss of a pair of neighbours whose laws are known exactly.

Two laws that differ like N(mu, 1) and N(0, 1), which is what every chain in a fixed order comes down to; any two laws
whose divergences are known; steps that are all seen, whose losses add up; noise around a random shift; and records that
are used at one secret step of every round, or by chance.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.auditing.lower_bound import CURVE_POINTS, GaussianShift, TradeOffPoint
from sordino.core.arrays import Array
from sordino.core.binomial import log_chances
from sordino.core.bound import Relation
from sordino.core.gaussian import UNIT_ROUNDOFF, down, narrow, widen_down
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.allocation import AllocationPair, within_reach
from sordino.core.loss.mixture_pairs import RandomShiftPair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair
from sordino.core.loss.pair import Pair
from sordino.core.spec import Scheme
from sordino.core.validate import InputError
from sordino.models.exact import ExactLaw, hockey_stick
from sordino.models.exact.line import NORMAL

# The moments of a law carry the rounding of the whole chain; this much of an answer is given away for it.
ROUNDING = 1e-9
_PRECISION, _LARGEST_EPSILON = 1e-7, 1e5
_MOST_USES, _RARE_USES = 200, 1e-18


@dataclass(frozen=True, eq=False)
class Placed:
    """The distances `mus`, rounded down, that a record leaves by its batch of `size` records in a fixed order."""

    records: int
    size: int
    mus: Array

    def at(self, records: NDArray[np.int64]) -> Array:
        return self.mus[records // self.size]


@dataclass(frozen=True, eq=False)
class LeakFinding:
    """How well two neighbours are distinguished, from below; `placed` is what other records would have shown."""

    leak: "GaussianShift | LawPair | ComposedLoss | RandomShiftLeak"
    neighbours: str
    placed: Placed | None = None


@dataclass(frozen=True, eq=False)
class LawPair:
    """The laws of what is seen under two neighbours; every answer holds in the worse of the two directions."""

    first: ExactLaw
    second: ExactLaw

    def epsilon(self, delta: float) -> float:
        """The last point of a bisection at which delta is certainly exceeded."""
        low, high = 0.0, 1.0
        if self.delta(low) <= delta:
            return 0.0
        while self.delta(high) > delta:
            low, high = high, 2 * high
            if high > _LARGEST_EPSILON:
                return low
        return narrow(lambda epsilon: self.delta(epsilon) <= delta, low, high, _PRECISION)[0]

    def delta(self, epsilon: float) -> float:
        both = (hockey_stick(self.first, self.second, epsilon), hockey_stick(self.second, self.first, epsilon))
        return max(0.0, widen_down(max(side.low for side in both), ROUNDING))


@dataclass(frozen=True)
class ComposedLoss:
    """The exact composition, read from the lower end of its brackets."""

    losses: LossDistribution

    @classmethod
    def of_draws(cls, rate: float, moves: Array, times: int, *, mirrored: bool) -> "ComposedLoss":
        """Steps that draw the differing record at a rate and move so far; where `mirrored`, half as far either way."""

        def drawn(move: float) -> Pair:
            if rate >= 1.0:
                return GaussianPair(move)
            return PoissonReplacePair(rate, move / 2) if mirrored else PoissonRemovePair(rate, move)

        return cls(LossDistribution(tuple((drawn(move), count * times) for move, count in _grouped(moves))))

    @classmethod
    def of_repeated_draws(cls, size: int, records: int, moves: Array, times: int) -> "ComposedLoss":
        """Steps that draw `size` of the records with replacement; each use of the differing record moves them."""
        counts, weights = binomial_uses(size, records)
        uses = tuple(weights.tolist())
        pairs = ((RandomShiftPair(uses, tuple((counts * move).tolist())), count) for move, count in _grouped(moves))
        return cls(LossDistribution(tuple((pair, count * times) for pair, count in pairs)))

    def epsilon(self, delta: float) -> float:
        return self.losses.epsilon_bracket(delta).low

    def delta(self, epsilon: float) -> float:
        return self.losses.delta_bracket(epsilon).low


def _grouped(moves: Array) -> Iterator[tuple[float, int]]:
    """The moves that are none, and how often each occurs."""
    for move, count in zip(*np.unique(moves[moves > 0], return_counts=True), strict=True):
        yield float(move), int(count)


def binomial_uses(size: int, records: int) -> tuple[Array, Array]:
    """How often one of the records is among `size` drawn with replacement, and how probable that is.

    What is too rare to be listed counts as no use: fewer uses shift less, and the best tests of shifts are increasing,
    so no lower bound rises by it.
    """
    if records == 1:  # the one record is drawn every time
        return np.array([0.0, size]), np.array([0.0, 1.0])
    counts = np.arange(1, min(size, _MOST_USES) + 1, dtype=np.float64)
    logs, errors = log_chances(counts, size, 1 / records)
    weights = np.exp(logs - 2 * errors)
    kept = weights > _RARE_USES
    return np.append(0.0, counts[kept]), np.append(1.0 - math.fsum(weights[kept]), weights[kept])


# Noise around a random shift: a chain in which chance decides when the differing record is used.
#
# P is the law of S + Z and Q that of -S + Z or of Z alone. For normal Z the ratio of their densities increases along
# the line when S >= 0, so half-lines are the best tests; for any symmetric Z every half-line gives a valid lower bound.
# Where there are too many values of S they are rounded down onto a grid: that moves P to the left and Q to the right,
# so both errors of a half-line can only grow, and the bound stays a bound.

_MOST_VALUES = 8192
_NEGLIGIBLE, _RARE = 1e-6, 1e-13
_THRESHOLDS, _FINE = 320, 65
_CHUNK = 1 << 21


@dataclass(frozen=True, eq=False)
class ShiftDistribution:
    """The values of S in units of the noise, each rounded down, and their probabilities."""

    values: Array
    weights: Array

    @classmethod
    def sum_of(cls, stages: Iterable[tuple[Array, Array]]) -> "ShiftDistribution":
        """The sum of independent stages, each given by its values and their probabilities."""
        listed = sorted(stages, key=lambda stage: float(np.abs(stage[0]).max()))
        largest = float(np.abs(listed[-1][0]).max())
        law = cls(np.zeros(1), np.ones(1))
        for values, weights in listed:
            # Leaving a stage of non-negative values out rounds the sum down.
            if values.min() >= 0.0 and values.max() <= _NEGLIGIBLE * largest / len(listed):
                continue
            law = law._plus(values, weights)
        return law

    def scaled(self, factor: float) -> "ShiftDistribution":
        return ShiftDistribution(np.asarray(factor * self.values, dtype=np.float64), self.weights)

    def _plus(self, values: Array, weights: Array) -> "ShiftDistribution":
        sums = (self.values[:, None] + values).reshape(-1)
        masses = (self.weights[:, None] * weights).reshape(-1)
        if len(sums) <= _MOST_VALUES:
            kept, place = np.unique(sums, return_inverse=True)
        else:
            # What is rarer than _RARE counts as the largest value that is not: rounded down, like everything else.
            above = np.cumsum(self.weights[::-1])[::-1]
            end = float(self.values[max(0, int(np.searchsorted(-above, -_RARE)) - 1)])
            low = float(sums.min())
            spacing = (min(float(sums.max()), end + float(values.max())) - low) / (_MOST_VALUES - 1)
            kept = low + spacing * np.arange(_MOST_VALUES, dtype=np.float64)
            place = np.minimum(((sums - low) / spacing).astype(np.int64), _MOST_VALUES - 1)
            place -= kept[place] > sums
        total = np.bincount(place.reshape(-1), weights=masses, minlength=len(kept))
        return ShiftDistribution(kept, total.astype(np.float64))


@dataclass(frozen=True, eq=False)
class RandomShiftLeak:
    """P is S + Z; Q is -S + Z where `mirrored`, else Z; `noise_above` is the tail of Z, known to `accuracy`."""

    law: ShiftDistribution
    mirrored: bool
    accuracy: float
    noise_above: Callable[[Array], Array] = NORMAL.above

    def epsilon(self, delta: float) -> float:
        """The best half-line, in both directions."""

        def log_ratios(first: Array, second: Array) -> Array:
            """ln((P - delta) / Q) of each test; minus infinity for a test that shows nothing."""
            power = first - delta * (1 + 1e-15)
            useful = (power > 1e-12 * delta) & (second > 0)
            logs = np.log(np.where(useful, power, 1.0)) - np.log(np.where(useful, second, 1.0))
            return np.where(useful, logs, -np.inf)

        return max(0.0, down(self._best(log_ratios) * (1 - 1e-14), 8))

    def delta(self, epsilon: float) -> float:
        factor = math.exp(min(epsilon, 700.0))
        return max(0.0, down(self._best(lambda first, second: first - factor * second) - 1e-16, 2))

    def curve(self) -> tuple[TradeOffPoint, ...]:
        """Half-lines; a false positive is an answer "first" when the second was used."""
        (first, second), _ = self._tails(self._thresholds(CURVE_POINTS))
        points = zip(second, 1.0 - first, strict=True)
        return tuple(TradeOffPoint(min(1.0, float(a)), min(1.0, float(b) + 1e-15)) for a, b in points)

    def _best(self, score: Callable[[Array, Array], Array]) -> float:
        """The largest score of a half-line of either side: a coarse look, then a fine one around its best."""
        best = -math.inf
        coarse = self._thresholds(_THRESHOLDS)
        for side in (0, 1):
            scores = score(*self._tails(coarse)[side])
            at = int(np.argmax(scores))
            fine = np.linspace(coarse[max(0, at - 1)], coarse[min(len(coarse) - 1, at + 1)], _FINE)
            best = max(best, float(scores[at]), float(score(*self._tails(fine)[side]).max()))
        return best

    def _thresholds(self, count: int) -> Array:
        reach = float(self.law.values.max())
        return np.linspace((-reach if self.mirrored else 0.0) - 9.0, reach + 9.0, count)

    def _tails(self, thresholds: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """(P, Q) of right half-lines and (Q, P) of left ones; the first of each rounded down, the second up."""
        other = -1.0 if self.mirrored else 0.0
        right = self._above(thresholds, 1.0), self._above(thresholds, other)
        left = self._above(-thresholds, -other), self._above(-thresholds, -1.0)
        less, more = 1 - self.accuracy, 1 + self.accuracy
        return (less * right[0], more * right[1]), (less * left[0], more * left[1])

    def _above(self, thresholds: Array, sign: float) -> Array:
        """P(sign S + Z > threshold)."""
        if sign == 0.0:
            return self.noise_above(thresholds)
        size = max(1, _CHUNK // len(self.law.values))
        columns = (thresholds[start : start + size, None] for start in range(0, len(thresholds), size))
        return np.concatenate([self.noise_above(each - sign * self.law.values) @ self.law.weights for each in columns])


_MOST_COUNTED = 20_000  # uses; beyond them all count as so many


def secret_steps(move: float, total: int, steps: int, chains: int) -> ComposedLoss | GaussianShift:
    """Every step of `chains` runs seen, in whose rounds of `total` steps one, drawn anew, moves by `move` noises."""
    whole, rest = divmod(steps, total)
    if total == 1:
        return GaussianShift(move * math.sqrt(whole * chains) * (1 - 8 * UNIT_ROUNDOFF))
    if not within_reach(move):
        raise InputError(f"An exact audit needs a step whose shift is small beside its noise, not {move:.3g} of it.")
    rounds = [(AllocationPair(total, total, move), whole)] if whole else []
    rounds += [(AllocationPair(total, rest, move), 1)] if rest else []
    return ComposedLoss(LossDistribution(tuple((pair, count * chains) for pair, count in rounds)))


def renewals(steps: int, apart: int, chance: float) -> ShiftDistribution:
    """How often a record is used, rounded down: while free with this chance, `apart` steps from use to use at least.

    It starts as if steps had been made before: failures before the last use fit between a wait and the separations.
    """
    from scipy import stats  # noqa: PLC0415  (slow to load, and few runs come here)

    share = chance / (1 + (apart - 1) * chance)
    most = min(-(-steps // apart), _MOST_COUNTED)
    waits, uses = np.arange(apart), np.arange(1, most + 1)[:, None]
    fit = stats.nbinom.cdf(steps - 1 - waits - (uses - 1) * apart, uses, chance)
    reached = fit @ np.where(waits == 0, 1 - (apart - 1) * share, share) * (1 - 1e-9)
    reached = np.minimum.accumulate(np.concatenate([[1.0], reached, [0.0]]))
    return ShiftDistribution(np.arange(most + 1, dtype=np.float64), -np.diff(reached))


def refuse_repeated_draws(relation: Relation, scheme: Scheme) -> None:
    """One more record changes every draw with replacement, so the law of the release is not known."""
    if relation is Relation.ADD_REMOVE and scheme is Scheme.WITH_REPLACEMENT:
        raise InputError("Draws with replacement need the relation replace-one, not add-remove.")
