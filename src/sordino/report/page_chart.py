"""Small SVG parts for pages: classes instead of colours, so that one style sheet serves light, dark and paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from sordino.report.charts import Axis, Note, label


@dataclass(frozen=True)
class Frame:
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


def svg(frame: Frame, ident: str, title: str, description: str, parts: list[Markup]) -> Markup:
    """A complete figure with a title and a description for those who cannot see it."""
    head = Markup(
        '<svg class="figure" viewBox="0 0 {width:g} {height:g}" role="img" aria-labelledby="{ident}-t {ident}-d">'
        '<title id="{ident}-t">{title}</title><desc id="{ident}-d">{description}</desc>'
    ).format(width=frame.width, height=frame.height, ident=ident, title=title, description=description)
    return head + Markup("").join(parts) + Markup("</svg>")


def text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> Markup:
    """A line of text; `kind` is a class of the style sheet."""
    return Markup('<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{content}</text>').format(
        x=x, y=y, kind=kind, anchor=anchor, content=content
    )


def path(points: str, kind: str) -> Markup:
    """A path; `kind` is a class of the style sheet."""
    return Markup('<path d="{points}" class="{kind}"/>').format(points=points, kind=kind)


def grouped(name: str, parts: list[Markup]) -> Markup:
    """Parts under a name that a pointer shows."""
    return Markup("<g><title>") + escape(name) + Markup("</title>") + Markup("").join(parts) + Markup("</g>")


def polyline(points: list[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Path data through values."""
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in points)


def horizontal_axis(frame: Frame, x: Axis, title: str, *, grid: bool = True) -> list[Markup]:
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


def vertical_axis(frame: Frame, y: Axis) -> list[Markup]:
    """Grid lines and labels at the left."""
    marks = []
    for tick in y.ticks():
        at = y.at(tick)
        marks.append(path(f"M{frame.left:g} {at:.1f}H{frame.across[1]:g}", "grid"))
        marks.append(text(frame.left - 7, at + 4, label(tick), "tick", "end"))
    return marks


# A line chart for a page: lines with roles, a legend and a table of the same numbers for the text around it.

Points = tuple[tuple[float, float], ...]
CERTIFIED, AUDITED, REFERENCE = "certified", "audited", "reference"
_OTHERS = 6


@dataclass(frozen=True)
class Series:
    """A named line; its role decides how it looks, and lines without one are told apart by number."""

    name: str
    points: Points
    role: str = ""


@dataclass(frozen=True)
class Chart:
    """What is drawn. With `between`, the area between the certified and the audited line is tinted.

    `whole_x` says that only whole numbers exist along the first axis.
    """

    ident: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    notes: tuple[Note, ...] = ()
    log_x: bool = False
    log_y: bool = False
    between: bool = True
    whole_x: bool = False


