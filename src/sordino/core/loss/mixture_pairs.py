"""Pairs that are mixtures: of Gaussians on a line, and of other pairs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from sordino.core import validate
from sordino.core.arrays import Array
from sordino.core.gaussian import narrow
from sordino.core.loss.discretise import NO_ATOMS, Atoms, Bins, IntervalPair
from sordino.core.loss.evaluate import Cumulant, law_on_grid
from sordino.core.loss.normal_pairs import normal_mass, quantile
from sordino.core.loss.pair import Factors, GridLaw, Pair, Request, Side, mixture, read_factors, register, write_factors
from sordino.core.validate import NON_NEGATIVE, POSITIVE, InputError, number

_SKETCH = np.linspace(-9.0, 9.0, 73)
_FAR_SKETCH = np.linspace(-38.0, 38.0, 305)
_NEGLIGIBLE = 1e-13  # components rarer than this do not steer the computation; they count in every bound all the same
_SMALLEST_MU = 1e-100
_REACH = 40.0  # deviations beyond which a normal tail is 0 in floating point


@register
@dataclass(frozen=True)
class GaussianMixturePair(IntervalPair):
    """The pair N(mu_j, 1) against N(0, 1) with probability weights[j], j revealed: delta is the average of theirs.

    What `MixturePair` says of Gaussians, computed for hundreds of them at once. Symmetric, because each one is.
    """

    kind: ClassVar[str] = "gaussian-mixture"
    weights: tuple[float, ...]
    mus: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.mus) or not self.mus:
            raise InputError(f"Expected as many weights as mus, got {len(self.weights)} and {len(self.mus)}.")
        object.__setattr__(self, "weights", tuple(number("weights", weight, NON_NEGATIVE) for weight in self.weights))
        object.__setattr__(self, "mus", tuple(number("mus", mu, NON_NEGATIVE) for mu in self.mus))
        number("the largest mu", max(self.mus), POSITIVE)
        if abs(math.fsum(self.weights) - 1) > 1e-12:
            raise InputError(f"Expected weights to add to 1, got a sum of {math.fsum(self.weights)!r}.")

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

    def sketch(self) -> tuple[Array, Array]:
        return self._sketched(_SKETCH, _NEGLIGIBLE)

    def far_sketch(self) -> tuple[Array, Array]:
        return self._sketched(_FAR_SKETCH, 0.0)

    def _sketched(self, points: Array, negligible: float) -> tuple[Array, Array]:
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


_SKETCH_RESOLUTION = 6.0


@register
@dataclass(frozen=True)
class MixturePair(Pair):
    """Component j, a composition of pairs, with probability weights[j]; its loss law is the average of theirs."""

    kind: ClassVar[str] = "mixture"
    weights: tuple[float, ...]
    components: tuple[Factors, ...]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.components) or not self.weights:
            raise InputError(
                f"Expected as many weights as components, got {len(self.weights)} and {len(self.components)}."
            )
        for _, count in chain.from_iterable(self.components):
            validate.whole_number("count", count)
        if not (min(self.weights) >= 0 and abs(math.fsum(self.weights) - 1) <= 1e-12):
            raise InputError(f"Expected weights to be non-negative and add to 1, got a sum of {sum(self.weights)}.")

    def reversed(self) -> Pair:
        mirrored = tuple(tuple((pair.reversed(), count) for pair, count in factors) for factors in self.components)
        return self if mirrored == self.components else MixturePair(self.weights, mirrored)

    @property
    def infinite(self) -> float:
        return sum(
            weight * -math.expm1(sum(count * math.log1p(-min(pair.infinite, 1 - 1e-16)) for pair, count in factors))
            for weight, factors in zip(self.weights, self.components, strict=True)
        )

    def on_grid(self, request: Request, spacing: float) -> GridLaw:
        # `tail` is for one use of this pair; a component shares it among its own uses.
        uses = max(1, *(sum(count for _, count in factors) for factors in self.components))
        share = replace(request, tail=max(request.tail / uses, 1e-300))
        scales = [Cumulant.of(factors).scales(request.tilt) for factors in self.components]
        parts = zip(self.components, scales, strict=True)
        return mixture(self.weights, [law_on_grid(factors, share, spacing, sizes) for factors, sizes in parts])

    def sketch(self) -> tuple[Array, Array]:
        return _sketch(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "weights": list(self.weights),
            "components": [write_factors(factors) for factors in self.components],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(tuple(data["weights"]), tuple(map(read_factors, data["components"])))


@lru_cache(maxsize=64)
def _sketch(pair: MixturePair) -> tuple[Array, Array]:
    """A coarse composed law stands in for a closed form."""
    scales = [Cumulant.of(factors).scales(0.0) for factors in pair.components]
    widths = [
        math.sqrt(sum(count * scale**2 for (_, count), scale in zip(factors, sizes, strict=True)))
        for factors, sizes in zip(pair.components, scales, strict=True)
    ]
    positive = [width for width in widths if width > 0]
    spacing = min(positive) / _SKETCH_RESOLUTION if positive else 1.0
    request = Request(Side.UPPER, 0.0, _SKETCH_RESOLUTION, 1e-12)
    laws = [
        law_on_grid(factors, request, spacing, sizes) for factors, sizes in zip(pair.components, scales, strict=True)
    ]
    law = mixture(pair.weights, laws)
    return law.losses, law.masses
