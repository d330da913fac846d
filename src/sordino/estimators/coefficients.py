"""Estimators whose coefficients mean something: tables, contrasts, joint tests and intervals of means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sordino.core.arrays import Array
from sordino.estimators.base import PrivateEstimator
from sordino.fitting.tasks import Task, effect_settings, ignore_progress
from sordino.inference.contrasts import LEVEL, Line, Wald, contrast, wald
from sordino.inference.summary import Summary, coefficients_of, summary_of

if TYPE_CHECKING:
    from sordino.inference.margins import Margins
    from sordino.inference.predicted_means import MeanAndNew
    from sordino.inference.prediction import TableCoefficients


def column_name(given: Any) -> Any:
    """The name of a column; columns of arrays may be given by their number."""
    return f"x{given}" if isinstance(given, int) and not isinstance(given, bool) else given


@dataclass(kw_only=True, eq=False, repr=False)
class CoefficientEstimator(PrivateEstimator):
    """Linear models: the size of effects that is taken for granted, and coefficients in the units of the table.

    `coef_` and `intercept_` are posterior means; `coef_names_` are the names of the columns of `coef_`, one for each
    level of a category but the reference. Where only a constant was learned there are none. `posterior_` has the law
    of the coefficients of encoded rows.
    """

    effect_scale: float | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "CoefficientEstimator":
        """`PrivateEstimator.fit`, with survey weights beside arrays.

        Weights count within the bounds that `weight` of `ArrayBounds` declares; where bounds are declared and no
        weights are given, every record has weight 1. They are private, like rows: their type and shape are checked
        before the debit, their values are cut to the bounds after it. A table with a schema has its weights in the
        column that the schema declares.
        """
        self.fit_in_stages(X, y, ignore_progress, sample_weight)
        return self

    @property
    def coef_(self) -> Array:
        """Slopes in the units of the table, one for each column of `coef_names_`.

        Of classes there is one row, or one for each class, all told against the first by "bounded-influence".
        """
        slopes = self._known().slopes
        if self._task is not Task.CLASSIFICATION:
            return slopes[:, 0]
        classes = len(self._predictor.labels)
        several = classes > 2 and slopes.shape[1] < classes
        return np.vstack([np.zeros((1, len(slopes))), slopes.T]) if several else slopes.T

    @property
    def intercept_(self) -> Any:
        """The score of a row of zeros in the units of the table; a number, or one for each row of `coef_`."""
        found = self._known().intercepts
        if self._task is not Task.CLASSIFICATION:
            return float(found[0])
        return np.concatenate([[0.0], found]) if len(found) not in (1, len(self._predictor.labels)) else found

    @property
    def coef_names_(self) -> tuple[str, ...]:
        """The names of the columns of `coef_`."""
        return self._known().names

    def _known(self) -> "TableCoefficients":
        if not hasattr(self, "release_") or self._predictor.only_a_constant:
            raise AttributeError(f"{type(self).__name__} has no coefficients: not fitted, or only a constant is known")
        return self._predictor.coefficients

    def _settings(self) -> dict[str, Any]:
        return effect_settings(self.effect_scale)

    def _check_coefficients(self) -> None:
        check_is_fitted(self, "release_")

    def summary(self, level: float = LEVEL) -> Summary:
        """The coefficients as a table that prints itself; older methods have estimates only."""
        self._check_coefficients()
        return summary_of(self.release_, level)

    def contrast(self, weights: Mapping[str, float] | str, level: float = LEVEL) -> Line:
        """A sum of coefficients with its interval and test, such as ``contrast({"age": 1, "dose": -1})``."""
        self._check_coefficients()
        return contrast(coefficients_of(self.release_), weights, level)

    def wald(self, tested: Sequence[Mapping[str, float] | str]) -> Wald:
        """The joint test that coefficients, or sums of them, are all 0, such as ``wald(["age", "dose"])``."""
        self._check_coefficients()
        return wald(coefficients_of(self.release_), tested)

    def margins(self, columns: Sequence[str] | str | None = None, **settings: Any) -> "Margins":
        """Mean outcomes at values of columns, from the posterior and public values; see `inference.margins.margins`."""
        from sordino.inference.margins import margins  # noqa: PLC0415

        self._check_coefficients()
        return margins(self.release_, columns, **settings)

    def effects(self, columns: Sequence[str] | str | None = None, **settings: Any) -> "Margins":
        """Differences of mean outcomes in natural units; see `inference.margins.effects`."""
        from sordino.inference.margins import effects  # noqa: PLC0415

        self._check_coefficients()
        return effects(self.release_, columns, **settings)

    def named_draws(self, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
        """Draws of the coefficients in the units of the table, by name."""
        from sordino.inference.release import named_draws  # noqa: PLC0415

        self._check_coefficients()
        return named_draws(self.release_, draws, seed)

    def to_arviz(self, draws: int = 1000, seed: int | None = None, rows: Any = None) -> Any:
        """The posterior for ArviZ, with named variables and coordinates; see `inference.draws.to_arviz`."""
        from sordino.inference.release import to_arviz  # noqa: PLC0415

        self._check_coefficients()
        return to_arviz(self.release_, draws, seed, rows)

    def predict_mean(self, X: Any, level: float = LEVEL) -> "MeanAndNew":
        """Means of rows with intervals, and intervals of new targets, from the same posterior as `summary`."""
        self._check_coefficients()
        coefficients_of(self.release_)
        found = self._predictor.means(self._encode(X), level)
        assert found is not None
        return found
