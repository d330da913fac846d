"""What classification estimators answer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from sordino.core.errors import InputError
from sordino.estimators.array_bounds import PUBLIC_LABELS, ArrayBounds
from sordino.estimators.bare_arrays import Bare
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.declaration import target_codes

Array = NDArray[np.float64]


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
            return super().score(X, y, sample_weight)
        right = np.argmax(self.predict_proba(X), axis=1) == target_codes(self._predictor.schema, y)
        return float(np.average(right, weights=sample_weight))

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


def _check_public_labels(y: Bare) -> None:
    """Refuse targets that are no labels, in scikit-learn's words, which name the kind of target and no cell."""
    said = ""
    try:
        check_classification_targets(y.cells())
    except Exception as error:  # on Python objects anything may be raised
        said = str(error) if str(error).startswith("Unknown label type: continuous") else "Unknown label type"
    if said:
        raise InputError(said.split("\n", maxsplit=1)[0])
