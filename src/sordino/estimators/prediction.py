"""Predictions from a stored release: post-processing, so they cost nothing and need no budget."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.algorithm.posterior.base import Posterior, Prediction, checked_level
from sordino.algorithm.posterior.dense_gaussian import DenseGaussianPosterior
from sordino.core.errors import InputError
from sordino.core.validate import instance_of, whole_number
from sordino.data import NumberTarget, Schema, encode_features
from sordino.estimators.declaration import as_table
from sordino.estimators.scores import class_shares, scores
from sordino.estimators.situation import CLASSIFYING, Task
from sordino.ledger.release import StoredRelease, posterior_of
from sordino.model.base import LinearScoreModel, Model
from sordino.model.described import build_model
from sordino.model.mixture import GaussianMixture

Array = NDArray[np.float64]
_ROWS_PER_BLOCK = 1024
_SEED = 20_264
DRAWS = 256


@dataclass(frozen=True, eq=False)
class Predictor:
    """What a release says about rows; draws of the posterior come from a fixed public seed, so answers repeat."""

    release: StoredRelease
    draws: int = DRAWS

    @cached_property
    def task(self) -> Task:
        """What the release was fitted for."""
        word = self.release.settings.get("task")
        if word not in tuple(Task):
            raise InputError("Expected a release that `fit` made, got another; its posterior can be had by itself.")
        return Task(word)

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior over the model's parameters, for encoded rows and targets."""
        return posterior_of(self.release)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The classes, by code."""
        return np.array(self.release.settings["labels"])

    @property
    def classifies(self) -> bool:
        """Whether targets are classes."""
        return self.task in CLASSIFYING

    def encode(self, X: Any) -> Array:
        """Rows as the fit encoded them; the target may be absent."""
        return encode_features(self._schema, as_table(self._schema, X)).features

    def regression(self, features: Array) -> Prediction:
        """Mean and variance of targets in raw units, the spread of observations included."""
        mean, variance = self._encoded_regression(features)
        centre, scale = self._units
        return Prediction(centre + scale * mean, scale * scale * variance)

    def probabilities(self, features: Array) -> Array:
        """The probability of each class, averaged over the posterior."""
        return np.concatenate([shares.mean(axis=0) for shares in self._shares(features)])

    def interval(self, features: Array, level: float) -> tuple[Array, Array]:
        """Central intervals: of a new target in regression, of each class's probability in classification."""
        tail = 0.5 * (1.0 - checked_level(level))
        if self.classifies:
            ends = [np.quantile(shares, [tail, 1.0 - tail], axis=0) for shares in self._shares(features)]
            low, high = np.concatenate(ends, axis=1)
            return low, high
        found = self.regression(features)
        half = special.ndtri(1.0 - tail) * np.sqrt(found.variance)
        return found.mean - half, found.mean + half

    def sample(self, features: Array, draws: int, generator: np.random.Generator) -> NDArray[Any]:
        """Draws of new targets, shape (draws, records)."""
        thetas = self.posterior.sample(generator, whole_number("draws", draws))
        found = scores(self.model, thetas, features)
        if self.classifies:
            heaped = np.cumsum(class_shares(found), axis=-1)
            codes = (generator.random((*heaped.shape[:2], 1)) > heaped[..., :-1]).sum(axis=-1)
            return self.labels[codes]
        noise = np.sqrt(self.residual_variance) * generator.standard_normal(found.shape[:2])
        centre, scale = self._units
        return centre + scale * (found[..., 0] + noise)

    def component_shares(self, features: Array) -> Array:
        """The probability of each component of a mixture, at the posterior's mean."""
        return special.softmax(self.component_log_densities(features), axis=1)

    def component_log_densities(self, features: Array) -> Array:
        """The log-density of each encoded row and component, the component's weight included."""
        model = instance_of("the model", self.model, GaussianMixture)
        means = self.posterior.mean.reshape(len(model.weights), -1)
        squared = ((features[:, None, :] - means[None]) ** 2).sum(axis=-1)
        scale = features.shape[1] * np.log(np.sqrt(2.0 * np.pi) * model.spread)
        return np.log(model.weights) - squared / (2.0 * model.spread**2) - scale

    @cached_property
    def model(self) -> Model:
        """The model the posterior is of."""
        if self.release.model is None:
            raise InputError("Expected a release of a registered model, got one of the user's own.")
        return build_model(self.release.model)

    @cached_property
    def residual_variance(self) -> float:
        """The variance of encoded targets around their scores."""
        stated = self.release.settings.get("residual_variance")
        return float(stated if stated is not None else 1.0 / getattr(self.model, "noise_precision", 1.0))

    @cached_property
    def _schema(self) -> Schema:
        if self.release.schema is None:
            raise InputError("Expected a release with a schema, got one without; encode the rows yourself.")
        return self.release.schema

    @cached_property
    def _units(self) -> tuple[float, float]:
        target = self._schema.target
        if target is None or not isinstance(target.kind, NumberTarget):
            return 0.0, 1.0
        return target.kind.bounds.scaling.affine(target.kind.low, target.kind.high)

    @cached_property
    def _thetas(self) -> Array:
        return self.posterior.sample(np.random.default_rng(_SEED), self.draws)

    def _encoded_regression(self, X: Array) -> tuple[Array, Array]:
        if isinstance(self.posterior, DenseGaussianPosterior) and isinstance(self.model, LinearScoreModel):
            spread = np.einsum("ij,jk,ik->i", X, self.posterior.covariances, X, optimize=True)
            return X @ self.posterior.means, spread + self.residual_variance
        found = [scores(self.model, self._thetas, block)[..., 0] for block in _blocks(X)]
        mean = np.concatenate([block.mean(axis=0) for block in found])
        return mean, np.concatenate([block.var(axis=0) for block in found]) + self.residual_variance

    def _shares(self, X: Array) -> Iterator[Array]:
        for block in _blocks(X):
            yield class_shares(scores(self.model, self._thetas, block))


def _blocks(X: Array) -> Iterator[Array]:
    for first in range(0, len(X), _ROWS_PER_BLOCK):
        yield X[first : first + _ROWS_PER_BLOCK]
