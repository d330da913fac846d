"""What a release says as a table: coefficients of fits, answers of looks, bands of checks, losses of compared models.

A fit by bounded influence has standard errors, z, p-values and shares of each width; other methods have estimates, with
intervals where it was measured how often they hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sordino.core.gaussian import show_up
from sordino.core.results import (
    Estimate,
    Result,
    ResultTable,
    by_name,
    crossed,
    figure,
    interval,
    noised_figures,
    p_words,
    percent,
    ratio_figure,
    text_table,
)
from sordino.core.validate import OPEN_UNIT, InputError, number, printable
from sordino.data import Category, ColumnKind, Measurement
from sordino.data.columns.number import Date, DatePart, Interaction
from sordino.fitting.predictor import Predictor
from sordino.fitting.tasks.base import task_of
from sordino.inference.contrasts import INTERCEPT, LEVEL, Coefficients, Line, lines, place_of, round_step
from sordino.ledger.release import StoredRelease, coverage
from sordino.mechanisms.posterior.coefficients import (
    ARRAYS,
    CoefficientPosterior,
    from_stored,
    tails,
    weighted_quantiles,
)

_SEED, _DRAWS = 20_265, 4000
_TESTED = (
    "Estimates are posterior means in the units of the table. Standard errors are posterior standard deviations and "
    "include the privacy noise. z = estimate / standard error. p is twice the posterior probability that the "
    "coefficient has the opposite sign; it is below 0.05 if the 95 % interval excludes 0. It is computed from draws of "
    "the posterior and can differ from the p-value of z. The prior pulls estimates and z towards 0, and p towards 1."
)
_SHARES = (
    "Sampling: the variance without privacy. Privacy: the part from noise. Prior: the part from the assumed effect "
    "size. A coefficient marked * is prior-dominated: it says more about the assumed effect size than about the table."
)
_UNTESTED = (
    "This method does not account for all of its error, so there are no standard errors and no p-values. Do not "
    "publish the intervals as if their coverage were nominal."
)
_WITHHELD = (
    "This method does not account for all of its error, so there are no standard errors, intervals and p-values: {}."
)
_NO_COEFFICIENTS = "The coefficients of this model have no meaning of their own. Use `sordino predict`."
_MEANS = "Means of each component's columns. Components come in no particular order. No intervals are reported."
SHARE_HEADER = ("share of the variance", "sampling", "privacy", "prior", "widened by privacy")


@dataclass(frozen=True)
class Summary(Result):
    """The coefficients of a release as a table; print it.

    `intervals` says what they are, `ratio` what exp(coefficient) is called, `tested` whether there are standard errors.
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
        return self.lines[place_of(name, [one.name for one in self.lines])]

    def as_dict(self) -> dict[str, object]:
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
    def cells(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Header and rows of the table, as text."""
        ratios = list(map(_ratios, self.lines))
        cells = {"": list(map(_starred, self.lines)), "estimate": [figure(one.estimate) for one in self.lines]}
        if self.tested:
            cells["std. error"] = [figure(one.standard_error) for one in self.lines]
        if any(one.low is not None for one in self.lines):
            cells[self.intervals] = [interval(one.low, one.high) for one in self.lines]
        if self.tested:
            cells["z"] = ["" if one.z is None else f"{one.z:.2f}" for one in self.lines]
            cells["p"] = [p_words(one.p_value) for one in self.lines]
        if self.ratio and self.tested:
            cells[self.ratio] = ["" if one is None else ratio_figure(one[0]) for one in ratios]
            cells["interval"] = ["" if one is None else " to ".join(map(ratio_figure, one[1:])) for one in ratios]
        return tuple(cells), tuple(zip(*cells.values(), strict=True))

    @property
    def share_rows(self) -> tuple[tuple[str, ...], ...]:
        """What each width is made of, as text; empty where it is known of no coefficient."""
        sets = [(one, one.shares or (None, None, None)) for one in self.lines]
        rows = tuple((_starred(one), *map(percent, shares), percent(one.widened)) for one, shares in sets)
        return rows if any(one.shares for one in self.lines) else ()

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The same numbers with all digits, by column; None where a number is not known."""
        found = by_name(self.lines, ("name", "estimate", "standard_error", "low", "high", "z", "p_value"))
        word, nothing = self.ratio.replace(" ", "_"), (None, None, None)
        sets = [((word, f"{word}_low", f"{word}_high"), [_ratios(one) for one in self.lines])] if word else []
        sets.append((("share_sampling", "share_privacy", "share_prior"), [one.shares for one in self.lines]))
        for names, values in sets:
            found |= {name: [(one or nothing)[place] for one in values] for place, name in enumerate(names)}
        return found | by_name(self.lines, ("prior_dominated",))

    @property
    def shown(self) -> ResultTable:
        tables = (self.cells, (SHARE_HEADER, self.share_rows))
        tables = tuple(one for one in tables if one[1])
        points = tuple(Estimate(one.name, one.estimate, one.low, one.high) for one in self.lines)
        return ResultTable(self.title, tables, self.columns, self.facts, self.cautions, self.remarks, (points,))


def _starred(line: Line) -> str:
    return line.name + (" *" if line.prior_dominated else "")


def _ratios(line: Line) -> tuple[float, float, float] | None:
    """None for an intercept: its exp is odds or a rate, and no ratio of two."""
    return None if line.name.split(" [")[0] == INTERCEPT else line.ratio


def lines_as_text(summary: Summary, others: Sequence[Line]) -> str:
    """Sums of coefficients in the columns of a summary."""
    header, rows = replace(summary, lines=tuple(others)).cells
    return text_table(("contrast", *header[1:]), rows)


def summary_of(release: StoredRelease, level: float = LEVEL) -> Summary:
    """The coefficients of a release as a table, without lines where none means something by itself."""
    number("level", level, OPEN_UNIT)
    held, said = coverage.release_coverage(release, coverage.COEFFICIENTS, level), coverage.cautions_of(release)
    known, task = coefficients_if_known(release), task_of(release.settings)
    family = "" if known is None else known.family
    what = task.title if task is not None and not family else f"{family} regression"
    what = f"{what[:1].upper()}{what[1:]} by {release.settings.get('method')}"
    title = under_guarantee(what, release, f", {release.spec.relation.value}, for {release.protected.words}")
    facts = _facts(release, family)
    if known is not None:
        words, remarks = f"{100.0 * level:g} % interval", _remarks(release, known, held)
        return Summary(title, lines(known, level), level, words, known.ratio, True, said, remarks, facts)
    predictor = Predictor(release)
    found, words, remark = (), "", _NO_COEFFICIENTS
    if predictor.task.clusters:
        found, remark = _means(predictor, level), _MEANS
    elif predictor.task.linear:
        found, words, remark = _estimates(predictor, held, level)
    return Summary(title, found, level, words, "", False, release.cautions, (remark,), facts)


def _facts(release: StoredRelease, family: str) -> tuple[tuple[str, str], ...]:
    """What stands above the tables of a release, as statsmodels has it; public settings and the certificate."""
    schema, ledger, task = release.schema, release.ledger, task_of(release.settings)
    target = None if schema is None else schema.target
    entry = "none" if ledger is None else f"entry {ledger['entry']} of {ledger['dataset']}"
    return (
        *(() if target is None else (("Dep. variable", target.name),)),
        ("Model", family or ("" if task is None else next(iter(task.models)))),
        ("Method", str(release.settings.get("method"))),
        *(((f"{schema.counted.capitalize()} (declared)", f"{schema.records:,}"),) if schema is not None else ()),
        ("Epsilon", show_up(release.epsilon)),
        ("Delta", f"{release.delta:g}"),
        ("Relation", release.spec.relation.value),
        ("Ledger", entry),
    )


def _remarks(release: StoredRelease, known: Coefficients, held: str | None) -> tuple[str, ...]:
    """What the columns mean, and what classes and categories are compared with."""
    labels = release.settings.get("labels")
    said = []
    if known.ratio == "odds ratio" and isinstance(labels, list | tuple) and len(labels) > 1:
        of = printable(str(labels[1])) if len(labels) == 2 else "each class"
        said.append(f"Odds are those of {of} against {printable(str(labels[0]))}.")
    features = () if release.schema is None else release.schema.features
    first = [f"{feature.name}={feature.kind.values[0]}" for feature in features if isinstance(feature.kind, Category)]
    if first:
        said.append(f"Categories are compared with {', '.join(map(printable, first))}.")
    said += _column_remarks({feature.name: feature.kind for feature in features})
    if known.family == "cox":
        first, second = (float(edge) for edge in release.settings["bins"][:2])
        compared = f"Bins are compared with the first, from {first:g} to {second:g}, whose hazard where all columns are"
        said.append(f"The hazard is constant in each time bin. {compared} 0 is exp of the intercept.")
    if held is not None:
        said.append(f"Coverage of such intervals on simulated tables: {held}.")
    return (_TESTED, _SHARES, *([" ".join(said)] if said else []))


def _column_remarks(kinds: Mapping[str, ColumnKind]) -> list[str]:
    """What one unit of a column is where its name does not say it, and from where products and gaps count."""
    numbers = {name: kind for name, kind in kinds.items() if isinstance(kind, Measurement)}
    units = {name: kind.one_more for name, kind in numbers.items() if kind.one_more}
    said = [f"One more of {printable(name)} is {printable(unit)}." for name, unit in units.items()]
    of = {part.column: part for kind in numbers.values() if isinstance(kind, Interaction) for part in kind.of}
    factors = {name: part.kind for name, part in of.items() if isinstance(part.kind, Measurement)}
    middles = [f"{printable(name)} from {(kind.low + kind.high) / 2.0:g}" for name, kind in factors.items()]
    if middles:
        centred = f"In products, numbers are centred at the middle of their bounds ({', '.join(middles)})"
        said.append(f"{centred}, and the coefficient of one factor is its effect there.")
    gaps = [printable(name) for name, kind in numbers.items() if kind.missing.adds_indicator]
    if gaps:
        said.append(f"A missing cell of {', '.join(gaps)} is compared with one in the middle of the bounds.")
    return said


def coefficients_if_known(release: StoredRelease) -> Coefficients | None:
    """The weighted draws of a release in the units of the table; None where the method does not know its error."""
    if frozenset(release.arrays) != ARRAYS or coverage.is_constant(release) or coverage.withheld(release) is not None:
        return None
    law = from_stored(release.arrays, release.settings).in_table_units()
    names, family, (draws, weights, parts) = law.names, law.family, map(np.asarray, (law.draws, law.weights, law.parts))
    task, steps = task_of(release.settings), dict[str, float]()
    # A figure shows the effect of a round step of a number: about half its declared range.
    for feature in () if release.schema is None else release.schema.features:
        if isinstance(kind := feature.kind, Measurement) and feature.name in law.columns:
            step = round_step((kind.high - kind.low) / 2.0)
            steps |= {f"{feature.name} [{word}]" if word else feature.name: step for word in law.outputs}
    return Coefficients(names, draws, weights, parts, "" if task is None else task.ratio, family, steps)


def coefficients_of(release: StoredRelease) -> Coefficients:
    """The same; refused where there are none."""
    found = coefficients_if_known(release)
    if found is not None:
        return found
    if (reason := coverage.withheld(release)) is not None:
        raise InputError(f"The intervals of this release are withheld: {reason}.")
    method = release.settings.get("method")
    why = f"The method {method!r} does not account for all of its error, so no test can be made"
    raise InputError(f"{why}. Fit by bounded influence.")


def _estimates(predictor: Predictor, held: str | None, level: float) -> tuple[tuple[Line, ...], str, str]:
    """Estimates of methods whose intervals are not known to hold: lines, what was measured of them, and a remark."""
    law, words, ends = predictor.posterior, None, []
    if isinstance(law, CoefficientPosterior):
        table = law.in_table_units()
        names, estimates = table.names, table.mean.tolist()
    else:
        names, matrix, constant = predictor.table_units
        if predictor.only_a_constant:
            outputs = predictor.outputs
            names, matrix, constant = names[:outputs], matrix[:outputs, :outputs], constant[:outputs]
        words = held
        estimates = (matrix @ law.mean[: matrix.shape[1]] + constant).tolist()
        if words is not None:
            drawn = law.sample(np.random.default_rng(_SEED), _DRAWS)[:, : matrix.shape[1]]
            equal = np.full(len(drawn), 1.0 / len(drawn))
            ends = weighted_quantiles(drawn @ matrix.T + constant, equal, tails(level)).tolist()
    found = zip(names, estimates, ends or [(None, None)] * len(names), strict=True)
    rows = tuple(Line(name, mean, None, *both, level=level) for name, mean, both in found)
    withheld = _WITHHELD.format(coverage.withheld(predictor.release) or coverage.NOT_MEASURED)
    return rows, words or "", _UNTESTED if words else withheld


def _means(predictor: Predictor, level: float) -> tuple[Line, ...]:
    """The posterior means of a mixture's components, in the units of the table."""
    names = predictor.schema.feature_names
    means = np.array(predictor.posterior.mean, np.float64).reshape(-1, len(names))
    for feature, block in predictor.schema.blocks:
        if isinstance(feature.kind, Measurement):
            means[:, block.start] = feature.kind.decode(means[:, block.start])
    labels = [f"{name} [{k}]" for k in range(len(means)) for name in names]
    return tuple(Line(name, mean, level=level) for name, mean in zip(labels, means.ravel().tolist(), strict=True))


LOOK, CHECK, COMPARISON = "look", "check", "comparison"  # what looks, checks and comparisons released
ABOUT = (
    "Loss is 0 for a certain and right prediction and 1 for the worst. Classes: -ln of the probability of the true "
    "class, over ln 20. Numbers: the distance from the mean, over a quarter of the declared range. Predictions use "
    "the posterior's mean coefficients. A difference below 0 means that the model loses less than the first one."
)
_OPTIMISM = (
    "A model looks slightly better on the rows it was fitted to. Differential privacy limits this effect, because no "
    "record moves a fit far."
)


def under_guarantee(what: str, release: StoredRelease, more: str = "") -> str:
    """A title: what it is, its guarantee, and whether it may be published."""
    private = "" if release.private else " NON-PRIVATE: made with a seed."
    return f"{what}, epsilon {show_up(release.epsilon)} at delta {release.delta:g}{more}.{private}"


def stored_table(release: StoredRelease) -> ResultTable | None:
    """The table of a look, a check or a comparison; None for any other release."""
    given = release.settings
    if release.kind == CHECK:
        return check_table(given["bands"], given["about"], given["level"], release)
    if release.kind == COMPARISON:
        return comparison_table(given["models"], given["level"], release)
    return answer_table(release) if release.kind == LOOK else None


def answer_table(release: StoredRelease) -> ResultTable:
    """The answers of a look."""
    level = f"{100 * release.settings['level']:g} % interval"
    tables, flat, points = [], [], []
    kinds = {} if release.schema is None else {one.name: one.kind for one in release.schema.declared_columns()}
    for one in release.settings["answers"]:
        days = isinstance(kind := kinds.get("".join(one["columns"][:1])), Date) and kind.part == DatePart.DAYS
        rows = [(row["name"], *_answer_figures(row, days)) for row in one["rows"]]
        flat_table = ((one["question"], "answer", level), tuple(rows or [("hidden by the noise", "", "")]))
        tables.append(crossed(one["question"], rows) or flat_table)
        points.append(tuple(Estimate(row["name"], row["value"], row["low"], row["high"]) for row in one["rows"]))
        flat += [{"question": one["question"], **row} for row in one["rows"]]
    columns = by_name(flat, ("question", "name", "value", "low", "high"))
    return ResultTable("", tuple(tables), columns, (), release.cautions, (release.settings["about"],), tuple(points))


def _answer_figures(row: Mapping[str, Any], days: bool) -> tuple[str, str]:
    """An answer and its interval; p-values have none, and means and quantiles of dates are days of the calendar."""
    name, numbers = row["name"].rpartition(": ")[2], (row["value"], row["low"], row["high"])
    if name.startswith("p-value"):
        return p_words(row["value"]), ""
    if days and (name.startswith("mean") or name.endswith(" %")) and None not in numbers:
        value, low, high = (str(np.datetime64(round(number), "D")) for number in numbers)
        return value, f"{low} to {high}"
    return noised_figures(*numbers)


def check_table(bands: list[dict[str, Any]], about: str, level: float, release: StoredRelease | None) -> ResultTable:
    """The bands of a check."""
    counted = "records" if release is None else "records (noised)"
    header = ("predicted", counted, "off by", f"{100.0 * level:g} % interval")
    rows, points = [], []
    for one in bands:
        name, ends = interval(one["low"], one["high"]), (one["off_low"], one["off_high"])
        off = "too few records" if one["off"] is None else figure(one["off"])
        rows.append((name, f"{one['count']:.0f}", off, interval(*ends)))
        points += [] if one["off"] is None else [Estimate(name, one["off"], *ends)]
    if release is None:
        title = "Check on public rows: exact, and not charged."
        meant = "The rows must be public, because the answer reveals them. There is no noise and therefore no interval."
    else:
        title = under_guarantee("Check on private rows", release)
        meant = "The intervals include the privacy noise only, not the sampling error."
    columns = by_name(bands, ("low", "high", "count", "off", "off_low", "off_high"))
    return ResultTable(title, ((header, tuple(rows)),), columns, (), (), (about, meant), (tuple(points),))


def comparison_table(models: list[dict[str, Any]], level: float, release: StoredRelease) -> ResultTable:
    """Models beside each other."""
    share, none = f"{100.0 * level:g} %", (None, None)
    header = ("model", "mean loss", f"{share} interval", "difference", f"{share} in the table", f"{share} alike")
    rows = []
    for one in models:
        table, alike = (interval(*(one[key] or none)) for key in ("table", "alike"))
        own = interval(one["low"], one["high"])
        rows.append((one["name"], figure(one["loss"]), own, figure(one["difference"]), table, alike))
    columns = by_name(models, ("name", "loss", "low", "high", "difference"))
    for key in ("table", "alike"):
        for place, end in enumerate(("low", "high")):
            columns[f"difference_{key}_{end}"] = [(one[key] or none)[place] for one in models]
    title = under_guarantee("Models compared on private rows", release)
    points = tuple(Estimate(one["name"], one["loss"], one["low"], one["high"]) for one in models)
    return ResultTable(title, ((header, tuple(rows)),), columns, (), (), (ABOUT, _OPTIMISM), (points,))
