"""Linear regression, variational networks and natural gradients at the tables' budgets."""

import math
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from papers.round_words import rounds
from papers.vinaroz_park import budget as residual
from papers.vinaroz_park.budget import Budget
from papers.vinaroz_park.natural_gradients import NaturalRule, SkipNetwork, hidden_units, run_natural_gradients
from papers.vinaroz_park.noised_regression import NoisedSecondMoments, fit
from papers.vinaroz_park.refinements import linear_decay
from papers.vinaroz_park.sets import HALF_WIDTH, Fold
from sordino.core.bound import View
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.mechanisms.networks.training import Adam
from sordino.mechanisms.statistics.second_moments import (
    StatisticsOptions,
    StatisticsRelease,
    StatisticsStack,
    run_statistics,
    statistics_spec,
)
from sordino.mechanisms.variational.evidence_bound import (
    FactorisedGaussian,
    PointMass,
    VariationalOptions,
    run_variational,
)
from sordino.models.families.networks import MLPRegression
from sordino.noise.randomness import SeededRandomness

# Private linear regression in rounds, each of which whitens the rows for the next one; and whitening alone.
#
# A noised sum of x x' drowns directions in which the rows hardly vary. Directions that rise above the noise are scaled
# to variance 1, the others as far as the noise allows; then the rows are shorter where they were long, and the next
# noised sum resolves what the last one could not. Every round is one Gaussian mechanism on all records; which transform
# the next one uses depends on releases only.

Array = NDArray[np.float64]

# Squared rows may be this much longer than their mean before they are shortened.
_ROOM = 1.5
# A round that only whitens wants x x' alone.
_WHITENING = StatisticsStack(cross=0.01, square=0.01)
_LAST = StatisticsStack(cross=1.0, square=0.5)
_PRIOR_PRECISION, _LEAST_VARIANCE = 1e-2, 1e-5


@dataclass(frozen=True, eq=False)
class Whitened:
    """A linear map of rows with an intercept, chosen from releases, and the specs of those releases."""

    transform: Array
    row_norm: float
    specs: tuple[Spec, ...]

    def rows(self, X: Array) -> Array:
        """The mapped rows."""
        return with_intercept(X) @ self.transform


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Coefficients in the units of the rows with an intercept, their covariance, and the residual variance."""

    mean: Array
    covariance: Array
    residual_variance: float
    specs: tuple[Spec, ...]

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance of the target of each row."""
        Z = with_intercept(X)
        spread = np.einsum("ij,jk,ik->i", Z, self.covariance, Z)
        return Z @ self.mean, np.maximum(spread, 0.0) + self.residual_variance


def with_intercept(X: Array) -> Array:
    """Rows with a 1 behind them."""
    return np.column_stack([X, np.ones(len(X))])


def whitened(budget: Budget, X: Array, y: Array, share: float, rounds: int, seed: int) -> Whitened:
    """So many whitening rounds for a share of the budget."""
    width = X.shape[1] + 1
    found = Whitened(np.eye(width), math.sqrt(_ROOM * width), ())
    for k in range(rounds):
        release = _round(budget, found, X, y, share / rounds, _WHITENING, seed + k)
        gram, _, _ = _WHITENING.parts(release.statistics, width)
        values, vectors = np.linalg.eigh(gram)
        kept = np.maximum(values, release.noise * math.sqrt(width))
        scale = math.sqrt(len(X)) / found.row_norm
        length = float(np.sum(np.clip(values, 0.0, None) / kept))
        transform = found.transform @ (vectors * (scale / np.sqrt(kept)))
        found = Whitened(transform, math.sqrt(_ROOM * length), (*found.specs, release.spec))
    return found


def centred(budget: Budget, X: Array, y: Array, share: float, rounds: int, seed: int) -> Whitened:
    """The same with a mean of 0 before rows are scaled; the constant stays the last column of the mapped rows."""
    width = X.shape[1]
    found = Whitened(np.eye(width + 1), math.sqrt(_ROOM * (width + 1)), ())
    for k in range(rounds):
        release = _round(budget, found, X, y, share / rounds, _WHITENING, seed + k)
        unit = found.row_norm**2 / len(X)
        moments = unit * _WHITENING.parts(release.statistics, width + 1)[0]
        centre = moments[:-1, -1]
        values, vectors = np.linalg.eigh(moments[:-1, :-1] - np.outer(centre, centre))
        kept = np.maximum(values, unit * release.noise * math.sqrt(width))
        step = np.eye(width + 1)
        step[:-1, :-1] = vectors / np.sqrt(kept)
        step[-1, :-1] = -centre @ step[:-1, :-1]
        length = 1.0 + float(np.sum(np.clip(values, 0.0, None) / kept))
        found = Whitened(found.transform @ step, math.sqrt(_ROOM * length), (*found.specs, release.spec))
    return found


