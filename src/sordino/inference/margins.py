"""What a release says in the units of the table: predicted margins and effects, and draws of coefficients by name.

A margin is the mean outcome at a value of a column; the other columns are held at values, or it is averaged over the
rows of a public table. An effect is a difference of two margins. All come from released draws and public values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from sordino.core import __version__
from sordino.core.arrays import Array
from sordino.core.results import Estimate, Result, ResultTable, by_name, figure, interval, optional_module
from sordino.core.validate import InputError, Interval, instance_of, number, refuse, shown_names, whole_number
from sordino.data.columns.base import ColumnKind
from sordino.data.columns.category import Boolean, Category
from sordino.data.columns.number import Date, Interaction, Measurement, Number, Ordered
from sordino.data.raw_columns import Column
from sordino.data.schema import Schema
from sordino.data.sources.in_memory import from_arrays
from sordino.data.sources.registry import read_table
from sordino.data.table import Table
from sordino.fitting.predictor import Predictor
from sordino.fitting.tasks.base import blocks
from sordino.inference.contrasts import LEVEL, round_step
from sordino.inference.summary import under_guarantee
from sordino.ledger.release import StoredRelease
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior, tails, weighted_quantiles

_POINTS = 5  # values at which a number's margin is shown, evenly over its declared range
_MOST_ROWS = 20_000
_ROWS_AT_ONCE = 256
_MOST = Interval(1, 1_000_000)
_AT = "Other columns are fixed at {where}. The default is the middle of the bounds or the first category."
_OVER = "Averaged over the {rows} given rows. They must be public, because the answer uses their values."
_WHAT = "Intervals are central posterior intervals for the mean, not for a new record. They include the privacy noise."


class Margin(NamedTuple):
    """The mean outcome at a value of a column, or a difference; `outcome` is a class or what the mean is called."""

    column: str
    value: str
    outcome: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Margins(Result):
    """Margins or effects of some columns; print them. `remarks` say where the other columns were held."""

    margins: tuple[Margin, ...]
    title: str
    level: float
    remarks: tuple[str, ...]
    cautions: tuple[str, ...] = ()

    @property
    def shown(self) -> ResultTable:
        header = ("", "value", "outcome", "estimate", f"{100.0 * self.level:g} % interval")
        rows = tuple(
            (one.column, one.value, one.outcome, figure(one.estimate), interval(one.low, one.high))
            for one in self.margins
        )
        columns = by_name(self.margins, ("column", "value", "outcome", "estimate", "low", "high"))
        points = tuple(Estimate(f"{one.column} {one.value}", one.estimate, one.low, one.high) for one in self.margins)
        return ResultTable(self.title, ((header, rows),), columns, (), self.cautions, self.remarks, (points,))

    def as_dict(self) -> dict[str, object]:
        listed = [one._asdict() for one in self.margins]
        return {"title": self.title, "level": self.level, "margins": listed, "remarks": list(self.remarks)}


def margins(
    release: StoredRelease,
    columns: Sequence[str] | str | None = None,
    *,
    values: Mapping[str, Sequence[object]] | None = None,
    at: Mapping[str, object] | None = None,
    over: object = None,
    level: float = LEVEL,
) -> Margins:
    """Mean outcomes at values of columns, with intervals; reads the release and public values only.

    Args:
        release: of a fit by bounded influence.
        columns: whose margins; None for all.
        values: by column the values to show; by default five of a number's declared range, and all declared words.
        at: values of the other columns; by default the middle of a range, the first word, the word for no.
        over: a public table to average over instead, as `predict` takes rows; columns of `at` are set in it too.
        level: of the intervals.

    Returns:
        `Margins`.

    Raises:
        InputError: for columns that are not declared, values that do not fit, and methods that do not know their error.
    """
    made = _Setting.of(release, at, over)
    found: list[Margin] = []
    for name in made.asked(columns):
        shown = list((values or {}).get(name, ())) or declared_values(made.kinds[name], _POINTS)
        found += made.lines(name, list(map(_written, shown)), made.outcomes(name, shown), level)
    return Margins(tuple(found), made.title("Predicted margins"), level, made.remarks, release.cautions)


def effects(
    release: StoredRelease,
    columns: Sequence[str] | str | None = None,
    *,
    at: Mapping[str, object] | None = None,
    over: object = None,
    level: float = LEVEL,
) -> Margins:
    """Differences of mean outcomes in natural units: for a round step of a number, for a word against the first one.

    Args:
        release: of a fit by bounded influence.
        columns: whose effects; None for all.
        at: values of the other columns, as in `margins`.
        over: a public table to average over, as in `margins`.
        level: of the intervals.

    Returns:
        `Margins` whose estimates are differences: percentage points are hundredths.
    """
    made = _Setting.of(release, at, over)
    found: list[Margin] = []
    for name in made.asked(columns):
        kind = made.kinds[name]
        if isinstance(kind, Number):
            step = round_step((kind.high - kind.low) / 2.0)
            middle = 0.5 * (kind.low + kind.high)
            shown = [middle - step / 2.0, middle + step / 2.0]
            words = [f"{_written(shown[1])} against {_written(shown[0])}"]
        else:
            shown = declared_values(kind, _POINTS)
            if isinstance(kind, Measurement) and not isinstance(kind, Ordered):
                shown = [shown[0], shown[-1]]
            words = [f"{_written(one)} against {_written(shown[0])}" for one in shown[1:]]
        first, *others = made.outcomes(name, shown)
        found += made.lines(name, words, [one - first for one in others], level)
    title = made.title("Effects as differences of predicted margins")
    return Margins(tuple(found), title, level, made.remarks, release.cautions)


class _Setting(NamedTuple):
    """A release, and rows in the words of its table in which columns are set to values."""

    predictor: Predictor
    kinds: Mapping[str, ColumnKind]
    rows: Table
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, release: StoredRelease, at: Mapping[str, object] | None, over: object) -> Self:
        predictor = Predictor(release)
        if not predictor.knows_means:
            why = f"The method {release.settings.get('method')!r} does not account for all of its error"
            raise InputError(f"{why}, so margins have no interval. Fit by bounded influence.")
        every = raw_kinds(predictor.schema)
        every.pop(str(release.settings.get("time")), None)
        kinds = {name: kind for name, kind in every.items() if name != release.settings.get("exposure")}
        if strange := [name for name in at or () if name not in kinds]:
            raise InputError(f"{shown_names(strange)} is not one of {shown_names(kinds)}.")
        held = {name: checked_value(name, kinds[name], value) for name, value in (at or {}).items()}
        if over is None:
            cells, count = {}, 1
            held = {name: representative(kind) for name, kind in every.items()} | held
            where = _AT.format(where=", ".join(f"{name}={_written(held[name])}" for name in kinds))
        else:
            table = read_table(predictor.schema.source(over))
            absent = [name for name in every if name not in table.columns and name not in held]
            if absent or not 0 < table.rows <= _MOST_ROWS:
                got = f"a table without {shown_names(absent)}" if absent else f"{table.rows} rows"
                wanted = f"a public table of 1 to {_MOST_ROWS} rows with the columns {shown_names(every)}"
                raise InputError(f"Expected {wanted}, got {got}.")
            cells, count = {name: table.columns[name] for name in every if name not in held}, table.rows
            where = _OVER.format(rows=count)
        rows = Table(cells | {name: _filled(name, value, count) for name, value in held.items()})
        return cls(predictor, kinds, rows, (where, *predictor.task.remarks(predictor), _WHAT))

    def asked(self, columns: Sequence[str] | str | None) -> list[str]:
        names = list(self.kinds) if columns is None else [columns] if isinstance(columns, str) else list(columns)
        strange = [name for name in names if name not in self.kinds]
        if strange or not names:
            raise InputError(f"Expected columns among {shown_names(self.kinds)}, got {shown_names(strange) or 'none'}.")
        return names

    def outcomes(self, name: str, values: Sequence[object]) -> list[Array]:
        """Mean outcomes with a column set to each value, (draws, outcomes), averaged over the rows."""
        fit, found, count = self.predictor, [], self.rows.rows
        draws = fit.coefficient_law.draws
        for value in values:
            column = _filled(name, checked_value(name, self.kinds[name], value), count)
            encoded = fit.encode(Table({**self.rows.columns, name: column}))
            sums = [fit.task.outcomes(fit, draws, block).sum(axis=1) for block in blocks(encoded, _ROWS_AT_ONCE)]
            found.append(sum(sums[1:], sums[0]) / count)
        return list(np.moveaxis(np.stack(found, axis=1), 1, 0))

    def lines(self, name: str, values: Sequence[str], drawn: Sequence[Array], level: float) -> list[Margin]:
        """One margin for each value and outcome, from draws of each value of shape (draws, outcomes)."""
        weights, words = np.asarray(self.predictor.coefficient_law.weights), self.predictor.task.outcome_words
        found = []
        for value, draws in zip(values, drawn, strict=True):
            ends = weighted_quantiles(draws, weights, tails(level)).tolist()
            for k, word in enumerate(words(self.predictor)):
                found.append(Margin(name, value, word, float(weights @ draws[:, k]), *ends[k]))
        return found

    def title(self, what: str) -> str:
        target = self.predictor.schema.target
        return under_guarantee(what if target is None else f"{what} of {target.name}", self.predictor.release)


def raw_kinds(schema: Schema) -> dict[str, ColumnKind]:
    """The kind of every column of the table that features are read from, those of products too."""
    found: dict[str, ColumnKind] = {}
    for feature in schema.features:
        if isinstance(feature.kind, Interaction):
            for factor in feature.kind.of:
                found.setdefault(factor.column, factor.kind)
        else:
            found[feature.name] = feature.kind
    return found


def declared_values(kind: ColumnKind, points: int) -> list[Any]:
    """All declared words, or so many values evenly over a declared range, as the table spells them."""
    if isinstance(kind, Category | Ordered):
        return list(kind.values)
    if isinstance(kind, Boolean):
        return [kind.false_values[0], kind.true_values[0]]
    if isinstance(kind, Date):
        ends = np.array([kind.first, kind.last], "datetime64[D]").astype(np.int64)
        days = np.linspace(float(ends[0]), float(ends[1]), points).round().astype(np.int64).astype("datetime64[D]")
        return [day.item().strftime(kind.format) for day in days]
    range_of = instance_of("the column", kind, Measurement)
    return [float(f"{one:.6g}") for one in np.linspace(range_of.low, range_of.high, points)]


def representative(kind: ColumnKind) -> Any:
    """A declared value in the middle: half of a range, the first word of a list, the word for no."""
    if isinstance(kind, Measurement) and not isinstance(kind, Ordered | Date):
        return 0.5 * (kind.low + kind.high)
    found = declared_values(kind, 3)
    return found[0 if isinstance(kind, Category | Boolean) else len(found) // 2]


def checked_value(name: str, kind: ColumnKind, value: Any) -> Any:
    """A value that the schema allows: inside its range, or one of its words."""
    if isinstance(kind, Number):
        try:
            given = number(f"a value of {name!r}", float(value))
        except (TypeError, ValueError):
            raise refuse(f"a value of {name!r}", "to be a number", value) from None
        if not kind.low <= given <= kind.high:
            raise refuse(f"a value of {name!r}", f"between {kind.low:g} and {kind.high:g}", given)
        return given
    if isinstance(kind, Date):
        return str(value)
    if str(value) not in kind.words:
        raise refuse(f"a value of {name!r}", f"to be one of {shown_names(kind.words)}", value)
    return str(value)


def _filled(name: str, value: object, rows: int) -> Column:
    return from_arrays({name: np.array([value] * rows)}).columns[name]


def _written(value: object) -> str:
    return figure(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def named_draws(release: StoredRelease, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
    """Draws of the coefficients in the units of the table, by name, all equally probable; post-processing, so free."""
    names, table = _drawn(Predictor(release), draws, seed)
    return {name: table[:, place] for place, name in enumerate(names)}


def to_arviz(release: StoredRelease, draws: int = 1000, seed: int | None = None) -> Any:
    """The posterior for ArviZ: variables `intercept` and `slope`, whose coordinates are the table's own words.

    Args:
        release: of a linear model.
        draws: how many.
        seed: for the same draws again.

    Returns:
        An ArviZ object. `slope` has the dimension `column`, and with several classes `class` as well. Attributes have
        the guarantee. It needs the extra `arviz`.
    """
    arviz = optional_module("arviz", "sordino[arviz]")
    predictor = Predictor(release)
    _, table = _drawn(predictor, draws, seed)
    own, columns = predictor.posterior, predictor.coefficients[0]
    if isinstance(own, CoefficientPosterior):
        words = [word for word in own.outputs if word]
    else:
        words = [str(word) for word in predictor.labels.tolist()] if predictor.outputs > 1 else []
    shaped = table.reshape(1, len(table), -1, max(len(words), 1))
    coords = {"column": list(columns[1:]), **({"class": words} if words else {})}
    several = ["class"] if words else []
    dims = {"slope": ["column", *several], "intercept": several}
    intercept, slope = shaped[:, :, 0], shaped[:, :, 1:]
    variables = {"intercept": intercept if words else intercept[..., 0], "slope": slope if words else slope[..., 0]}
    return with_guarantee(arviz.from_dict(posterior=variables, coords=coords, dims=dims), release)


def with_guarantee(made: Any, release: StoredRelease) -> Any:
    """An ArviZ object whose posterior says the guarantee among its attributes."""
    made.posterior.attrs |= {
        "inference_library": "sordino",
        "inference_library_version": __version__,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "relation": release.spec.relation.value,
        "unit": release.protected.words,
        "private": str(release.private).lower(),
    }
    return made


def _drawn(predictor: Predictor, draws: int, seed: int | None) -> tuple[tuple[str, ...], Array]:
    if not predictor.task.linear or predictor.only_a_constant:
        raise InputError("This release has no coefficients of columns, so it has no named draws.")
    count, generator = whole_number("draws", draws, _MOST), np.random.default_rng(seed)
    own = predictor.posterior
    if isinstance(own, CoefficientPosterior):
        law = own.in_table_units()
        return law.names, np.asarray(law.sample(generator, count))
    names, matrix, constant = predictor.table_units
    return names, own.sample(generator, count)[:, : matrix.shape[1]] @ matrix.T + constant
