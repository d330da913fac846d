"""Classifiers and regressors with their predictions, and the Bayesian neural networks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets

from sordino.core.arrays import Array
from sordino.core.validate import InputError, instance_of, raise_alone
from sordino.estimators.base import PrivateEstimator
from sordino.fitting.array_schema import PUBLIC_LABELS, ArrayBounds, Bare
from sordino.fitting.problem import target_codes
from sordino.fitting.tasks.base import TASKS
from sordino.fitting.tasks.mixture import Mixture
from sordino.models.families.regression import GaussianMixture


class _Supervised(PrivateEstimator):
    """What classifiers and regressors answer alike."""

    def predict_interval(self, X: object, level: float = 0.9) -> tuple[Array, Array]:
        """Central intervals under the posterior: lower and upper ends, of each class's probability or of a new target.

        `level` is nominal: `interval_coverage(level)` says how often such intervals held on drawn tables. For classes
        they are refused where only a constant was learned, which says nothing about a row.
        """
        return self._predictor.interval(self._encode(X), level)

    def sample_predictive(self, X: object, draws: int = 100, seed: int | None = None) -> np.ndarray:
        """Draws of new labels or targets, shape (draws, records)."""
        return self._predictor.sample(self._encode(X), draws, np.random.default_rng(seed))


class PrivateClassifier(ClassifierMixin, _Supervised):
    """Predictions of a class, with probabilities averaged over the posterior."""

    def predict(self, X: object) -> np.ndarray:
        """The most probable class of each row."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: object) -> Array:
        """The probability of each class, in the order of `classes_`."""
        return self._predictor.probabilities(self._encode(X))

    def predict_log_proba(self, X: object) -> Array:
        """The logarithms of the same."""
        return np.log(np.maximum(self.predict_proba(X), 1e-300))

    def decision_function(self, X: object) -> Array:
        """The log odds of the second of two classes; of more classes the logarithm of each one's probability."""
        found = self.predict_log_proba(X)
        return found[:, 1] - found[:, 0] if found.shape[1] == 2 else found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right predictions, y in any spelling that the schema declares; of private rows NON-PRIVATE."""
        if isinstance(self.schema, ArrayBounds):
            predicted = self.predict(X)
            return _compared(lambda: accuracy_score(y, predicted, sample_weight=sample_weight))
        right = np.argmax(self.predict_proba(X), axis=1) == target_codes(self._predictor.schema, y)
        return _compared(lambda: np.average(right, weights=sample_weight))

    def _finish(self) -> None:
        self.classes_: np.ndarray = self._predictor.labels

    def _shaped(self, X: object, y: object) -> tuple[Bare, Bare | None]:
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
    """A score; exceptions of scikit-learn or NumPy may quote a cell, so only their type is reported."""
    try:
        return float(score())
    except MemoryError:
        raise
    except Exception as error:
        wanted = "Expected one target, and one weight if any, for each row, of the kind that was fitted"
        raise_alone(InputError(f"{wanted}, got a {type(error).__name__}; look at y and sample_weight."))


def _check_public_labels(y: Bare) -> None:
    """Refuse targets that are no labels, in scikit-learn's words, which name the kind of target and no cell."""
    complaint = ""
    try:
        check_classification_targets(y.cells())
    except Exception as error:  # on Python objects anything may be raised
        complaint = str(error) if str(error).startswith("Unknown label type: continuous") else "Unknown label type"
    if complaint:
        raise InputError(complaint.split("\n", maxsplit=1)[0])


