"""Shuffled passes in batches of any size: others hide the record that differs (Feldman, McMillan & Talwar 2021).

**Statement.** A pass uses n records in uniformly random order, b a step, l = floor(n / b) whole batches; each step adds
Gaussian noise, and any two records move a step by at most kappa noises relative to each other. For every epsilon_0 >= 0
the iterates of the pass have

    delta(epsilon) <= E_C E (1 - e^epsilon + (1 + e^epsilon) S)+ + (1 + e^epsilon) t,    C ~ Bin(l - 1, e^-epsilon_0),

where S is the mean of C + 1 independent copies of tanh(L / 2), L an even mixture of N(kappa^2 / 2, kappa^2) and
N(-kappa^2 / 2, kappa^2), and t = l e^-epsilon_0 delta_kappa(epsilon_0), delta_kappa the Gaussian curve. Passes compose.

**Proof, b = 1.** Fix a step and the past. Let R_j be the law of the step's outcome if it uses record j: Gaussians whose
means differ by at most kappa noises. Let 1 and 1' be the two records that differ, and first kappa noises apart. Then L,
the log ratio of R_1 and R_1', is N(kappa^2 / 2, kappa^2) under R_1 and N(-kappa^2 / 2, kappa^2) under R_1', and given L
the outcome has the same law Q_L under both. Two that are nearer are scaled and noised copies of two that far apart, so
some Q_L does for them as well. Thus R_1 = E_a Q_L, R_1' = E_a' Q_L, and B = (R_1 + R_1') / 2 = E_c Q_L, with the two
normal laws a, a' and their even mixture c: the same at every step and past. With p = e^-epsilon_0, the mass by which
p B exceeds R_j is at most (p / 2) times the sum over both of the mass by which R exceeds e^epsilon_0 R_j: at most p
delta_kappa(epsilon_0). Adding that mass where it is missing and taking it away where R_j exceeds p B gives R'_j = p B
+ (1 - p) O_j, so near to R_j in total variation. Replace the laws of all others: by a coupling step by step the
transcript moves by at most t in total variation, on either dataset, which costs (1 + e^epsilon) t. Now each record's
label can be drawn first: another record keeps O_j, or, with probability p, is labelled by an L of law c; the differing
one has a label of law a on one dataset and a' on the other. The order is uniform and independent of the labels, so
given the multiset of labels and which records keep their own law, all assignments to the steps are equally likely,
whatever the dataset. The transcript is post-processing of the two, and which others are labelled has the same law on
both datasets; C is their number. Against C + 1 labels of law c the multiset has the density mean of a / c = mean of
1 + tanh(L / 2) on one dataset and mean of 1 - tanh(L / 2) on the other, which is the expectation above. It is that of a
convex function of a mean of independent copies, so it falls in C, and C may be rounded down.

**Batches of b.** A batch is a row of b places. Given the column of the differing record and where all records of other
columns stand, the records of its own column are in uniformly random order over the batches, whatever the dataset. A
step then adds one of them to a sum that is fixed by what is given and by the past: laws R_j whose means differ by at
most kappa noises, as above. A last batch that is not full lengthens some columns by one: those have more clones, and t
counts as many others as they have. (The noise of a step may be cut into g parts, one for each of g columns: g l records
at sqrt(g) kappa. To first order that costs the same, beyond it more, so g is 1.) Random allocation is no bound above:
which batch holds b - 1 others is known to who knows their batches. It is one below, met by others that equal the
record's replacement (`auditing.exact.extremal_chain`).
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.binomial import at_least
from sordino.core.gaussian import UNIT_ROUNDOFF, delta_range, golden_section, narrow, up
from sordino.core.loss.allocation import summed
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve
from sordino.core.loss.normal_pairs import above, normal_mass
from sordino.core.loss.pair import GridLaw
from sordino.core.special import special

Whole = NDArray[np.int64]

_GROUPS = 24  # of numbers of clones, each counted at its smallest
_POINTS = 240  # of the curve
_DEVIATIONS = 9.0
_CELLS, _FEWEST = 24, 256  # of a deviation of tanh(L / 2), and of its range above 0
_FURTHEST = 13.0  # deviations of L on the grid
_MOST_CLONES = 20_000_000  # more count as so many, which hide less
_IMPOSSIBLE = 1e-18  # numbers of clones that are rarer count as none


@lru_cache(maxsize=256)
def shuffled_pass(batches: int, ratio: float, delta: float) -> ExplicitPair | None:
    """The pair of one pass at the best epsilon_0 found for this delta; None where no clone is to be expected."""
    if batches < 2 or ratio > _largest_ratio(batches):
        return None

    def cost(threshold: float) -> float:
        return _rough_epsilon(batches, ratio, threshold, delta)

    # The failure t must stay below delta: epsilon_0 is a few ratios, and grows with the number of batches.
    low, high = ratio / 4, ratio * (ratio / 2 + _DEVIATIONS + 1.0)
    grid = np.linspace(low, high, 48)
    start = int(np.argmin([cost(float(at)) for at in grid]))
    threshold, _ = golden_section(
        cost, float(grid[max(0, start - 1)]), float(grid[min(len(grid) - 1, start + 1)]), 0.01 * high
    )
    if math.isinf(cost(threshold)):
        return None
    top = min(threshold, 40.0)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-5 * top, top, _POINTS)])
    return pair_from_curve(epsilons, np.minimum(_deltas(batches, ratio, threshold, epsilons), 1.0))


def _largest_ratio(batches: int) -> float:
    """Beyond it e^epsilon_0 exceeds the number of batches already at one deviation, and nobody hides anybody."""
    return math.log(batches)


def failure(batches: int, ratio: float, threshold: float) -> float:
    """t of the statement, rounded up."""
    excess = float(delta_range(ratio, threshold)[1]) * math.exp(-threshold)
    return min(1.0, up(batches * excess * (1 + 1e-12)))


def _rough_epsilon(batches: int, ratio: float, threshold: float, delta: float) -> float:
    """About the epsilon at delta, the mean of labels taken for normal; infinite where the failure is too large."""
    failed = failure(batches, ratio, threshold)
    if 2 * failed >= delta:
        return math.inf
    mean = (batches - 1) * math.exp(-threshold)
    deviation = math.tanh(ratio / 2) / math.sqrt(1 + max(0.0, mean - 2 * math.sqrt(mean)))

    def enough(epsilon: float) -> bool:
        z = math.tanh(epsilon / 2) / deviation
        gain = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * float(special.ndtr(-z))
        return (1 + math.exp(epsilon)) * (deviation * gain + failed) <= delta

    # Beyond some epsilon the failure's part grows again: the first one where both parts are small.
    highest = min(1.0, 2 * threshold)
    while not enough(highest):
        if highest > threshold:
            return math.inf
        highest *= 1.25
    return narrow(enough, 0.0, highest, 1e-4 * highest)[1]


def _deltas(batches: int, ratio: float, threshold: float, epsilons: Array) -> Array:
    """The bound of the statement at many epsilons, rounded up."""
    numbers, chances = _clones(batches - 1, math.exp(-threshold) * (1 - 1e-15))
    found = np.full(len(epsilons), (1 + np.exp(epsilons)) * failure(batches, ratio, threshold))
    for number, chance in zip(numbers.tolist(), chances.tolist(), strict=True):
        found += chance if chance < _IMPOSSIBLE else chance * _given(number, ratio, epsilons)
    return found * (1 + 1e-12)


def _clones(others: int, rate: float) -> tuple[Whole, Array]:
    """Numbers of clones, rounded down onto few, and their chances; the far low end counts as none."""
    mean, deviation = others * rate, math.sqrt(others * rate * (1 - rate))
    low, high = max(0, math.floor(mean - _DEVIATIONS * deviation)), min(others, math.ceil(mean + 4 * deviation))
    starts = np.unique(np.minimum(np.append(0, np.linspace(low, high, _GROUPS).astype(np.int64)), _MOST_CLONES))
    # P(number >= start), rounded down, and differences from above: stochastically below the exact law.
    reached = np.append(1.0, at_least(starts[1:], others, rate)[0])
    return starts, np.maximum(-np.diff(np.append(reached, 0.0)), 0.0)


@lru_cache(maxsize=4)
def _lean(ratio: float) -> tuple[GridLaw, float, float]:
    """tanh(L / 2), larger in convex order on a grid; the mass beyond it; how far rounding may move a mean of copies.

    The mass of a cell is split between its two ends, which keeps its mean: that of tanh(L / 2) times the density of c
    is half the difference of those of a and a'.
    """
    spacing = 1 / max(_FEWEST, math.ceil(_CELLS / math.tanh(ratio / 2)))
    furthest = math.tanh((ratio / 2 + _FURTHEST) * ratio / 2)
    last = min(round(1 / spacing), math.ceil(furthest / spacing))
    edges = np.arange(-last, last + 1) * spacing
    with np.errstate(divide="ignore"):
        losses = np.log1p(edges) - np.log1p(-edges)
    losses[[0, -1]] = (-np.inf, np.inf) if last == round(1 / spacing) else (losses[0], losses[-1])
    z = losses / ratio
    (one, one_error), (other, other_error) = normal_mass(z, ratio / 2), normal_mass(z, -ratio / 2)
    mass, moment = (one + other) / 2, (one - other) / 2
    right = np.clip((moment - edges[:-1] * mass) / spacing, 0.0, mass)
    points = np.zeros(len(edges))
    points[:-1] += mass - right
    points[1:] += right
    beyond = above(float(z[-1]), ratio / 2) + above(float(z[-1]), -ratio / 2) if np.isfinite(z[-1]) else 0.0
    # An edge is off by a few units in its last place, a mass by its error; either moves at most that, at most by 2.
    wrong = float((one_error + other_error).sum()) + 64 * UNIT_ROUNDOFF * (1 + _FURTHEST)
    return GridLaw(spacing, -last, points, 0.0, 0.0, 0.0, 1e-15, 0.0), beyond, 2 * wrong


@lru_cache(maxsize=64)
def _mean_of(number: int, ratio: float) -> tuple[Array, Array, Array, float]:
    """The mean of number + 1 labels: its values, the masses from each value on, their first moments, their error."""
    law, beyond, _ = _lean(ratio)
    first, masses, error = summed(law, number + 1)
    values = np.arange(first, first + len(masses), dtype=np.float64) * (law.spacing / (number + 1))
    tails, moments = (np.append(np.cumsum(part[::-1])[::-1], 0.0) for part in (masses, masses * values))
    return values, tails, moments, 2 * error + 2 * (number + 1) * beyond


def _given(number: int, ratio: float, epsilons: Array) -> Array:
    """The expectation of the statement for a number of clones, rounded up."""
    values, tails, moments, error = _mean_of(number, ratio)
    growth = np.exp(epsilons)
    start = np.searchsorted(values, np.tanh(epsilons / 2))
    found = (1 - growth) * tails[start] + (1 + growth) * moments[start]
    return np.minimum(1.0, found * (1 + 1e-12) + (1 + growth) * (_lean(ratio)[2] + error))
