"""Colours, dashes and markers that can be told apart without colour, and how something not valid looks."""

from typing import Any

from sordino.reproduce.cells import NOT_VALID

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


def not_valid_style(name: str) -> dict[str, Any]:
    """Keywords, label included, for a line that is not a valid bound: grey, thin, crossed markers."""
    return {
        "color": "#8c8c8c",
        "linestyle": (0, (2, 2)),
        "linewidth": 1.2,
        "marker": "x",
        "label": f"{name} ({NOT_VALID})",
    }
