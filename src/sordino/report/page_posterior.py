"""The figures of a posterior: intervals side by side, and a density with its draws for each parameter."""

import numpy as np
from markupsafe import Markup

from sordino.report.coefficients import LEVEL, MOST_DENSITIES, Marginal, Values
from sordino.report.page_svg import Frame, grouped, horizontal_axis, path, polyline, svg, text
from sordino.report.svg_axis import Axis

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