def linear_fit(budget: Budget, X: Array, y: Array, rounds: int, seed: int) -> LinearFit:
    """All but the last round whiten, the last one fits; every round has the same share of the budget."""
    basis = whitened(budget, X, y, (rounds - 1) / rounds, rounds - 1, seed)
    release = _round(budget, basis, X, y, 1.0 / rounds, _LAST, seed + rounds)
    gram, cross, square = _LAST.parts(release.statistics, basis.transform.shape[1])
    noise = release.noise
    sums = NoisedSecondMoments(gram, cross, square, noise, noise / _LAST.cross, len(X), noise / _LAST.square)
    fitted, scale = fit(sums, _PRIOR_PRECISION, _LEAST_VARIANCE), HALF_WIDTH / basis.row_norm
    mapped = basis.transform * scale
    return LinearFit(
        mapped @ fitted.mean,
        mapped @ fitted.covariance @ mapped.T,
        fitted.residual_variance * HALF_WIDTH**2,
        (*basis.specs, release.spec),
    )


def _round(
    budget: Budget, basis: Whitened, X: Array, y: Array, share: float, stack: StatisticsStack, seed: int
) -> StatisticsRelease:
    options = StatisticsOptions(row_norm=basis.row_norm, target_bound=HALF_WIDTH, stack=stack)
    spec = statistics_spec(len(X), budget.multiplier(share, 1), budget.relation, options)
    return run_statistics(spec, basis.rows(X), y, SeededRandomness(seed), options=options)


# Networks fitted with clipped noisy gradients: a point, or independent Gaussians, on declared or whitened rows.

Array = NDArray[np.float64]
# A noise multiplier that changes nothing in single precision: the references without noise run the same kernel.
SILENT = 1e-9