@dataclass(frozen=True)
class Drawn:
    """A figure ready for a template: drawing, legend (class and name), and its numbers as a table."""

    chart: Chart
    svg: Markup
    legend: tuple[tuple[str, str], ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def draw(chart: Chart) -> Drawn:
    """Draw a chart; points that cannot be drawn on its axes leave gaps."""
    frame = Frame()
    shown = [point for one in chart.series for point in one.points if _drawable(chart, point)] or [(1.0, 1.0)]
    x = Axis.over([a for a, _ in shown], *frame.across, logarithmic=chart.log_x, whole=chart.whole_x)
    heights = [b for _, b in shown] + ([] if chart.log_y else [0.0])
    y = Axis.over(heights, *frame.up, logarithmic=chart.log_y)
    classes = _classes(chart.series)
    parts = [*vertical_axis(frame, y), *horizontal_axis(frame, x, chart.x_title), *_area(chart, x, y)]
    # The two sides of the sandwich last, on top of everything else.
    order = sorted(range(len(chart.series)), key=lambda place: chart.series[place].role in (CERTIFIED, AUDITED))
    parts += [_line(chart, chart.series[place], classes[place], x, y) for place in order]
    parts += _discs(chart.notes, x, y, frame)
    described = f"{chart.y_title} against {chart.x_title}. " + " ".join(_ending(chart, one) for one in chart.series)
    legend = tuple((kind, one.name) for kind, one in zip(classes, chart.series, strict=True))
    header, rows = _table(chart)
    return Drawn(chart, svg(frame, chart.ident, chart.title, described.strip(), parts), legend, header, rows)


def _classes(series: Sequence[Series]) -> list[str]:
    numbers = iter(range(len(series)))
    return [one.role or f"other o{next(numbers) % _OTHERS}" for one in series]


def _drawable(chart: Chart, point: tuple[float, float]) -> bool:
    a, b = point
    return math.isfinite(a) and math.isfinite(b) and (a > 0 or not chart.log_x) and (b > 0 or not chart.log_y)


def _runs(chart: Chart, points: Points) -> list[list[tuple[float, float]]]:
    """The points in runs without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if _drawable(chart, point):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line(chart: Chart, one: Series, kind: str, x: Axis, y: Axis) -> Markup:
    parts = []
    for run in _runs(chart, one.points):
        parts.append(path(polyline(run, x, y), f"line {kind}"))
        if len(run) == 1:
            dot = Markup('<circle cx="{a:.1f}" cy="{b:.1f}" r="4" class="dot {kind}"/>')
            parts.append(dot.format(a=x.at(run[0][0]), b=y.at(run[0][1]), kind=kind))
    return grouped(one.name, parts)


def _area(chart: Chart, x: Axis, y: Axis) -> list[Markup]:
    """Between the two sides, over the span where both are known."""
    sides = {one.role: [point for point in one.points if _drawable(chart, point)] for one in chart.series}
    upper, lower = sides.get(CERTIFIED, []), sides.get(AUDITED, [])
    if not chart.between or len(upper) < 2 or len(lower) < 2:
        return []
    first, last = max(upper[0][0], lower[0][0]), min(upper[-1][0], lower[-1][0])
    top = [point for point in upper if first <= point[0] <= last]
    floor = [point for point in lower if first <= point[0] <= last]
    if len(top) < 2 or len(floor) < 2:
        return []
    return [path(polyline(top, x, y) + "L" + polyline(floor[::-1], x, y)[1:] + "Z", "between")]


def _discs(notes: Sequence[Note], x: Axis, y: Axis, frame: Frame) -> list[Markup]:
    """A numbered disc at each noted point, moved down where it would cover another."""
    marks: list[Markup] = []
    taken: list[tuple[float, float]] = []
    for number, note in enumerate(notes, 1):
        across, down = x.at(note.x), y.at(note.y)
        disc = min(down + 24, frame.up[0] - 10)
        while any(math.hypot(across - a, disc - b) < 19 for a, b in taken) and disc > frame.top + 20:
            disc -= 20
        taken.append((across, disc))
        circle = Markup('<circle cx="{a:.1f}" cy="{b:.1f}" r="9" class="disc"/>').format(a=across, b=disc)
        marks += [path(f"M{across:.1f} {down:.1f}V{disc:.1f}", "stem"), circle]
        marks.append(text(across, disc + 4, str(number), "number", "middle"))
    return marks


def _ending(chart: Chart, one: Series) -> str:
    points = [point for point in one.points if _drawable(chart, point)]
    return f"{one.name}: {points[-1][1]:.4g} at {points[-1][0]:g}." if points else f"{one.name}: no finite value."


def _table(chart: Chart) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The numbers of the lines, one row for each x that any of them has."""
    places = sorted({a for one in chart.series for a, _ in one.points})
    places = places if len(places) <= 50 else places[:: -(-len(places) // 50)]
    held = [dict(one.points) for one in chart.series]
    rows = tuple((label(place), *(_shown(line.get(place)) for line in held)) for place in places)
    return (chart.x_title, *(one.name for one in chart.series)), rows


def _shown(value: float | None) -> str:
    if value is None or math.isnan(value):
        return ""
    return f"{value:.4g}" if math.isfinite(value) else "beyond"
