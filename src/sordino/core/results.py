"""Results as people export them: text for a terminal, HTML for a notebook, LaTeX, CSV, a data frame, a plot.

Names and titles come from outside, so each form escapes them. CSV and data frames have all digits, other forms four.
"""

import csv
import html
import io
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from sordino.core.validate import InputError, one_of, printable, refuse

FORMATS = ("text", "csv", "latex", "html", "json")
WIDTH = 100
MOST_ROWS = 40  # rows of one table that a terminal gets
NON_PRIVATE = "NON-PRIVATE"
PRIOR_DOMINATED = 0.5  # the least share of a coefficient's variance, from the prior, that makes it so
_SMALLEST_P = 0.001
_FORMULA = re.compile(r"[=+\-@\t\r\n]")  # what a spreadsheet takes for the beginning of one
_NUMBER = re.compile(r"[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?")
_SIGNS = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
_LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"}
_LATEX |= {sign: rf"\text{name}{{}}" for sign, name in (_SIGNS | {'"': "quotedbl"}).items()}
_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5em 0"
_CELL = "padding:.15em .6em;border-bottom:1px solid #8884;text-align:"


class Estimate(NamedTuple):
    """A point of a plot: its name, and its interval where there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


class Result(ABC):
    """A result that shows itself: `print` it, leave it at the end of a notebook cell, or convert it."""

    @property
    @abstractmethod
    def shown(self) -> "ResultTable":
        """As tables that can be written in every form."""

    def to_frame(self) -> Any:
        """A pandas data frame with all digits, one line for each row."""
        return optional_module("pandas").DataFrame(dict(self.shown.columns))

    def to_csv(self) -> str:
        """All digits, one line for each row; of the title only that it may not be published is kept, as a column."""
        table = self.shown
        rows = len(next(iter(table.columns.values()), ()))
        mark = {NON_PRIVATE: ["made with a seed"] * rows} if NON_PRIVATE in table.title else {}
        return as_csv({**table.columns, **mark})

    def to_latex(self) -> str:
        """Tables in the manner of booktabs, to be put into a table environment; notes below as text."""
        own = self.shown
        pieces = [f"% {line}" for words in (*own.cautions, own.title) for line in textwrap.wrap(printable(words), 96)]
        for header, rows in (one for one in own.tables if one[1]):
            pieces += [rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\toprule"]
            pieces += [_latex_row(header), r"\midrule", *map(_latex_row, rows), r"\bottomrule", r"\end{tabular}", ""]
        notes = " ".join(f"{word}: {value}." for word, value in own.facts)
        below = [latex(words) for words in (notes, *own.remarks) if words]
        return "\n".join([*pieces, r"\par\smallskip\footnotesize", *below])

    def to_html(self) -> str:
        """Tables that take the page's own fonts and colours, with everything escaped."""
        own = self.shown
        pieces = [f"<p><strong>{_html(words)}</strong></p>" for words in own.cautions]
        pieces.append(f"<p>{_html(own.title)}</p>")
        if own.facts:
            pieces.append(_html_table(None, [(f"{word}:", value) for word, value in own.facts]))
        pieces += [_html_table(header, rows) for header, rows in own.tables if rows]
        pieces += [f"<p><small>{_html(words)}</small></p>" for words in own.remarks]
        return f'<div class="sordino">{"".join(pieces)}</div>'

    def text(self, most: int | None = None) -> str:
        """For a terminal: facts above, tables of at most so many rows, and what they mean below."""
        own = self.shown
        pieces = [textwrap.fill(printable(words), WIDTH) for words in (*own.cautions, own.title) if words]
        if own.facts:
            pieces.append(_two_columns(own.facts))
        pieces += [text_table(header, rows, most=most) for header, rows in own.tables if rows]
        return "\n\n".join([*pieces, *(textwrap.fill(printable(words), WIDTH) for words in own.remarks)])

    def to(self, form: str) -> str:
        """The table in one of the forms text, csv, latex and html."""
        one_of("format", form, FORMATS[:-1])
        return self.text() if form == "text" else getattr(self, f"to_{form}")()

    def plot(self, ax: Any = None) -> Any:
        """Estimates with their intervals, one row each, on matplotlib axes; needs matplotlib."""
        own = self.shown
        groups = [(header[0], points) for (header, _), points in zip(own.tables, own.points, strict=False)]
        several = sum(bool(points) for _, points in groups) > 1
        points = [
            one._replace(name=f"{title}: {one.name}") if several else one for title, group in groups for one in group
        ]
        if not points:
            raise InputError("This result has no estimates to plot. Print it.")
        axes = figure_axes(ax)
        for place, one in enumerate(points):
            if one.ends is not None:
                axes.plot(one.ends, [place, place], color="C0")
            axes.plot([one.value], [place], "o", color="C0")
        axes.set_yticks(range(len(points)), [printable(one.name) for one in points])
        axes.invert_yaxis()
        axes.set_title(textwrap.fill(printable(own.title), 60), fontsize="small")
        return axes

    def __str__(self) -> str:
        return self.text(MOST_ROWS)

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True)
class ResultTable(Result):
    """What is shown of a result, in whatever form."""

    title: str  # what it is, in a sentence or two
    tables: tuple[tuple[tuple[str, ...], tuple[tuple[str, ...], ...]], ...]  # headers and rows; the first column: left
    columns: Mapping[str, Sequence[object]]  # the numbers with all digits, by name
    facts: tuple[tuple[str, str], ...] = ()  # pairs of a word and its value, shown above the tables
    cautions: tuple[str, ...] = ()  # what a reader must know first
    remarks: tuple[str, ...] = ()  # what the columns mean, below the tables
    points: tuple[tuple[Estimate, ...], ...] = ()  # of each table, what a plot shows

    @property
    def shown(self) -> "ResultTable":
        return self


