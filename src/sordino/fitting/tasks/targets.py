"""Targets that are numbers and targets that are labels: what a release answers, whatever its model is."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import InputError
from sordino.fitting.tasks.base import Task

if TYPE_CHECKING:
    from sordino.data import ColumnKind
    from sordino.fitting.predictor import Predictor


class NumberTask(Task):
    """A number, whose score has an error of one law in all rows."""

    families = ("ridge", "huber", "mlp-regression", "skip-regression")
    outcome = "mean"

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        return self.decoded(fit, fit.scores(thetas, X))

    def new_targets(self, fit: "Predictor") -> Callable[[Array, float], Array] | None:
        residual = fit.target_units[1] * np.sqrt(fit.residual_variance)
        return partial(new_numbers, residual=residual) if residual else None

    def regression(self, fit: "Predictor", X: Array) -> tuple[Array, Array]:
        mean, variance = fit.encoded_regression(X)
        centre, scale = fit.target_units
        return centre + scale * mean, scale * scale * variance

    def scored_means(self, fit: "Predictor", X: Array, scores: Array, rates: Array) -> tuple[Array, Array]:
        centre, scale = fit.target_units
        return centre + scale * scores, np.full(len(X), scale * math.sqrt(max(fit.residual_variance, 1e-12)))

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        mean, variance = self.regression(fit, X)
        half = fit.residual_quantile(1.0 - 2.0 * tail) * np.sqrt(variance)
        return mean - half, mean + half

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        drawn = fit.scores(thetas, X)[..., 0]
        return self.decoded(fit, drawn + np.sqrt(fit.residual_variance) * generator.standard_normal(drawn.shape))


class ClassTask(Task):
    """A label: one score is the log odds of the second of two classes, of more there is one for each."""

    families = ("logistic", "softmax", "mlp-classification", "skip-classification")
    outcome = "probability"
    classifies = True

    def check_target(self, name: str, kind: "ColumnKind") -> None:
        if kind.classes is None:
            raise InputError(f"Expected a category or boolean target for {self.word}, got the number {name!r}.")

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        scores = fit.scores(thetas, X)
        return special.softmax(scores, axis=-1) if scores.shape[-1] > 1 else special.expit(scores)

    def outcome_words(self, fit: "Predictor") -> list[str]:
        labels = [str(label) for label in fit.labels.tolist()]
        return [f"{self.outcome} of {word}" for word in (labels[1:] if len(labels) == 2 else labels)]

    def shares(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        """Probabilities of all classes, shape (draws, rows, classes)."""
        found = self.outcomes(fit, thetas, X)
        return found if found.shape[-1] > 1 else np.concatenate([1.0 - found, found], axis=-1)

    def probabilities(self, fit: "Predictor", X: Array) -> Array:
        return np.concatenate([self.shares(fit, fit.thetas, block).mean(axis=0) for block in blocks(X)])

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        ends = [np.quantile(self.shares(fit, fit.thetas, block), [tail, 1.0 - tail], axis=0) for block in blocks(X)]
        low, high = np.concatenate(ends, axis=1)
        return low, high

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        heaped = np.cumsum(self.shares(fit, thetas, X), axis=-1)
        codes = (generator.random((*heaped.shape[:2], 1)) > heaped[..., :-1]).sum(axis=-1)
        return fit.labels[codes]

    def table(self, fit: "Predictor", X: Array, low: Array | None, high: Array | None) -> dict[str, object]:
        shares = fit.probabilities(X)
        columns: dict[str, object] = {"prediction": fit.labels[shares.argmax(axis=1)]}
        for code, label in enumerate(fit.labels):
            for part, values in (("probability", shares), ("low", low), ("high", high)):
                columns[f"{part} of {label}"] = None if values is None else values[:, code]
        return columns


def blocks(X: Array, rows: int = 1024) -> Iterator[Array]:
    """So many rows at a time; fewer where every draw has a score for each row."""
    for first in range(0, len(X), rows):
        yield X[first : first + rows]


def new_numbers(means: Array, tail: float, residual: float) -> Array:
    """The value that a new target is below with probability `tail`: by halving, the law being a mixture of normals."""
    reach = residual * (abs(float(special.ndtri(tail))) + 1.0)
    low, high = means.min(axis=0) - reach, means.max(axis=0) + reach
    for _ in range(36):
        middle = 0.5 * (low + high)
        below = special.ndtr((middle - means) / residual).mean(axis=0) < tail
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
