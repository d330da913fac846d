"""The coefficients of a release as a table that prints itself.

A fit by bounded influence has intervals that hold, so its table has standard errors, z and p-values, and says what each
width is made of. Of older methods only the estimates are shown, with intervals where it was measured how often they
hold, and no test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.arrays import weighted_quantiles
from sordino.core.gaussian import show_up
from sordino.core.validate import OPEN_UNIT, InputError, number, printable
from sordino.data import Category, ColumnKind, Measurement, Schema
from sordino.data.columns.interaction import Interaction
from sordino.fitting.tasks import LINEAR, Task
from sordino.inference.contrasts import (
    INTERCEPT,
    LEVEL,
    Coefficients,
    Line,
    figure,
    lines,
    p_words,
    percent,
    ratio_figure,
    round_step,
    text_table,
)
from sordino.inference.table_formats import ResultTable, TableResult

if TYPE_CHECKING:
    from sordino.inference.prediction import Predictor
    from sordino.ledger.release import StoredRelease

# What exp of a coefficient is, by family.
RATIOS = {
    "logistic": "odds ratio",
    "multinomial": "odds ratio",
    "poisson": "rate ratio",
    "negative-binomial": "rate ratio",
    "cox": "hazard ratio",
}
_SEED, _DRAWS = 20_265, 4000
_TESTED = (
    "Estimates are posterior means in the units of the table, standard errors posterior standard deviations with the "
    "privacy noise in them. z is their quotient; p is twice the share of the posterior on the other side of 0, so it "
    "is below 0.05 where the 95 % interval leaves 0 out. The prior pulls both towards no effect."
)
_SHARES = (
    "Sampling is what would be there without privacy, prior what the declared size of effects holds. A "
    "coefficient marked * is prior-dominated: it says more about the declared size of effects than about the table."
)
_UNTESTED = (
    "This method does not know all of its own error, so there are no standard errors and no p-values: do not publish "
    "the intervals as if they held at their level."
)
_WITHHELD = (
    "This method does not know all of its own error, so there are no standard errors, no intervals and no p-values: {}."
)


SHARE_HEADER = ("share of the variance", "sampling", "privacy", "prior", "privacy widened it by")


@dataclass(frozen=True)
class Summary(TableResult):
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
        tables = [(tuple(self.header), tuple(map(tuple, self.rows)))] if self.lines else []
        tables += [(SHARE_HEADER, tuple(map(tuple, self.share_rows)))] if self.share_rows else []
        return ResultTable(self.title, tuple(tables), self.columns, self.facts, self.cautions, self.remarks)


def lines_as_text(summary: Summary, others: Sequence[Line]) -> str:
    """Sums of coefficients in the columns of a summary."""
    shown = replace(summary, lines=tuple(others))
    return text_table(("contrast", *shown.header[1:]), shown.rows)


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval."""
    return "" if low is None else f"{figure(low)} to {figure(high)}"


def summary_of(release: "StoredRelease", level: float = LEVEL) -> Summary:
    """The coefficients of a release as a table.

    Args:
        release: as `read_release` gives it, or an estimator's `release_`.
        level: of the intervals, in (0, 1).

    Returns:
        A `Summary`; it has no lines where the model has no coefficients that mean something one by one.
    """
    number("level", level, OPEN_UNIT)
    known = coefficients_if_known(release)
    if known is not None:
        from sordino.ledger.release.coverage import cautions_of  # noqa: PLC0415

        title, words = _title(release, known.family), f"{100.0 * level:g} % interval"
        return Summary(
            title,
            lines(known, level),
            level,
            words,
            known.ratio,
            True,
            cautions_of(release),
            _remarks(release, known, level),
            facts_of(release, known.family),
        )
    # Loaded where it is needed: it brings JAX.
    from sordino.inference.prediction import Predictor  # noqa: PLC0415

    predictor, title = Predictor(release), _title(release)
    if predictor.task in LINEAR:
        return _of_older(predictor, title, level)
    words = "This model has no coefficients that mean something one by one; `sordino predict` answers for rows."
    return Summary(title, (), level, "", "", False, release.cautions, (words,), facts_of(release))


