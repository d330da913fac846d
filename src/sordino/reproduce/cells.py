"""Cells of a table that know their direction, or that they are not valid."""

from dataclasses import dataclass

from sordino.core.rounding import show_down, show_up

NOT_VALID = "NOT VALID"


@dataclass(frozen=True)
class Upper:
    """An upper bound; printed rounded up."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return show_up(self.value)


@dataclass(frozen=True)
class Lower:
    """A lower bound; printed rounded down."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return show_down(self.value)


@dataclass(frozen=True)
class NotValid:
    """A number somebody states that theory or an audit refutes; it never appears without its label."""

    value: float

    @property
    def shown(self) -> str:
        """For a person."""
        return f"{self.value:.5g} ({NOT_VALID})"


Directed = Upper | Lower | NotValid
Cell = str | bool | int | float | Directed | None


def for_people(cell: Cell) -> str:
    """Few digits, rounded in the cell's own direction; a missing value is a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, Directed):
        return cell.shown
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.5g}" if isinstance(cell, float) else str(cell)


def for_machines(cell: Cell) -> str:
    """Ten significant digits; a missing value is empty, an invalid one keeps its label."""
    if cell is None:
        return ""
    if isinstance(cell, NotValid):
        return f"{cell.value:.10g} ({NOT_VALID})"
    if isinstance(cell, Directed):
        return f"{cell.value:.10g}"
    if isinstance(cell, bool):
        return str(cell).lower()
    return f"{cell:.10g}" if isinstance(cell, float) else str(cell)
