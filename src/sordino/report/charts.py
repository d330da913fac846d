"""The chart kit: axes with round ticks, small SVG parts, and line charts for a page or as a file of their own.

Parts have classes instead of colours, for one style sheet of light, dark and paper; lines differ in dashes as well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from sordino.inference.contrasts import round_step

Point = tuple[float, float]
Points = tuple[Point, ...]

_MOST_TICKS = 7
_FINE, _MEDIUM = (1, 2, 5), (1, 3)  # within few decades a logarithmic axis also has ticks between the powers of ten

# Roles of lines: the upper and the lower bound, and what they are compared with.
CERTIFIED, AUDITED, REFERENCE = "certified", "audited", "reference"
PAGE_STYLES = 6  # lines without a role that the style sheet of a page distinguishes

# Measures of a chart that is a file of its own. The widest common fonts are this wide for their height.
_LETTER = 0.62
_NARROWEST, _MARGIN = 960.0, 20.0
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 84.0, 78.0, 560.0, 400.0
_LEGEND_LEFT, _SAMPLE, _ROW, _NOTE_ROW = _LEFT + _PLOT_WIDTH + 28, 46.0, 23.0, 20.0
# Wong 2011, darkened where the original is too pale for a thin line on white.
_COLOURS = ("#0072b2", "#c1440e", "#00805a", "#a6428c", "#8a6d00", "#3b3b3b", "#2a8fc4", "#7a1f1f")
_DASHES = ("none", "9 4", "2 3", "11 3 2 3", "5 3", "14 4", "7 3 2 3 2 3")
SHEET = (
    "text{font-family:system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif;font-size:12px;fill:#1a1a1a}"
    "text.heading{font-size:19px;font-weight:600}text.subtitle{font-size:13px;fill:#4d4d4d}"
    "text.title,text.note{font-size:13px}"
    ".paper{fill:#fff}.grid{fill:none;stroke:#e2e2e2}.axis{fill:none;stroke:#1a1a1a}"
    ".line{fill:none;stroke-width:1.9;stroke-linejoin:round}"
    ".between{fill:#cfe0f2;opacity:.75}"
    ".certified{stroke:#1f5fa8;stroke-width:3}.audited{stroke:#b3401a;stroke-width:2.4;stroke-dasharray:7 7}"
    ".reference{stroke:#4d4d4d;stroke-dasharray:2 4}.dot{stroke-width:2;fill:#1a1a1a}"
)


class Axis(NamedTuple):
    """A linear or logarithmic scale from `low` to `high` (both included), drawn from `begin` to `end`."""

    # `whole` says that only whole numbers exist along it, such as steps; then no tick lies between two of them.
    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool
    whole: bool = False

    @classmethod
    def over(
        cls, values: Sequence[float], begin: float, end: float, *, logarithmic: bool, whole: bool = False
    ) -> "Axis":
        """The smallest axis with round ends that shows all values; on a logarithmic one they are positive."""
        low, high = min(values), max(values)
        if logarithmic:
            low, high = round_step(low), _round_up(high)
            return cls(low, high if high > low else 10 * low, begin, end, logarithmic=True, whole=whole)
        step = _round_step(low, high, whole=whole)
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
        return cls(low, high if high > low else low + step, begin, end, logarithmic=False, whole=whole)

    def at(self, value: float) -> float:
        low, high, shown = self.low, self.high, value
        if self.logarithmic:
            low, high, shown = math.log(low), math.log(high), math.log(value)
        return self.begin + (self.end - self.begin) * (shown - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values along the axis, at most about seven."""
        if not self.logarithmic:
            step = _round_step(self.low, self.high, whole=self.whole)
            count = round((self.high - self.low) / step)
            return [self.low + k * step for k in range(count + 1)]
        first, last = math.floor(math.log10(self.low) + 1e-9), math.ceil(math.log10(self.high) - 1e-9)
        for parts in (_FINE, _MEDIUM, (1,)):
            ticks = [part * 10.0**power for power in range(first, last + 1) for part in parts]
            inside = [tick for tick in ticks if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(inside) <= _MOST_TICKS + 1:
                return inside
        every = math.ceil((last - first) / _MOST_TICKS)
        return [10.0**power for power in range(first, last + 1, every)]


def label(value: float) -> str:
    """A tick as text: plain digits where they are few, a power of ten otherwise.

    >>> [label(value) for value in (0.05, 2.0, 3000.0, 1e6, 2e7, 1e-5)]
    ['0.05', '2', '3,000', '10⁶', '2·10⁷', '10⁻⁵']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}" if abs(value) < 1e3 else f"{value:,.0f}"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    leading = value / 10.0**power
    return f"10{digits}" if math.isclose(leading, 1.0) else f"{leading:.3g}·10{digits}"


def _round_step(low: float, high: float, *, whole: bool) -> float:
    """1, 2 or 5 times a power of ten, so that about five steps lead from low to high; 1 at least on a whole axis."""
    span = high - low if high > low else max(abs(high), 1.0)
    power = 10.0 ** math.floor(math.log10(span / 5))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= span / 5 * (1 - 1e-9))
    return max(step, 1.0) if whole else step


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) - 1e-12)
    return min(part * power for part in (*_FINE, 10) if part * power >= value * (1 - 1e-9))


class DrawingArea(NamedTuple):
    """A drawing area inside a figure of `width` x `height`; small, so that its text is still read on a phone."""

    width: float = 460.0
    height: float = 300.0
    left: float = 50.0
    right: float = 20.0
    top: float = 14.0
    bottom: float = 44.0

    @property
    def across(self) -> tuple[float, float]:
        """Begin and end of the horizontal axis."""
        return self.left, self.width - self.right

    @property
    def up(self) -> tuple[float, float]:
        """Begin (below) and end (above) of the vertical axis."""
        return self.height - self.bottom, self.top


def svg(frame: DrawingArea, ident: str, title: str, description: str, parts: list[Markup], style: str = "") -> Markup:
    """A complete figure with a title and a description; with a `style` of its own it can be a file of its own."""
    alone = Markup(' xmlns="http://www.w3.org/2000/svg" width="{:g}" height="{:g}"').format(frame.width, frame.height)
    head = Markup(
        '<svg{alone} class="figure" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" '
        'aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{title}</title>'
        '<desc id="{ident}-d">{description}</desc>'
    ).format(alone=alone if style else "", frame=frame, ident=ident, title=title, description=description)
    sheet = Markup("<style>{}</style>").format(Markup(style)) if style else Markup("")
    return head + sheet + Markup("").join(parts) + Markup("</svg>")


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> Markup:
    """A line of text; `kind` is a class of the style sheet."""
    return Markup(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">') + content + Markup("</text>")


def path(points: str, kind: str) -> Markup:
    """A path; `kind` is a class of the style sheet."""
    return Markup('<path d="{points}" class="{kind}"/>').format(points=points, kind=kind)


def circle(x: float, y: float, radius: float, kind: str) -> Markup:
    """A circle; `kind` is a class of the style sheet."""
    return Markup('<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" class="{}"/>').format(x, y, radius, kind)


def grouped(name: str, parts: list[Markup]) -> Markup:
    """Parts under a name that a pointer shows."""
    return Markup("<g><title>") + escape(name) + Markup("</title>") + Markup("").join(parts) + Markup("</g>")


def polyline(points: Sequence[Point], x: Axis, y: Axis) -> str:
    """Path data through values."""
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in points)


def horizontal_axis(frame: DrawingArea, x: Axis, title: str, *, grid: bool = True) -> list[Markup]:
    """Ticks, their labels, and the title below."""
    floor, ceiling = frame.up
    marks = []
    for tick in x.ticks():
        at = x.at(tick)
        marks.append(path(f"M{at:.1f} {ceiling:g}V{floor:g}" if grid else f"M{at:.1f} {floor:g}v4", "grid"))
        marks.append(text(at, floor + 17, label(tick), "tick", "middle"))
    marks.append(path(f"M{frame.left:g} {floor:g}H{frame.across[1]:g}", "axis"))
    if title:
        marks.append(text(sum(frame.across) / 2, floor + 37, title, "title", "middle"))
    return marks


class Series(NamedTuple):
    """A named line; its role decides how it looks. What cannot be drawn on the axes leaves a gap."""

    name: str
    points: Points
    role: str = ""


@dataclass(frozen=True)
class Chart:
    """What is drawn; `remarks` are sentences below, `subtitle` is for a file of its own."""

    ident: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    subtitle: str = ""
    remarks: tuple[str, ...] = ()


class Figure(NamedTuple):
    """A figure ready for a template: drawing, legend (class and name), and its numbers as a table."""

    chart: Chart
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def draw(chart: Chart) -> Figure:
    """Draw a chart for a page; points that cannot be drawn on its axes leave gaps."""
    frame, classes = DrawingArea(), _classes(chart.series, PAGE_STYLES)
    drawing = svg(frame, chart.ident, chart.title, _description(chart), _plot(chart, frame, classes))
    legend = tuple((kind, line.name) for kind, line in zip(classes, chart.series, strict=True))
    return Figure(chart, drawing, legend, *_table(chart))


def standalone(chart: Chart) -> str:
    """Draw a chart as SVG text that is a file of its own: with title, legend beside it, and remarks below."""
    names, below = [line.name for line in chart.series], chart.remarks
    # Wide enough for the longest name in the legend and the longest sentence below, in the widest common fonts.
    legend = _LEGEND_LEFT + _SAMPLE + 9 + 12 * _LETTER * max(map(len, names), default=0)
    notes = _LEFT + 13 * _LETTER * max(map(len, below), default=0)
    width = math.ceil(max(_NARROWEST, legend + _MARGIN, notes + _MARGIN))
    under = max(_TOP + _PLOT_HEIGHT + 62, _TOP + 40 + _ROW * len(names))
    height = under + _NOTE_ROW * len(below) + 18
    frame = DrawingArea(width, height, _LEFT, width - _LEFT - _PLOT_WIDTH, _TOP, height - _TOP - _PLOT_HEIGHT)
    classes = _classes(chart.series, len(names) or 1)
    side = '<text transform="translate(24 {:g}) rotate(-90)" class="title" text-anchor="middle">{}</text>'
    parts = [
        path(f"M0 0H{width:g}V{height:g}H0Z", "paper"),
        text(_LEFT, 32, chart.title, "heading"),
        text(_LEFT, 55, chart.subtitle, "subtitle"),
        *_plot(chart, frame, classes),
        Markup(side).format(_TOP + _PLOT_HEIGHT / 2, chart.y_title),
    ]
    for row, (kind, name) in enumerate(zip(classes, names, strict=True)):
        at = _TOP + 12 + _ROW * row
        parts.append(path(f"M{_LEGEND_LEFT:g} {at:g}h{_SAMPLE:g}", f"line {kind}"))
        parts.append(text(_LEGEND_LEFT + _SAMPLE + 9, at + 4, name))
    parts += [text(_LEFT, under + _NOTE_ROW * row + 8, words, "note") for row, words in enumerate(below)]
    # Every line has its own pair of colour and dashes.
    pairs = zip(range(len(names)), cycle(_COLOURS), cycle(_DASHES), strict=False)
    style = SHEET + "".join(f".o{place}{{stroke:{colour};stroke-dasharray:{dash}}}" for place, colour, dash in pairs)
    return f"{svg(frame, 'chart', chart.title, _description(chart), parts, style)}\n"


def _plot(chart: Chart, frame: DrawingArea, classes: Sequence[str]) -> list[Markup]:
    shown = [point for line in chart.series for point in line.points if _drawable(chart, point)] or [(1.0, 1.0)]
    x = Axis.over([a for a, _ in shown], *frame.across, logarithmic=chart.log_x, whole=chart.whole_x)
    heights = [b for _, b in shown] + ([] if chart.log_y else [0.0])
    y = Axis.over(heights, *frame.up, logarithmic=chart.log_y)
    parts = []
    for tick in y.ticks():
        parts.append(path(f"M{frame.left:g} {y.at(tick):.1f}H{frame.across[1]:g}", "grid"))
        parts.append(text(frame.left - 7, y.at(tick) + 4, label(tick), "tick", "end"))
    parts += [*horizontal_axis(frame, x, chart.x_title), *_area(chart, x, y)]
    # The upper and the lower bound last, on top of everything else.
    order = sorted(range(len(chart.series)), key=lambda place: chart.series[place].role in (CERTIFIED, AUDITED))
    return parts + [_line(chart, chart.series[place], classes[place], x, y) for place in order]


def _classes(series: Sequence[Series], styles: int) -> list[str]:
    numbers = iter(range(len(series)))
    return [line.role or f"other o{next(numbers) % styles}" for line in series]


def _drawable(chart: Chart, point: Point) -> bool:
    a, b = point
    return math.isfinite(a) and math.isfinite(b) and (a > 0 or not chart.log_x) and (b > 0 or not chart.log_y)


def _line(chart: Chart, line: Series, kind: str, x: Axis, y: Axis) -> Markup:
    """A path for each run of points without a gap, and a dot for a single point."""
    parts = []
    groups = groupby(line.points, partial(_drawable, chart))
    for run in (list(points) for drawable, points in groups if drawable):
        parts.append(path(polyline(run, x, y), f"line {kind}"))
        if len(run) == 1:
            parts.append(circle(x.at(run[0][0]), y.at(run[0][1]), 4, f"dot {kind}"))
    return grouped(line.name, parts)


def _area(chart: Chart, x: Axis, y: Axis) -> list[Markup]:
    sides = {line.role: [point for point in line.points if _drawable(chart, point)] for line in chart.series}
    upper, lower = sides.get(CERTIFIED, []), sides.get(AUDITED, [])
    if not (upper and lower):
        return []
    first, last = max(upper[0][0], lower[0][0]), min(upper[-1][0], lower[-1][0])
    top, floor = ([point for point in side if first <= point[0] <= last] for side in (upper, lower))
    if len(top) < 2 or len(floor) < 2:
        return []
    return [path(polyline(top, x, y) + "L" + polyline(floor[::-1], x, y)[1:] + "Z", "between")]


def _description(chart: Chart) -> str:
    """The chart in words: what is drawn, where every line ends, and what is remarked."""
    about = [f"{chart.subtitle}."] if chart.subtitle else []
    ends = []
    for line in chart.series:
        points = [point for point in line.points if _drawable(chart, point)]
        ends.append(f"{line.name}: " + (f"{points[-1][1]:.4g} at {points[-1][0]:g}." if points else "no finite value."))
    return " ".join([*about, f"{chart.y_title} against {chart.x_title}.", *ends, *chart.remarks])


def _table(chart: Chart) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The numbers of the lines, one row for each x that any of them has."""
    places = sorted({a for line in chart.series for a, _ in line.points})
    places = places if len(places) <= 50 else places[:: -(-len(places) // 50)]
    columns = [dict(line.points) for line in chart.series]
    rows = tuple((label(place), *(_cell(column.get(place, math.nan)) for column in columns)) for place in places)
    return (chart.x_title, *(line.name for line in chart.series)), rows


def _cell(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}" if math.isfinite(value) else "beyond"
