"""Small SVG parts for pages: classes instead of colours, so that one style sheet serves light, dark and paper."""

from dataclasses import dataclass

from markupsafe import Markup, escape

from sordino.report.svg_axis import Axis, label


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
