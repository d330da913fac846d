"""Axes of a line figure: from values to positions on the page, and ticks at round numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_MOST_TICKS = 7
# Within few decades a logarithmic axis also has ticks between the powers of ten.
_FINE, _MEDIUM = (1, 2, 5), (1, 3)


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from `low` to `high` (both included), drawn from `begin` to `end`.

    `whole` says that only whole numbers exist along it, such as steps; then no tick lies between two of them.
    """

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
            low, high = _round_down(low), _round_up(high)
            return cls(low, high if high > low else 10 * low, begin, end, logarithmic=True, whole=whole)
        step = _round_step(low, high, whole=whole)
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
        return cls(low, high if high > low else low + step, begin, end, logarithmic=False, whole=whole)

    def at(self, value: float) -> float:
        """Where a value is drawn."""
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
            found = [part * 10.0**power for power in range(first, last + 1) for part in parts]
            found = [tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(found) <= _MOST_TICKS + 1:
                return found
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


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) + 1e-12)
    return max(part * power for part in _FINE if part * power <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value) - 1e-12)
    return min(part * power for part in (*_FINE, 10) if part * power >= value * (1 - 1e-9))


# A line figure as one self-contained SVG text: axes, a legend beside them, numbered points, and notes below.
#
# Lines differ in colour, in dashes and in markers, so that they can be told apart without colour; text is dark on
# white; title and description are there for those who cannot see the figure.

_NARROWEST, _MARGIN = 960.0, 20.0
# The widest common fallback fonts take about this much of a letter's height for its width.
_LETTER = 0.62
_LEFT, _TOP, _PLOT_WIDTH, _PLOT_HEIGHT = 84.0, 78.0, 560.0, 400.0
_LEGEND_LEFT, _ROW, _NOTE_ROW = _LEFT + _PLOT_WIDTH + 28, 23.0, 20.0
_SAMPLE = 46.0
# Wong 2011, darkened where the original is too pale for a thin line on white.
_COLOURS = ("#0072b2", "#c1440e", "#00805a", "#a6428c", "#8a6d00", "#3b3b3b", "#2a8fc4", "#7a1f1f")
_DASHES = ("", "9 4", "2 3", "11 3 2 3", "5 3", "14 4", "7 3 2 3 2 3")
_MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "ring")
_INK, _FAINT, _GRID, _BAND = "#1a1a1a", "#4d4d4d", "#e2e2e2", "#d9d9d9"


