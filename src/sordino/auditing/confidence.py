"""From counted errors to epsilon: joint confidence limits, and the largest bound that so many models could show.

Exact limits of both error rates (Clopper & Pearson 1934), rounded outwards, hold together with the stated confidence,
and so does the lower bound on epsilon that they give, at every delta at once. Of one rule both errors go into one exact
test (`joint_epsilon`), which says more. A rule says "second" when a score is at least a threshold. Either that is
chosen on models that are not counted, or limits hold for every threshold at once (`simultaneous_ends`).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.auditing.lower_bound import TradeOffPoint
from sordino.core import gaussian
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, whole_number

# The inverse of the incomplete beta function is accurate to about 1e-14, at both ends of [0, 1]; more is given away.
_SLACK = 1e-9
_LAST_DIGITS = 2e-15
_ROUNDING = 1e-14

Scores = NDArray[np.float64]
Counts = NDArray[np.int64]


def upper_end(errors: ArrayLike, trials: ArrayLike, failure: float) -> NDArray[np.float64]:
    """The upper limit: a rate above it makes so few errors with probability at most `failure`; 1 if all are wrong."""
    errors, trials = np.asarray(errors), np.asarray(trials)
    if errors.dtype.kind not in "iu" or trials.dtype.kind not in "iu":
        raise InputError(f"Expected errors and trials to be whole numbers, got {errors.dtype} and {trials.dtype}.")
    errors, trials = np.broadcast_arrays(errors.astype(np.int64), trials.astype(np.int64))
    if errors.size and not (trials.min() >= 1 and errors.min() >= 0 and (errors <= trials).all()):
        raise InputError("Errors must be at least 0 and at most the number of trials, which must be at least 1.")
    failure = number("failure", failure, OPEN_UNIT)
    inside = np.minimum(errors, trials - 1)
    end = special.betaincinv(inside + 1.0, (trials - inside).astype(float), 1.0 - failure)
    slack = end * (_SLACK * (1.0 - end) + _LAST_DIGITS)
    return np.where(errors == trials, 1.0, np.minimum(end + slack, 1.0))


@dataclass(frozen=True)
class ErrorCounts:
    """Errors of a fixed rule: "second" said of some of the `first_models`, "first" of some of the `second_models`."""

    false_positives: int
    first_models: int
    false_negatives: int
    second_models: int

    def __post_init__(self) -> None:
        whole_number("first_models", self.first_models)
        whole_number("second_models", self.second_models)
        whole_number("false_positives", self.false_positives, Interval(0, self.first_models))
        whole_number("false_negatives", self.false_negatives, Interval(0, self.second_models))

    def point(self, confidence: float) -> TradeOffPoint:
        """The rule with upper ends of both error rates that hold together: each may fail half as often."""
        failure = each_failure(confidence)
        return TradeOffPoint(
            float(upper_end(self.false_positives, self.first_models, failure)),
            float(upper_end(self.false_negatives, self.second_models, failure)),
        )


def each_failure(confidence: float) -> float:
    """The failure probability of each of two limits that are to hold together (union bound)."""
    return (1.0 - number("confidence", confidence, OPEN_UNIT)) / 2


def epsilon_lower(counts: ErrorCounts, delta: float, confidence: float) -> float:
    """Lower bound on epsilon at `delta` that holds with joint confidence `confidence`."""
    return counts.point(confidence).epsilon(delta)


def epsilon_from_rates(false_positive: ArrayLike, false_negative: ArrayLike, delta: float) -> NDArray[np.float64]:
    """`TradeOffPoint.epsilon` of many tests at once; both rates are above 0."""
    delta = number("delta", delta, OPEN_UNIT)
    first, second = np.broadcast_arrays(np.asarray(false_positive, float), np.asarray(false_negative, float))
    return np.maximum(_one_side(first, second, delta), _one_side(second, first, delta))


def _one_side(subtracted: NDArray[np.float64], divisor: NDArray[np.float64], delta: float) -> NDArray[np.float64]:
    power = np.maximum(1.0 - delta - subtracted, 0.0)
    epsilon = np.log(np.maximum(power / divisor, 1.0))
    return np.maximum(epsilon - _ROUNDING * (1 + epsilon) / np.maximum(power, 1e-3), 0.0)


# How often a cell of the edge is halved, at most, and how many there are at first.
_HALVINGS, _CELLS = 9, 16
# With more models the two limits are as good to a few thousandths, unless there are no errors at all, and quicker; how
# often the interval of epsilon is halved.
_MOST_MODELS, _STEPS = 5000, 12
_RARE, _TEST_ROUNDING = 1e-9, 1e-9  # bounds so small are good enough as they are
_WIDE = 9.0  # numbers of errors that matter together lie this many standard deviations around their mean


@lru_cache(maxsize=4096)
def joint_epsilon(counts: ErrorCounts, delta: float, confidence: float) -> float:
    """The largest epsilon that these errors of one rule refute at `delta`, rounded down; 0 when they refute none.

    A release that is (epsilon, delta)-private has f + e^epsilon g >= 1 - delta and g + e^epsilon f >= 1 - delta for the
    two error rates f and g of any rule. Outcomes (errors on either side) are ordered by what two Clopper-Pearson limits
    would prove, and epsilon is refuted when outcomes at least as far out are rarer than the failure probability for
    *all* rates that it allows. Fewer errors are further out, so the chance falls in f and in g, and the largest is on
    the edge of the allowed rates; the edge is cut into cells, and each cell is taken at its lower left corner, which is
    on the safe side. With the order of the limits themselves the test is never weaker than they are, so the larger of
    the two is reported.

    >>> round(joint_epsilon(ErrorCounts(0, 250, 0, 250), 1e-9, 0.90), 1)
    5.4
    """
    least = epsilon_lower(counts, delta, confidence)
    many = max(counts.first_models, counts.second_models) > _MOST_MODELS
    if least == 0.0 or (many and counts.false_positives + counts.false_negatives > 0):
        return least
    outcomes = _Outcomes(counts, least, delta, confidence)

    def allowed(epsilon: float) -> bool:
        """Whether some rates on the edge of what epsilon allows make an outcome so far out likely enough."""
        corner = (1 - delta) / (1 + math.exp(epsilon))
        # From the corner f = g along both edges, where one error grows to 1 - delta and the other falls to 0.
        ends = corner + (1 - delta - corner) * np.linspace(0.0, 1.0, _CELLS + 1) ** 3
        low, high = np.tile(ends[:-1], 2), np.tile(ends[1:], 2)
        flipped = np.repeat([False, True], _CELLS)

        def rarer(long: Scores, edge: Scores, flipped: NDArray[np.bool_]) -> NDArray[np.bool_]:
            short = np.maximum((1 - delta - edge) * math.exp(-epsilon), 0.0)
            return outcomes.chances(np.where(flipped, short, long), np.where(flipped, long, short)) <= 1.0 - confidence

        for _ in range(_HALVINGS):
            # Whether a point of the edge itself is likelier decides; a cell that is rarer at its corner is done with.
            if not rarer(low, low, flipped).all():
                return True
            open_ = ~rarer(low, high, flipped)
            if not open_.any():
                return False
            low, high, flipped = low[open_], high[open_], np.tile(flipped[open_], 2)
            middle = 0.5 * (low + high)
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        return True

    if allowed(least):
        return least
    step = 0.25
    while not allowed(least + step):
        step *= 2
    return gaussian.narrow(allowed, least, least + step, near=0.0, halvings=_STEPS)[0]


class _Outcomes:
    """Errors for which the two limits prove a level at least: `first` on one side, at most `second` on the other."""

    def __init__(self, counts: ErrorCounts, level: float, delta: float, confidence: float) -> None:
        failure, n = each_failure(confidence), counts.first_models
        limits = [upper_end(np.arange(models + 1), models, failure) for models in (n, counts.second_models)]
        # A little less than the level, so that rounding leaves no outcome out that is as far.
        level *= 1 - 1e-12
        room = np.maximum((1 - delta - limits[0]) * math.exp(-level), 1 - delta - math.exp(level) * limits[0])
        most = np.searchsorted(limits[1], room * (1 + 1e-12), side="right") - 1
        self.counts, self.second = counts, most[most >= 0].astype(float)
        self.first = first = np.flatnonzero(most >= 0).astype(float)
        self.log_ways = special.gammaln(n + 1.0) - special.gammaln(first + 1.0) - special.gammaln(n - first + 1.0)

    def chances(self, f: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
        """P[so far out] for pairs of error rates, rounded up."""
        n, models = self.counts.first_models, self.counts.second_models
        # Neither side alone is further out than both: cheap, and enough for most pairs.
        chances = np.minimum(special.bdtr(self.first[-1], n, f), special.bdtr(self.second.max(), models, g))
        for place in np.flatnonzero(chances > _RARE):
            # Sums of errors so far from their mean are left out: less than the slack.
            middle, wide = n * f[place], _WIDE * math.sqrt(n * f[place] * (1 - f[place])) + 40
            near = slice(*np.searchsorted(self.first, [middle - wide, middle + wide]))
            errors = self.first[near]
            log_mass = self.log_ways[near] + special.xlogy(errors, f[place]) + special.xlog1py(n - errors, -f[place])
            chances[place] = np.exp(log_mass) @ special.bdtr(self.second[near], models, g[place])
        return chances * (1 + _TEST_ROUNDING) + 1e-15


class ErrorCurve(NamedTuple):
    """Every rule that cuts between two scores, the cheapest first, and its errors."""

    thresholds: Scores
    false_positives: Counts
    false_negatives: Counts


def error_curve(first: Scores, second: Scores) -> ErrorCurve:
    """The errors of every threshold on these scores, shape (models,) each; of tied scores one rule cuts."""
    first, second = np.sort(checked_scores(first)), np.sort(checked_scores(second))
    values = np.unique(np.concatenate([first, second]))
    between = 0.5 * (values[1:] + values[:-1])
    # Halfway between neighbours, unless rounding puts the middle on the lower one.
    inner = np.where(between > values[:-1], between, values[1:])
    thresholds = np.concatenate([[-np.inf], inner, [np.inf]])
    passed, missed = (np.searchsorted(scores, thresholds) for scores in (first, second))
    return ErrorCurve(thresholds, len(first) - passed, missed)


def choose_threshold(first: Scores, second: Scores, delta: float, confidence: float) -> float:
    """The threshold with the largest bound on these scores; only scores it has not seen may be counted with it."""
    curve, failure = error_curve(first, second), each_failure(confidence)
    ends = [upper_end(np.arange(len(scores) + 1), len(scores), failure) for scores in (first, second)]
    bound = epsilon_from_rates(ends[0][curve.false_positives], ends[1][curve.false_negatives], delta)
    # Where nothing is refuted, the rule with the fewest errors is the one to try.
    errors = curve.false_positives / len(first) + curve.false_negatives / len(second)
    return float(curve.thresholds[np.argmax(bound - 1e-6 * errors)])


def count_errors(first: Scores, second: Scores, threshold: float) -> tuple[int, int]:
    """False positives and false negatives of a threshold that was chosen without these scores."""
    return int((checked_scores(first) >= threshold).sum()), int((checked_scores(second) < threshold).sum())


def checked_scores(scores: Scores) -> Scores:
    """Scores as finite numbers, one for each model; a score that is not a number decides nothing."""
    checked = np.asarray(scores, float)
    if checked.ndim != 1 or not len(checked) or np.isnan(checked).any():
        raise InputError(f"Expected one score, not NaN, for each of at least one model, got shape {checked.shape}.")
    # Infinities keep their order and lose nothing else.
    return np.clip(checked, -1e300, 1e300)


_FALLING = 1.2  # which rank gets how much of the failure probability: those of few errors, which prove most, the most
# Beyond so many scores shares come from the union bound; the exact probability would take seconds.
_MOST_CALIBRATED = 20_000


@lru_cache(maxsize=64)
def simultaneous_ends(trials: int, failure: float) -> NDArray[np.float64]:
    """Upper ends of an error rate by number of errors 0, ..., `trials`, valid for all thresholds together.

    The k-th smallest of n scores of the law F has F(below it) at most as large as the k-th smallest of n uniform
    numbers, a Beta(k, n + 1 - k) variable. Ranks 1, 2, 3, 5, 8, 11, ..., about a standard deviation apart, get shares
    of the failure probability that fall like (j + 1)^-1.2, and a threshold uses the next such rank above its number of
    errors. Neighbouring ranks fail together, so the shares may add up to more than 1: they are as large as the exact
    probability that any of them fails allows (a walk through the counts of a Poisson process with n points).
    """
    trials, failure = whole_number("trials", trials), number("failure", failure, OPEN_UNIT)
    places = [1]
    while places[-1] < trials:
        places.append(min(1 + len(places) * (len(places) + 3) // 4, trials))
    ranks = np.array(places, np.int64)
    shares = 1.0 / np.arange(1.0, len(ranks) + 1) ** _FALLING
    shares /= shares.sum()
    if trials <= _MOST_CALIBRATED:
        for _ in range(4):
            shares *= min(failure / _any_fails(trials, ranks, failure * shares), 0.999 / shares[0])
        # What is left of the last step and of rounding is on the safe side.
        shares *= min(1.0, failure / (_any_fails(trials, ranks, failure * shares) * (1 + 1e-6)))
    tops = np.array(
        [float(upper_end(rank - 1, trials, failure * share)) for rank, share in zip(ranks, shares, strict=True)]
    )
    ends = np.ones(trials + 1)
    ends[:trials] = np.minimum.accumulate(tops[::-1])[::-1][np.searchsorted(ranks, np.arange(1, trials + 1))]
    ends.flags.writeable = False
    return ends


def _any_fails(trials: int, ranks: Counts, failures: NDArray[np.float64]) -> float:
    """The probability that some k-th smallest of n uniform numbers is above its end, for the ends of these failures.

    Those are the points of a Poisson process, given n up to 1: a walk whose counts must not fall short of any rank.
    """
    from scipy import signal  # noqa: PLC0415  (slow to load, and most audits need none)

    ends = np.maximum.accumulate(special.betaincinv(ranks.astype(float), trials - ranks + 1.0, 1.0 - failures))
    walk, before = np.zeros(trials + 1), 0.0
    walk[0] = 1.0
    for rank, end in zip(ranks, ends, strict=True):
        mean = trials * (end - before)
        if mean > 0.0:
            steps = np.arange(min(trials, int(mean + 12 * math.sqrt(mean)) + 40) + 1)
            taken = np.exp(special.xlogy(steps, mean) - mean - special.gammaln(steps + 1.0))
            joined = np.convolve if trials < 3000 else signal.fftconvolve
            walk = np.maximum(joined(walk, taken)[: trials + 1], 0.0)
        walk[:rank], before = 0.0, end
    left, mean = np.arange(trials, -1, -1.0), trials * (1.0 - before)
    rest = np.exp(special.xlogy(left, mean) - mean - special.gammaln(left + 1.0))
    all_points = math.exp(trials * math.log(trials) - trials - special.gammaln(trials + 1.0))
    return max(1.0 - float(walk @ rest) / all_points, float(failures.max()))


# A score is larger for the second dataset, so a high threshold, with few false positives, proves most: their limits get
# this share of the failure probability. It is fixed beforehand, as any split must be.
_OF_FALSE_POSITIVES = 0.8


def band_ends(first_models: int, second_models: int, confidence: float) -> tuple[Scores, Scores]:
    """Upper ends of both errors by number of errors, which hold for all thresholds together with this confidence."""
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)
    return (
        simultaneous_ends(first_models, failure * _OF_FALSE_POSITIVES),
        simultaneous_ends(second_models, failure * (1 - _OF_FALSE_POSITIVES)),
    )


def band_epsilon(first: Scores, second: Scores, delta: float, confidence: float) -> float:
    """The best bound over all thresholds of a score that was fixed beforehand, every model counted."""
    curve, ends = error_curve(first, second), band_ends(len(first), len(second), confidence)
    return float(epsilon_from_rates(ends[0][curve.false_positives], ends[1][curve.false_negatives], delta).max())


class BandTest(NamedTuple):
    """One threshold: its errors as counted, and their upper ends, which hold together with those of all others."""

    counts: ErrorCounts
    point: TradeOffPoint


def band_tests(first: Scores, second: Scores, confidence: float) -> tuple[BandTest, ...]:
    """The thresholds worth keeping, by false positives: no other has both ends as low."""
    curve, models = error_curve(first, second), (len(first), len(second))
    limits = band_ends(*models, confidence)
    # Cuts run from low to high, so false positives fall and false negatives grow along them.
    kept: dict[float, BandTest] = {}
    for errors in zip(curve.false_positives.tolist(), curve.false_negatives.tolist(), strict=True):
        point = TradeOffPoint(*(float(limits[side][errors[side]]) for side in (0, 1)))
        kept.setdefault(point.false_positive, BandTest(ErrorCounts(errors[0], models[0], errors[1], models[1]), point))
    tests: list[BandTest] = []
    for test in kept.values():
        if tests and tests[-1].point.false_negative == test.point.false_negative:
            tests.pop()
        tests.append(test)
    return tuple(reversed(tests))


def band_cap(first_models: int, second_models: int, delta: float, confidence: float) -> float:
    """The most that a score fixed beforehand can prove with so many models, all thresholds tried."""
    ends = (float(limits[0]) for limits in band_ends(first_models, second_models, confidence))
    return TradeOffPoint(*ends).epsilon(delta)
