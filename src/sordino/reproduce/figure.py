"""A figure that is drawn once and written twice: as SVG and as PNG, the same bytes every time."""

import importlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sordino.core.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

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
_DOTS_PER_INCH = 110


@dataclass(frozen=True)
class Figure:
    """A named drawing; `draw` is given an empty matplotlib figure, never pyplot, and puts axes on it."""

    name: str
    draw: "Callable[[Canvas], None]"
    caption: str = ""
    width: float = 7.2
    height: float = 4.5

    def render(self) -> dict[str, bytes]:
        """The files of the figure: name to content."""
        require_matplotlib()
        matplotlib: Any = importlib.import_module("matplotlib")
        figure_module: Any = importlib.import_module("matplotlib.figure")
        files: dict[str, bytes] = {}
        with matplotlib.rc_context(_STYLE):
            canvas: Canvas = figure_module.Figure(figsize=(self.width, self.height), layout="constrained")
            self.draw(canvas)
            for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
                stream = io.BytesIO()
                canvas.savefig(stream, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
                files[f"{self.name}.{kind}"] = stream.getvalue()
        return files


def require_matplotlib() -> None:
    """Refuse early, before an hour of computing, where figures cannot be drawn."""
    try:
        importlib.import_module("matplotlib.figure")
    except ImportError:
        raise InputError(
            "Expected matplotlib to be installed, found none; install it with: pip install 'sordino[reproduce]'."
        ) from None