@dataclass(frozen=True)
class Line:
    """A named sequence of points; a point that is missing, infinite or not drawable on the axes leaves a gap."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Note:
    """A numbered point of the figure, and the sentence below it that says what happens there."""

    x: float
    y: float
    sentence: str


@dataclass(frozen=True)
class Figure:
    """What is drawn; `envelope` is a broad pale line underneath the others, with its own name in the legend.

    `whole_x` says that only whole numbers exist along the first axis.
    """

    title: str
    subtitle: str
    x_title: str
    y_title: str
    lines: tuple[Line, ...]
    envelope: tuple[tuple[float, float], ...] = ()
    envelope_name: str = ""
    notes: tuple[Note, ...] = ()
    remark: str = ""
    log_x: bool = True
    log_y: bool = True
    whole_x: bool = False


def draw(figure: Figure) -> str:
    """The figure as SVG text."""
    shown = [point for line in figure.lines for point in _pieces_flat(figure, line.points)]
    shown = shown or [(1.0, 1.0)]
    x = Axis.over([a for a, _ in shown], _LEFT, _LEFT + _PLOT_WIDTH, logarithmic=figure.log_x, whole=figure.whole_x)
    heights = [b for _, b in shown] + ([] if figure.log_y else [0.0])
    y = Axis.over(heights, _TOP + _PLOT_HEIGHT, _TOP, logarithmic=figure.log_y)
    sentences = [f"{number}. {note.sentence}" for number, note in enumerate(figure.notes, 1)]
    below = [*sentences, *([figure.remark] if figure.remark else [])]
    bottom = max(_TOP + _PLOT_HEIGHT + 62, _TOP + 40 + _ROW * (len(figure.lines) + 1))
    height = bottom + _NOTE_ROW * len(below) + 18
    parts = [
        _head(figure, _width(figure, below), height, sentences),
        _text(_LEFT, 32, figure.title, size=19, weight=600),
        _text(_LEFT, 55, figure.subtitle, size=13, colour=_FAINT),
        *_grid(figure, x, y),
        *_envelope(figure, x, y),
        *(mark for number, line in enumerate(figure.lines) for mark in _line(figure, line, number, x, y)),
        *_numbers(figure, x, y),
        *(mark for number, line in enumerate(figure.lines) for mark in _entry(line, number)),
        *_envelope_entry(figure),
        *(_text(_LEFT, bottom + _NOTE_ROW * row + 8, text, size=13) for row, text in enumerate(below)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _width(figure: Figure, below: list[str]) -> float:
    """Wide enough for the longest name in the legend and the longest sentence below."""
    names = [figure.envelope_name, *(line.name for line in figure.lines)]
    legend = _LEGEND_LEFT + _SAMPLE + 9 + 12 * _LETTER * max(map(len, names))
    notes = _LEFT + 13 * _LETTER * max(map(len, below), default=0)
    return math.ceil(max(_NARROWEST, legend + _MARGIN, notes + _MARGIN))


def _head(figure: Figure, width: float, height: float, sentences: list[str]) -> str:
    ends = [f"{line.name} ends at {_end(figure, line)}" for line in figure.lines]
    description = ". ".join([figure.subtitle, f"{figure.y_title} against {figure.x_title}", *ends, *sentences])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-labelledby="title description" '
        f"font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\">\n"
        f'<title id="title">{escape(figure.title)}</title>\n<desc id="description">{escape(description)}.</desc>\n'
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>'
    )


def _end(figure: Figure, line: Line) -> str:
    points = _pieces_flat(figure, line.points)
    return f"{points[-1][1]:.4g} at {points[-1][0]:g}" if points else "no finite value"


def _drawable(figure: Figure, point: tuple[float, float]) -> bool:
    a, b = point
    return math.isfinite(a) and math.isfinite(b) and (a > 0 or not figure.log_x) and (b > 0 or not figure.log_y)


def _pieces(figure: Figure, points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The points in runs without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if _drawable(figure, point):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _pieces_flat(figure: Figure, points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for run in _pieces(figure, points) for point in run]


def _grid(figure: Figure, x: Axis, y: Axis) -> list[str]:
    right, bottom = _LEFT + _PLOT_WIDTH, _TOP + _PLOT_HEIGHT
    marks = []
    for tick in x.ticks():
        at = x.at(tick)
        marks.append(_stroke(f"M{at:.1f} {_TOP:g}V{bottom:g}", _GRID, 1))
        marks.append(_text(at, bottom + 19, label(tick), size=12, anchor="middle"))
    for tick in y.ticks():
        at = y.at(tick)
        marks.append(_stroke(f"M{_LEFT:g} {at:.1f}H{right:g}", _GRID, 1))
        marks.append(_text(_LEFT - 9, at + 4, label(tick), size=12, anchor="end"))
    middle = _TOP + _PLOT_HEIGHT / 2
    return [
        *marks,
        _stroke(f"M{_LEFT:g} {_TOP:g}V{bottom:g}H{right:g}", _INK, 1.2),
        _text(_LEFT + _PLOT_WIDTH / 2, bottom + 42, figure.x_title, size=13, anchor="middle"),
        f'<text transform="translate(24 {middle:g}) rotate(-90)" font-size="13" fill="{_INK}" text-anchor="middle">'
        f"{escape(figure.y_title)}</text>",
    ]


def _path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    return "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in points)


def _envelope(figure: Figure, x: Axis, y: Axis) -> list[str]:
    return [_stroke(_path(run, x, y), _BAND, 9, round_ends=True) for run in _pieces(figure, figure.envelope)]


def _line(figure: Figure, line: Line, number: int, x: Axis, y: Axis) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number % len(_DASHES)]
    runs = [_stroke(_path(run, x, y), colour, 1.9, dash=dash) for run in _pieces(figure, line.points)]
    # A few markers, at other places for every line, so that lines that coincide show all their markers.
    points = _pieces_flat(figure, line.points)
    every = max(1, len(points) // 5)
    markers = [_marker(number, x.at(a), y.at(b)) for a, b in points[number % every :: every]]
    return [f"<g><title>{escape(line.name)}</title>", *runs, *markers, "</g>"]


def _envelope_entry(figure: Figure) -> list[str]:
    if not figure.envelope:
        return []
    at = _TOP + 12 + _ROW * len(figure.lines) + 6
    return [
        _stroke(f"M{_LEGEND_LEFT + 4:g} {at:g}h{_SAMPLE - 8:g}", _BAND, 9, round_ends=True),
        _text(_LEGEND_LEFT + _SAMPLE + 9, at + 4, figure.envelope_name, size=12, colour=_FAINT),
    ]


def _entry(line: Line, number: int) -> list[str]:
    at = _TOP + 12 + _ROW * number
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number % len(_DASHES)]
    return [
        _stroke(f"M{_LEGEND_LEFT:g} {at:g}h{_SAMPLE:g}", colour, 1.9, dash=dash),
        _marker(number, _LEGEND_LEFT + _SAMPLE / 2, at),
        _text(_LEGEND_LEFT + _SAMPLE + 9, at + 4, line.name, size=12),
    ]


def _numbers(figure: Figure, x: Axis, y: Axis) -> list[str]:
    """A numbered disc below each noted point, moved further down where it would cover another."""
    marks: list[str] = []
    taken: list[tuple[float, float]] = []
    for number, note in enumerate(figure.notes, 1):
        across, down = x.at(note.x), y.at(note.y)
        disc = down + 26
        while any(math.hypot(across - a, disc - b) < 20 for a, b in taken):
            disc += 20
        disc = min(disc, _TOP + _PLOT_HEIGHT - 11)
        taken.append((across, disc))
        marks += [
            _stroke(f"M{across:.1f} {down:.1f}V{disc:.1f}", _INK, 1),
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="3.2" fill="{_INK}"/>',
            f'<circle cx="{across:.1f}" cy="{disc:.1f}" r="9.5" fill="#ffffff" stroke="{_INK}" stroke-width="1.3"/>',
            _text(across, disc + 4.2, str(number), size=12, anchor="middle", weight=600),
        ]
    return marks


def _marker(number: int, a: float, b: float) -> str:
    colour = _COLOURS[number % len(_COLOURS)]
    shape = _MARKERS[number % len(_MARKERS)]
    solid = f'fill="{colour}" stroke="#ffffff" stroke-width="0.8"'
    open_ = f'fill="#ffffff" stroke="{colour}" stroke-width="1.6"'
    shapes = {
        "circle": f'<circle cx="{a:.1f}" cy="{b:.1f}" r="4.2" {solid}/>',
        "ring": f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.8" {open_}/>',
        "square": f'<path d="M{a - 3.8:.1f} {b - 3.8:.1f}h7.6v7.6h-7.6z" {solid}/>',
        "triangle": f'<path d="M{a:.1f} {b - 5:.1f}l4.7 8.4h-9.4z" {solid}/>',
        "diamond": f'<path d="M{a:.1f} {b - 5.2:.1f}l5.2 5.2l-5.2 5.2l-5.2 -5.2z" {open_}/>',
        "cross": _stroke(f"M{a - 4:.1f} {b - 4:.1f}l8 8m0 -8l-8 8", colour, 2),
        "plus": _stroke(f"M{a - 5:.1f} {b:.1f}h10m-5 -5v10", colour, 2),
    }
    return shapes[shape]


def _stroke(path: str, colour: str, width: float, dash: str = "", *, round_ends: bool = False) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    ends = ' stroke-linecap="round" stroke-linejoin="round"' if round_ends else ""
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}{ends}/>'


def _text(
    x: float, y: float, text: str, *, size: int, anchor: str = "start", colour: str = _INK, weight: int = 400
) -> str:
    bold = f' font-weight="{weight}"' if weight != 400 else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{bold}>'
        f"{escape(text)}</text>"
    )
