"""Reading a table of an outcome by its first cell and its columns."""

from papers.framework.item import Lower, NotProved, NotValid, Outcome, Table, Upper


def table(outcome: Outcome, name: str) -> Table:
    return next(one for one in outcome.tables if one.name == name)


def number(cell) -> float:
    return cell.value if isinstance(cell, Upper | Lower | NotValid | NotProved) else cell


def columns(outcome: Outcome, name: str) -> dict[str, list]:
    """Column name to its cells, bounds as plain numbers."""
    given = table(outcome, name)
    return {column: [number(row[place]) for row in given.rows] for place, column in enumerate(given.columns)}
