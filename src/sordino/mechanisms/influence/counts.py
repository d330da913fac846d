"""Families of counts with exposure, in the manner of Cantoni & Ronchetti (JASA 2001): Poisson and negative binomial.

A count has mean m = exposure * exp(score) and variance m + d m^2. With the residual r = (y - m) / sd(m),

    psi = s(m) (clip(r, -k, k) - a(m)),   a(m) = E clip(r, -k, k) under the mean m,

a is the consistency correction: psi has mean 0 at the right score whatever k is. Let v = m / (1 + d m), the information
of a count about its score, and V what a typical record has, times a constant. s = min(sqrt(v), V / sqrt(v)) is maximum
likelihood's factor for records up to V; beyond, records are weighed down by their mean, a function of x and exposure.

*Bound.* s <= sqrt(V). Since (|r| - k)+ <= r^2 / (4 k) and E r^2 = 1, |a| <= 1 / (4 k), so |psi| is at most sqrt(V) (k +
1 / (4 k)).

*Slope.* The derivative of the mean of psi in the true score, at the score asked for: s sqrt(v) E[clip(r) r], which is
at least 0 and at most s sqrt(v) <= V. It is a function of x and exposure alone.
"""

import math
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import refuse
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.families import At, Family, PsiLaw, register

# A typical record's information times this is where weighing down begins.
_FULL = 1.6
_LEAST_DISPERSION = 1e-6
# Means at which corrections are computed for records.
_GRID = 768


class Clipped(NamedTuple):
    """Moments of c = clip((y - m) / sd(m), -k, k) for counts of some mean: E c, E c^2, and E c y."""

    first: Array
    second: Array
    with_count: Array


class CountLaw:
    """Counts of mean m and variance m + d m^2; cumulative probabilities and partial moments, elementwise."""

    def __init__(self, dispersion: float) -> None:
        self.dispersion = dispersion

    def partial(self, most: Array, mean: Array, orders: int) -> list[Array]:
        """Sums of 1, y and y^2 times the probabilities p of all y <= most, as many as asked for.

        With r = 1 / d parts and q = m / (r + m), (y + 1) p(y + 1) = q (y + r) p(y). Summed over y <= a, that and the
        same times y + 1 give both moments from F(a) = P(count <= a) and e = (a + 1) p(a + 1): m F - (1 + d m) e, and
        m (d + 1) times the first, plus m F, less (1 + d m) (a + 1) e. For a Poisson law d is 0.
        """
        some = most >= 0.0
        if some.all():
            return self._sums(most, mean, orders)
        # The law of most small counts has nothing below the cut, and nothing to compute there.
        found = [np.zeros(some.shape) for _ in range(orders)]
        for one, part in zip(found, self._sums(most[some], mean[some], orders), strict=True):
            one[some] = part
        return found

    def _sums(self, most: Array, mean: Array, orders: int) -> list[Array]:
        d = self.dispersion
        if d < _LEAST_DISPERSION:
            d, below = 0.0, special.pdtr(most, mean)
            logs = (most + 1.0) * np.log(mean) - mean - special.gammaln(most + 1.0)
        else:
            parts = 1.0 / d
            below = special.betainc(parts, most + 1.0, parts / (parts + mean))
            logs = special.gammaln(most + (1.0 + parts)) - special.gammaln(parts) - special.gammaln(most + 1.0)
            logs += (most + 1.0) * np.log(mean / (parts + mean)) - parts * np.log1p(d * mean)
        edge = (1.0 + d * mean) * np.exp(logs)
        found = [below, mean * below - edge]
        if orders > 2:
            found.append(mean * ((1.0 + d) * found[1] + below) - (most + 1.0) * edge)
        return found

    def ends(self, asked: Array, k: float) -> tuple[Array, Array, Array]:
        """The last count that is cut from below, the last that is not cut from above, and the deviation."""
        deviation = np.sqrt(asked + self.dispersion * asked**2)
        return np.ceil(asked - k * deviation) - 1.0, np.floor(asked + k * deviation), deviation

    def first(self, mean: Array, asked: Array, k: float, ends: tuple[Array, Array, Array] | None = None) -> Array:
        """E c alone, see `clipped`."""
        low_end, high_end, deviation = self.ends(asked, k) if ends is None else ends
        low, high = self.partial(low_end, mean, 2), self.partial(high_end, mean, 2)
        return k * (1.0 - high[0] - low[0]) + (high[1] - low[1] - asked * (high[0] - low[0])) / deviation

    def correction(self, mean: Array, k: float) -> Array:
        """a(m): the mean of the clipped residual at the right mean."""
        return self.first(mean, mean, k)

    def clipped(self, mean: Array, asked: Array, k: float, ends: tuple[Array, Array, Array] | None = None) -> Clipped:
        """Moments of the residual that is clipped around the mean asked about, for counts of another mean.

        `ends` are those of the law by which the residual is standardised, if it is another.
        """
        low_end, high_end, deviation = self.ends(asked, k) if ends is None else ends
        low, high = self.partial(low_end, mean, 3), self.partial(high_end, mean, 3)
        inside, first, second = (b - a for a, b in zip(low, high, strict=True))
        above = 1.0 - high[0]
        one = k * (above - low[0]) + (first - asked * inside) / deviation
        two = k * k * (above + low[0]) + (second - 2.0 * asked * first + asked**2 * inside) / deviation**2
        with_count = k * (mean - high[1] - low[1]) + (second - asked * first) / deviation
        return Clipped(one, two, with_count)


