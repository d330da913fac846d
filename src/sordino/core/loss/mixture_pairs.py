"""Pairs that are mixtures: of Gaussians whose component is public or hidden, and of other pairs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
from scipy import special

from sordino.core import binomial, validate
from sordino.core.arrays import Array
from sordino.core.gaussian import UNIT_ROUNDOFF, narrow, up
from sordino.core.loss.discretise import NO_ATOMS, Atoms, Bins, IntervalPair
from sordino.core.loss.evaluate import Cumulant, law_on_grid
from sordino.core.loss.normal_pairs import exponent_of, log_mixture, normal_mass, quantile
from sordino.core.loss.pair import Factors, GridLaw, Pair, Request, Side, Uses, mixture, register
from sordino.core.spec.fields import Contradiction, Number, Numbers, Several
from sordino.core.validate import NON_NEGATIVE

_SKETCH = np.linspace(-9.0, 9.0, 73)
_FAR_SKETCH = np.linspace(-38.0, 38.0, 305)
_NEGLIGIBLE = 1e-13  # components rarer than this do not steer the computation; they count in every bound all the same
_SMALLEST_MU = 1e-100
_REACH = 40.0  # deviations beyond which a normal tail is 0 in floating point


Weights = Annotated[tuple[float, ...], Numbers(Number(NON_NEGATIVE))]


def _misfits(weights: tuple[float, ...], weighed: tuple[object, ...], name: str) -> Iterator[Contradiction]:
    if len(weights) != len(weighed):
        yield Contradiction("weights", f"to be {len(weighed)}, as many as {name}", len(weights))
    elif abs(math.fsum(weights) - 1) > 1e-12:
        yield Contradiction("weights", "to add to 1", math.fsum(weights))


@register("gaussian-mixture")
class GaussianMixturePair(IntervalPair):
    """N(mu_j, 1) against N(0, 1) with probability weights[j], j revealed: delta is the average of theirs; symmetric."""

    weights: Weights
    mus: Weights

    def contradictions(self) -> Iterator[Contradiction]:
        yield from _misfits(self.weights, self.mus, "mus")
        if not max(self.mus) > 0.0:
            yield Contradiction("mus", "to have one above 0", max(self.mus))

    def atoms(self) -> Atoms:
        still = math.fsum(weight for weight, mu in zip(self.weights, self.mus, strict=True) if mu == 0.0)
        return Atoms(np.zeros(1), np.array([still])) if still > 0 else NO_ATOMS

    def support(self, tail: float) -> tuple[float, float]:
        weights, mus = self._moving()
        reach = quantile(min(tail, 0.25))
        high = _quantile(lambda loss: float(weights @ special.ndtr(mus / 2 - loss / mus)), tail, mus, reach)
        low = _quantile(lambda loss: float(weights @ special.ndtr(-mus / 2 - loss / mus)), tail, -mus, reach)
        return -low, high

    def bins(self, edges: Array) -> Bins:
        weights, mus = self._moving()
        # Beyond the reach of a component's normals its bins hold nothing, not even a denormal.
        ends = mus * mus / 2 + mus * _REACH
        firsts = np.maximum(np.searchsorted(edges, -ends) - 1, 0)
        lasts = np.minimum(np.searchsorted(edges, ends) + 1, len(edges))
        sums = np.zeros((4, len(edges) - 1))
        for weight, mu, first, last in zip(weights, mus, firsts, lasts, strict=True):
            if last - first > 1:
                locations = edges[first:last] / mu
                parts = (*normal_mass(locations, mu / 2), *normal_mass(locations, -mu / 2))
                for total, part in zip(sums, parts, strict=True):
                    total[first : last - 1] += weight * part
        p, p_error, q, q_error = sums
        below = float(weights @ special.ndtr(edges[0] / mus - mus / 2)) * (1 + 1e-12)
        above = float(weights @ special.ndtr(mus / 2 - edges[-1] / mus)) * (1 + 1e-12)
        # Each sum over the components is rounded once per component.
        slack = 4e-16 * len(mus)
        return Bins(p, q, below, above, p_error + slack * p, q_error + slack * q)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        points, negligible = (_FAR_SKETCH, 0.0) if far else (_SKETCH, _NEGLIGIBLE)
        weights, mus = self._moving()
        common = weights > negligible
        weights, mus = weights[common], mus[common]
        losses = (mus * mus / 2)[:, None] + mus[:, None] * points
        masses = weights[:, None] * np.exp(-points * points / 2) * (points[1] - points[0]) / math.sqrt(2 * math.pi)
        atoms = self.atoms()
        return np.append(losses.ravel(), atoms.losses), np.append(masses.ravel(), atoms.masses)

    def _moving(self) -> tuple[Array, Array]:
        """Weights and mus of the components that move, mus rounded up to where quotients by them stay finite."""
        weights, mus = np.asarray(self.weights), np.asarray(self.mus)
        return weights[mus > 0], np.maximum(mus[mus > 0], _SMALLEST_MU)


def _quantile(above: Callable[[float], float], tail: float, mus: Array, reach: float) -> float:
    """A loss with P(loss > it) <= tail; `mus` are signed, so that the left end is the right end of -loss."""
    low, high = -float(np.max(mus * mus)) - 1.0, float(np.max(mus * np.abs(mus) / 2 + np.abs(mus) * reach))
    return narrow(lambda loss: above(loss) <= tail, low, high, 0.0, 60)[1]


_MOST_USES, _RARE_USES = 64, 1e-20  # uses that are distinguished; rarer ones count as certain loss
_STEPS = 60  # of Newton's method, which falls onto the root of a convex function from above


@register("random-shift")
class RandomShiftPair(IntervalPair):
    """The mixture of N(s_j, 1) with probabilities weights[j] against N(0, 1), j hidden; all s_j >= 0, some above 0."""

    mirror: ClassVar = "random-shift-add"
    weights: Weights
    shifts: Weights

    def contradictions(self) -> Iterator[Contradiction]:
        misfits = tuple(_misfits(self.weights, self.shifts, "shifts"))
        yield from misfits
        if not misfits and len(self._moving[1]) == 0:
            yield Contradiction("shifts", "to have one above 0 with a weight above 0", max(self.shifts))

    @property
    def _moving(self) -> tuple[Array, Array]:
        pairs = [(w, s) for w, s in zip(self.weights, self.shifts, strict=True) if s > 0 and w > 0]
        return np.array([w for w, _ in pairs]), np.array([s for _, s in pairs])

    @property
    def _still(self) -> float:
        return math.fsum(weight for weight, shift in zip(self.weights, self.shifts, strict=True) if shift == 0.0)

    def rounding(self, largest: float) -> float:
        weights, shifts = self._moving
        share = min(1.0, float(weights.sum()) - math.expm1(-largest))
        return 16 * share * float(np.max(shifts * (shifts + _REACH) - np.log(weights)))

    def support(self, tail: float) -> tuple[float, float]:
        reach = quantile(tail)
        low, high = self._loss(np.array([-reach, max(self.shifts) + reach]))
        return float(low), float(high)

    def _loss(self, z: Array) -> Array:
        return self._loss_and_slope(z)[0]

    def _loss_and_slope(self, z: Array) -> tuple[Array, Array]:
        weights, shifts = self._moving
        terms = [math.log(w) + s * (z - s / 2) for w, s in zip(weights.tolist(), shifts.tolist(), strict=True)]
        still, peak = self._still, np.maximum.reduce(terms)
        total, rising = np.zeros_like(z), np.zeros_like(z)
        if still > 0:
            peak = np.maximum(peak, math.log(still))
            total += np.exp(math.log(still) - peak)
        for term, shift in zip(terms, shifts.tolist(), strict=True):
            part = np.exp(term - peak)
            total += part
            rising += shift * part
        return peak + np.log(total), rising / total

    def _location(self, losses: Array) -> tuple[Array, Array]:
        """The points with given losses, and bounds on their errors; -inf below the smallest loss."""
        weights, shifts = self._moving
        with np.errstate(divide="ignore", invalid="ignore"):
            left = losses + np.log1p(-np.minimum(self._still * np.exp(-np.maximum(losses, -700.0)), 1.0))
            z = np.min([(left - np.log(w)) / s + s / 2 for w, s in zip(weights, shifts, strict=True)], axis=0)
        inside = np.isfinite(z)
        at, wanted = z[inside], losses[inside]
        for _ in range(_STEPS):
            reached, slope = self._loss_and_slope(at)
            step = (reached - wanted) / np.maximum(slope, 1e-300)
            at = at - np.maximum(step, 0.0)
            if not np.any(step > 1e-14 * (1 + np.abs(at))):
                break
        reached, slope = self._loss_and_slope(at)
        missed = np.abs(reached - wanted) / np.maximum(slope, 1e-300)
        errors = np.zeros_like(z)
        z[inside], errors[inside] = at, missed + 4e-16 * (1 + np.abs(at))
        return z, errors

    def bins(self, edges: Array) -> Bins:
        z, errors = self._location(edges)
        p, p_error = self._masses(z, errors)
        q, q_error = _shifted_masses(z, errors, 0.0)
        weights, shifts = np.asarray(self.weights), np.asarray(self.shifts)
        below = float(weights @ special.ndtr(z[0] + errors[0] - shifts)) * (1 + 1e-12)
        above = float(weights @ special.ndtr(shifts - z[-1] + errors[-1])) * (1 + 1e-12)
        return Bins(p, q, below, above, p_error, q_error)

    def _masses(self, z: Array, errors: Array) -> tuple[Array, Array]:
        used = [(weight, shift) for weight, shift in zip(self.weights, self.shifts, strict=True) if weight > 0]
        parts = [(weight, *_shifted_masses(z, errors, shift)) for weight, shift in used]
        mass = np.sum([weight * mass for weight, mass, _ in parts], axis=0)
        error = np.sum([weight * error for weight, _, error in parts], axis=0)
        return mass, error + 4e-16 * len(parts) * mass

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        common = [s for w, s in zip(self.weights, self.shifts, strict=True) if w > _NEGLIGIBLE]
        z = np.unique(np.concatenate([_SKETCH + shift for shift in {0.0, *common}]))
        middle = np.concatenate([[z[0]], (z[1:] + z[:-1]) / 2, [z[-1]]])
        return self._loss(z), self._masses(middle, np.zeros_like(middle))[0]


def _shifted_masses(z: Array, errors: Array, mean: float) -> tuple[Array, Array]:
    """Masses of N(mean, 1) between points, with what an error of the points adds to theirs."""
    mass, error = normal_mass(z, mean)
    near = np.maximum(np.where(np.isfinite(z), np.abs(z - mean), np.inf) - errors, 0.0)
    density = np.where(np.isfinite(z), np.exp(-(np.minimum(near, _REACH) ** 2) / 2) * errors, 0.0)
    return mass, error + density[1:] + density[:-1]


@register("random-shift-add")
class RandomShiftAddPair(RandomShiftPair):
    """N(0, 1) against the mixture of N(-s_j, 1), mirrored so that the loss increases: the reverse of a random shift."""

    mirror: ClassVar = "random-shift"

    @property
    def largest_loss(self) -> float:
        if self._still == 0.0:
            return math.inf
        # Near 1 by what it lacks, which is known better.
        return up(-math.log(self._still) if self._still < 0.5 else -math.log1p(-math.fsum(self._moving[0])), 8)

    def support(self, tail: float) -> tuple[float, float]:
        reach = quantile(tail)
        low, high = -self._loss(np.array([reach, -reach]))
        return float(low), float(high)

    def bins(self, edges: Array) -> Bins:
        z, errors = self._location(-edges[::-1])
        z, errors = -z[::-1], errors[::-1]
        p, p_error = _shifted_masses(z, errors, 0.0)
        q, q_error = (found[::-1] for found in self._masses(-z[::-1], errors[::-1]))
        below = float(special.ndtr(z[0] + errors[0])) * (1 + 1e-12)
        return Bins(p, q, below, float(special.ndtr(-z[-1] + errors[-1])) * (1 + 1e-12), p_error, q_error)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        middle = np.concatenate([[_SKETCH[0]], (_SKETCH[1:] + _SKETCH[:-1]) / 2, [_SKETCH[-1]]])
        return -self._loss(-_SKETCH), normal_mass(middle, 0.0)[0]


@register("with-replacement")
class WithReplacementPair(IntervalPair):
    """`size` records drawn with replacement from `records`, each use moving a Gaussian by mu; replace-one, symmetric.

    With w_k the probability of k uses and q = 1 - w_0, delta(ln(1 + q (e^epsilon - 1))) = sum over k >= 1 of w_k
    delta_(k mu)(epsilon), for epsilon >= 0 (Balle, Barthe & Gaboardi 2018, Theorem 10); the rest has loss 0.
    """

    size: Annotated[int, validate.COUNT]
    records: Annotated[int, validate.Interval(2, 2**53)]
    mu: Annotated[float, validate.POSITIVE]

    @property
    def rate(self) -> float:
        return -math.expm1(self.size * math.log1p(-1 / self.records))

    @property
    def _base(self) -> "GaussianMixturePair":
        counts, weights, _ = _uses(self.size, self.records)
        return GaussianMixturePair(weights, tuple(count * self.mu for count in counts))

    @property
    def infinite(self) -> float:
        return _uses(self.size, self.records)[2]

    def rounding(self, largest: float) -> float:
        return -16 * min(1.0, self.rate - math.expm1(-largest)) * math.log(self.rate)

    def atoms(self) -> Atoms:
        base = self._base
        weights, mus = np.asarray(base.weights), np.asarray(base.mus)
        return Atoms(np.zeros(1), np.array([(1 - self.rate) * float(weights @ special.erf(mus / math.sqrt(8)))]))

    def support(self, tail: float) -> tuple[float, float]:
        high = float(log_mixture(self.rate, np.array([self._base.support(tail)[1]]))[0])
        return -high, high

    def bins(self, edges: Array) -> Bins:
        """Bins of the half above 0, and their mirror image; 0 must be an edge."""
        up_edges, down_edges = np.maximum(edges, 0.0), np.maximum(-edges[::-1], 0.0)
        high, low = self._half(up_edges), self._half(down_edges)
        upper = edges[:-1] >= 0
        p, p_error = np.where(upper, high.p, low.q[::-1]), np.where(upper, high.p_error, low.q_error[::-1])
        q, q_error = np.where(upper, high.q, low.p[::-1]), np.where(upper, high.q_error, low.p_error[::-1])
        below = float(np.asarray(self._base.weights) @ special.ndtr(-self._ends(-edges[0]))) * (1 + 1e-12)
        return Bins(p, q, below, high.p_above, p_error, q_error)

    def _ends(self, loss: float) -> Array:
        """How far out each component of the second law of the base lies at a loss."""
        mus = np.asarray(self._base.mus)
        at = float(exponent_of(self.rate, np.array([max(loss, 0.0)]))[0])
        return at / mus + mus / 2

    def _half(self, edges: Array) -> Bins:
        base, rate = self._base.bins(exponent_of(self.rate, edges)), self.rate
        p = (1 - rate) * base.q + rate * base.p
        # Above the last edge: both laws of the base, the second one below the first.
        second = float(np.asarray(self._base.weights) @ special.ndtr(-self._ends(edges[-1])))
        beyond = rate * base.p_above + (1 - rate) * second * (1 + 1e-12)
        return Bins(p, base.q, 0.0, beyond, (1 - rate) * base.q_error + rate * base.p_error + 4e-16 * p, base.q_error)

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        return self.binned(np.unique(np.concatenate([np.linspace(*self.support(1e-12), 400), [0.0]])))


@lru_cache(maxsize=64)
def _uses(size: int, records: int) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Numbers of uses, rounded up onto few, their chances given that there are some, and that of more uses."""
    some = -math.expm1(size * math.log1p(-1 / records))
    low, high = binomial.window(size, 1 / records, _RARE_USES * some)
    low, high = max(low, 1), max(high, 1)
    ends = np.unique(np.linspace(low, high, min(high - low + 1, _MOST_USES)).round())
    chances, more = binomial.law_above(ends, size, 1 / records, some)
    weights = chances / chances.sum()
    weights[0] += 1 - math.fsum(weights)
    # The rate itself, and the weights, are off by a few units of rounding.
    return tuple(ends.tolist()), tuple(weights.tolist()), min(1.0, more + 64 * UNIT_ROUNDOFF * some)


