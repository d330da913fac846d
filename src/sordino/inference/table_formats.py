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
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sordino.core.gaussian import show_up
from sordino.core.validate import one_of, printable
from sordino.inference.contrasts import figure, text_table

# It brings JAX, which a table does not need.
if TYPE_CHECKING:
    from sordino.ledger.release import StoredRelease

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


class TableResult(ABC):
    """A result that prints itself: text for a terminal, HTML for a notebook, CSV and LaTeX on request."""

    @property
    @abstractmethod
    def shown(self) -> "ResultTable":
        """As a table that knows how to write itself in every form."""

    def to_csv(self) -> str:
        """All digits, one line for each row."""
        return self.shown.csv()

    def to_latex(self) -> str:
        """Tables in the manner of booktabs."""
        return self.shown.latex()

    def to_html(self) -> str:
        """What a notebook shows."""
        return self.shown.html()

    def __str__(self) -> str:
        return self.shown.text()

    def _repr_html_(self) -> str:
        return self.to_html()


@dataclass(frozen=True)
class ResultTable(TableResult):
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

    @property
    def shown(self) -> "ResultTable":
        return self

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


# What looks, checks and comparisons released.

LOOK, CHECK, COMPARISON = "look", "check", "comparison"
ABOUT = (
    "Loss is 0 for a sure and right prediction and 1 for the worst: of classes -ln of the probability of the true one, "
    "over ln 20; of numbers the distance from the mean, over a quarter of the declared range. Predictions are those at "
    "the posterior's mean coefficients. A difference below 0 means that a model loses less than the first one."
)
_OPTIMISM = (
    "Rows that a model was fitted to flatter it a little; differential privacy itself bounds by how much, since no "
    "record moves a fit far."
)


def answer_table(release: "StoredRelease") -> ResultTable:
    """The answers of a look as a table that writes itself as text, HTML, LaTeX and CSV."""
    percent = f"{100 * release.settings['level']:g} % interval"
    tables, flat = [], []
    for one in release.settings["answers"]:
        rows = [(row["name"], *noised_figures(row["value"], row["low"], row["high"])) for row in one["rows"]]
        tables.append(((one["question"], "answer", percent), tuple(rows or [("hidden by the noise", "", "")])))
        flat += [(one["question"], row["name"], row["value"], row["low"], row["high"]) for row in one["rows"]]
    names = ("question", "name", "value", "low", "high")
    columns = {name: [row[place] for row in flat] for place, name in enumerate(names)}
    return ResultTable("", tuple(tables), columns, (), release.cautions, (release.settings["about"],))


def answers_as_text(release: "StoredRelease") -> str:
    """The answers of a look as tables for a terminal, without what `cautions` say."""
    return replace(answer_table(release), cautions=()).text()


def check_table(bands: list[dict[str, Any]], about: str, level: float, release: "StoredRelease | None") -> ResultTable:
    """The bands of a check as a table."""
    header = ("predicted", "records", "off by", f"{100.0 * level:g} % interval")
    rows = tuple(
        (
            f"{figure(one['low'])} to {figure(one['high'])}",
            f"{one['count']:.0f}",
            "too few" if one["off"] is None else figure(one["off"]),
            "" if one["off_low"] is None else f"{figure(one['off_low'])} to {figure(one['off_high'])}",
        )
        for one in bands
    )
    if release is None:
        title = "Check on public rows: exact, and not charged."
        meant = "Rows must be public: the answer is a plain function of them. There is no noise and so no interval."
    else:
        seeded = "" if release.private else " NON-PRIVATE: made with a seed."
        title = f"Check on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
        meant = "Intervals are about the table itself; noise is the only error they count."
    columns = {name: [one[name] for one in bands] for name in ("low", "high", "count", "off", "off_low", "off_high")}
    return ResultTable(title, ((header, rows),), columns, (), (), (about, meant))


def comparison_table(models: list[dict[str, Any]], level: float, release: "StoredRelease") -> ResultTable:
    """Models beside each other."""
    percent = f"{100.0 * level:g} %"
    header = ("model", "mean loss", f"{percent} interval", "difference", f"{percent} in the table", f"{percent} alike")
    rows = tuple(
        (
            one["name"],
            figure(one["loss"]),
            _ends((one["low"], one["high"])),
            figure(one["difference"]),
            _ends(one["table"]),
            _ends(one["alike"]),
        )
        for one in models
    )
    seeded = "" if release.private else " NON-PRIVATE: made with a seed."
    title = f"Models compared on private rows, epsilon {show_up(release.epsilon)} at delta {release.delta:g}.{seeded}"
    columns = {name: [one[name] for one in models] for name in ("name", "loss", "low", "high", "difference")}
    for key in ("table", "alike"):
        for place, end in enumerate(("low", "high")):
            columns[f"difference_{key}_{end}"] = [None if one[key] is None else one[key][place] for one in models]
    return ResultTable(title, ((header, rows),), columns, (), (), (ABOUT, _OPTIMISM))


def _ends(ends: Any) -> str:
    return "" if ends is None else f"{figure(ends[0])} to {figure(ends[1])}"
