"""The figures of a posterior: intervals side by side, and a density with its draws for each parameter."""

import math

import numpy as np
from markupsafe import Markup

from sordino.auditing.lower_bound import Examined, LowerBound
from sordino.core.bound import Bound
from sordino.core.gaussian import show_down, show_up
from sordino.report.charts import Axis, label
from sordino.report.coefficients import LEVEL, MOST_DENSITIES, Marginal, Values
from sordino.report.page_chart import (
    AUDITED,
    CERTIFIED,
    REFERENCE,
    Chart,
    Drawn,
    Frame,
    Series,
    draw,
    grouped,
    horizontal_axis,
    path,
    polyline,
    svg,
    text,
)
from sordino.report.steps import Sandwich, crossing_notes

# More than these make a figure that nobody reads; the table has them all.
MOST_INTERVALS = 30
MOST_TICKS_OF_DRAWS, MOST_DOTS = 120, 60
_ROW, _LONGEST_NAME = 22.0, 22


def intervals_figure(ident: str, marginals: tuple[Marginal, ...], levels: tuple[str, ...] = ()) -> Markup:
    """One row for each parameter: inner and outer interval and mean, or the draws where there are few.

    `levels` is what stands beside the intervals, for whoever hears the figure instead of seeing the page.
    """
    shown = marginals[:MOST_INTERVALS]
    frame = Frame(width=460, height=_ROW * len(shown) + 46, left=180, top=6, bottom=40)
    x = Axis.over(_extent(shown), *frame.across, logarithmic=False)
    parts = [*horizontal_axis(frame, x, "value of the parameter, encoded columns")]
    if x.low < 0 < x.high:
        parts.append(path(f"M{x.at(0.0):.1f} {frame.top:g}V{frame.up[0]:g}", "zero"))
    for place, marginal in enumerate(shown):
        at = frame.top + _ROW * (place + 0.5)
        parts.append(grouped(marginal.name, [text(frame.left - 8, at + 4, _short(marginal.name), "name", "end")]))
        parts.append(grouped(_sentence(marginal), _row(marginal, x, at)))
    description = ". ".join([*levels, *(_sentence(marginal) for marginal in shown)])
    return svg(frame, ident, "Intervals of the parameters", description, parts)


def _extent(shown: tuple[Marginal, ...]) -> list[float]:
    ends = [end for one in shown if one.outer is not None for end in one.outer]
    return [*ends, *(one.mean for one in shown), *(float(v) for one in shown if one.outer is None for v in one.draws)]


def _row(marginal: Marginal, x: Axis, at: float) -> list[Markup]:
    parts = []
    if marginal.outer is not None and marginal.inner is not None:
        (a, b), (c, d) = marginal.outer, marginal.inner
        parts.append(path(f"M{x.at(a):.1f} {at:.1f}H{x.at(b):.1f}", "outer"))
        parts.append(path(f"M{x.at(c):.1f} {at:.1f}H{x.at(d):.1f}", "inner"))
    elif len(marginal.draws) > 1:
        parts += [_dot(x.at(float(value)), at, "draw") for value in marginal.draws[:MOST_DOTS]]
    return [*parts, _dot(x.at(marginal.mean), at, "mean")]


def _dot(a: float, b: float, kind: str) -> Markup:
    return Markup('<circle cx="{a:.1f}" cy="{b:.1f}" r="{r:g}" class="{kind}"/>').format(
        a=a, b=b, r=3.6 if kind == "mean" else 2.6, kind=kind
    )


def _sentence(marginal: Marginal) -> str:
    if marginal.outer is None:
        return f"{marginal.name}: {marginal.mean:.3g}"
    low, high = marginal.outer
    return f"{marginal.name}: mean {marginal.mean:.3g}, {100 * LEVEL:g} % interval, nominal, {low:.3g} to {high:.3g}"


def _short(name: str) -> str:
    """Both ends of a long name: the column before, the category, class or component behind."""
    half = (_LONGEST_NAME - 1) // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[: half + 1]}…{name[-half:]}"


def density_figures(ident: str, marginals: tuple[Marginal, ...]) -> tuple[tuple[str, Markup], ...]:
    """Name and small figure for the first parameters that have a density."""
    shown = [one for one in marginals if one.density is not None][:MOST_DENSITIES]
    return tuple((one.name, _density(f"{ident}-{place}", one)) for place, one in enumerate(shown))


def _density(ident: str, marginal: Marginal) -> Markup:
    frame = Frame(width=220, height=112, left=10, right=10, top=6, bottom=26)
    grid, heights = marginal.density or (np.zeros(2), np.zeros(2))
    x = Axis(float(grid[0]), float(grid[-1]), *frame.across, logarithmic=False)
    y = Axis(0.0, float(heights.max()) * 1.04, *frame.up, logarithmic=False)
    curve = list(zip(grid.tolist(), heights.tolist(), strict=True))
    closed = [(curve[0][0], 0.0), *curve, (curve[-1][0], 0.0)]
    floor = frame.up[0]
    parts = [path(polyline(closed, x, y) + "Z", "density"), path(polyline(curve, x, y), "line certified")]
    parts.append(path(f"M{frame.left:g} {floor:g}H{frame.across[1]:g}", "axis"))
    parts.append(path("".join(f"M{x.at(float(v)):.1f} {floor:g}v-5" for v in _rug(marginal.draws, x)), "rug"))
    parts.append(path(f"M{x.at(marginal.mean):.1f} {floor:g}V{frame.top + 4:g}", "zero"))
    for value, anchor in ((x.low, "start"), (marginal.mean, "middle"), (x.high, "end")):
        parts.append(text(x.at(value), floor + 16, f"{value:.2g}", "tick", anchor))
    title = f"Density of {marginal.name}"
    return svg(frame, ident, title, _sentence(marginal), parts)


def _rug(draws: Values, x: Axis) -> Values:
    inside = draws[(draws >= x.low) & (draws <= x.high)]
    return inside[:: max(1, len(inside) // MOST_TICKS_OF_DRAWS)]


# The figures of the sandwich: one bar, against steps, and as trade-off curves.

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
