"""What a release says about coefficients: a table one can print, contrasts, joint tests and intervals of means.

A fit by bounded influence has intervals that hold, so its table has standard errors, z and p-values, and says what each
width is made of. Of older methods only the estimates are shown, with intervals where it was measured how often they
hold, and no test.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino.core.arrays import Array, weighted_quantiles
from sordino.core.gaussian import show_up
from sordino.core.validate import OPEN_UNIT, InputError, number, printable
from sordino.data import Category, ColumnKind, Measurement, Schema
from sordino.data.columns.interaction import Interaction
from sordino.estimators.inference_table import (
    LEVEL,
    Coefficients,
    Line,
    Wald,
    contrast,
    lines,
    round_step,
    wald,
)
from sordino.estimators.summary import Summary
from sordino.estimators.tasks import LINEAR, Task

if TYPE_CHECKING:
    from sordino.estimators.margins import Margins
    from sordino.estimators.predicted_means import MeanAndNew
    from sordino.estimators.prediction import Predictor
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
        from sordino.ledger.release.folder import cautions_of  # noqa: PLC0415

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
    from sordino.estimators.prediction import Predictor  # noqa: PLC0415

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
    from sordino.ledger.release.folder import COEFFICIENTS, release_coverage  # noqa: PLC0415

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
    from sordino.algorithm.posterior.coefficients import ARRAYS, from_stored  # noqa: PLC0415
    from sordino.ledger.release.folder import is_constant, withheld  # noqa: PLC0415

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
        from sordino.ledger.release.folder import withheld  # noqa: PLC0415

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
    release = predictor.release
    from sordino.ledger.release.folder import (  # noqa: PLC0415
        COEFFICIENTS,
        NOT_MEASURED,
        is_constant,
        release_coverage,
        withheld,
    )

    words = release_coverage(release, COEFFICIENTS, level)
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


class WithCoefficients:
    """Tables, contrasts, joint tests and intervals of means, for estimators whose coefficients mean something."""

    release_: "StoredRelease"
    if TYPE_CHECKING:

        @property
        def _predictor(self) -> Predictor: ...

        def _encode(self, X: Any) -> Array: ...

    def _check_coefficients(self) -> None:
        # Loaded where it is needed: the command line reads releases without scikit-learn.
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415

        check_is_fitted(self, "release_")

    def summary(self, level: float = LEVEL) -> Summary:
        """The coefficients as a table: estimate, standard error, interval, z, p-value, and what widths are made of.

        Args:
            level: of the intervals.

        Returns:
            A `Summary`; print it. Older methods have estimates only, and what was measured of their intervals.
        """
        self._check_coefficients()
        return summary_of(self.release_, level)

    def contrast(self, weights: Mapping[str, float] | str, level: float = LEVEL) -> Line:
        """A sum of coefficients with its interval and test, such as ``contrast({"age": 1, "dose": -1})``.

        Args:
            weights: numbers by coefficient; `summary` has the names.
            level: of the interval.

        Returns:
            Its `Line`.
        """
        self._check_coefficients()
        return contrast(coefficients_of(self.release_), weights, level)

    def wald(self, tested: Sequence[Mapping[str, float] | str]) -> Wald:
        """The joint test that coefficients, or sums of them, are all 0, such as ``wald(["age", "dose"])``.

        Args:
            tested: names, or contrasts.

        Returns:
            Statistic, degrees of freedom and p-value.
        """
        self._check_coefficients()
        return wald(coefficients_of(self.release_), tested)

    def margins(self, columns: Sequence[str] | str | None = None, **settings: Any) -> "Margins":
        """Mean outcomes at values of columns, from the posterior and public values; see `margins.margins`.

        Args:
            columns: whose margins; None for all.
            **settings: `values`, `at`, `over` and `level`.

        Returns:
            `Margins`; print them.
        """
        from sordino.estimators.margins import margins  # noqa: PLC0415

        self._check_coefficients()
        return margins(self.release_, columns, **settings)

    def effects(self, columns: Sequence[str] | str | None = None, **settings: Any) -> "Margins":
        """Differences of mean outcomes in natural units; see `margins.effects`.

        Args:
            columns: whose effects; None for all.
            **settings: `at`, `over` and `level`.

        Returns:
            `Margins` whose estimates are differences.
        """
        from sordino.estimators.margins import effects  # noqa: PLC0415

        self._check_coefficients()
        return effects(self.release_, columns, **settings)

    def named_draws(self, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
        """Draws of the coefficients in the units of the table, by name.

        Args:
            draws: how many.
            seed: for the same draws again.

        Returns:
            An array for every coefficient.
        """
        from sordino.estimators.draws import named_draws  # noqa: PLC0415

        self._check_coefficients()
        return named_draws(self.release_, draws, seed)

    def to_arviz(self, draws: int = 1000, seed: int | None = None, rows: Any = None) -> Any:
        """The posterior for ArviZ, with named variables and coordinates; see `draws.to_arviz`.

        Args:
            draws: how many.
            seed: for the same draws again.
            rows: rows whose targets are drawn too; None for none.

        Returns:
            An ArviZ object.
        """
        from sordino.estimators.draws import to_arviz  # noqa: PLC0415

        self._check_coefficients()
        return to_arviz(self.release_, draws, seed, rows)

    def predict_mean(self, X: Any, level: float = LEVEL) -> "MeanAndNew":
        """Means of rows with intervals, and intervals of new targets, from the same posterior as `summary`.

        Args:
            X: rows, as `predict` takes them.
            level: of both intervals.

        Returns:
            `mean`, `low` and `high` of the mean, or of probabilities; `new_low` and `new_high` of a new target.
        """
        self._check_coefficients()
        coefficients_of(self.release_)
        found = self._predictor.means(self._encode(X), level)
        assert found is not None
        return found
