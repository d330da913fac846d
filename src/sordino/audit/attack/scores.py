"""Scores: numbers that are larger when a release looks like one of the second dataset.

A score may learn from models of both datasets; those models are never counted afterwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from sordino.audit.attack.fitting import Releases
from sordino.core.validate import POSITIVE, number

Scores = NDArray[np.float64]
ScoreFunction = Callable[[Releases], Scores]


class Score(ABC):
    """A way to turn releases into one number each."""

    learns: ClassVar[bool] = True

    @abstractmethod
    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        """The score after seeing releases of both datasets."""


@dataclass(frozen=True)
class LikelihoodRatio(Score):
    """The best score there is, for releases whose two laws are known: log density of the second minus of the first."""

    learns: ClassVar[bool] = False
    first: Callable[[Releases], Scores]
    second: Callable[[Releases], Scores]

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return lambda releases: self.second(releases) - self.first(releases)


@dataclass(frozen=True)
class Feature(Score):
    """Any function of the releases, turned round if it is smaller on the second dataset."""

    function: Callable[[Releases], Scores]

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        difference = np.median(self.function(second)) - np.median(self.function(first))
        sign = -1.0 if difference < 0 else 1.0
        return lambda releases: sign * np.asarray(self.function(releases), float)


@dataclass(frozen=True)
class LinearScore(Score):
    """The linear discriminant: best for two Gaussians with one covariance.

    The covariance is shrunk towards a multiple of the identity, `shrinkage` times its mean variance, and solved in the
    space of the models where these are fewer than the numbers of a release.
    """

    shrinkage: float = 0.1

    def __post_init__(self) -> None:
        number("shrinkage", self.shrinkage, POSITIVE)

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        gap = second.mean(axis=0) - first.mean(axis=0)
        centred = np.concatenate([first - first.mean(axis=0), second - second.mean(axis=0)]).astype(float)
        direction = _shrunk_solve(centred, gap.astype(float), self.shrinkage)
        return lambda releases: releases @ direction


@dataclass(frozen=True)
class LogisticScore(Score):
    """Logistic regression on standardised releases, with a small ridge; learns what no covariance shows."""

    ridge: float = 1e-2
    iterations: ClassVar[int] = 25

    def __post_init__(self) -> None:
        number("ridge", self.ridge, POSITIVE)

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        pooled = np.concatenate([first, second]).astype(float)
        centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        rows = np.concatenate([(pooled - centre) / scale, np.ones((len(pooled), 1))], axis=1)
        labels = np.repeat([0.0, 1.0], [len(first), len(second)])
        weights = _newton(rows, labels, self.ridge * len(rows), self.iterations)
        return lambda releases: ((releases - centre) / scale) @ weights[:-1] + weights[-1]


def _shrunk_solve(centred: NDArray[np.float64], gap: NDArray[np.float64], shrinkage: float) -> NDArray[np.float64]:
    models, numbers = centred.shape
    ridge = shrinkage * float(np.mean(centred * centred)) + 1e-300
    if numbers <= models:
        covariance = centred.T @ centred / models + ridge * np.eye(numbers)
        return linalg.solve(covariance, gap, assume_a="pos")
    # Woodbury: (C'C / n + r I)^-1 g = (g - C' (n r I + C C')^-1 C g) / r.
    inner = centred @ centred.T + models * ridge * np.eye(models)
    return (gap - centred.T @ linalg.solve(inner, centred @ gap, assume_a="pos")) / ridge


def _newton(rows: NDArray[np.float64], labels: NDArray[np.float64], ridge: float, iterations: int) -> Scores:
    weights = np.zeros(rows.shape[1])
    for _ in range(iterations):
        chance = special.expit(rows @ weights)
        gradient = rows.T @ (chance - labels) + ridge * weights
        curvature = (rows.T * (chance * (1 - chance))) @ rows + ridge * np.eye(len(weights))
        weights = weights - linalg.solve(curvature, gradient, assume_a="pos")
    return weights
