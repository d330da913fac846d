"""A public choice between compositions: the component is drawn independently of the data and revealed."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

from sordino.core import validate
from sordino.core.errors import InputError
from sordino.core.loss import grid_law
from sordino.core.loss.cumulant import Cumulant
from sordino.core.loss.evaluate import Factors, law_on_grid
from sordino.core.loss.grid_law import Array, GridLaw, Side
from sordino.core.loss.pair import Pair, Request, pair_from_dict, register

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
        for factors in self.components:
            for _, count in factors:
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
        laws = [
            law_on_grid(factors, share, spacing, Cumulant.of(factors).scales(request.tilt))
            for factors in self.components
        ]
        return grid_law.mixture(self.weights, laws)

    def sketch(self) -> tuple[Array, Array]:
        return _sketch(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "weights": list(self.weights),
            "components": [
                [{"pair": pair.to_dict(), "count": count} for pair, count in factors] for factors in self.components
            ],
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        components = tuple(
            tuple((pair_from_dict(item["pair"]), item["count"]) for item in factors) for factors in data["components"]
        )
        return cls(tuple(data["weights"]), components)


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
    law = grid_law.mixture(pair.weights, laws)
    return law.losses, law.masses
