"""Classifiers and regressors: what they answer, and the linear models.

Least squares, logistic and softmax regression, and Huber's robust regression.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets

from sordino.core.arrays import Array
from sordino.core.validate import InputError, raise_alone
from sordino.estimators.bare_arrays import PUBLIC_LABELS, ArrayBounds, Bare
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.inference import WithCoefficients
from sordino.estimators.tasks import AUTO, DRAWS, Task, count_settings, effect_settings, robust_settings, untold

if TYPE_CHECKING:
    from sordino.estimators.prediction import TableCoefficients


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """Predictions of a class, with probabilities averaged over the posterior."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        shares = self.predict_proba(X)
        return self.classes_[np.argmax(shares, axis=1)]

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, in the order of `classes_`."""
        encoded = self._encode(X)
        return self._predictor.probabilities(encoded)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithms of the same."""
        return np.log(np.maximum(self.predict_proba(X), 1e-300))

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Central intervals of each class's probability under the posterior: lower and upper ends.

        `level` is nominal: `interval_coverage(level)` says how often such intervals held the true probabilities on
        drawn tables. Refused where only a constant was learned, which says nothing about a row.
        """
        encoded = self._encode(X)
        return self._predictor.interval(encoded, level)

    def sample_predictive(self, X: Any, draws: int = 100, seed: int | None = None) -> NDArray[Any]:
        """Draws of new labels, shape (draws, records)."""
        encoded = self._encode(X)
        return self._predictor.sample(encoded, draws, np.random.default_rng(seed))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right predictions, y in any spelling that the schema declares; of private rows NON-PRIVATE."""
        if isinstance(self.schema, ArrayBounds):
            predicted = self.predict(X)
            return _compared(lambda: accuracy_score(y, predicted, sample_weight=sample_weight))
        from sordino.estimators.declaration import target_codes  # noqa: PLC0415

        right = np.argmax(self.predict_proba(X), axis=1) == target_codes(self._predictor.schema, y)
        return _compared(lambda: np.average(right, weights=sample_weight))

    def _finish(self) -> None:
        self.classes_: NDArray[Any] = self._predictor.labels

    def _shaped(self, X: Any, y: Any) -> tuple[Bare, Bare | None]:
        """Labels are looked at before the debit only where the set of them is declared public."""
        X, y = super()._shaped(X, y)
        if self.schema.classes == PUBLIC_LABELS and y is not None:
            _check_public_labels(y)
        return X, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # privacy noise on the few rows that checks are made with
        return tags


def _compared(score: Callable[[], Any]) -> float:
    """A score; what is raised by scikit-learn or NumPy may quote a cell, so only the kind of it is told."""
    try:
        return float(score())
    except MemoryError:
        raise
    except Exception as error:
        raise_alone(
            InputError(
                f"Expected one target, and one weight if any, for each row, of the kind that was fitted, got a "
                f"{type(error).__name__}; look at y and sample_weight."
            )
        )


