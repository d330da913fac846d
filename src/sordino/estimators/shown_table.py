"""A table as people take it with them: text for a terminal, HTML for a notebook, LaTeX for a paper, CSV for a machine.

Names, words and titles come from outside, so each form escapes them: a spreadsheet runs no formula, a page no markup,
and LaTeX no command. Text, HTML and LaTeX have four significant digits; CSV has all of them.
"""

import csv
import html
import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sordino.core.validate import one_of, printable
from sordino.estimators.inference_table import text_table

FORMATS = ("text", "csv", "latex", "html", "json")
WIDTH = 100
NON_PRIVATE = "NON-PRIVATE"
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = re.compile(r"[=+\-@\t\r\n]")
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "-": "-",
}
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5em 0"
_CELL = "padding:.15em .6em;border-bottom:1px solid #8884;text-align:"


def as_csv(table: Mapping[str, Sequence[Any]], *, header: bool = True) -> str:
    """Columns by name as CSV text; names and labels come from outside, so none of them is left as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow([cell(name) for name in table])
    writer.writerows([cell(value) for value in row] for row in zip(*table.values(), strict=True))
    return text.getvalue()


def cell(value: Any) -> Any:
    """A value as it is; of a text what does not print is spelled out, and a formula gets an apostrophe before it.

    >>> cell("=cmd()"), cell("-1"), cell("maternity"), cell(-0.5)
    ("'=cmd()", '-1', 'maternity', -0.5)
    """
    if not isinstance(value, str):
        return value
    risky = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    return f"'{printable(value)}" if risky else printable(value)


def latex(text: str) -> str:
    r"""A text that LaTeX prints as it is; a minus before a digit is one.

    >>> latex("ward=A&E_1 50 % -0.3")
    'ward=A\\&E\\_1 50 \\% $-$0.3'
    """
    escaped = "".join(_LATEX.get(character, character) for character in printable(text))
    return _MINUS.sub(r"$-$", escaped)


@dataclass(frozen=True)
class ShownTable:
    """What is shown of a release, in whatever form.

    Attributes:
        title: what it is, in a sentence or two.
        tables: header and rows of each table, as text; the first column is aligned to the left.
        columns: the numbers with all digits, by name, for CSV.
        facts: pairs of a word and its value, shown above the tables.
        cautions: what a reader must know first.
        remarks: what the columns mean, below the tables.
    """

    title: str
    tables: tuple[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], ...]
    columns: Mapping[str, Sequence[Any]]
    facts: tuple[tuple[str, str], ...] = ()
    cautions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=())

    def to(self, form: str) -> str:
        """The table in one of the forms text, csv, latex and html."""
        one_of("format", form, FORMATS[:-1])
        made = {"text": self.text, "csv": self.csv, "latex": self.latex, "html": self.html}
        return made[form]()

    def text(self) -> str:
        """For a terminal, in the manner of statsmodels: facts above, tables, and what they mean below."""
        pieces = [textwrap.fill(printable(words), WIDTH) for words in (*self.cautions, self.title) if words]
        if self.facts:
            pieces.append(_two_columns(self.facts))
        pieces += [text_table(header, rows) for header, rows in self.tables if rows]
        return "\n\n".join([*pieces, *(textwrap.fill(printable(words), WIDTH) for words in self.remarks)])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def csv(self) -> str:
        """All digits, one line for each row; of the title only that it may not leave is kept, as a column."""
        rows = len(next(iter(self.columns.values()), ()))
        mark = {NON_PRIVATE: ["made with a seed"] * rows} if NON_PRIVATE in self.title else {}
        return as_csv({**self.columns, **mark})

    def latex(self) -> str:
        """Tables in the manner of booktabs, to be put into a table environment; notes below as text."""
        pieces = [f"% {line}" for words in (*self.cautions, self.title) for line in textwrap.wrap(printable(words), 96)]
        for header, rows in (one for one in self.tables if one[1]):
            pieces += [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
            pieces += [_latex_row(header), r"\midrule", *map(_latex_row, rows), r"\bottomrule", r"\end{tabular}", ""]
        notes = [f"{word}: {value}." for word, value in self.facts]
        pieces += [
            r"\par\smallskip\footnotesize",
            *(latex(words) for words in (" ".join(notes), *self.remarks) if words),
        ]
        return "\n".join(pieces)

    def html(self) -> str:
        """For a notebook: tables that take the page's own fonts and colours, with everything escaped."""
        pieces = [f"<p><strong>{_html(words)}</strong></p>" for words in self.cautions]
        pieces.append(f"<p>{_html(self.title)}</p>")
        if self.facts:
            pieces.append(_html_table(None, [(f"{word}:", value) for word, value in self.facts]))
        pieces += [_html_table(header, rows) for header, rows in self.tables if rows]
        pieces += [f"<p><small>{_html(words)}</small></p>" for words in self.remarks]
        return f'<div class="sordino">{"".join(pieces)}</div>'


def _html(text: str) -> str:
    return html.escape(printable(text))


def _html_table(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left" if header is None or not k else "right" for k in range(len(cells))]
        made = (f'<{tag} style="{_CELL}{side}">{_html(one)}</{tag}>' for one, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    head = "" if header is None else f"<thead>{line(header, 'th')}</thead>"
    return f'<table style="{_STYLE}">{head}<tbody>{"".join(line(row, "td") for row in rows)}</tbody></table>'


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(latex(one) for one in cells) + r" \\"


def _two_columns(facts: Sequence[tuple[str, str]]) -> str:
    """Facts side by side between two rules; one below the other where they are too long for that."""
    half = (WIDTH - 2) // 2
    half_way = (len(facts) + 1) // 2
    blocks = [facts[:half_way], facts[half_way:]]
    wide = [max((len(word) for word, _ in block), default=0) + 1 for block in blocks]
    lines = [
        [f"{printable(word) + ':':<{width}} {printable(value)}" for word, value in block]
        for block, width in zip(blocks, wide, strict=True)
    ]
    if any(len(one) > half for block in lines for one in block):
        widest = max(wide)
        together = [f"{printable(word) + ':':<{widest}} {printable(value)}" for word, value in facts]
    else:
        lines[1] += [""] * (len(lines[0]) - len(lines[1]))
        together = [f"{left:<{half}}  {right}".rstrip() for left, right in zip(*lines, strict=True)]
    rule = "=" * max(map(len, together))
    return "\n".join([rule, *together, rule])


def noised_figures(value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """An answer and its interval with the digits that the noise leaves, two of the half width; ends rounded outward."""
    half = 0.0 if low is None or high is None else max(high - value, value - low)
    if low is None or high is None or not 0.0 < half < math.inf:
        return f"{value:.6g}", "" if low is None else f"{low:.6g} to {high:.6g}"
    places = max(0, min(12, 1 - math.floor(math.log10(half))))
    step = 10.0**-places
    ends = (math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)
    return f"{value:.{places}f}", " to ".join(f"{end + 0.0:.{places}f}" for end in ends)