_SKETCH_RESOLUTION, _SKETCHED = 6.0, 200_000  # points of a deviation, and of all
_NARROWEST = 1e-3


@register("mixture")
class MixturePair(Pair):
    """Component j, a composition of pairs, with probability weights[j]; its loss law is the average of theirs."""

    weights: Weights
    components: Annotated[tuple[Factors, ...], Several(Uses())]

    def contradictions(self) -> Iterator[Contradiction]:
        return _misfits(self.weights, self.components, "components")

    def reversed(self) -> Pair:
        mirrored = tuple(tuple((pair.reversed(), count) for pair, count in factors) for factors in self.components)
        return self if mirrored == self.components else MixturePair(self.weights, mirrored)

    @property
    def infinite(self) -> float:
        return sum(
            weight * -math.expm1(sum(count * math.log1p(-min(pair.infinite, 1 - 1e-16)) for pair, count in factors))
            for weight, factors in zip(self.weights, self.components, strict=True)
        )

    @property
    def parts(self) -> int:
        return len(self.components)

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        # `tail` is for one use of this pair; a component shares it among its own uses.
        uses = max(1, *(sum(count for _, count in factors) for factors in self.components))
        share = replace(request, tail=max(request.tail / uses, 1e-300))
        scales = [Cumulant.of(factors).scales(request.tilt) for factors in self.components]
        parts = zip(self.components, scales, strict=True)
        return mixture(self.weights, [law_on_grid(factors, share, spacing, sizes) for factors, sizes in parts])

    def sketch(self, *, far: bool = False) -> tuple[Array, Array]:
        return _sketch(self, 1e-300 if far else 1e-30)


@lru_cache(maxsize=1024)
def _sketch(pair: MixturePair, tail: float) -> tuple[Array, Array]:
    scales = [Cumulant.of(factors).scales(0.0) for factors in pair.components]
    widths = [
        math.sqrt(sum(count * scale**2 for (_, count), scale in zip(factors, sizes, strict=True)))
        for factors, sizes in zip(pair.components, scales, strict=True)
    ]
    positive = [width for width in widths if width > 0]
    # A component far narrower than another one steers nothing, and its grid would have no end.
    spans = [sum(count * float(np.abs(one.sketch()[0]).max()) for one, count in factors) for factors in pair.components]
    least = _NARROWEST * max(*positive, 0.01 * max(spans)) if positive else 0.0
    spacing = max(max(min(positive), least) / _SKETCH_RESOLUTION, 2 * max(spans) / _SKETCHED) if positive else 1.0
    request = Request(Side.UPPER, 0.0, _SKETCH_RESOLUTION, tail)
    parts = zip(pair.components, scales, strict=True)
    law = mixture(pair.weights, [law_on_grid(factors, request, spacing, sizes) for factors, sizes in parts])
    return law.losses, law.masses
