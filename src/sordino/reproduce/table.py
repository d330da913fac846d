"""A table that is written twice: as CSV for machines and as Markdown for people."""

import csv
import io
from dataclasses import dataclass

from sordino.core.errors import InputError
from sordino.reproduce.cells import Cell, for_machines, for_people


@dataclass(frozen=True)
class Table:
    """Named columns and rows; `caption` says in a sentence what a row is and in which unit the numbers are.

    A long table (`in_readme` false) is written as CSV only and linked from the page instead of shown on it.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    in_readme: bool = True

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InputError(
                    f"Expected {len(self.columns)} cells in every row of table {self.name!r}, got {len(row)}: {row!r}."
                )

    def to_csv(self) -> str:
        """One header line, one line a row."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([for_machines(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def to_markdown(self) -> str:
        """A pipe table, with the caption above it."""
        lines = [tuple(_escaped(name) for name in self.columns), tuple("---" for _ in self.columns)]
        lines += [tuple(_escaped(for_people(cell)) for cell in row) for row in self.rows]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
        return f"{self.caption}\n\n{table}" if self.caption else table


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