def _check_public_labels(y: Bare) -> None:
    """Refuse targets that are no labels, in scikit-learn's words, which name the kind of target and no cell."""
    complaint = ""
    try:
        check_classification_targets(y.cells())
    except Exception as error:  # on Python objects anything may be raised
        complaint = str(error) if str(error).startswith("Unknown label type: continuous") else "Unknown label type"
    if complaint:
        raise InputError(complaint.split("\n", maxsplit=1)[0])


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Predictions of a number."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the target of each row; with `return_std` also the standard deviation of a new target."""
        encoded = self._encode(X)
        regression = self._predictor.regression(encoded)
        return (regression.mean, np.sqrt(regression.variance)) if return_std else regression.mean

    def predict_interval(self, X: Any, level: float = 0.9) -> tuple[Array, Array]:
        """Central intervals of a new target: lower and upper ends.

        `level` is nominal: `interval_coverage(level)` says how often such intervals held new targets on drawn tables.
        """
        encoded = self._encode(X)
        return self._predictor.interval(encoded, level)

    def sample_predictive(self, X: Any, draws: int = 100, seed: int | None = None) -> NDArray[Any]:
        """Draws of new targets, shape (draws, records)."""
        encoded = self._encode(X)
        return self._predictor.sample(encoded, draws, np.random.default_rng(seed))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the target's variance that predictions explain; of private rows NON-PRIVATE."""
        predicted = self.predict(X)
        return _compared(lambda: r2_score(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # privacy noise on the few rows that checks are made with
        return tags


def column_name(given: Any) -> Any:
    """The name of a column; columns of arrays may be given by their number."""
    return f"x{given}" if isinstance(given, int) and not isinstance(given, bool) else given


class CoefficientEstimator(WithCoefficients, PrivateEstimator):
    """Linear models: the size of effects that is taken for granted, and coefficients in the units of the table.

    `coef_` and `intercept_` are posterior means; `coef_names_` are the names of the columns of `coef_`, one for each
    level of a category but the reference. Where only a constant was learned there are none. `posterior_` has the law
    of the coefficients of encoded rows.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        effect_scale: float | None = None,
        method: str = AUTO,
        draws: int = DRAWS,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            schema=schema,
            method=method,
            draws=draws,
            ledger=ledger,
            random_state=random_state,
        )
        self.effect_scale = effect_scale

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "CoefficientEstimator":
        """`PrivateEstimator.fit`, with survey weights beside arrays.

        Weights count within the bounds that `weight` of `ArrayBounds` declares; where bounds are declared and no
        weights are given, every record has weight 1. They are private, like rows: their type and shape are checked
        before the debit, their values are cut to the bounds after it. A table with a schema has its weights in the
        column that the schema declares.
        """
        self.fit_in_stages(X, y, untold, sample_weight)
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


class PrivateLinearRegression(CoefficientEstimator, PrivateRegressor):
    """Private Bayesian linear regression.

    Methods: "bounded-influence" (noised sums of rows that are weighed by x alone, with residuals cut at .9 to 1.9 of
    their scale, and one posterior of everything released), "statistics" (noised sums, one Gaussian mechanism),
    "ridge" (a noised centre, then noised gradients of scaled rows with effects drawn to 0: for more than 160 columns,
    and its intervals are withheld), "output" (output perturbation of least squares in a ball) and "constant". On
    drawn tables, from the worst to the best cell of 12 tables or more, 95 % intervals of coefficients held the truth
    in 93 to 97 % of cases with "bounded-influence", 93 to 100 % with "statistics" and 5 to 85 % with "output"; 90 %
    intervals of new targets in 86 to 96 %, 90 to 100 % and 93 to 100 %. Parameters are those of `PrivateEstimator`,
    and `effect_scale`: the standard deviation of effects before the data speak, in units of the target, of half a
    declared range or of having a property; absent, a twentieth of the target's declared range.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateLinearRegression
        >>> X = np.random.default_rng(0).uniform(-1, 1, (5000, 2))
        >>> y = X @ [0.5, -0.25]
        >>> model = PrivateLinearRegression(
        ...     epsilon=1.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,
        ... ).fit(X, y)
        >>> bool(abs(model.predict([[1.0, 0.0]])[0] - 0.5) < 0.1)
        True
        >>> model.method_, model.coef_.round(1).tolist()
        ('bounded-influence', [0.5, -0.2])
    """

    _task: ClassVar[Task] = Task.REGRESSION


class PrivateLogisticRegression(CoefficientEstimator, PrivateClassifier):
    """Private Bayesian logistic regression; softmax regression where there are more than two classes.

    Methods: "bounded-influence" (noised sums of rows that are weighed by x alone, and one posterior of everything
    released), "newton" (noised sums for centre and covariance, then noised gradients of centred rows, each step
    shrunk by what is known of the noise), "ridge" (a noised centre, then noised gradients of rows scaled by their
    declared kinds, with effects drawn to 0: for small tables and many columns, and its intervals are withheld),
    "output" (output perturbation), "chain" (the last iterate of noisy gradient descent, two classes) and "constant".
    On drawn tables of two classes, from the worst to the best cell
    of 10 tables or more, 95 % intervals of coefficients held the truth in 93 to 98 % of cases with
    "bounded-influence", 41 to 97 % with "newton", 5 to 70 % with "output" and 7 to 84 % with "chain"; 90 %
    intervals of probabilities in 83 to 96 %, 42 to 92 %, 5 to 67 % and 14 to 86 %. Of several classes, with
    "newton", 62 to 100 % and 46 to 90 %. Parameters are those of `PrivateEstimator`, and `effect_scale`: the
    standard deviation of log odds ratios before the data speak, of half a declared range or of having a property; 1
    if absent.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateLogisticRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = np.where(X[:, 0] + 0.3 * generator.standard_normal(5000) > 0, "ill", "well")
        >>> model = PrivateLogisticRegression(
        ...     epsilon=1.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, classes=("ill", "well")),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> [str(label) for label in model.fit(X, y).predict([[0.9, 0.0], [-0.9, 0.0]])]
        ['ill', 'well']
        >>> low, high = model.predict_interval([[0.9, 0.0]])  # of each class's probability
        >>> bool(0.5 < low[0, 0] < high[0, 0] < 1.0)
        True

        With three classes:

        >>> model.set_params(schema=ArrayBounds(-1, 1, classes=(0, 1, 2)))  # doctest: +ELLIPSIS
        PrivateLogisticRegression(...)
        >>> model.fit(X, np.digitize(X[:, 0], [-0.3, 0.3])).predict([[-0.9, 0.0], [0.9, 0.0]]).tolist()
        [0, 2]
    """

    _task: ClassVar[Task] = Task.CLASSIFICATION


class PrivateRobustRegression(CoefficientEstimator, PrivateRegressor):
    """Private Huber regression: residuals beyond a threshold pull no harder.

    Methods: "bounded-influence", which cuts residuals at .9 to 1.345 times their released scale; "gradients", which
    cuts at `threshold`, in units of the scaled target; and "constant". On drawn tables, from the worst to the best
    cell of 12 tables or more, 95 % intervals of coefficients held the truth in 93 to 97 % of cases with
    "bounded-influence" and 28 to 100 % with "gradients", and 90 % intervals of new targets in 86 to 96 % and 90 to
    100 %. Parameters are those of `PrivateEstimator`, the threshold, and `effect_scale` as in
    `PrivateLinearRegression`.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateRobustRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = X @ [0.5, -0.25]
        >>> y[::50] = 1.0  # somebody's slips of the pen
        >>> model = PrivateRobustRegression(
        ...     epsilon=1.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> bool(abs(model.fit(X, y).predict([[1.0, 0.0]])[0] - 0.5) < 0.1)
        True
    """

    _task: ClassVar[Task] = Task.ROBUST

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        threshold: float = 0.3,
        effect_scale: float | None = None,
        method: str = AUTO,
        draws: int = DRAWS,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            schema=schema,
            effect_scale=effect_scale,
            method=method,
            draws=draws,
            ledger=ledger,
            random_state=random_state,
        )
        self.threshold = threshold

    def _settings(self) -> dict[str, Any]:
        return robust_settings(self.threshold, self.effect_scale)


class PrivatePoissonRegression(CoefficientEstimator, PrivateRegressor):
    """Private regression of counts: the logarithm of the rate is linear in the columns.

    Method: "bounded-influence", in the manner of Cantoni & Ronchetti. On drawn tables, from the worst to the best
    cell of 10 tables or more, 95 % intervals of coefficients held the truth in 93 to 97 % of cases, and 90 %
    intervals of new counts held them in 95 to 98 %. The target is declared as a number from 0 on. `exposure`
    may name a declared column of positive numbers that says how long each record was watched, or give its number in
    an array, whose `ArrayBounds` has its bounds in `columns`; its rate is for one unit of it, and predictions are
    for a row's own exposure. With `overdispersed` new counts are those
    of a negative binomial law, whose dispersion is learned; intervals of coefficients allow for it either way.
    Parameters are those of `PrivateEstimator`, these two, and `effect_scale`: the standard deviation of log rate
    ratios over half a declared range, or of having a property, before the data speak; 1 if absent.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivatePoissonRegression
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (5000, 2))
        >>> y = generator.poisson(np.exp(1.0 + 0.5 * X[:, 0]))
        >>> model = PrivatePoissonRegression(
        ...     epsilon=2.0,
        ...     delta=1e-6,
        ...     relation="replace-one",
        ...     schema=ArrayBounds(-1, 1, target=(0, 20)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... ).fit(X, y)
        >>> bool(abs(model.coef_[0] - 0.5) < 0.1)
        True
    """

    _task: ClassVar[Task] = Task.COUNTS

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        exposure: str | int | None = None,
        overdispersed: bool = False,
        effect_scale: float | None = None,
        method: str = AUTO,
        draws: int = DRAWS,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            schema=schema,
            effect_scale=effect_scale,
            method=method,
            draws=draws,
            ledger=ledger,
            random_state=random_state,
        )
        self.exposure = exposure
        self.overdispersed = overdispersed

    def _settings(self) -> dict[str, Any]:
        return count_settings(column_name(self.exposure), self.overdispersed, self.effect_scale)
