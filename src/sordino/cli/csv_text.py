"""Tables as CSV that a spreadsheet can be trusted with."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

# What a spreadsheet takes for the beginning of a formula.
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?")


def as_csv(table: Mapping[str, Sequence[Any]]) -> str:
    """Columns by name as CSV text; names and labels come from outside, so none of them is left as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell(name) for name in table])
    writer.writerows([cell(value) for value in row] for row in zip(*table.values(), strict=True))
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value as it is, and a text that a spreadsheet would run as a formula with an apostrophe before it.

    >>> cell("=cmd()"), cell("-1"), cell("maternity"), cell(-0.5)
    ("'=cmd()", '-1', 'maternity', -0.5)
    """
    risky = isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{value}" if risky else value
