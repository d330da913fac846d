"""Mixtures of Gaussians with means to be learned, of public weights and spread; there is no target."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import Interval, whole_number
from sordino.fitting.tasks.base import NO_DECAY, Task, TaskOption, positive, task

if TYPE_CHECKING:
    from sordino.data import Schema
    from sordino.fitting.predictor import Predictor
    from sordino.fitting.problem import FitProblem


_SPREAD_HELP = "Mixtures only: standard deviation of a component, where a column runs from -1 to 1; absent: 0.25."


@task
class Mixture(Task):
    """Rows drawn from one of several components."""

    word = "mixture"
    title = "mixture"
    models: ClassVar = {"mixture": {}}
    methods = ("em", "dp-vi", "dp-sep")
    families = ("mixture",)
    options = (
        TaskOption(
            "components",
            lambda name, value: whole_number(name, value, Interval(2, 1000)),
            2,
            "Components of a mixture; absent: 2.",
            int,
        ),
        TaskOption("spread", positive, 0.25, _SPREAD_HELP, float),
    )
    clusters = True

    def declared(self, schema: "Schema") -> "Schema":
        return replace(schema, intercept=False, target=None, extra_columns="ignore")

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        components = problem.settings["components"]
        weights = (1.0 / components,) * components
        return NamedModel("mixture", (NO_DECAY, ("weights", weights), ("spread", problem.settings["spread"])))

    def gradient_clip(self, problem: "FitProblem") -> float:
        return 1.0 / problem.settings["spread"]

    def log_densities(self, fit: "Predictor", X: Array) -> Array:
        """The log-density of each encoded row and component, its weight included, at the posterior's mean."""
        model: Any = fit.model
        means = fit.posterior.mean.reshape(len(model.weights), -1)
        squared = ((X[:, None, :] - means[None]) ** 2).sum(axis=-1)
        scale = X.shape[1] * np.log(np.sqrt(2.0 * np.pi) * model.spread)
        return np.log(model.weights) - squared / (2.0 * model.spread**2) - scale

    def probabilities(self, fit: "Predictor", X: Array) -> Array:
        return special.softmax(self.log_densities(fit, X), axis=1)

    def table(self, fit: "Predictor", X: Array, low: Array | None, high: Array | None) -> dict[str, object]:
        shares = self.probabilities(fit, X)
        columns: dict[str, object] = {"component": shares.argmax(axis=1)}
        return columns | {f"probability of {code}": shares[:, code] for code in range(shares.shape[1])}