@dataclass(frozen=True)
class NetworkSetting:
    """Rounds of Adam from `first_step` to `last_step`; `whitening` is the share of the budget that whitens the rows."""

    hidden: int = 10
    gaussian: bool = False
    whitening: float = 0.0
    noised: bool = True
    steps: int = 800
    clip: float = 0.3
    first_step: float = 0.02
    last_step: float = 0.002
    start_scale: float = 0.3
    noise_precision: float = 1.0

    def silent(self) -> "NetworkSetting":
        """The same without noise, the clip kept: what clipping and the number of rounds cost alone."""
        return replace(self, noised=False)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Predictions for the test records, and the specs of everything released on the way; none without noise."""

    mean: Array
    variance: Array
    specs: tuple[Spec, ...]


def fit_network(setting: NetworkSetting, fold: Fold, budget: Budget, seed: int) -> Fitted:
    """Whiten if asked, fit, release the noise variance, and predict."""
    X, test_rows, specs = fold.X, fold.test_rows, ()
    if setting.whitening > 0.0:
        basis = whitened(budget, X, fold.y, setting.whitening, 1, seed)
        X, test_rows, specs = basis.rows(X), basis.rows(test_rows), basis.specs
    spec = network_spec(setting, budget, fold.records)
    model = MLPRegression(
        weight_decay=setting.noise_precision / fold.records if setting.gaussian else 0.0,
        hidden=(setting.hidden,),
        activation="tanh",
        noise_precision=setting.noise_precision,
    )
    options = VariationalOptions(
        family=FactorisedGaussian(first_deviation=0.02) if setting.gaussian else PointMass(),
        optimiser=Adam(),
        start_scale=setting.start_scale,
    )
    posterior = run_variational(spec, model, X, fold.y, SeededRandomness(seed), options=options).posterior
    # Predictions average over draws of a fixed seed.
    thetas = posterior.sample(np.random.default_rng(20_240), 256) if setting.gaussian else posterior.mean[None]

    def outputs(rows: Array) -> Array:
        X, draws = jnp.asarray(rows, jnp.float32), jnp.asarray(thetas, jnp.float32)
        predicted = jax.lax.map(lambda theta: jax.vmap(lambda x: model.predict(theta, x)[0])(X), draws)
        return np.asarray(predicted, np.float64)

    def mean(rows: Array) -> Array:
        return outputs(rows).mean(axis=0)

    generator = np.random.default_rng([seed, 1])
    if setting.noised:
        noise = residual.released_variance(budget, mean, X, fold.y, generator)
    else:
        noise = float(np.mean((fold.y - mean(X)) ** 2))
    found = outputs(test_rows)
    released = (*specs, spec, residual.residual_spec(budget, fold.records)) if setting.noised else ()
    return Fitted(found.mean(axis=0), found.var(axis=0) + noise, released)


def network_spec(setting: NetworkSetting, budget: Budget, records: int) -> Spec:
    """The rounds in words; they have what whitening and the noise variance leave of the budget."""
    share = 1.0 - setting.whitening - residual.SHARE
    multiplier = budget.multiplier(share, setting.steps) if setting.noised else SILENT
    algorithm = rounds(
        "variational",
        budget.relation,
        records=records,
        steps=setting.steps,
        sampling=Scheme.FULL,
        clip=setting.clip,
        noise_multiplier=ConstantSchedule(multiplier),
        step_size=linear_decay(setting.first_step, setting.last_step, setting.steps),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


# Networks with a linear part fitted by natural gradients, on rows that one noised sum has centred and whitened.
#
# How large a network noise can bear follows from public numbers: with D parameters, n records and a budget of mu, noise
# adds about (D / (n mu))^2 of the residual variance to the error, so D is a share of n mu.


@dataclass(frozen=True)
class NaturalSetting:
    """The size of the network as a share of n mu, capped for time; its rounds; the clip in units of sqrt(D)."""

    parameter_share: float = 0.05
    most_parameters: int = 200
    steps: int = 400
    clip: float = 0.05
    first_step: float = 0.2
    last_step: float = 0.005
    damping: float = 0.01
    momentum: float = 0.5
    whitening: float = 0.1
    whitening_rounds: int = 2
    noised: bool = True

    def silent(self) -> "NaturalSetting":
        """The same without noise, the clip kept."""
        return replace(self, noised=False)

    def network(self, budget: Budget, records: int, features: int) -> SkipNetwork:
        """The network for so many records of a public shape."""
        most = min(self.parameter_share * records * budget.mu, self.most_parameters)
        return SkipNetwork(hidden_units(most, features))


def fit_natural(setting: NaturalSetting, fold: Fold, budget: Budget, seed: int) -> Fitted:
    """Centre and whiten, fit, release the noise variance, and predict."""
    basis = centred(budget, fold.X, fold.y, setting.whitening, setting.whitening_rounds, seed)
    X, test_rows = basis.rows(fold.X)[:, :-1], basis.rows(fold.test_rows)[:, :-1]
    spec = natural_spec(setting, budget, fold.records, X.shape[1])
    network = setting.network(budget, fold.records, X.shape[1])
    rule = NaturalRule(momentum=setting.momentum, damping=setting.damping)
    found = run_natural_gradients(spec, network, X, fold.y, SeededRandomness(seed), rule=rule)
    if not setting.noised:
        left = float(np.mean((fold.y - found.predict(X)) ** 2))
        return Fitted(found.predict(test_rows), np.full(len(test_rows), left), ())
    left = residual.released_variance(budget, found.predict, X, fold.y, np.random.default_rng([seed, 1]))
    released = (*basis.specs, spec, residual.residual_spec(budget, fold.records))
    return Fitted(found.predict(test_rows), np.full(len(test_rows), left), released)


def natural_spec(setting: NaturalSetting, budget: Budget, records: int, features: int) -> Spec:
    """The rounds in words; they have what whitening and the noise variance leave of the budget."""
    share = 1.0 - setting.whitening - residual.SHARE
    size = setting.network(budget, records, features).size(features)
    algorithm = rounds(
        "variational",
        budget.relation,
        records=records,
        steps=setting.steps,
        sampling=Scheme.FULL,
        clip=setting.clip * size**0.5,
        noise_multiplier=ConstantSchedule(budget.multiplier(share, setting.steps) if setting.noised else SILENT),
        step_size=linear_decay(setting.first_step, setting.last_step, setting.steps),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


# Private linear regression whose rows are whitened round by round, as a method with one setting.


@dataclass(frozen=True)
class LinearSetting:
    """Rounds, all but the last of which whiten."""

    rounds: int = 4


def fit_linear(setting: LinearSetting, fold: Fold, budget: Budget, seed: int) -> Fitted:
    """Fit and predict; the variance of the noise comes with the same release."""
    found = linear_fit(budget, fold.X, fold.y, setting.rounds, seed)
    return Fitted(*found.predict(fold.test_rows), found.specs)
