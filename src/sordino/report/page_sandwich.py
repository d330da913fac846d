"""The figures of the sandwich: one bar, against steps, and as trade-off curves."""

import math

import numpy as np
from markupsafe import Markup

from sordino.audit.lower_bound import Examined, LowerBound
from sordino.core.bound import Bound
from sordino.core.rounding import show_down, show_up
from sordino.report.page_chart import AUDITED, CERTIFIED, REFERENCE, Chart, Drawn, Series, draw
from sordino.report.page_svg import Frame, horizontal_axis, path, svg, text
from sordino.report.sandwich import Sandwich
from sordino.report.steps_figure import crossing_notes
from sordino.report.svg_axis import Axis, label

# Both ends of a trade-off curve are steep: as many points near 0 and 1 as between.
_SIZES = np.sin(np.linspace(0.0, np.pi / 2, 41)) ** 2
_WIDE = 12.0
_SOURCES = {Examined.DESCRIPTION: "description", Examined.RUN: "attack"}
# Lines of theorems that lost, besides the tightest.
_MOST_LINES = 5
# A line that lost by far leaves the figure, so that the sandwich keeps its height.
_TALLEST = 3.0


def bar_figure(ident: str, epsilon: float, found: LowerBound | None) -> Markup:
    """Where epsilon lies: not below what is known to leak, not above what is certified."""
    lower = None if found is None else found.epsilon
    frame = Frame(width=460, height=104, left=14, right=14, top=30, bottom=36)
    finite = [value for value in (epsilon, lower) if value is not None and math.isfinite(value)]
    x = Axis.over([0.0, max([*finite, 1e-9]) * 1.05], *frame.across, logarithmic=False)
    floor, top = frame.up[0] - 8, frame.top + 4
    end = x.at(epsilon) if math.isfinite(epsilon) else frame.across[1]
    begin = x.at(lower) if lower is not None and math.isfinite(lower) else x.at(0.0)
    parts = [*horizontal_axis(frame, x, "", grid=False)]
    parts.append(path(f"M{x.at(0.0):.1f} {top:g}H{begin:.1f}V{floor:g}H{x.at(0.0):.1f}Z", "excluded"))
    parts.append(path(f"M{min(begin, end):.1f} {top:g}H{max(begin, end):.1f}V{floor:g}H{min(begin, end):.1f}Z", "band"))
    words = []
    if math.isfinite(epsilon):
        parts += [path(f"M{end:.1f} {top - 6:g}V{floor + 4:g}", "line certified")]
        parts += [text(end, top - 11, f"certified ≤ {show_up(epsilon)}", "certified", _anchor(end, frame))]
        words.append(f"certified at most {show_up(epsilon)}")
    if lower is not None and math.isfinite(lower):
        parts += [path(f"M{begin:.1f} {top - 2:g}V{floor + 8:g}", "line audited")]
        source = _SOURCES[found.examined] if found is not None else ""
        words.append(f"{source} at least {show_down(lower)}")
        middle = (top + floor) / 2 + 4
        room = begin - x.at(0.0)
        # Inside the bar, on whichever side of the mark has room.
        where, side = (begin - 6, "end") if room > 120 else (begin + 6, "start")
        parts.append(text(where, middle, f"{source} ≥ {show_down(lower)}", "audited", side))
    return svg(frame, ident, "Where epsilon lies", "; ".join(words) or "nothing is known", parts)


def tests_found(lower: LowerBound) -> str:
    """What the tests on a trade-off curve are."""
    if lower.examined is Examined.DESCRIPTION:
        return "tests that the description allows"
    return f"tests the {lower.method} audit found"


def _anchor(at: float, frame: Frame) -> str:
    if at > frame.width - 90:
        return "end"
    return "start" if at < 90 else "middle"


def steps_chart(ident: str, found: Sandwich) -> Drawn:
    """The tightest certificate and the exact lower bound against steps, the other theorems behind them."""
    curves = found.curves
    upper = found.upper
    values = [value for _, value in (*upper, *found.lower) if math.isfinite(value) and value > 0]
    lines = [Series("certified: the tightest at each step", upper, CERTIFIED)]
    if found.lower:
        lines.append(Series("the description leaks at least (exact, extremal instance)", found.lower, AUDITED))
    # A theorem that is the tightest everywhere is the certified line itself.
    tightest = tuple(value for _, value in upper)
    ceiling = _TALLEST * max(value for _, value in upper if math.isfinite(value))
    others = [Series(name, _points(curves.steps, line, ceiling)) for name, line in curves.epsilons if line != tightest]
    lines += [one for one in others if any(math.isfinite(value) for _, value in one.points)][:_MOST_LINES]
    return draw(
        Chart(
            ident,
            "Epsilon against the number of steps",
            curves.counted,
            f"epsilon at delta {label(curves.delta)}",
            tuple(lines),
            crossing_notes(curves),
            log_x=curves.steps[-1] > _WIDE * curves.steps[0],
            log_y=bool(values) and max(values) > _WIDE * min(values),
            whole_x=True,
        )
    )


def _points(steps: tuple[int, ...], line: tuple[float, ...], ceiling: float) -> tuple[tuple[float, float], ...]:
    kept = (value if value <= ceiling else math.inf for value in line)
    return tuple(zip(map(float, steps), kept, strict=True))


def trade_off_chart(ident: str, bound: Bound | None, lower: LowerBound | None) -> Drawn:
    """Errors of the tests that were found, above the errors that the certificate allows."""
    lines = []
    if bound is not None:
        limits = np.asarray(bound.guarantee.beta(_SIZES)).tolist()
        certified = tuple(zip(_SIZES.tolist(), limits, strict=True))
        lines.append(Series("certified: no test is below", certified, CERTIFIED))
    if lower is not None and lower.curve:
        points = sorted((point.false_positive, point.false_negative) for point in lower.curve)
        lines.append(Series(tests_found(lower), tuple(points), AUDITED))
    lines.append(Series("blind guessing", ((0.0, 1.0), (1.0, 0.0)), REFERENCE))
    title = "How well can two neighbours be told apart?"
    return draw(Chart(ident, title, "false positives", "false negatives", tuple(lines)))
