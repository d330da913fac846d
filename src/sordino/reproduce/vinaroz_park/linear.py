"""Private linear regression whose rows are whitened round by round, as a method with one setting."""

from dataclasses import dataclass

from sordino.reproduce.vinaroz_park import statistics
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.folds import Fold
from sordino.reproduce.vinaroz_park.networks import Fitted


@dataclass(frozen=True)
class LinearSetting:
    """Rounds, all but the last of which whiten."""

    rounds: int = 4


def fit_linear(setting: LinearSetting, fold: Fold, budget: Budget, seed: int) -> Fitted:
    """Fit and predict; the variance of the noise comes with the same release."""
    found = statistics.linear_fit(budget, fold.X, fold.y, setting.rounds, seed)
    return Fitted(*found.predict(fold.test_rows), found.specs)
