"""From a list of (pair, count) to a certified curve: tilt, discretise, convolve, coarsen, convolve again.

Steps are composed in stages. One stage convolves a few hundred copies on a grid fine enough for one copy; the result is
moved to a grid as much coarser as its standard deviation is larger, and the next stage convolves *those*. Arrays keep
their size, so the cost is logarithmic in the number of identical steps.
"""

import math
from dataclasses import replace
from functools import lru_cache

from sordino.core.loss.coarsen import coarsen
from sordino.core.loss.convolve import compose
from sordino.core.loss.cumulant import Cumulant
from sordino.core.loss.curve import Curve
from sordino.core.loss.discretise import LARGEST_LOSS
from sordino.core.loss.grid_law import GridLaw, nothing, unknown
from sordino.core.loss.pair import Pair, Request

Factors = tuple[tuple[Pair, int], ...]

_STAGE_UNITS = 256
_STAGE_FACTOR = 16
_TAIL_SHARE = 1e-7  # of delta, for everything cut off in all steps together
_FINEST = 1e-12
_COARSEST = LARGEST_LOSS / 32  # past this epsilon would be in the thousands, and exp() overflows
_MOST_POINTS = 2**19  # of one use's law
_WIDEST = 4096  # range of one use's law over the width of its bulk; a narrower bulk starts on a coarser grid
_LARGEST_LEAN = 10.0


def curve(factors: Factors, request: Request, cumulant: Cumulant) -> Curve:
    """The privacy curve of the composition, from the requested side."""
    floors = [pair.extent(request.tail) for pair, _ in factors]
    scales = tuple(
        max(scale, floor / _WIDEST, request.resolution * max(floor, reach, _FINEST * _MOST_POINTS) / _MOST_POINTS)
        for scale, floor, reach in zip(
            cumulant.scales(request.tilt), floors, cumulant.reaches(LARGEST_LOSS), strict=True
        )
    )
    total = sum(count * scale * scale for (_, count), scale in zip(factors, scales, strict=True))
    units = sum(count for _, count in factors)
    spacing = math.sqrt(total / min(units, _STAGE_UNITS)) / request.resolution if total > 0 else 1.0
    if spacing > _COARSEST:
        return Curve(unknown(request.side, request.tilt), request.side)
    spacing = _aligned(max(spacing, _FINEST), factors, scales)
    # Neighbouring points differ by exp(tilt * spacing) in weight; a huge factor would only overflow.
    request = replace(request, tilt=min(request.tilt, _LARGEST_LEAN / spacing))
    return Curve(law_on_grid(factors, request, spacing, scales), request.side)


def law_on_grid(factors: Factors, request: Request, spacing: float, scales: tuple[float, ...]) -> GridLaw:
    """The composed law on a given grid; `scales` are the widths of one use of each factor."""
    laws: list[tuple[GridLaw, int]] = []
    for (pair, count), scale in zip(factors, scales, strict=True):
        laws += _powers(pair, count, spacing, max(scale / request.resolution, _FINEST), request)
    return compose(laws) if laws else nothing(spacing, request.tilt)


def tail_for(delta: float, factors: Factors) -> float:
    """Mass that each use of each factor may lose at each end."""
    return max(delta * _TAIL_SHARE / sum(count for _, count in factors), 1e-300)


def _powers(pair: Pair, count: int, spacing: float, unit: float, request: Request) -> list[tuple[GridLaw, int]]:
    """Laws on the grid `spacing` whose composition is `count` uses of `pair`; `unit` is the grid one use wants."""
    if count == 1 or spacing <= 1.5 * unit or unit == 0.0:
        return [(_on_grid(pair, request, spacing), count)]
    factor = min(_STAGE_FACTOR, 1 << max(1, round(math.log2(spacing / unit))))
    group = min(count, max(2, round((spacing / unit) ** 2)))
    laws = []
    for size, uses in ((group, count // group), (count % group, 1)):
        if size:
            fine = compose(_powers(pair, size, spacing / factor, unit, request))
            laws.append((coarsen(fine, factor, request.side), uses))
    return laws


@lru_cache(maxsize=8)
def _on_grid(pair: Pair, request: Request, spacing: float) -> GridLaw:
    """Stages and remainders of one evaluation share the same one-use law."""
    return pair.on_grid(request, spacing)


def _aligned(spacing: float, factors: Factors, scales: tuple[float, ...]) -> float:
    """A nearby spacing that puts the atoms of the weightiest atomic factor on the grid."""
    lattices = [
        (count * scale, pair.lattice)
        for (pair, count), scale in zip(factors, scales, strict=True)
        if pair.lattice is not None
    ]
    if not lattices:
        return spacing
    lattice = max(lattices)[1]
    if lattice is None:
        return spacing
    if spacing <= lattice:
        return lattice / math.ceil(lattice / spacing)
    return lattice * 2 ** math.floor(math.log2(spacing / lattice))