def _rise(clipped: Clipped, truth: Array, dispersion: float) -> Array:
    """The derivative of E c in the true score: c times the score function (y - m) / (1 + d m), averaged."""
    return (clipped.with_count - truth * clipped.first) / (1.0 + dispersion * truth)


@lru_cache(maxsize=32)
def _public_grid(dispersion: float, clip: float, middle: float, cap: float) -> tuple[Array, Array]:
    """a(m) and the derivative of E c at the means of a public grid."""
    mean = np.exp(middle - cap + np.arange(_GRID + 1) * (2.0 * cap / _GRID))
    clipped = CountLaw(dispersion).clipped(mean, mean, clip)
    return clipped.first, _rise(clipped, mean, dispersion)


def _on_grid(mean: Array, at: At, *, rise: bool) -> Array:
    """One of both for many records: between means of the grid on a line, which is off by less than 5e-4.

    A value between two that are within bounds is so too. Outside the grid, which exposures alone can lead to, every
    value is computed.
    """
    low, steps = at.middle - at.cap, _GRID / (2.0 * at.cap)
    place = (np.log(mean) - low) * steps
    outside = (place < -1e-6) | (place > _GRID + 1e-6)
    whole = np.clip(np.floor(place), 0, _GRID - 1).astype(np.intp)
    grid = _public_grid(at.dispersion, at.clip, at.middle, at.cap)[int(rise)]
    found = grid[whole] + (place - whole) * np.diff(grid)[whole]
    if outside.any():
        law, far = CountLaw(at.dispersion), mean[outside]
        clipped = law.clipped(far, far, at.clip)
        found[outside] = _rise(clipped, far, at.dispersion) if rise else clipped.first
    return found


class Asked(NamedTuple):
    """A round's means, factors and corrections for stand-in rows, the slope that is released, and where it cuts."""

    mean: Array
    factor: Array
    correction: Array
    slope: Array
    ends: tuple[Array, Array, Array]