class PrivateRegressor(RegressorMixin, _Supervised):
    """Predictions of a number."""

    def predict(self, X: object, return_std: bool = False) -> Any:
        """The mean of the target of each row; with `return_std` also the standard deviation of a new target."""
        regression = self._predictor.regression(self._encode(X))
        return (regression.mean, np.sqrt(regression.variance)) if return_std else regression.mean

    def score(self, X: object, y: object, sample_weight: object = None) -> float:
        """The share of the target's variance that predictions explain; of private rows NON-PRIVATE."""
        predicted = self.predict(X)
        return _compared(lambda: r2_score(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # privacy noise on the few rows that checks are made with
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class _Network(PrivateEstimator):
    """The parameters that both networks share."""

    hidden: tuple[int, ...] | None = None
    prior_precision: float = 1.0


class PrivateBayesianNetworkRegressor(PrivateRegressor, _Network):
    """A private Bayesian network for a number; methods "natural", "dp-vi", "dp-sep" and "constant".

    "natural", which "auto" takes, has one hidden layer beside a linear part and follows noised natural gradients of
    whitened rows; "dp-vi" has as many layers as `hidden` has widths, "dp-sep" has one layer and no intervals. Without
    `hidden`, the number of hidden units of "natural" follows from the budget. `prior_precision` is that of every
    weight; the other parameters are those of `PrivateEstimator`.
    Intervals include the posterior, the privacy noise and a released spread of residuals. On simulated tables, 90 %
    intervals contained 88 to 93 % of new targets with "natural" and 92 to 99 % with "dp-vi".

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateBayesianNetworkRegressor
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (1500, 2))
        >>> model = PrivateBayesianNetworkRegressor(
        ...     epsilon=4.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, target=(-1, 1)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> middle, edge = model.fit(X, X[:, 0] ** 2).predict([[0.0, 0.0], [1.0, 0.0]])
        >>> bool(middle < 0.4 < edge)
        True
    """

    _task = TASKS["network-regression"]


class PrivateBayesianNetworkClassifier(PrivateClassifier, _Network):
    """A private Bayesian network for classes; methods "natural", "dp-vi" and "constant".

    Parameters are those of `PrivateBayesianNetworkRegressor`. On simulated tables of two classes whose log odds are
    linear, 90 % intervals contained the true probabilities in 88 to 94 % of cases with "natural". Coverage is lower if
    the truth is more curved than the network's few units can represent. Intervals are withheld if noise hides the
    records of the rarest class, or if it has fewer than five for each parameter of a score. With "dp-vi" they are
    withheld because they covered 27 to 53 %: clipping distorts the scores, and only their steepness is corrected.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateBayesianNetworkClassifier
        >>> generator = np.random.default_rng(0)
        >>> X = generator.uniform(-1, 1, (1500, 2))
        >>> model = PrivateBayesianNetworkClassifier(
        ...     epsilon=4.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1, classes=(False, True)),
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> model.fit(X, np.abs(X[:, 0]) > 0.5).predict([[0.0, 0.0], [0.9, 0.0]]).tolist()
        [False, True]
    """

    _task = TASKS["network-classification"]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianMixture(PrivateEstimator):
    """Private mixture of `components` Gaussians of a public `spread`, in units of the scaled columns.

    Methods: "em", and "dp-sep" and "dp-vi" without intervals. After `fit`: `means_` in encoded units, `weights_`,
    `posterior_` of the means. That of "em" includes the privacy noise, and on simulated tables its 95 % intervals
    contained the true means in 87 to 95 % of cases. The other parameters are those of `PrivateEstimator`.

    Examples:
        >>> import numpy as np
        >>> from sordino import ArrayBounds, PrivateGaussianMixture
        >>> generator = np.random.default_rng(0)
        >>> X = np.concatenate([generator.normal(place, 0.1, (2500, 2)) for place in (-0.5, 0.5)])
        >>> model = PrivateGaussianMixture(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(-1, 1),
        ...     components=2,
        ...     random_state=0,  # to try things out: a release is made without it
        ... )
        >>> np.sort(model.fit(X).means_[:, 0]).round(1).tolist()
        [-0.5, 0.5]
        >>> one, other = model.predict([[-0.5, -0.5], [0.5, 0.5]])
        >>> bool(one != other)
        True
    """

    _task = TASKS["mixture"]
    components: int = 2
    spread: float = 0.25

    def predict_proba(self, X: object) -> Array:
        """The probability of each component, at the posterior's mean."""
        return self._predictor.probabilities(self._encode(X))

    def predict(self, X: object) -> NDArray[np.int64]:
        """The most probable component of each row."""
        return np.argmax(self._log_densities(X), axis=1)

    def score_samples(self, X: object) -> Array:
        """The log-density of each encoded row."""
        return np.logaddexp.reduce(self._log_densities(X), axis=1)

    def score(self, X: object, y: object = None) -> float:
        """The mean log-density; reading private rows, it is NON-PRIVATE."""
        return float(np.mean(self.score_samples(X)))

    def _log_densities(self, X: object) -> Array:
        task: Mixture = instance_of("the task", self._predictor.task, Mixture)
        return task.log_densities(self._predictor, self._encode(X))

    def _finish(self) -> None:
        model = instance_of("model", self._predictor.model, GaussianMixture)
        self.weights_ = np.array(model.weights)
        self.means_ = self._predictor.posterior.mean.reshape(len(model.weights), -1)
