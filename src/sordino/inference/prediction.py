"""Predictions from a stored release: post-processing, so they cost nothing and need no budget."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.validate import InputError, Interval, instance_of, number, refuse, whole_number
from sordino.data import Measurement, Schema, Table, encode_features, from_arrays, read_table
from sordino.fitting.declaration import as_table
from sordino.fitting.problem import event_chances, exposures, with_flags
from sordino.fitting.stored_fit import StoredFit
from sordino.fitting.tasks import DRAWS, LINEAR, Task
from sordino.inference.predicted_means import MeanAndNew, joined, predicted
from sordino.ledger.release.coverage import NEW_TARGETS, PROBABILITIES, release_coverage, withheld
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior, Prediction, checked_level
from sordino.mechanisms.posterior.network import NetworkPosterior, unit_quantile
from sordino.models.base import LinearScoreModel, Model
from sordino.models.families.mixture import GaussianMixture
from sordino.models.families.networks import DenseNetwork


@singledispatch
def scores(model: Model, thetas: Array, X: Array) -> Array:
    """Scores of shape (draws, records, outputs); a model registers its own."""
    del thetas, X
    raise refuse("the model", "to have registered scores", type(model).__name__)


@scores.register
def _(model: LinearScoreModel, thetas: Array, X: Array) -> Array:
    weights = thetas.reshape(len(thetas), -1, model.outputs)
    return np.einsum("nd,kdo->kno", X, weights, optimize=True)


@scores.register
def _(model: DenseNetwork, thetas: Array, X: Array) -> Array:
    rows = jnp.asarray(X, jnp.float32)
    outputs = jax.lax.map(partial(_network, model, rows), jnp.asarray(thetas, jnp.float32))
    return np.asarray(outputs, np.float64)


def _network(model: DenseNetwork, rows: Any, theta: Any) -> Any:
    return jax.vmap(lambda x: model.predict(theta, x))(rows)


def class_shares(scores: Array) -> Array:
    """Probabilities of the classes from scores; one score is that of the second of two classes."""
    if scores.shape[-1] > 1:
        return special.softmax(scores, axis=-1)
    second = special.expit(scores)
    return np.concatenate([1.0 - second, second], axis=-1)


# Fewer where every draw has a score for each row.
_ROWS_PER_BLOCK, _ROWS_OF_ALL_DRAWS = 1024, 256
_SEED = 20_264
# Counts that are drawn for each row to find the ends of its interval.
_DRAWN_COUNTS = 2000


class TableCoefficients(NamedTuple):
    """Means of coefficients in the units of the table: names of columns, intercepts, and (columns, outputs) slopes."""

    names: tuple[str, ...]
    intercepts: Array
    slopes: Array


def table_map(schema: Schema, units: tuple[float, float]) -> tuple[Array, Array, Array]:
    """From coefficients of all encoded columns to those of the table, as `CoefficientPosterior.to_table`."""
    found = np.zeros((3, len(schema.feature_names)))
    found[0] = 1.0
    for feature, block in schema.blocks():
        if isinstance(feature.kind, Measurement):
            centre, scale = feature.kind.centre_and_scale
            found[:2, block.start] = 1.0 / scale, -centre / scale
    middle, of_target = units
    found[:2] *= of_target
    found[2, 0] = middle
    return found[0], found[1], found[2]


@dataclass(frozen=True, eq=False)
class Predictor(StoredFit):
    """What a release says about rows; draws of the posterior come from a fixed public seed, so answers repeat."""

    draws: int = DRAWS

    def encode(self, X: Any) -> Array:
        """Rows as the fit encoded them, ones where only a constant was learned; the target may be absent."""
        if self.task is Task.SURVIVAL:
            return with_flags(encode_features(self.schema, self._with_time(X)).features, len(self.edges) - 1)
        features = encode_features(self.schema, as_table(self.schema, X)).features
        return np.ones((len(features), 1)) if self.only_a_constant else features

    def columns_to_read(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns of a table with these names that `encode` reads; of times it needs none."""
        wanted = dict.fromkeys(name for feature in self.schema.features for name in feature.reads)
        if self.task is Task.SURVIVAL and (time := str(self.release.settings.get("time"))) not in names:
            wanted.pop(time, None)
        return tuple(wanted)

    def _with_time(self, X: Any) -> Table:
        """A table of rows to predict; when they were last seen is not asked, so the column of times may be absent."""
        name = str(self.release.settings.get("time"))
        if not (isinstance(X, np.ndarray) and X.dtype.names is None):
            given = read_table(X)
            if name not in given.columns:
                lowest = np.full(given.rows, float(self.edges[0]))
                X = Table({**given.columns, **from_arrays({name: lowest}).columns})
        return as_table(self.schema, X)

    def chances(self, features: Array, until: float | None = None) -> Array:
        """The chance of the event up to a time, the last edge if absent, for every draw and row: (draws, rows)."""
        last = float(self.edges[-1])
        time = last if until is None else number("until", until, Interval(float(self.edges[0]), last))
        own = self._count_posterior()
        return event_chances(own, own.draws, features, self.edges, time)

    def regression(self, features: Array) -> Prediction:
        """Mean and variance of targets in raw units, the spread of observations included."""
        if self.task is Task.SURVIVAL:
            weights = np.asarray(self._count_posterior().weights)
            found = np.concatenate([weights @ self.chances(block) for block in _blocks(features, _ROWS_OF_ALL_DRAWS)])
            return Prediction(found, found * (1.0 - found))
        if self.task is Task.COUNTS:
            return self._counts(features)
        mean, variance = self._encoded_regression(features)
        centre, scale = self.target_units
        return Prediction(centre + scale * mean, scale * scale * variance)

    def probabilities(self, features: Array) -> Array:
        """The probability of each class, averaged over the posterior."""
        return np.concatenate([shares.mean(axis=0) for shares in self._shares(features)])

    def interval(self, features: Array, level: float) -> tuple[Array, Array]:
        """Central intervals: of a new target in regression, of each class's probability in classification.

        How often they hold is measured, and is often not the level: `coverage` says it. There is none of
        probabilities where only a constant was learned: what is known then is a share, and nothing about a row.
        """
        tail, reason = 0.5 * (1.0 - checked_level(level)), withheld(self.release)
        if reason is not None:
            raise InputError(f"Intervals of method {self.release.settings['method']!r} are withheld: {reason}.")
        if self.classifies and self.only_a_constant:
            raise InputError(
                "Expected a release that says something about rows, got one in which only a constant was learned; it "
                "has no interval of a row's probabilities."
            )
        if self.classifies:
            ends = [np.quantile(shares, [tail, 1.0 - tail], axis=0) for shares in self._shares(features)]
            low, high = np.concatenate(ends, axis=1)
            return low, high
        if self.task is Task.SURVIVAL:
            found = self.means(features, level)
            return found.low, found.high
        if self.task is Task.COUNTS:
            drawn = [self.sample(block, _DRAWN_COUNTS, np.random.default_rng(_SEED)) for block in _blocks(features)]
            low, high = np.concatenate([np.quantile(one, [tail, 1.0 - tail], axis=0) for one in drawn], axis=1)
            return np.floor(low), np.ceil(high)
        regression = self.regression(features)
        half = unit_quantile(1.0 - 2.0 * tail, self.residual_exponent) * np.sqrt(regression.variance)
        return regression.mean - half, regression.mean + half

    def coverage(self, level: float) -> str | None:
        """What stands beside such intervals: the level, and how often they held on drawn tables; None: not measured."""
        of = PROBABILITIES if self.classifies or self.task is Task.SURVIVAL else NEW_TARGETS
        return release_coverage(self.release, of, checked_level(level))

    def sample(self, features: Array, draws: int, generator: np.random.Generator) -> NDArray[Any]:
        """Draws of new targets, shape (draws, records)."""
        thetas = self.posterior.sample(generator, whole_number("draws", draws))
        if self.task is Task.SURVIVAL:
            chances = event_chances(self._count_posterior(), thetas, features, self.edges, float(self.edges[-1]))
            return (generator.random(chances.shape) < chances).astype(np.float64)
        drawn = self._scores(thetas, features)
        if self.classifies:
            heaped = np.cumsum(class_shares(drawn), axis=-1)
            codes = (generator.random((*heaped.shape[:2], 1)) > heaped[..., :-1]).sum(axis=-1)
            return self.labels[codes]
        if self.task is Task.COUNTS:
            return self._drawn_counts(drawn[..., 0], features, generator)
        noise = np.sqrt(self.residual_variance) * generator.standard_normal(drawn.shape[:2])
        centre, scale = self.target_units
        return centre + scale * (drawn[..., 0] + noise)

    @property
    def knows_means(self) -> bool:
        """Whether means have intervals: those of bounded influence do."""
        return not self.only_a_constant and isinstance(self.posterior, CoefficientPosterior)

    def means(self, features: Array, level: float, until: float | None = None) -> MeanAndNew:
        """Means of encoded rows with intervals, and intervals of new targets; refused where they are not known.

        Of two classes the mean is the probability of the second, of more there is one for each class; of hazards it is
        the chance of the event up to a time.
        """
        checked_level(level)
        own = self.posterior
        if self.only_a_constant or not isinstance(own, CoefficientPosterior):
            raise InputError("Only releases of bounded influence have intervals of means.")
        centre, scale = self.target_units if own.link == "identity" else (0.0, 1.0)
        found = []
        for block in _blocks(features, _ROWS_OF_ALL_DRAWS):
            if self.task is Task.SURVIVAL:
                found.append(predicted(self.chances(block, until), np.asarray(own.weights), level=level))
                continue
            scores = centre + scale * own.scores(own.draws, block)
            made = predicted(
                scores if own.family == "multinomial" else scores[..., 0],
                np.asarray(own.weights),
                own.link,
                level,
                residual=scale * np.sqrt(own.residual_variance) or None,
                dispersion=own.dispersion,
                exposure=self._exposures(block) if self.task is Task.COUNTS else 1.0,
            )
            found.append(made)
        return joined(found)

    @cached_property
    def table_map(self) -> tuple[Array, Array, Array]:
        """From coefficients of all encoded columns to those of the table."""
        return table_map(self.schema, self.target_units)

    @property
    def table_units(self) -> tuple[tuple[str, ...], Array, Array]:
        """Names of the coefficients of encoded columns, and the map to the table's units: a matrix and a constant."""
        scale, shift, constant = self.table_map
        outputs, names = int(getattr(self.model, "outputs", 1)), self.schema.feature_names
        matrix = np.diag(scale)
        matrix[0, 1:] = shift[1:]
        if outputs > 1:
            names = tuple(f"{name} [{word}]" for name in names for word in self.labels.tolist())
        return names, np.asarray(np.kron(matrix, np.eye(outputs)), np.float64), np.repeat(constant, outputs)

    @cached_property
    def coefficients(self) -> "TableCoefficients":
        """Posterior means of a linear model in the units of the table; refused where there are none."""
        if self.task not in LINEAR or self.only_a_constant:
            raise InputError("Expected a release with coefficients of columns, got one without.")
        own = self.posterior
        if isinstance(own, CoefficientPosterior):
            table, outputs, names = own.in_table_units().mean, len(own.outputs), own.columns
        else:
            names = self.schema.feature_names
            scale, shift, constant = self.table_map
            found = own.mean.reshape(len(names), -1)
            outputs, slopes = found.shape[1], scale[:, None] * found
            slopes[0] += shift @ found + constant[0]
            table = slopes.ravel()
        return TableCoefficients(names[1:], table[:outputs], table[outputs:].reshape(-1, outputs))

    def _exposures(self, features: Array) -> Array:
        """How long rows are watched: their own exposure, or 1 where the fit had none."""
        return exposures(self.schema, self.release.settings.get("exposure"), features)

    def _counts(self, features: Array) -> Prediction:
        own = self._count_posterior()
        found = [
            own.counts(own.scores(own.draws, block)[..., 0], self._exposures(block)) for block in _blocks(features)
        ]
        return Prediction(*(np.concatenate([getattr(one, name) for one in found]) for name in ("mean", "variance")))

    def _drawn_counts(self, scores: Array, features: Array, generator: np.random.Generator) -> Array:
        """Counts of these scores: Poisson, or with rates that vary by a gamma law."""
        dispersion = self._count_posterior().dispersion
        rates = self._exposures(features) * np.exp(np.minimum(scores, 30.0))
        if dispersion > 0.0:
            rates = rates * generator.gamma(1.0 / dispersion, dispersion, rates.shape)
        return generator.poisson(np.minimum(rates, 1e15)).astype(np.float64)

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
    def _thetas(self) -> Array:
        return self.posterior.sample(np.random.default_rng(_SEED), self.draws)

    def _encoded_regression(self, X: Array) -> tuple[Array, Array]:
        if isinstance(self.posterior, DenseGaussianPosterior) and isinstance(self.model, LinearScoreModel):
            spread = np.einsum("ij,jk,ik->i", X, self.posterior.covariances, X, optimize=True)
            return X @ self.posterior.means, spread + self.residual_variance
        if isinstance(self.posterior, CoefficientPosterior):
            found = self.posterior.predict(X)
            return found.mean, found.variance
        if isinstance(self.posterior, NetworkPosterior):
            spreads = [self.posterior.spread(block) for block in _blocks(X)]
            mean, variance = (np.concatenate(part) for part in zip(*spreads, strict=True))
            return mean, variance + self.residual_variance
        by_block = [self._scores(self._thetas, block)[..., 0] for block in _blocks(X)]
        mean = np.concatenate([block.mean(axis=0) for block in by_block])
        return mean, np.concatenate([block.var(axis=0) for block in by_block]) + self.residual_variance

    def _shares(self, X: Array) -> Iterator[Array]:
        for block in _blocks(X):
            yield class_shares(self._scores(self._thetas, block))

    def _scores(self, thetas: Array, X: Array) -> Array:
        own = self.posterior
        if isinstance(own, CoefficientPosterior | NetworkPosterior):
            return own.scores(thetas, X)
        return scores(self.model, thetas, X)


def _blocks(X: Array, rows: int = _ROWS_PER_BLOCK) -> Iterator[Array]:
    for first in range(0, len(X), rows):
        yield X[first : first + rows]
