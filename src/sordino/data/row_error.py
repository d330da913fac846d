"""A complaint about one row, which knows its number: rows that are read in pieces are counted from the first piece."""

from sordino.core.errors import InputError


class RowError(InputError):
    """`before`, the number of the row as a person counts it, and `after` make the sentence."""

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__(f"{before}{row}{after}")
        self.before, self.row, self.after = before, row, after

    def behind(self, rows: int) -> "RowError":
        """The same complaint where so many rows come before those that were looked at."""
        return RowError(self.before, self.row + rows, self.after)