@register
class Poisson(Family):
    """Counts with exposure; dispersion is read, so counts that vary more than a Poisson law are not biased by psi."""

    name = "poisson"
    budget = "counts"
    reads = "counts"
    every = 2
    curved: ClassVar[bool] = False

    def check(self, declaration: Declaration) -> None:
        if declaration.target is None or declaration.target[0] < 0.0:
            raise refuse("target", f"to have declared bounds, at least 0, for the family {self.name}", None)

    def intercept_scale(self, declaration: Declaration) -> float:
        return 1.0 + self.effect_scale(declaration)

    def target(self, declaration: Declaration, y: Array) -> Array:
        assert declaration.target is not None
        return np.clip(np.rint(y), 0.0, math.floor(declaration.target[1]))

    def typical_score(self, declaration: Declaration) -> float:
        assert declaration.target is not None
        return math.log(max(declaration.target[1] / 30.0, 0.3))

    def drawn(self, generator: np.random.Generator, scores: Array, declaration: Declaration) -> Array:
        parts = 1.0 / generator.uniform(0.01, 0.6)
        mean = np.exp(np.minimum(scores[:, 0], 12.0)) * generator.gamma(parts, 1.0 / parts, len(scores))
        return generator.poisson(mean).astype(np.float64)

    def full(self, at: At) -> float:
        """V: what information a record has at most."""
        mean = at.scale * _FULL
        return mean / (1.0 + at.dispersion * mean)

    def bound(self, declaration: Declaration, at: At) -> float:
        return math.sqrt(self.full(at)) * (at.clip + 0.25 / at.clip)

    def slope_bound(self, declaration: Declaration, at: At) -> float:
        return self.full(at)

    def _at(self, score: Array, exposure: Array, at: At) -> Array:
        """The mean asked about, from a score that is cut to a range around the typical one."""
        return exposure * np.exp(np.clip(score, at.middle - at.cap, at.middle + at.cap))

    def _factor(self, mean: Array, at: At) -> Array:
        information = mean / (1.0 + at.dispersion * mean)
        return np.minimum(np.sqrt(information), self.full(at) / np.sqrt(information))

    def psi(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        mean = self._at(score, exposure, at)
        residual = (y[:, None] - mean) / np.sqrt(mean + at.dispersion * mean**2)
        clipped = np.clip(residual, -at.clip, at.clip)
        return self._factor(mean, at) * (clipped - _on_grid(mean, at, rise=False))

    def residual(self, y: Array, score: Array, exposure: Array, at: At) -> Array:
        mean = self._at(score, exposure, at)
        return ((y[:, None] - mean) / np.sqrt(mean + at.dispersion * mean**2))[:, 0]

    def roots(self, y: Array, score: Array, exposure: Array, at: At) -> list[Array]:
        mean = self._at(score, exposure, at)
        return [np.sqrt(np.clip(self._factor(mean, at) * _on_grid(mean, at, rise=True), 0.0, self.full(at)))]

    def prepared(self, asked: Array, exposure: Array, at: At) -> Asked:
        mean, law = self._at(asked, exposure, at), CountLaw(at.dispersion)
        clipped, factor = law.clipped(mean, mean, at.clip), self._factor(mean, at)
        return Asked(mean, factor, clipped.first, factor * _rise(clipped, mean, at.dispersion), law.ends(mean, at.clip))

    @staticmethod
    def _truth(score: Array, exposure: Array, at: At) -> tuple[Array, CountLaw]:
        """True means of counts, and their law as it is known by now."""
        reach = at.cap + 3.0
        truth = exposure * np.exp(np.clip(score, at.middle - reach, at.middle + reach))
        return truth, CountLaw(at.dispersion if at.spread is None else at.spread)

    def mean(self, score: Array, prepared: Asked, exposure: Array, at: At) -> Array:
        truth, by_now = self._truth(score, exposure, at)
        first = by_now.first(truth, prepared.mean, at.clip, prepared.ends)
        return prepared.factor * (first - prepared.correction)

    def law(self, score: Array, prepared: Asked, exposure: Array, at: At) -> PsiLaw:
        truth, by_now = self._truth(score, exposure, at)
        clipped = by_now.clipped(truth, prepared.mean, at.clip, prepared.ends)
        correction = prepared.correction
        variance = prepared.factor**2 * (clipped.second - 2.0 * correction * clipped.first + correction**2)
        slope = prepared.factor * _rise(clipped, truth, by_now.dispersion)
        return PsiLaw(prepared.factor * (clipped.first - correction), slope[..., None], variance[..., None])

    def released_slope(self, prepared: Asked, exposure: Array, at: At) -> Array:
        return prepared.slope[..., None]


@register
class NegativeBinomial(Poisson):
    """The same estimating equation under the name of its law: mean m, variance m + d m^2."""

    name = "negative-binomial"
