"""A release of a fit, read back: its task, model, posterior, labels and units, and what it says about rows.

A folder may say anything, so each part is held against the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np

from sordino.core.arrays import Array
from sordino.core.validate import POSITIVE, InputError, Interval, instance_of, number, refuse, whole_number
from sordino.data import Measurement, Schema, Table, encode_features, from_arrays, read_table
from sordino.data.encode import as_table
from sordino.fitting.tasks.base import DRAWS, Task, blocks, task_of
from sordino.ledger.release import StoredRelease, posterior_of
from sordino.ledger.release.coverage import A_CONSTANT, LEARNED, NEW_TARGETS, PROBABILITIES, release_coverage, withheld
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior, tails, weighted_quantiles
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior, Posterior, Prediction
from sordino.mechanisms.posterior.network import FLATTEST, MOST_PEAKED, NetworkPosterior, unit_quantile
from sordino.models.base import LinearScoreModel, Model
from sordino.models.families.networks import DenseNetwork
from sordino.models.registry import build_model

_SEED = 20_264
_ROWS_OF_ALL_DRAWS = 256  # rows at a time where every draw of a posterior has a score for each row
# A law of a mean is carried on by so many points of equal probability: all draws would take ten times as long.
_POINTS = (np.arange(199) + 0.5) / 199.0


@dataclass(frozen=True, eq=False)
class MeanAndNew:
    """Means of rows with intervals, of classes (rows, classes), and intervals of new targets, None for classes."""

    mean: Array
    low: Array
    high: Array
    new_low: Array | None = None
    new_high: Array | None = None


@dataclass(frozen=True, eq=False)
class Predictor:
    """What a release says that it is of, and of rows; draws come from a fixed public seed, so answers repeat."""

    release: StoredRelease
    draws: int = DRAWS

    @cached_property
    def task(self) -> Task:
        found = task_of(self.release.settings)
        if found is None:
            raise InputError("This release comes from `sordino.fit`; use `sordino.reopen(folder, model).summary()`.")
        return found

    @cached_property
    def schema(self) -> Schema:
        if self.release.schema is None:
            raise InputError("This release has no schema. Encode the rows yourself.")
        return self.release.schema

    @cached_property
    def model(self) -> Model:
        named = self.release.model
        if named is None:
            raise InputError("The model of this release is not registered.")
        if named.name not in self.task.families:
            raise InputError(f"Expected a model for {self.task.word}, got {named.name!r}; the release was changed.")
        return build_model(named)

    @property
    def outputs(self) -> int:
        return int(getattr(self.model, "outputs", 1))

    @cached_property
    def edges(self) -> Array:
        """The edges of the time bins that hazards are constant in; none for other tasks."""
        return self.task.edges(self.release.settings)

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior over the model's parameters, for encoded rows and targets."""
        posterior = posterior_of(self.release)
        columns = 1 if self.only_a_constant else len(self.schema.feature_names)
        columns += max(0, len(self.edges) - 2)
        if isinstance(posterior, CoefficientPosterior):
            fits = posterior.places.max() < columns and len(posterior.outputs) == max(1, self.outputs - 1)
        elif isinstance(posterior, NetworkPosterior):
            fits = posterior.columns == columns
        else:
            fits = posterior.dim == self.model.dim(columns)
        if not fits:
            raise InputError(f"The posterior is not one for {columns} encoded columns; the release was changed.")
        return posterior

    @property
    def coefficient_law(self) -> CoefficientPosterior:
        return instance_of("the posterior", self.posterior, CoefficientPosterior)

    @cached_property
    def labels(self) -> np.ndarray:
        """The classes, by code; a file may say anything, so they are looked at."""
        stated, wanted = self.release.settings.get("labels"), max(2, self.outputs)
        kinds = {type(label) for label in stated} if isinstance(stated, list | tuple) else set()
        alike = kinds <= {int, float} or kinds in ({str}, {bool})
        if not kinds or not alike or len(set(stated or ())) != wanted:
            why = f"settings.labels of the release must be a list of {wanted} different words, booleans or numbers"
            raise InputError(f"{why}. The release was changed.")
        return np.array(stated)

    @property
    def only_a_constant(self) -> bool:
        return self.release.settings.get(LEARNED) == A_CONSTANT

    @cached_property
    def target_units(self) -> tuple[float, float]:
        """Centre and scale of a target that is a number, in the units of the table; 0 and 1 otherwise."""
        target = self.schema.target
        return (0.0, 1.0) if target is None else self.task.target_units(target.kind)

    @cached_property
    def residual_variance(self) -> float:
        """The variance of encoded targets around their scores."""
        if isinstance(self.posterior, CoefficientPosterior):
            return self.posterior.residual_variance
        stated = self.release.settings.get("residual_variance")
        if stated is None:
            return 1.0 / getattr(self.model, "noise_precision", 1.0)
        return number("settings.residual_variance", stated, POSITIVE)

    def residual_quantile(self, share: float) -> float:
        """The deviations around a score inside which this share of targets lies: of a normal law, or one counted."""
        stated = self.release.settings.get("residual_exponent", 2.0)
        return unit_quantile(share, number("settings.residual_exponent", stated, Interval(MOST_PEAKED, FLATTEST)))

    def encode(self, X: object) -> Array:
        """Rows as the fit encoded them, ones where only a constant was learned; the target may be absent."""
        return self.task.encode(self, X)

    def features(self, X: object, absent: Mapping[str, float] = MappingProxyType({})) -> Array:
        """Encoded features; a column that is `absent` from the table has the number that is named there."""
        if absent and not (isinstance(X, np.ndarray) and X.dtype.names is None):
            given = read_table(X)
            more = {name: np.full(given.rows, value) for name, value in absent.items() if name not in given.columns}
            X = Table({**given.columns, **(from_arrays(more).columns if more else {})})
        features = encode_features(self.schema, as_table(self.schema, X))
        return np.ones((len(features), 1)) if self.only_a_constant else features

    def columns_to_read(self, names: Sequence[str]) -> tuple[str, ...]:
        return self.task.columns_to_read(self, names)

    def exposures(self, features: Array) -> Array | float:
        found = self.task.exposures(self.schema, self.release.settings, features)
        return 1.0 if found is None else found

    @cached_property
    def thetas(self) -> Array:
        return self.posterior.sample(np.random.default_rng(_SEED), self.draws)

    def scores(self, thetas: Array, X: Array) -> Array:
        """Scores of encoded rows, shape (draws, rows, outputs)."""
        own, model = self.posterior, self.model
        if isinstance(own, CoefficientPosterior | NetworkPosterior):
            return own.scores(thetas, X)
        if isinstance(model, LinearScoreModel):
            return np.einsum("nd,kdo->kno", X, thetas.reshape(len(thetas), -1, model.outputs), optimize=True)
        if not isinstance(model, DenseNetwork):
            raise refuse("the model", "to have scores", type(model).__name__)
        rows = jnp.asarray(X, jnp.float32)
        predict = jax.vmap(model.predict, in_axes=(None, 0))
        outputs = jax.lax.map(lambda theta: predict(theta, rows), jnp.asarray(thetas, jnp.float32))
        return np.asarray(outputs, np.float64)

    def encoded_regression(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of encoded targets, the spread of observations included."""
        own = self.posterior
        if isinstance(own, CoefficientPosterior):
            found = own.predict(X)
            return found.mean, found.variance
        if isinstance(own, DenseGaussianPosterior) and isinstance(self.model, LinearScoreModel):
            spread = np.einsum("ij,jk,ik->i", X, own.covariances, X, optimize=True)
            return X @ own.means, spread + self.residual_variance
        if isinstance(own, NetworkPosterior):
            by_block = [own.spread(block) for block in blocks(X)]
        else:
            drawn = [self.scores(self.thetas, block)[..., 0] for block in blocks(X)]
            by_block = [(block.mean(axis=0), block.var(axis=0)) for block in drawn]
        mean, variance = (np.concatenate(part) for part in zip(*by_block, strict=True))
        return mean, variance + self.residual_variance

    def regression(self, features: Array) -> Prediction:
        return Prediction(*self.task.regression(self, features))

    def probabilities(self, features: Array) -> Array:
        return self.task.probabilities(self, features)

    def interval(self, features: Array, level: float) -> tuple[Array, Array]:
        """Central intervals: of a new target, or of each class's probability. `coverage` says how often they hold."""
        (tail, _), reason = tails(level), withheld(self.release)
        if reason is not None:
            raise InputError(f"Intervals of method {self.release.settings['method']!r} are withheld: {reason}.")
        if self.task.classifies and self.only_a_constant:
            raise InputError("Only a constant was learned, so a row's probabilities have no interval.")
        return self.task.interval(self, features, tail)

    def coverage(self, level: float) -> str | None:
        """What stands beside such intervals: the level, and how often they held on drawn tables; None: not measured."""
        of = PROBABILITIES if self.task.classifies or self.task.several_rows else NEW_TARGETS
        tails(level)
        return release_coverage(self.release, of, level)

    def sample(self, features: Array, draws: int, generator: np.random.Generator | None = None) -> np.ndarray:
        """Draws of new targets, shape (draws, records); the same ones where no generator is given."""
        used = np.random.default_rng(_SEED) if generator is None else generator
        return self.task.sample(self, self.posterior.sample(used, whole_number("draws", draws)), features, used)

    @property
    def knows_means(self) -> bool:
        """Whether means have intervals: those of bounded influence do."""
        return not self.only_a_constant and isinstance(self.posterior, CoefficientPosterior)

    def means(
        self, features: Array, level: float, outcomes: Callable[[Array, Array], Array] | None = None
    ) -> MeanAndNew:
        """Means of encoded rows with intervals, of two classes that of the second, and intervals of new targets."""
        if not self.knows_means:
            raise InputError("Only releases of bounded influence have intervals of means.")
        law, known, new = self.coefficient_law, partial(self.task.outcomes, self), self.task.new_targets(self)
        ask, weights, parts = outcomes or known, np.asarray(law.weights), blocks(features, _ROWS_OF_ALL_DRAWS)
        made = (intervals_of_means(ask(law.draws, X), weights, level, new, self.exposures(X)) for X in parts)
        sides = zip(*(vars(one).values() for one in made), strict=True)
        return MeanAndNew(*(np.concatenate(side) for side in sides if side[0] is not None))

    @property
    def table_units(self) -> tuple[tuple[str, ...], Array, Array]:
        """Names of the coefficients of encoded columns, and the map to the table's units: a matrix and a constant."""
        (middle, of_target), names, outputs = self.target_units, self.schema.feature_names, self.outputs
        matrix, constant = np.eye(len(names)), np.zeros(len(names))
        for feature, block in self.schema.blocks:
            if isinstance(feature.kind, Measurement):
                centre, scale = feature.kind.centre_and_scale
                matrix[block.start, block.start], matrix[0, block.start] = 1.0 / scale, -centre / scale
        constant[0] = middle
        if outputs > 1:
            names = tuple(f"{name} [{word}]" for name in names for word in self.labels.tolist())
        return names, np.asarray(np.kron(of_target * matrix, np.eye(outputs)), np.float64), np.repeat(constant, outputs)

    @cached_property
    def coefficients(self) -> tuple[tuple[str, ...], Array]:
        """Names of columns, the intercept first, and posterior means in the units of the table, (columns, outputs)."""
        if not self.task.linear or self.only_a_constant:
            raise InputError("This release has no coefficients of columns.")
        own = self.posterior
        if isinstance(own, CoefficientPosterior):
            return own.columns, own.in_table_units().mean.reshape(-1, len(own.outputs))
        _, matrix, constant = self.table_units
        return self.schema.feature_names, (matrix @ own.mean + constant).reshape(-1, self.outputs)


def intervals_of_means(
    outcomes: Array,
    weights: Array,
    level: float,
    new: Callable[[Array, float], Array] | None = None,
    exposure: Array | float = 1.0,
) -> MeanAndNew:
    """Means of rows with intervals, and intervals of new targets, from weighted draws of means (draws, rows, outcomes).

    `new` gives, from points of equal probability of each mean and a tail, what new targets are below that often.
    """
    sides, found = tails(level), []
    for place in range(outcomes.shape[2]):
        means = exposure * outcomes[..., place]
        ends = weighted_quantiles(means, weights, [*sides, *(() if new is None else _POINTS)])
        more = () if new is None else (new(ends[:, 2:].T, tail) for tail in sides)
        found.append((weights @ means, ends[:, 0], ends[:, 1], *more))
    return MeanAndNew(*(found[0] if len(found) == 1 else map(np.column_stack, zip(*found, strict=True))))
