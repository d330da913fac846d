"""The coefficients of a release as a file for a paper: Markdown, LaTeX, or CSV with all digits.

Names come from a schema, which somebody else may have written, so none of them is left as markup or as a formula of a
spreadsheet.
"""

import csv
import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sordino.core.validate import printable

if TYPE_CHECKING:
    from sordino.estimators.inference import Summary

ENDINGS = (".md", ".tex", ".csv")
_WIDENED = "privacy widened it by"
_TEX = {
    **{one: f"\\{one}" for one in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|&])")
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = re.compile(r"[=+\-@\t\r\n]")


def paper_table(summary: "Summary", ending: str) -> str:
    """The table as text: what `sordino show` prints, with what privacy did to each width in the last column.

    Args:
        summary: of a release.
        ending: one of `ENDINGS`; a CSV file has plain numbers, and empty cells for what is not known.

    Returns:
        The text of the file.
    """
    if ending == ".csv":
        return _csv(summary)
    header, rows = _cells(summary)
    note = " ".join([*summary.cautions, summary.title, *summary.remarks])
    return _markdown(header, rows, note) if ending == ".md" else _latex(header, rows, note)


def _cells(summary: "Summary") -> tuple[list[str], list[list[str]]]:
    header, rows = summary.header, summary.rows
    shares = {row[0]: row[-1] for row in summary.share_rows}
    if shares:
        header, rows = [*header, _WIDENED], [[*row, shares[row[0]]] for row in rows]
    return header, [[printable(cell) for cell in row] for row in rows]


def _markdown(header: list[str], rows: list[list[str]], note: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_MARKUP.sub(r"\\\1", cell) for cell in cells) + " |"

    sides = "| --- |" + " ---: |" * (len(header) - 1)
    return "\n".join([line(header), sides, *map(line, rows), "", _MARKUP.sub(r"\\\1", printable(note)), ""])


def _latex(header: list[str], rows: list[list[str]], note: str) -> str:
    def escaped(words: str) -> str:
        return "".join(_TEX.get(one, one) for one in words)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(map(escaped, cells)) + r" \\"

    return "\n".join(
        [
            f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\hline",
            line(header),
            r"\hline",
            *map(line, rows),
            r"\hline",
            r"\end{tabular}",
            "",
            escaped(printable(note)),
            "",
        ]
    )


def _csv(summary: "Summary") -> str:
    names = ["name", "estimate", "standard_error", "low", "high", "z", "p_value", "ratio", "ratio_low", "ratio_high"]
    names += ["sampling", "privacy", "prior", "widened_by_privacy", "prior_dominated"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for one in summary.lines:
        ratio: tuple[Any, ...] = one.ratio or (None,) * 3
        shares: tuple[Any, ...] = one.shares or (None,) * 3
        name = f"'{one.name}" if _FORMULA.match(one.name) else one.name
        numbers = (one.estimate, one.standard_error, one.low, one.high, one.z, one.p_value, *ratio, *shares)
        writer.writerow([name, *numbers, one.widened, int(one.prior_dominated)])
    return text.getvalue()
