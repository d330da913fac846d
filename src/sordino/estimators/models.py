"""The model each task is fitted with."""

from collections.abc import Callable

from sordino.estimators.situation import Situation, Task
from sordino.model.base import Model
from sordino.model.gaussian_linear import GaussianLinear
from sordino.model.huber import Huber
from sordino.model.logistic import Logistic
from sordino.model.mixture import GaussianMixture
from sordino.model.mlp import MLPClassification, MLPRegression
from sordino.model.softmax import Softmax


def _classifier(situation: Situation, residual_variance: float) -> Model:
    del residual_variance
    return Logistic() if situation.classes == 2 else Softmax(classes=situation.classes or 2)


def _mixture(situation: Situation, residual_variance: float) -> Model:
    del residual_variance
    components = situation.settings["components"]
    return GaussianMixture(weights=(1.0 / components,) * components, spread=situation.settings["spread"])


_MODELS: dict[Task, Callable[[Situation, float], Model]] = {
    Task.REGRESSION: lambda _, variance: GaussianLinear(noise_precision=1.0 / variance),
    Task.ROBUST: lambda situation, _: Huber(threshold=situation.settings["threshold"]),
    Task.CLASSIFICATION: _classifier,
    Task.NETWORK_REGRESSION: lambda situation, variance: MLPRegression(
        hidden=situation.settings["hidden"],
        noise_precision=1.0 / variance,
        weight_decay=situation.settings["prior_precision"] / situation.records,
    ),
    Task.NETWORK_CLASSIFICATION: lambda situation, _: MLPClassification(
        hidden=situation.settings["hidden"],
        classes=situation.classes or 2,
        weight_decay=situation.settings["prior_precision"] / situation.records,
    ),
    Task.MIXTURE: _mixture,
}


def model_for(situation: Situation, residual_variance: float) -> Model:
    """The model of a task; the variance of residuals matters to regression only."""
    return _MODELS[situation.task](situation, residual_variance)
