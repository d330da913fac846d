"""The noise of Theorem 9's formula under every reading of what Section 5 leaves open, beside the printed one."""

import itertools
import math
from dataclasses import dataclass, replace

from papers.framework.item import Cell, NotProved, Table
from papers.simsekli.setting import DIM, LINEAR, Setting
from sordino.accounting.bounds.heavy_tail import Dissipative, Lyapunov, corrected_bound, lyapunov
from sordino.core.gaussian import least_true

_LEAST, _MOST = 1e-6, 10.0
# How far the start is from the stable point, which weighs in kappa: at it, at the origin, drawn from N(0, I).
_STARTS = {"at the stable point": 0.0, "at the origin": 1.0, "N(0, I)": math.sqrt(DIM)}
# Rows of linear regression: |x|^2 from the step size that is said to be the largest, |a| alone, or a and b together.
_SQUARES = {"from the step size": math.sqrt(5 / 0.12) - 5, "|a| = 1": 1.0, "|a|^2 + |b|^2 <= 2": 2.0}
_SHOWN = 10


def stated_bound(constants: Lyapunov, rate: float, n: int) -> float:
    """(3 kappa M / (1 - rho)) (1/n) log(n/M), equation (18); 1 outside n > 3 (M + 1), the theorem's condition."""
    if not n > 3 * (constants.distance + 1):
        return 1.0
    return min(1.0, 3 * constants.weight * constants.distance / (1 - rate) / n * math.log(n / constants.distance))


@dataclass(frozen=True)
class Reading:
    """One way to fill what is not printed."""

    universal_point: bool
    start: str
    kept: bool
    rows: str

    def scale(self, setting: Setting, alpha: float) -> float:
        """The sigma that this reading asks for; the largest that is tried where it never meets the budget."""
        loss = _constants(setting, self.rows)

        def enough(scale: float) -> bool:
            found = lyapunov(
                loss, alpha, scale, setting.step, DIM, _STARTS[self.start], universal_point=self.universal_point
            )
            bound = corrected_bound(found, 1.0, found.rate, setting.n) if self.kept else None
            return (stated_bound(found, found.rate, setting.n) if bound is None else bound) <= setting.delta

        return least_true(enough, _LEAST, _MOST) if enough(_MOST) else _MOST


def _constants(setting: Setting, rows: str) -> Dissipative:
    if setting.name != LINEAR.name:
        return setting.constants
    square = _SQUARES[rows]
    length = 2 * math.sqrt(square)
    return replace(setting.constants, K1=square + setting.decay, K2=length, B=square, D=length)


def readings(setting: Setting) -> tuple[Reading, ...]:
    """Every combination; only linear regression leaves the length of its rows open."""
    rows = tuple(_SQUARES) if setting.name == LINEAR.name else ("unit rows",)
    return tuple(Reading(*one) for one in itertools.product((True, False), _STARTS, (False, True), rows))


@dataclass(frozen=True)
class Tried:
    """A reading with its noise at alpha = 2 and 1.6, and how far the worse of them is from what is printed."""

    reading: Reading
    scales: tuple[float, float]
    off: float


def tried(setting: Setting, printed: tuple[float, float]) -> tuple[Tried, ...]:
    """All readings, the nearest to the printed noise first."""
    found = []
    for reading in readings(setting):
        scales = reading.scale(setting, 2.0), reading.scale(setting, 1.6)
        off = max(max(ours / said, said / ours) for ours, said in zip(scales, printed, strict=True))
        found.append(Tried(reading, scales, off))
    return tuple(sorted(found, key=lambda one: one.off))


def variants_table(found: tuple[Tried, ...]) -> Table:
    """The nearest readings."""
    rows: list[tuple[Cell, ...]] = [
        (
            "(17)" if one.reading.universal_point else "(16)",
            one.reading.start,
            "kept, C = 1" if one.reading.kept else "dropped",
            one.reading.rows,
            NotProved(one.scales[0]),
            NotProved(one.scales[1]),
            f"{one.off:.2f}",
        )
        for one in found[:_SHOWN]
    ]
    columns = ("H", "start", "the factor", "rows", "sigma, alpha = 2", "sigma, alpha = 1.6", "off by a factor")
    caption = (
        f"What Section 5 leaves open, filled in {len(found)} ways: the {len(rows)} whose noise is nearest to the "
        "printed one, by the worse of the two tail indices."
    )
    return Table("variants", columns, tuple(rows), caption)
