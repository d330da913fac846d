"""Random allocation: a record is used in one step of a round of `total`, drawn uniformly and kept secret.

Against a round without the record the ratio of densities is R = 1 + (1/total) sum of (X_i - 1) over the steps done,
with independent lognormals X = exp(mu Z - mu^2 / 2), Z standard normal. Both hockey-stick divergences are means of
convex functions of R: E (R - y)+ and E (1 - y R)+. So a law of X that is larger in convex order gives a bound above, a
smaller one a bound below, and convex order survives sums of independent variables (Shaked & Shanthikumar 2007).

- *above*: the mass of a cell is split between its two ends, which keeps its mean;
- *below*: the mass of four cells is gathered at its mean and split between the two grid points around that, where this
  is provably smaller in convex order; where it is not, it is left out.

X beyond the grid is cut off; what that takes from the mean counts as infinite loss.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF
from sordino.core.loss import convolve, discretise
from sordino.core.loss.atomic_pairs import AtomicPair, ExplicitPair, pair_from_curve
from sordino.core.loss.discretise import Atoms
from sordino.core.loss.normal_pairs import above, below, normal_mass, quantile
from sordino.core.loss.pair import GridLaw, Pair, Request, Side, register
from sordino.core.spec.fields import Contradiction

_CELLS = 48.0  # of a standard deviation of X
_MOST_CELLS = 2**22
_CUT = 1e-13  # of the mean of one X, beyond the grid
_FAR = 2**18  # points from 0 to the first one, which a list need not hold
_LOWEST = -14.0  # standard deviations of Z below which X counts as the smallest grid point
_GATHERED = 4
_OUTSIDE = 3e-14  # of a sum, beyond the window of the transform
_SKETCHED = 600
SMALLEST_MU, LARGEST_MU = 1e-5, 1.65  # outside of these the grid has no room, or rounding outweighs what it holds
_TRANSFORM = 8 * UNIT_ROUNDOFF  # a level of a transform
_WIPED_OUT = -46.0  # log of a power that counts as nothing but error


@dataclass(frozen=True)
class _Listed(AtomicPair):
    stated: ClassVar = {"infinite": "beyond"}
    losses: Array
    masses: Array
    beyond: float

    def atoms(self) -> Atoms:
        return Atoms(self.losses, self.masses)


@register("allocation")
class AllocationPair(Pair):
    """A round whose record is used once in `total` steps, of which `done` are seen, against a round without it."""

    mirror: ClassVar = "allocation-add"
    total: Annotated[int, validate.COUNT]
    done: Annotated[int, validate.COUNT]
    mu: Annotated[float, validate.POSITIVE]

    def contradictions(self) -> Iterator[Contradiction]:
        if self.done > self.total:
            yield Contradiction("done", f"to be at most the {self.total} steps of a round", self.done)

    @property
    def infinite(self) -> float:
        return self._listed(Side.UPPER).infinite

    def extent(self, tail: float) -> float:
        return self._listed(Side.UPPER).extent(tail)

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        return self._listed(request.side).on_grid(request, spacing)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        listed = self._listed(Side.UPPER)
        cuts = np.unique(np.linspace(0, len(listed.losses) - 1, _SKETCHED).astype(int))
        masses = np.add.reduceat(listed.masses, cuts)
        middles = np.add.reduceat(listed.masses * listed.losses, cuts) / np.maximum(masses, 1e-300)
        seen = masses > 0
        return middles[seen], masses[seen]

    def _listed(self, side: Side) -> _Listed:
        return _with_record(self.total, self.done, self.mu, side)


@register("allocation-add")
class AllocationAddPair(AllocationPair):
    """The same pair the other way round."""

    mirror: ClassVar = "allocation"

    def _listed(self, side: Side) -> _Listed:
        return _without_record(self.total, self.done, self.mu, side)


def within_reach(mu: float) -> bool:
    """Whether the lognormals of this mu fit on a grid; a round of a larger one shows at least as much."""
    return SMALLEST_MU <= mu <= LARGEST_MU


def _spacing(mu: float) -> float:
    """A share of a standard deviation, and no finer than the cells reach; a coarser grid is larger in convex order."""
    return max(math.sqrt(math.expm1(mu * mu)) / _CELLS, _top(mu) / _MOST_CELLS)


def _top(mu: float) -> float:
    """Where X is cut off: beyond it lies at most _CUT of its mean."""
    return math.exp(mu * mu / 2 + mu * quantile(_CUT))


@lru_cache(maxsize=4)
def _with_record(total: int, done: int, mu: float, side: Side) -> _Listed:
    values, without, lost, error, moved = _ratios(total, done, mu, side)
    masses, doubt = values * without, error * float(values.max(initial=0.0)) + moved
    seen = masses > 0
    losses, masses = np.log(values[seen]), masses[seen]
    if side is Side.LOWER:
        # What the list may hold too much of is taken from its largest losses.
        return _Listed(*_less(losses, masses, doubt), 0.0)
    return _Listed(losses, masses, min(1.0, lost + doubt))


@lru_cache(maxsize=4)
def _without_record(total: int, done: int, mu: float, side: Side) -> _Listed:
    values, without, _, error, moved = _ratios(total, done, mu, side)
    seen = (without > 0) & (values > 0)
    losses, masses = -np.log(values[seen])[::-1], without[seen][::-1]
    # (1 - y R)+ has slope y, and is 0 unless y is below 1 / R.
    doubt = error + moved * float(np.exp(losses[-1:].max(initial=0.0)))
    if side is Side.LOWER:
        return _Listed(*_less(losses, masses, doubt), 0.0)
    return _Listed(losses, masses, min(1.0, float(without[values <= 0].sum()) + doubt))


def _less(losses: Array, masses: Array, amount: float) -> tuple[Array, Array]:
    """The same without the largest losses, of at least this probability together."""
    kept = np.cumsum(masses[::-1])[::-1] > amount
    kept &= np.append(kept[1:], False)
    return (losses[kept], masses[kept]) if kept.any() else (np.zeros(1), np.zeros(1))


@lru_cache(maxsize=4)
def _ratios(total: int, done: int, mu: float, side: Side) -> tuple[Array, Array, float, float, float]:
    """The law of R without the record, on the right side: its values and masses, and what it leaves open.

    That is the probability under the law with the record that is not in the list, the error of the masses in sum, and
    how much the mean of a function of slope 1 may be off.
    """
    spacing = _spacing(mu)
    law, cut, rounding = (_above if side is Side.UPPER else _below)(mu, spacing)
    first, masses, error = summed(law, done)
    values = 1 + ((first + np.arange(len(masses))) * spacing - done) / total
    seen = masses > 0
    # Rounding moves mass by one grid point at each of the steps, that is R by spacing / total: what that changes.
    moved = done / total * spacing * rounding
    lost = done / total * cut + _OUTSIDE * (1 + done * float(law.losses[-1]) / total)
    return np.maximum(values[seen], 0.0), masses[seen], lost, error, moved


def summed(law: GridLaw, count: int) -> tuple[int, Array, float]:
    """The law of a sum of `count`: its first grid point, its masses, and a bound on their error in sum."""
    if count == 1:
        return law.first, law.masses, 0.0
    first, last = convolve.window([(law, count)], convolve.LOG_OUTSIDE)
    length = 1 << max(3, math.ceil(math.log2(max(last - first + 1, len(law.masses)))))
    # No value on the way through a transform exceeds the sum of all masses.
    noise = _TRANSFORM * math.log2(length)
    middle, base, doubt = _transform(law.masses, length, noise)
    sizes = np.abs(base) + doubt
    with np.errstate(divide="ignore"):
        logs = count * np.log(sizes)
    # Frequencies that the power wipes out count as errors; no subnormals, which are slow.
    kept, wrong, spectrum = logs > _WIPED_OUT, np.exp(np.maximum(logs, -300.0)), np.zeros(len(base), complex)
    power = count * np.log(base[kept])
    spectrum[kept] = np.exp(power)
    wrong[kept] *= count * doubt[kept] / sizes[kept] + 8 * UNIT_ROUNDOFF * (4 + np.abs(power))
    masses = np.roll(np.fft.irfft(spectrum, length), (count * (law.first + middle) - first) % length)
    # Both halves of the spectrum count; the transform back has its own rounding. Sums are at most sqrt(length) lengths.
    error = math.sqrt(2) * (float(np.linalg.norm(wrong)) + noise * float(np.linalg.norm(np.abs(spectrum) + wrong)))
    return first, np.maximum(masses, 0.0), error + 2 * math.exp(convolve.LOG_OUTSIDE)


def _transform(masses: Array, length: int, noise: float) -> tuple[int, NDArray[np.complex128], Array]:
    """The place near the mean, the transform around it, and a bound on its error at each frequency.

    With T_k the mass more than k places to the right of the middle and U_k to the left, and z = e^ix, the transform
    exceeds the total mass by (z - 1) (sum of T_k z^k) plus the conjugate of (z - 1) (sum of U_k z^k). At low
    frequencies that is known far better than the transform itself, and a power of many loses nothing.
    """
    total = math.fsum(masses)
    middle = round(float(masses @ np.arange(len(masses))) / total)
    plain = np.fft.rfft(np.roll(convolve.modulo(masses, length), -middle))
    right, left = np.zeros(length), np.zeros(length)
    right[: len(masses) - middle - 1] = _from_each_on(masses[middle + 1 :])
    left[:middle] = _from_each_on(masses[:middle][::-1])
    angles = np.arange(len(plain)) * (-2 * math.pi / length)
    step = -2 * np.sin(angles / 2) ** 2 + 1j * np.sin(angles)
    less, odd = step * np.fft.rfft(right + left), step * np.fft.rfft(right - left)
    doubt = 2 * noise * np.abs(step) * float((right + left).sum()) + 4 * UNIT_ROUNDOFF
    return middle, np.where(doubt < noise, total + less.real + 1j * odd.imag, plain), np.minimum(doubt, noise)


def _from_each_on(masses: Array) -> Array:
    """The mass from each place on, each rounded as often as there are doublings in the length."""
    found, reach = masses.copy(), 1
    while reach < len(found):
        found[:-reach] = found[:-reach] + found[reach:]
        reach *= 2
    return found


def _cells(mu: float, spacing: float, first: int, last: int, width: int) -> tuple[Array, Array, Array, float]:
    """Edges, and the probabilities of the cells between them without and with the record; how much may be misplaced."""
    edges = np.arange(first, last + 1, width, dtype=np.float64) * spacing
    logs = np.log(np.maximum(edges, 1e-300))
    z = np.where(edges > 0, (logs + mu * mu / 2) / mu, -np.inf)
    (q, q_error), (m, m_error) = normal_mass(z, 0.0), normal_mass(z, mu)
    # An edge is off by its rounding; there the two densities are those of z, the second one x times the first.
    off = 8 * UNIT_ROUNDOFF * (1 + np.abs(logs) + mu * mu) / mu * np.exp(-((z - mu) ** 2) / 2)
    errors = m_error + edges[1:] * q_error + 8 * UNIT_ROUNDOFF * (m + edges[1:] * q) + off[1:] + off[:-1]
    return edges, q, m, float(errors.sum() / spacing)


def at_both_ends(edges: Array, masses: Array, moments: Array, spacing: float) -> Array:
    """The mass of each cell split between its ends, which keeps its first moment: larger in convex order."""
    right = np.clip((moments - edges[:-1] * masses) / spacing, 0.0, masses)
    return discretise.above(masses - right, right)


def _ends(mu: float, spacing: float) -> tuple[int, int]:
    return max(1, math.floor(math.exp(mu * _LOWEST - mu * mu / 2) / spacing)), math.ceil(_top(mu) / spacing)


def _above(mu: float, spacing: float) -> tuple[GridLaw, float, float]:
    first, last = _ends(mu, spacing)
    edges, q, m, rounding = _cells(mu, spacing, first, last, 1)
    points = at_both_ends(edges, q, m, spacing)
    z_low, z_high = ((math.log(edge) + mu * mu / 2) / mu for edge in (edges[0], edges[-1]))
    # Below the first point, between 0 and it: split between those two, the first by its share of the mean. Where the
    # first is many points up, all of it, 1e-44, is moved there, by at most so many points.
    low_q, low_m, far = below(z_low, 0.0), below(z_low, mu), first > _FAR
    zero = 0.0 if far else max(0.0, low_q - low_m / float(edges[0]) * (1 - 1e-12))
    rounding += low_q * first * far
    points[0] += low_q - zero
    points[-1] += above(z_high, 0.0)
    points = np.concatenate([[zero], np.zeros(first - 1), points]) if zero > 0 else points
    start = 0 if zero > 0 else first
    return GridLaw(spacing, start, points, 0.0, 0.0, 0.0, 1e-15, 0.0), above(z_high, mu), rounding


def _below(mu: float, spacing: float) -> tuple[GridLaw, float, float]:
    first, last = _ends(mu, spacing)
    first = 0 if first <= _GATHERED else first  # what lies below a first point further up is next to nothing
    last = first + _GATHERED * ((last - first) // _GATHERED)
    edges, q, m, rounding = _cells(mu, spacing, first, last, _GATHERED)
    points = np.zeros(last - first + 2)
    held = q > 1e-290
    q, m, low = q[held], m[held], edges[:-1][held]
    centre = np.clip(m / q, low, edges[1:][held])
    place = np.floor(centre / spacing)
    share = np.clip(centre / spacing - place, 0.0, 1.0)
    # The two grid points are smaller in convex order if a tangent to the curve E (X - s)+ of the cell lies above their
    # chord: of all tangents the one as steep as the chord, at the s that X exceeds with probability `share`.
    z_top = (np.log(edges[1:][held]) + mu * mu / 2) / mu
    from_left = special.ndtri(np.maximum(special.ndtr(z_top) - share * q, 1e-300))
    z = np.where(z_top < 0, from_left, -special.ndtri(np.minimum(special.ndtr(-z_top) + share * q, 0.75)))
    z = np.minimum(z, z_top)
    s = np.exp(mu * z - mu * mu / 2)

    def between(at: float) -> Array:
        left, right = special.ndtr(z_top - at) - special.ndtr(z - at), special.ndtr(at - z) - special.ndtr(at - z_top)
        return np.where(z_top < at, left, right) / q

    p, gained = between(0.0), between(mu)
    v = gained - s * p
    behind = centre - place * spacing
    near, far = v - p * (place * spacing - s), v - p * ((place + 1) * spacing - s)
    smaller = (near >= behind + 1e-6 * spacing) & (far >= 1e-6 * spacing)
    q, place, share = q[smaller], place[smaller].astype(int) - first, share[smaller]
    np.add.at(points, place, q * (1 - share))
    np.add.at(points, place + 1, q * share)
    return GridLaw(spacing, first, points, 0.0, 0.0, 0.0, 1e-15, 0.0), 0.0, rounding


# A record is replaced by another. Against a round with neither the ratios of densities are the averages of X_i and of
# Y_j, lognormals of <a_i, z_i> and <b_j, z_j>, |a_i| and |b_j| at most mu, both chosen in view of earlier steps; so
# delta = E (average of X_i - y Y_i)+, y = e^epsilon, over steps that are standard normal. The choice a = mu along one
# coordinate and b = -a is the largest in convex order of X - y Y, for every y > 0: - a convex function of X - y Y has
# no positive mixed derivative in (<a, z>, <b, z>), so for given lengths its mean falls as the two are more correlated
# (Plackett's identity): -1 is worst; - a longer a: multiply X by an independent lognormal of mean 1, which makes X - y
# Y larger in convex order and the correlation weaker; then bring the correlation back to -1, which is larger again. The
# same for b. Convex order survives sums step by step, from the last one backwards, dependent or not.
_MOST_REPLACED = 4096  # steps of a round whose transform is raised to a power as it is
_FLOOR = 1e-12  # of delta, at which the curve ends: what is left counts as infinite loss
_MOST_POINTS, _FINE = 120, 0.15


def replaceable(total: int, mu: float) -> bool:
    """Whether `replaced_round` finds the pair of a round."""
    return 2 <= total <= _MOST_REPLACED and within_reach(mu) and _top(mu) / _spacing(mu) <= _MOST_CELLS / 8


@lru_cache(maxsize=16)
def replaced_round(total: int, mu: float) -> ExplicitPair:
    """A pair that dominates a round whose record, used once in `total` steps, is replaced: the hull of its curve."""
    deviation = math.sqrt((2 * math.expm1(mu * mu) - 2 * math.expm1(-mu * mu)) / total)
    epsilons, step = [0.0], _FINE * deviation
    deltas = [replaced_delta(total, mu, 0.0)]
    # The errors of the transform end the curve where it no longer falls.
    while len(epsilons) < _MOST_POINTS and deltas[-1] > _FLOOR and (len(deltas) < 3 or deltas[-1] < 0.9 * deltas[-2]):
        epsilons.append(epsilons[-1] + step)
        deltas.append(min(deltas[-1], replaced_delta(total, mu, epsilons[-1])))
        step *= 1.04 if epsilons[-1] < 6 * deviation else 1.25
    return pair_from_curve(np.array(epsilons), np.minimum(deltas, 1.0))


def replaced_delta(total: int, mu: float, epsilon: float) -> float:
    """delta(epsilon) of such a round, rounded up."""
    y = math.exp(epsilon)
    spacing = 2 * y * _spacing(mu)
    high = math.exp(mu * (mu + quantile(_CUT)) - mu * mu / 2)
    first, last = -math.ceil(y * high / spacing), math.ceil(high / spacing)
    edges = np.arange(first, last + 1, dtype=np.float64) * spacing
    # s = e^(mu z) is the positive root of s^2 - e^(mu^2 / 2) w s - y; whichever form does not cancel.
    scaled = edges * math.exp(mu * mu / 2)
    root = np.sqrt(scaled * scaled + 4 * y)
    logs = np.log(np.where(scaled >= 0, (scaled + root) / 2, 2 * y / (root - np.minimum(scaled, 0.0))))
    z = logs / mu
    (q, q_error), (p, p_error), (o, o_error) = (normal_mass(z, mean) for mean in (0.0, mu, -mu))
    points = at_both_ends(edges, q, p - y * o, spacing)
    # Beyond the ends: everything below counts at the first point, a larger value; above, its mean is lost.
    points[0] += below(float(z[0]), 0.0)
    points[-1] += above(float(z[-1]), 0.0)
    size = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    off = 16 * UNIT_ROUNDOFF * (1 + np.abs(logs) + mu * mu) / mu
    moved = off * (np.exp(-((z - mu) ** 2) / 2) + y * np.exp(-((z + mu) ** 2) / 2))
    wrong = p_error + y * o_error + size * q_error + 16 * UNIT_ROUNDOFF * (p + y * o + size * q)
    start, masses, error = summed(GridLaw(spacing, first, points, 0.0, 0.0, 0.0, 1e-15, 0.0), total)
    values = (start + np.arange(len(masses))) * (spacing / total)
    gained = float((np.maximum(values, 0.0) * masses).sum()) * (1 + 1e-12)
    most = max(float(values[-1]), 0.0)
    lost = above(float(z[-1]), mu) + _OUTSIDE * (1 + float(edges[-1]))
    return gained + error * most + lost + float(wrong.sum() + 2 * moved.sum())
