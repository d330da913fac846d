"""Colours, dashes and markers that can be told apart without colour, and how something not valid looks."""

import importlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.validate import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


# On every curve and in every cell that shows a statement which does not hold.
NOT_VALID = "NOT VALID"
# On a statement whose proof has a gap, or rests on constants that nobody gave, and that no computed case refutes.
NOT_PROVED = "NOT PROVED"
# Wong 2011, darkened where the original is too pale for a thin line on white.
COLOURS = ("#0072b2", "#c1440e", "#00805a", "#a6428c", "#8a6d00", "#3b3b3b", "#2a8fc4", "#7a1f1f")
_DASHES = ("-", (0, (6, 2)), (0, (1, 1.4)), (0, (7, 2, 1.5, 2)), (0, (3, 1.5)), (0, (10, 2)), (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def line_style(place: int, markers: bool = True) -> dict[str, Any]:
    """Keywords for the line at a place of a figure: its own colour, dashes and marker."""
    style: dict[str, Any] = {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": _DASHES[place % len(_DASHES)],
    }
    return style | {"marker": _MARKERS[place % len(_MARKERS)]} if markers else style


def not_valid_style(name: str, why: str = NOT_VALID) -> dict[str, Any]:
    """Keywords, label included, for a line that is not a certificate: grey, thin, crossed markers."""
    return {
        "color": "#8c8c8c",
        "linestyle": (0, (2, 2)),
        "linewidth": 1.2,
        "marker": "x",
        "label": f"{name} ({why})",
    }


# A figure that is drawn once and written twice: as SVG and as PNG, the same bytes every time.

# Read by matplotlib while a figure is made, and put back afterwards.
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "sordino",
    "svg.fonttype": "path",
    "font.family": ["DejaVu Sans"],
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.9,
    "lines.markersize": 5.0,
}
DOTS_PER_INCH = 110


# The two sizes that figures have, in inches, so that words and lines are equally large in all of them.
ONE_PANEL, PANELS = (7.2, 4.5), (9.6, 4.5)


@dataclass(frozen=True)
class Figure:
    """A named drawing; `draw` is given an empty matplotlib figure, never pyplot, and puts axes on it.

    Attributes:
        name: The name of its files.
        draw: What puts axes on the canvas.
        caption: What is seen, for everybody; it stands below the picture.
        width: In inches; those of `ONE_PANEL` or `PANELS` unless the picture is of images or many bars.
        height: In inches.
        words: For a reader who does not see it, where axes and lines do not say what it is.
    """

    name: str
    draw: "Callable[[Canvas], None]"
    caption: str = ""
    width: float = ONE_PANEL[0]
    height: float = ONE_PANEL[1]
    words: str = ""

    def render(self, quick: bool = False) -> tuple[dict[str, bytes], str]:
        """The files of the figure, name to content, and words for a reader who does not see it.

        In quick mode it is laid out once, and drawn once for each file.
        """
        require_matplotlib()
        matplotlib: Any = importlib.import_module("matplotlib")
        figure_module: Any = importlib.import_module("matplotlib.figure")
        files: dict[str, bytes] = {}
        words = ""
        with matplotlib.rc_context(_STYLE):
            canvas: Canvas = figure_module.Figure(figsize=(self.width, self.height), layout="constrained")
            self.draw(canvas)
            words = self.words or _described(canvas)
            if quick:
                laid_out: Any = canvas.get_layout_engine()
                laid_out.execute(canvas)
                canvas.set_layout_engine("none")
            for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
                stream = io.BytesIO()
                if quick:  # saving a figure draws it twice, the first time for a layout that is there already
                    canvas.set_dpi(DOTS_PER_INCH // 2)
                    backend: Any = importlib.import_module(_BACKENDS[kind])
                    getattr(backend.FigureCanvas(canvas), f"print_{kind}")(stream, metadata=metadata)
                else:
                    canvas.savefig(stream, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
                files[f"{self.name}.{kind}"] = stream.getvalue() if kind == "png" else _numbered(stream.getvalue())
        return files, words


def _described(canvas: "Canvas") -> str:
    """What is drawn against what in each panel, and the names of the lines; the caption says what it shows."""
    panels, names, across = [], {}, ""
    for axes in canvas.axes:
        if axes.axison:
            across = axes.get_ylabel() or across
            what = " against ".join(word for word in (across, axes.get_xlabel()) if word)
            panels.append(": ".join(word for word in (axes.get_title(), what) if word))
            names |= dict.fromkeys(axes.get_legend_handles_labels()[1])
    lines = f". Lines and marks: {', '.join(names)}" if names else ""
    words = f"Chart of {'; '.join(dict.fromkeys(panel for panel in panels if panel))}{lines}."
    return re.sub(r"[\[\]\s]+", " ", words)


_BACKENDS = {"svg": "matplotlib.backends.backend_svg", "png": "matplotlib.backends.backend_agg"}

# Matplotlib names a clip by the hash of its corners, whose last bits change from one run of the layout to the next.
_CLIP = re.compile(rb"\bp[0-9a-f]{10}\b")


# On a dark page light and dark change places, and colours keep their hue.
_STYLE_END = b"stroke-linecap: butt}</style>"
_DARK = (
    b"stroke-linecap: butt} @media (prefers-color-scheme: dark) {svg {filter: invert(0.93) hue-rotate(180deg)}}</style>"
)


def _numbered(svg: bytes) -> bytes:
    """The same picture for light and dark pages, its clips named in the order in which they appear."""
    names = {name: b"clip%d" % place for place, name in enumerate(dict.fromkeys(_CLIP.findall(svg)), start=1)}
    return _CLIP.sub(lambda found: names[found[0]], svg).replace(_STYLE_END, _DARK, 1)


def require_matplotlib() -> None:
    """Refuse early, before an hour of computing, where figures cannot be drawn."""
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError:
        raise InputError(
            "Expected matplotlib to be installed, found none; install it with: pip install 'sordino[reproduce]'."
        ) from None
