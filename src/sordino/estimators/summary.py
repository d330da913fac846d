"""The coefficients of a release as a table that people print, and that writes itself as text, HTML, LaTeX and CSV."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sordino.core.validate import InputError
from sordino.inference.contrasts import INTERCEPT, Line, figure, p_words, percent, ratio_figure, text_table
from sordino.inference.table_formats import ResultTable

SHARE_HEADER = ("share of the variance", "sampling", "privacy", "prior", "privacy widened it by")


@dataclass(frozen=True)
class Summary:
    """The coefficients of a release as a table; print it.

    Attributes:
        title: what was fitted, how, and under which guarantee.
        lines: one for each coefficient, intercept first.
        level: of the intervals.
        intervals: what the intervals are, in words.
        ratio: what exp(coefficient) is called; empty where it is nothing.
        tested: whether there are standard errors and tests.
        cautions: what a reader must know first.
        remarks: what the columns mean.
        facts: pairs of a word and its value, such as the epsilon, that stand above the table.
    """

    title: str
    lines: tuple[Line, ...]
    level: float
    intervals: str
    ratio: str
    tested: bool
    cautions: tuple[str, ...]
    remarks: tuple[str, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def line(self, name: str) -> Line:
        """The line of one coefficient."""
        for one in self.lines:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.lines[:12])
        raise InputError(f"Expected a coefficient to be one of {known}, got {name!r}.")

    def as_dict(self) -> dict[str, Any]:
        """For a machine."""
        return {
            "title": self.title,
            "level": self.level,
            "intervals": self.intervals,
            "ratio": self.ratio or None,
            "tested": self.tested,
            "coefficients": [one.as_dict() for one in self.lines],
            "warnings": list(self.cautions),
        }

    @property
    def header(self) -> list[str]:
        """Names of the columns of `rows`."""
        names = ["", "estimate", *(["std. error"] if self.tested else [])]
        names += [self.intervals] if any(one.low is not None for one in self.lines) else []
        names += ["z", "p"] if self.tested else []
        return names + ([self.ratio, "interval"] if self.ratio and self.tested else [])

    @property
    def rows(self) -> list[list[str]]:
        """The cells of the table as text."""
        found = []
        for one in self.lines:
            row = [one.name + (" *" if one.prior_dominated else ""), figure(one.estimate)]
            row += [figure(one.standard_error)] if self.tested else []
            if self.header[-1] != "estimate":
                row += [interval(one.low, one.high)]
            row += [f"{one.z:.2f}" if one.z is not None else "", p_words(one.p_value)] if self.tested else []
            if self.ratio and self.tested and one.ratio is not None:
                bare = one.name.split(" [")[0] == INTERCEPT  # its exp is odds or a rate, and no ratio of two
                row += ["", ""] if bare else [ratio_figure(one.ratio[0]), " to ".join(map(ratio_figure, one.ratio[1:]))]
            found.append(row)
        return found

    @property
    def share_rows(self) -> list[list[str]]:
        """What each width is made of, as text; empty where it is known of no coefficient."""
        if all(one.shares is None for one in self.lines):
            return []
        return [
            [
                one.name + (" *" if one.prior_dominated else ""),
                *map(percent, one.shares or (None, None, None)),
                percent(one.widened),
            ]
            for one in self.lines
        ]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The same numbers with all digits, by column; None where a number is not known."""
        parts = ("sampling", "privacy", "prior")
        # Exp of an intercept is odds or a rate, and no ratio of two.
        bare = [one.name.split(" [")[0] == INTERCEPT for one in self.lines]
        ratios = [
            (None,) * 3 if odds or one.ratio is None else one.ratio for one, odds in zip(self.lines, bare, strict=True)
        ]
        shares = [one.shares or (None,) * 3 for one in self.lines]
        word = self.ratio.replace(" ", "_")
        return {
            "name": [one.name for one in self.lines],
            "estimate": [one.estimate for one in self.lines],
            **{
                key: [getattr(one, key) for one in self.lines]
                for key in ("standard_error", "low", "high", "z", "p_value")
            },
            **(
                {name: [one[k] for one in ratios] for k, name in enumerate((word, f"{word}_low", f"{word}_high"))}
                if word
                else {}
            ),
            **{f"share_{name}": [one[k] for one in shares] for k, name in enumerate(parts)},
            "prior_dominated": [one.prior_dominated for one in self.lines],
        }

    @property
    def shown(self) -> ResultTable:
        """As a table that knows how to write itself as text, HTML, LaTeX and CSV."""
        tables = [(tuple(self.header), tuple(map(tuple, self.rows)))] if self.lines else []
        tables += [(SHARE_HEADER, tuple(map(tuple, self.share_rows)))] if self.share_rows else []
        return ResultTable(self.title, tuple(tables), self.columns, self.facts, self.cautions, self.remarks)

    def to_csv(self) -> str:
        """All digits, one line a coefficient."""
        return self.shown.csv()

    def to_latex(self) -> str:
        """Tables in the manner of booktabs."""
        return self.shown.latex()

    def to_html(self) -> str:
        """What a notebook shows."""
        return self.shown.html()

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.shown.text()


def lines_as_text(summary: Summary, others: Sequence[Line]) -> str:
    """Sums of coefficients in the columns of a summary."""
    shown = replace(summary, lines=tuple(others))
    return text_table(("contrast", *shown.header[1:]), shown.rows)


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval."""
    return "" if low is None else f"{figure(low)} to {figure(high)}"
