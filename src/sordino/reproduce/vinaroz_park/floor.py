"""How low the noise floor of a set can be: no more than the error of the best predictor one knows, private or not."""

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge

from sordino.reproduce.vinaroz_park.folds import Fold
from sordino.reproduce.vinaroz_park.networks import Fitted

# Kernel ridge regression solves a system of as many equations as records.
_MOST_RECORDS = 12_000


def fit_trees(fold: Fold, seed: int) -> Fitted:
    """Not private: extremely randomised trees."""
    model = ExtraTreesRegressor(200, min_samples_leaf=2, random_state=seed).fit(fold.X, fold.y)
    return _fitted(fold, model.predict(fold.test_rows))


def fit_kernel(fold: Fold, seed: int) -> Fitted:
    """Not private: ridge regression with a Gaussian kernel; of a large set, the first records only."""
    del seed
    X, y = fold.X[:_MOST_RECORDS], fold.y[:_MOST_RECORDS]
    centre = float(y.mean())
    model = KernelRidge(kernel="rbf", gamma=0.6 / X.shape[1])
    model.set_params(alpha=0.03).fit(X, y - centre)
    return _fitted(fold, centre + model.predict(fold.test_rows))


def _fitted(fold: Fold, mean: np.ndarray) -> Fitted:
    """These answer with points; their spread is that of the test errors, which only a floor may look at."""
    return Fitted(mean, np.full(len(mean), float(np.mean((fold.test_y - mean) ** 2))), ())
