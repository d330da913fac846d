"""Shuffled passes with one record a step: others hide the one that differs (Feldman, McMillan & Talwar 2021).

**Statement.** In a pass over n records in uniformly random order, one a step, each step adds Gaussian noise, and any
two records move a step by at most kappa noises relative to each other. For every epsilon_0 > 0 the iterates of the pass
have

    delta(epsilon) <= E_C delta_C(epsilon) + (1 + e^epsilon) t,   C ~ Bin(n - 1, p), p = e^-epsilon_0,

where delta_C belongs to (A + D, C - A + 1 - D), A ~ Bin(C, 1/2), D ~ Bernoulli(a) against Bernoulli(1 - a), a =
e^epsilon_0 / (1 + e^epsilon_0), and t = (n - 1) (p / g) delta_kappa(epsilon_0 + log g) + 1 - g, g = P(|N(kappa^2 / 2,
kappa^2)| <= epsilon_0), delta_kappa the Gaussian curve. Passes compose.

**Proof.** Fix a step and the past. Let R_j be the law of the step's outcome if it uses record j: Gaussians whose means
differ by at most kappa noises. Let records 1 and 1' be the two that differ, G the event that their log ratio is at most
epsilon_0 in size, and R~ their laws given G: the ratio of R~_1 and R~_1' is the same, so it lies in [e^-epsilon_0,
e^epsilon_0], and R~_1 = a Q + (1 - a) Q', R~_1' = (1 - a) Q + a Q' for two laws Q, Q' (solve; both are not negative).
P(G) >= g for both, with equality where they are kappa apart. For another record let B = p (R~_1 + R~_1') / 2; the mass
by which B exceeds R_j is at most (p / 2) times the sum over both of the mass by which R / g exceeds e^epsilon_0 R_j,
that is, at most (p / g) delta_kappa(epsilon_0 + log g). Adding that mass where it is missing, and taking it away where
R_j exceeds B, gives R'_j = B + (1 - p) O_j = p (Q + Q') / 2 + (1 - p) O_j, so near to R_j in total variation. Replace
all laws: by a coupling step by step the transcript moves by at most t in total variation, on either dataset, which
costs (1 + e^epsilon) t. Now the weights a and p are the same at every step and past, so each record's label can be
drawn first: a record other than 1 is labelled Q or Q' with probability p / 2 each and keeps O_j otherwise; the
differing one is labelled Q with probability a on one dataset and 1 - a on the other. The order is uniform and
independent of the labels, so given how often each of Q and Q' occurs and which records keep their own law, all
assignments of them to the steps are equally likely, whatever the dataset. The transcript is thus post-processing of the
two numbers and of that set, whose law is the same on both datasets; C is the number of labelled records. An outcome
with more of Q is the likelier under the first dataset, so delta_C is attained by a threshold; a further label is a coin
that no dataset sees, so delta_C falls in C, and C may be rounded down.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import delta_range, golden_section, narrow, up
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve
from sordino.core.special import special

Whole = NDArray[np.int64]

_GROUPS = 64  # of numbers of clones, each counted at its smallest
_POINTS = 240  # of the curve
_TAIL_ERROR = 1e-11  # relative error of a binomial tail, with a wide margin
_DEVIATIONS = 9.0


@lru_cache(maxsize=256)
def shuffled_pass(records: int, ratio: float, delta: float) -> ExplicitPair | None:
    """The pair of one pass at the best epsilon_0 found for this delta; None where no clone is to be expected."""
    if records < 2 or ratio > _largest_ratio(records):
        return None

    def cost(threshold: float) -> float:
        return _epsilon(records, ratio, threshold, delta)

    # The failure t must stay below delta: epsilon_0 is a few ratios, and grows with the number of records.
    low, high = ratio, ratio * (ratio / 2 + _DEVIATIONS + 1.0)
    grid = np.linspace(low, high, 24)
    start = int(np.argmin([cost(float(at)) for at in grid]))
    threshold, _ = golden_section(
        cost, float(grid[max(0, start - 1)]), float(grid[min(len(grid) - 1, start + 1)]), 0.01 * high
    )
    if math.isinf(cost(threshold)):
        return None
    top = min(threshold, 40.0)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-5 * top, top, _POINTS)])
    return pair_from_curve(epsilons, np.minimum(_deltas(records, ratio, threshold, epsilons), 1.0))


def _largest_ratio(records: int) -> float:
    """Beyond it e^epsilon_0 exceeds the number of records already at one deviation, and nobody hides anybody."""
    return math.log(records)


def failure(records: int, ratio: float, threshold: float) -> float:
    """t of the statement, rounded up."""
    outside = float(
        special.ndtr((ratio * ratio / 2 - threshold) / ratio) + special.ndtr(-threshold / ratio - ratio / 2)
    )
    outside = min(1.0, outside * (1 + 1e-12))
    if outside >= 0.5:
        return 1.0
    log_inside = math.log1p(-outside)
    excess = float(delta_range(ratio, max(threshold + log_inside, 0.0))[1]) * math.exp(-threshold - log_inside)
    return min(1.0, up((records * excess + outside) * (1 + 1e-12)))


def _epsilon(records: int, ratio: float, threshold: float, delta: float) -> float:
    """Roughly the smallest epsilon at delta, by bisection on the bound; infinite where the failure is too large."""
    if 2 * failure(records, ratio, threshold) >= delta:
        return math.inf

    def enough(epsilon: float) -> bool:
        return float(_deltas(records, ratio, threshold, np.array([epsilon]))[0]) <= delta

    # Beyond some epsilon the failure's part grows again; this one is where both parts are small.
    return narrow(enough, 0.0, min(1.0, threshold), 1e-4)[1] if enough(min(1.0, threshold)) else math.inf


def _deltas(records: int, ratio: float, threshold: float, epsilons: Array) -> Array:
    """The bound of the statement at many epsilons, rounded up."""
    numbers, chances = _clones(records - 1, math.exp(-threshold) * (1 - 1e-15))
    failed = failure(records, ratio, threshold)
    found = np.array([float(chances @ _given(numbers, threshold, float(epsilon))) for epsilon in epsilons])
    return found * (1 + 1e-12) + (1 + np.exp(epsilons)) * failed


def _clones(others: int, rate: float) -> tuple[Whole, Array]:
    """Numbers of clones, rounded down onto few, and their chances; the far low end counts as none."""
    mean, deviation = others * rate, math.sqrt(others * rate * (1 - rate))
    low, high = max(0, math.floor(mean - _DEVIATIONS * deviation)), min(others, math.ceil(mean + 4 * deviation))
    starts = np.unique(np.append(0, np.linspace(low, high, _GROUPS).astype(np.int64)))
    # P(number >= start), rounded down, and differences from above: stochastically below the exact law.
    reached = np.append(1.0, special.bdtrc(starts[1:] - 1, others, rate) * (1 - _TAIL_ERROR))
    return starts, -np.diff(np.append(reached, 0.0))


def _given(numbers: Whole, threshold: float, epsilon: float) -> Array:
    """delta_C for each number of clones: P(outcome >= k) - e^epsilon Q(outcome >= k) at the best k."""
    own = 1 / (1 + math.exp(-threshold))
    lean, growth = own - math.exp(epsilon) * (1 - own), math.exp(epsilon)
    if lean <= 0:
        return np.zeros(len(numbers))
    # P / Q > e^epsilon where k / (C - k + 1) exceeds this.
    ratio = (growth * own - (1 - own)) / lean
    exact = ratio * (numbers + 1) / (1 + ratio)
    best = np.zeros(len(numbers))
    first = np.floor(exact).astype(np.int64)
    for k in (first, first + 1, first + 2):
        more, same = _at_least(k - 1, numbers), _at_least(k, numbers)
        up_part = own * more + (1 - own) * same
        down_part = (1 - own) * more + own * same
        best = np.maximum(best, up_part * (1 + _TAIL_ERROR) - growth * down_part * (1 - _TAIL_ERROR))
    return np.minimum(best, 1.0)


def _at_least(k: Whole, numbers: Whole) -> Array:
    """P(Bin(C, 1/2) >= k)."""
    inside = (k >= 1) & (k <= numbers)
    tail = special.bdtrc(np.where(inside, k - 1, 0), np.maximum(numbers, 1), 0.5)
    return np.where(k <= 0, 1.0, np.where(k > numbers, 0.0, tail))