def optional_module(name: str, extra: str = "") -> Any:
    """A module of a package that is loaded only when it is asked for, or how to install it."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise refuse(f"the package {package}", "to be installed", "none", f"install {extra or package}") from None


def figure_axes(ax: Any) -> Any:
    """The axes that were given, or new ones of matplotlib."""
    return optional_module("matplotlib.pyplot").subplots()[1] if ax is None else ax


def by_name(rows: Sequence[object], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of rows that are mappings or have attributes."""
    return {name: [one[name] if isinstance(one, Mapping) else getattr(one, name) for one in rows] for name in names}


def as_csv(table: Mapping[str, Sequence[object]], *, header: bool = True) -> str:
    """Columns by name as CSV text; names and labels come from outside, so none of them is left as a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow([cell(name) for name in table])
    writer.writerows([cell(value) for value in row] for row in zip(*table.values(), strict=True))
    return text.getvalue()


def cell(value: object) -> object:
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
    return _MINUS.sub(r"$-$", "".join(_LATEX.get(character, character) for character in printable(text)))


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(latex(one) for one in cells) + r" \\"


def _html(text: str) -> str:
    return html.escape(printable(text))


def _html_table(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        sides = ["left" if header is None or not k else "right" for k in range(len(cells))]
        made = (f'<{tag} style="{_CELL}{side}">{_html(one)}</{tag}>' for one, side in zip(cells, sides, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    head = "" if header is None else f"<thead>{line(header, 'th')}</thead>"
    return f'<table style="{_STYLE}">{head}<tbody>{"".join(line(row, "td") for row in rows)}</tbody></table>'


def crossed(question: str, rows: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, ...], Any] | None:
    """Answers by group, and cells of a table of two columns, with a column for each second name; None for others."""
    for sign in (": ", " x "):
        pairs = [tuple(name.split(sign)) for name, _, _ in rows]
        if not pairs or any(len(pair) != 2 for pair in pairs):
            continue
        left, right = (list(dict.fromkeys(names)) for names in zip(*pairs, strict=True))
        if pairs == [(one, other) for one in left for other in right] and len(right) > 1:
            cells = [f"{value} ({ends})" if ends else value for _, value, ends in rows]
            lines = [(one, *cells[k * len(right) : (k + 1) * len(right)]) for k, one in enumerate(left)]
            return (question, *right), tuple(lines)
    return None


def text_table(header: Iterable[str], rows: Iterable[Iterable[str]], most: int | None = None) -> str:
    """Columns in plain text: numbers to the right, words and the first column to the left."""
    listed = list(rows)
    kept = listed if most is None or len(listed) <= most else listed[:most]
    columns = list(zip(*([printable(cell) for cell in row] for row in (header, *kept)), strict=True))
    widths, pads = [max(map(len, column)) for column in columns], []
    for place, column in enumerate(columns):
        said = [cell for cell in column[1:] if cell]
        numbers = 2 * sum(cell[0] in "0123456789+-<>." for cell in said) >= len(said)
        pads.append(str.rjust if place > 0 and numbers else str.ljust)
    lines = [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    return "\n".join([*lines, *([f"... and {len(listed) - len(kept)} more rows"] if len(kept) < len(listed) else [])])


def _two_columns(facts: Sequence[tuple[str, str]]) -> str:
    """Facts side by side between two rules; one below the other where they are too long for that."""
    half, half_way = (WIDTH - 2) // 2, (len(facts) + 1) // 2
    blocks = [facts[:half_way], facts[half_way:]]
    wide = [max((len(word) for word, _ in block), default=0) + 1 for block in blocks]
    lines = [
        [f"{printable(word) + ':':<{width}} {printable(value)}" for word, value in block]
        for block, width in zip(blocks, wide, strict=True)
    ]
    if any(len(one) > half for block in lines for one in block):
        together = [f"{printable(word) + ':':<{max(wide)}} {printable(value)}" for word, value in facts]
    else:
        lines[1] += [""] * (len(lines[0]) - len(lines[1]))
        together = [f"{left:<{half}}  {right}".rstrip() for left, right in zip(*lines, strict=True)]
    rule = "=" * max(map(len, together))
    return "\n".join([rule, *together, rule])


def figure(value: float | None) -> str:
    """Four significant digits.

    >>> [figure(value) for value in (0.012345, -3.0, 12345.6, 0.0, None)]
    ['0.01235', '-3', '12,346', '0', '']
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval."""
    return "" if low is None else f"{figure(low)} to {figure(high)}"


def ratio_figure(value: float) -> str:
    """A ratio with at least two digits of what it is away from 1.

    >>> [ratio_figure(value) for value in (1.0000087, 0.99981, 0.43841, 1.0)]
    ['1.0000087', '0.99981', '0.4384', '1']
    """
    away = abs(value - 1.0)
    return f"{value:.{1 - math.floor(math.log10(away))}f}" if 1e-12 < away < 1e-2 else figure(value)


def noised_figures(value: float | None, low: float | None, high: float | None) -> tuple[str, str]:
    """An answer and its interval with the digits that the noise leaves, two of the half width; ends rounded outward."""
    if value is None or low is None or high is None:
        return "" if value is None else f"{value:.6g}", ""
    half = max(high - value, value - low)
    if not 0.0 < half < math.inf:
        return f"{value:.6g}", f"{low:.6g} to {high:.6g}"
    places = max(0, min(12, 1 - math.floor(math.log10(half))))
    step = 10.0**-places
    ends = (math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step)
    return f"{value:.{places}f}", " to ".join(f"{end + 0.0:.{places}f}" for end in ends)


def p_words(value: float | None, *, relation: bool = False) -> str:
    """A p-value: three decimals, and "<0.001" below; with `relation` also "= 0.012"."""
    if value is None:
        return ""
    if value < _SMALLEST_P:
        return "< 0.001" if relation else "<0.001"
    return f"{'= ' if relation else ''}{value:.3f}"


def percent(share: float | None) -> str:
    """A share in whole percent; neither 0 nor 100 % is said of what is something, or not all.

    >>> [percent(share) for share in (0.0, 0.004, 0.12, 0.9993, 1.0, 1.3)]
    ['0 %', '<1 %', '12 %', '>99 %', '100 %', '130 %']
    """
    if share is None:
        return ""
    if math.isinf(share) or share > 10.0:
        return ">1000 %"
    if 0.0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1.0 else f"{100.0 * share:.0f} %"
