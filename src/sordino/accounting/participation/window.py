"""Random batches seen through a window: hide the last steps' batches, shift away what the steps before left behind.

Let the last nu + 1 steps be the window, and let z be the distance of the two chains before it. In the window a shadow
chain starts at the first chain's state and runs on the second's data: each of its steps costs C_q(G(kappa)), a
subsampled Gaussian. Meanwhile the shadow and the second chain share their data and come closer by c a step; in the
last step the rest, c^{nu+1} z, is pushed away. The last step's noise is split: the share 1 - theta of its variance pays
for its own batch, the share theta for the push. So the last iterate is dominated by the composition of
G(c^{nu+1} z / (tau sqrt(theta))), C_q(G(kappa / sqrt(1 - theta))) and C_q(G(kappa))^nu. Without a bound on who took
part before the window, z is the largest distance; with those batches revealed, z is random and delta is averaged.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from sordino.accounting import compose
from sordino.accounting.participation.distance_law import distance_law, largest_distance
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.cumulant import Cumulant
from sordino.core.loss.evaluate import curve, tail_for
from sordino.core.loss.gaussian_mixture_pair import GaussianMixturePair
from sordino.core.loss.grid_law import Side
from sordino.core.loss.normal_pairs import GaussianPair, WithoutReplacementPair
from sordino.core.loss.pair import Pair, Request
from sordino.core.rounding import up

# A push below this costs nothing and would only strain the grid.
_SMALLEST_MU = 1e-12
_ROUND_UP = 1 + 1e-13
# Values of the distance while searching, and in the answer.
_SEARCH_VALUES, _ANSWER_VALUES = 20, 120
_SEARCH_RESOLUTION = 9.0
# Where plain composition already gives this little, there is nothing to search for.
_NEGLIGIBLE_EPSILON = 5e-3
# The search looks at pushes between these, in moves (or in units of the noise, if that is larger).
_LARGEST_PUSH, _SMALLEST_PUSH = 5.0, 1e-3
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class SampledChain:
    """Identical steps on random batches: contraction c < 1, ratio kappa, rate q < 1, number of steps."""

    contraction: float
    ratio: float
    rate: float
    steps: int

    def plain(self) -> LossDistribution:
        """Composition: the window is the whole run."""
        return compose.pairs([(WithoutReplacementPair(self.rate, self.ratio), self.steps)])

    def with_largest_distance(self, window: int, share: float) -> LossDistribution:
        """`window` = nu, `share` = theta; every step before the window counts as if it moved."""
        distance = largest_distance(self.contraction, self.steps - window - 1)
        return self._pushed(window, share, GaussianPair(self._push(distance, window, share)))

    def with_random_distance(self, window: int, share: float, values: int = _ANSWER_VALUES) -> LossDistribution:
        """The batches before the window are revealed, and delta is averaged over the distance they leave."""
        law = distance_law(self.contraction, self.rate, self.steps - window - 1, values)
        mus = tuple(self._push(distance, window, share) for distance in law.values)
        return self._pushed(window, share, GaussianMixturePair(law.weights, mus))

    def _push(self, distance: float, window: int, share: float) -> float:
        faded = math.exp((window + 1) * math.log(self.contraction)) * (1 + 1e-15 * (window + 1))
        return max(_SMALLEST_MU, up(self.ratio * faded * distance / math.sqrt(share) * _ROUND_UP))

    def _pushed(self, window: int, share: float, push: Pair) -> LossDistribution:
        last = WithoutReplacementPair(self.rate, up(self.ratio / math.sqrt(1 - share) * _ROUND_UP))
        hidden = [(WithoutReplacementPair(self.rate, self.ratio), window)] if window else []
        return compose.pairs([(push, 1), (last, 1), *hidden])


@lru_cache(maxsize=256)
def best_with_largest_distance(chain: SampledChain, delta: float) -> LossDistribution:
    """The window and the split with the smallest epsilon at this delta; any are valid."""
    return _best(chain, delta, 1.0, chain.with_largest_distance, chain.with_largest_distance)


@lru_cache(maxsize=256)
def best_with_random_distance(chain: SampledChain, delta: float) -> LossDistribution:
    """The same when the batches before the window are revealed."""
    return _best(
        chain,
        delta,
        chain.rate,
        lambda window, share: chain.with_random_distance(window, share, _SEARCH_VALUES),
        chain.with_random_distance,
    )


Bound = Callable[[int, float], LossDistribution]


def _best(chain: SampledChain, delta: float, moving: float, rough: Bound, fine: Bound) -> LossDistribution:
    """Golden sections in the window, in the split and in the window again; then compared with plain composition."""
    if chain.steps == 1 or chain.plain().epsilon(delta) <= _NEGLIGIBLE_EPSILON:
        return chain.plain()

    def cost(window: int, share: float) -> float:
        return _rough_epsilon(rough(window, share), delta)

    # Windows shorter than the first leave a push of several moves, longer than the second one below a thousandth.
    log = math.log(chain.contraction)
    distance = max(1.0, moving / -math.expm1(log))
    shortest = math.log(_LARGEST_PUSH * max(1.0, 1.0 / chain.ratio) / distance) / log
    longest = math.log(_SMALLEST_PUSH * -math.expm1(log)) / log
    most = min(float(chain.steps - 2), math.ceil(longest))
    least = min(most, max(0.0, math.floor(shortest)))
    window = _best_window(cost, least, most, 0.6)
    share = _golden(lambda at: cost(window, at), 0.05, 0.95, 0.08)
    window = _best_window(cost, max(least, window - 0.1 * most), min(most, window + 0.1 * most), share)
    found = (fine(window, share), chain.plain())
    return min(found, key=lambda guarantee: guarantee.epsilon(delta))


def _rough_epsilon(guarantee: LossDistribution, delta: float) -> float:
    """One evaluation from above on a coarse grid: good enough to compare, and never refined."""
    cumulant = Cumulant.of(guarantee.factors)
    tail = tail_for(delta, guarantee.factors)
    request = Request(Side.UPPER, cumulant.tilt_for_delta(delta), _SEARCH_RESOLUTION, tail)
    return curve(guarantee.factors, request, cumulant).epsilon(delta)


def _best_window(cost: Callable[[int, float], float], low: float, high: float, share: float) -> int:
    return round(_golden(lambda at: cost(round(at), share), low, high, 0.08 * (high - low) + 0.5))


def _golden(cost: Callable[[float], float], low: float, high: float, width: float) -> float:
    """The least cost found by golden sections; a poor choice costs tightness, never validity."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    costs = [cost(point) for point in inner]
    while high - low > width:
        if costs[0] <= costs[1]:
            high, inner[1], costs[1] = inner[1], inner[0], costs[0]
            inner[0] = high - _GOLDEN * (high - low)
            costs[0] = cost(inner[0])
        else:
            low, inner[0], costs[0] = inner[0], inner[1], costs[1]
            inner[1] = low + _GOLDEN * (high - low)
            costs[1] = cost(inner[1])
    return inner[0] if costs[0] <= costs[1] else inner[1]