def facts_of(release: "StoredRelease", family: str = "") -> tuple[tuple[str, str], ...]:
    """What stands above the tables of a release, as statsmodels has it; public settings and the certificate."""
    schema, settings = release.schema, release.settings
    target = None if schema is None else schema.target
    ledger = release.ledger
    entry = "none" if ledger is None else f"entry {ledger['entry']} of {ledger['dataset']}"
    return (
        *((("Dep. variable", target.name),) if target is not None else ()),
        ("Model", family or _family_word(release)),
        ("Method", str(settings.get("method"))),
        *(((f"{schema.counted.capitalize()} (declared)", f"{schema.records:,}"),) if schema is not None else ()),
        ("Epsilon", show_up(release.epsilon)),
        ("Delta", f"{release.delta:g}"),
        ("Relation", release.spec.relation.value),
        ("Ledger", entry),
    )


def _remarks(release: "StoredRelease", known: Coefficients, level: float) -> tuple[str, ...]:
    """What the columns mean, and what classes and categories are compared with."""
    labels = release.settings.get("labels")
    said = []
    if known.ratio == "odds ratio" and isinstance(labels, list | tuple) and len(labels) > 1:
        of = f"{printable(str(labels[1]))}" if len(labels) == 2 else "each class"
        said.append(f"Odds are those of {of} against {printable(str(labels[0]))}.")
    features = () if release.schema is None else release.schema.features
    first = [f"{feature.name}={feature.kind.values[0]}" for feature in features if isinstance(feature.kind, Category)]
    if first:
        said.append(f"Categories are compared with {', '.join(map(printable, first))}.")
    said += _column_remarks({feature.name: feature.kind for feature in features})
    if known.family == "cox":
        first, second = (float(edge) for edge in release.settings["bins"][:2])
        said.append(
            f"The hazard is constant in each time bin; bins are compared with the first, from {first:g} to {second:g}, "
            "whose hazard where all columns are 0 is exp of the intercept."
        )
    from sordino.ledger.release.coverage import COEFFICIENTS, release_coverage  # noqa: PLC0415

    held = release_coverage(release, COEFFICIENTS, level)
    if held is not None:
        said.append(f"How often such intervals held the truth on drawn tables: {held}.")
    return (_TESTED, _SHARES, *([" ".join(said)] if said else []))


def _column_remarks(kinds: Mapping[str, ColumnKind]) -> list[str]:
    """What one unit of a column is where its name does not say it, and from where products and gaps count."""
    numbers = {name: kind for name, kind in kinds.items() if isinstance(kind, Measurement)}
    said = [
        f"One more of {printable(name)} is {printable(kind.one_more)}."
        for name, kind in numbers.items()
        if kind.one_more
    ]
    of = {part.column: part for kind in numbers.values() if isinstance(kind, Interaction) for part in kind.of}
    middles = [
        f"{printable(name)} from {(part.kind.low + part.kind.high) / 2.0:g}"
        for name, part in of.items()
        if isinstance(part.kind, Measurement)
    ]
    if middles:
        said.append(
            f"In products numbers count from the middle of their bounds ({', '.join(middles)}), and a coefficient of a "
            "part alone is its effect there."
        )
    gaps = [printable(name) for name, kind in numbers.items() if kind.missing.adds_indicator]
    if gaps:
        said.append(f"A missing cell of {', '.join(gaps)} is compared with one in the middle of the bounds.")
    return said


def coefficients_if_known(release: "StoredRelease") -> Coefficients | None:
    """The weighted draws of a release in the units of the table; None for methods that do not know their error.

    Nor are they known where there are so many coefficients that intervals are withheld.
    """
    from sordino.ledger.release.coverage import is_constant, withheld  # noqa: PLC0415
    from sordino.mechanisms.posterior.coefficients import ARRAYS, from_stored  # noqa: PLC0415

    if frozenset(release.arrays) != ARRAYS or is_constant(release) or withheld(release) is not None:
        return None
    law = from_stored(release.arrays, release.settings).in_table_units()
    draws, weights, parts = (np.asarray(values) for values in (law.draws, law.weights, law.parts))
    steps = _steps(release.schema, law.columns, law.outputs)
    return Coefficients(law.names, draws, weights, parts, RATIOS.get(law.family, ""), law.family, steps)


