"""What regression estimators answer."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from sordino.estimators.base import PrivateEstimator

Array = NDArray[np.float64]


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """Predictions of a number."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the target of each row; with `return_std` also the standard deviation of a new target."""
        encoded = self._encode(X)
        found = self._predictor.regression(encoded)
        return (found.mean, np.sqrt(found.variance)) if return_std else found.mean

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # privacy noise on the few rows that checks are made with
        return tags
