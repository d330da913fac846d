"""What classification estimators answer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from sordino.estimators.array_bounds import PUBLIC_LABELS
from sordino.estimators.base import PrivateEstimator

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
        """Central intervals of each class's probability under the posterior: lower and upper ends."""
        encoded = self._encode(X)
        return self._predictor.interval(encoded, level)

    def sample_predictive(self, X: Any, draws: int = 100, seed: int | None = None) -> NDArray[Any]:
        """Draws of new labels, shape (draws, records)."""
        encoded = self._encode(X)
        return self._predictor.sample(encoded, draws, np.random.default_rng(seed))

    def _finish(self) -> None:
        self.classes_: NDArray[Any] = self._predictor.labels

    def _shaped(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = super()._shaped(X, y)
        if self.schema.classes == PUBLIC_LABELS:
            self._check_labels(y)
        return X, y

    def _check_content(self, X: Any, y: Any) -> None:
        super()._check_content(X, y)
        self._check_labels(y)

    def _check_labels(self, y: Any) -> None:
        """Labels are read before the debit only where the set of them is declared public."""
        if np.asarray(y).dtype.kind == "f":
            check_array(np.asarray(y), ensure_2d=False, ensure_min_samples=0, estimator=self, input_name="y")
        check_classification_targets(y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # privacy noise on the few rows that checks are made with
        return tags