def _steps(schema: Schema | None, columns: Sequence[str], outputs: Sequence[str]) -> dict[str, float]:
    """For every number the round step that a figure shows the effect of: about half its declared range."""
    kinds = {feature.name: feature.kind for feature in (() if schema is None else schema.features)}
    found = {}
    for column in columns:
        kind = kinds.get(column)
        if isinstance(kind, Measurement):
            step = round_step((kind.high - kind.low) / 2.0)
            found |= {f"{column} [{word}]" if word else column: step for word in outputs}
    return found


def coefficients_of(release: "StoredRelease") -> Coefficients:
    """The same; refused where there are none."""
    found = coefficients_if_known(release)
    if found is None:
        from sordino.ledger.release.coverage import withheld  # noqa: PLC0415

        method, reason = release.settings.get("method"), withheld(release)
        if reason is not None:
            raise InputError(f"Expected a release whose intervals are told, got one that has none: {reason}.")
        raise InputError(
            f"Expected a release by bounded influence, got one by {method!r}, which does not know all of its own "
            "error; no test can be made of it."
        )
    return found


def _of_older(predictor: "Predictor", title: str, level: float) -> Summary:
    """Estimates of methods whose intervals are not known to hold: with what was measured, without a test."""
    from sordino.ledger.release.coverage import COEFFICIENTS, NOT_MEASURED, is_constant, release_coverage, withheld  # noqa: PLC0415
    from sordino.mechanisms.posterior.coefficients import CoefficientPosterior  # noqa: PLC0415

    release = predictor.release

    words = release_coverage(release, COEFFICIENTS, level)
    law = predictor.posterior
    if isinstance(law, CoefficientPosterior):
        table = law.in_table_units()
        estimated = zip(table.names, table.mean.tolist(), strict=True)
        rows = tuple(Line(name, estimate, None, None, None, level=level) for name, estimate in estimated)
        remark = _WITHHELD.format(withheld(release) or NOT_MEASURED)
        return Summary(title, rows, level, "", "", False, release.cautions, (remark,), facts_of(release))
    names, matrix, constant = predictor.table_units
    if predictor.only_a_constant or is_constant(release):
        outputs = int(getattr(predictor.model, "outputs", 1))
        names, matrix, constant = names[:outputs], matrix[:outputs, :outputs], constant[:outputs]
    mean = predictor.posterior.mean[: matrix.shape[1]]
    estimates = matrix @ mean + constant
    ends = np.full((len(names), 2), np.nan)
    if words is not None:
        drawn = predictor.posterior.sample(np.random.default_rng(_SEED), _DRAWS)[:, : matrix.shape[1]]
        equal = np.full(len(drawn), 1.0 / len(drawn))
        ends = weighted_quantiles(drawn @ matrix.T + constant, equal, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    found = tuple(
        Line(name, float(estimate), None, None, None, level=level)
        if words is None
        else Line(name, float(estimate), None, float(low), float(high), level=level)
        for name, estimate, (low, high) in zip(names, estimates, ends, strict=True)
    )
    remark = _UNTESTED if words is not None else _WITHHELD.format(withheld(release) or NOT_MEASURED)
    return Summary(title, found, level, words or "", "", False, release.cautions, (remark,), facts_of(release))


_TASKS: dict[str, str] = {
    Task.REGRESSION: "linear",
    Task.ROBUST: "robust",
    Task.CLASSIFICATION: "logistic",
    Task.COUNTS: "poisson",
    Task.SURVIVAL: "cox",
}


def _family_word(release: "StoredRelease") -> str:
    task = str(release.settings.get("task"))
    return _TASKS.get(task, task)


def _title(release: "StoredRelease", family: str = "") -> str:
    settings, word = release.settings, family or _family_word(release)
    private = "" if release.private else " NON-PRIVATE: made with a seed."
    return (
        f"{word[:1].upper()}{word[1:]} regression by {settings.get('method')}, epsilon {show_up(release.epsilon)} at "
        f"delta {release.delta:g}, {release.spec.relation.value}, for {release.protected.words}.{private}"
    )
