"""Networks fitted with clipped noisy gradients: a point, or independent Gaussians, on declared or whitened rows."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.message_passing import linear_decay
from sordino.algorithm.randomness import SeededRandomness
from sordino.algorithm.variational import (
    Adam,
    FactorisedGaussian,
    PointMass,
    VariationalOptions,
    run_variational,
)
from sordino.core.spec import ConstantSchedule, Sampling, Spec, Variational
from sordino.core.view import View
from sordino.model.mlp import MLPRegression
from sordino.reproduce.vinaroz_park import residual, statistics
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.folds import Fold

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
        basis = statistics.whitened(budget, X, fold.y, setting.whitening, 1, seed)
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
        optimiser=Adam(0.9, 0.999),
        start_scale=setting.start_scale,
    )
    posterior = run_variational(spec, model, X, fold.y, SeededRandomness(seed), options=options).posterior

    def mean(rows: Array) -> Array:
        return posterior.predict(rows).mean

    generator = np.random.default_rng([seed, 1])
    if setting.noised:
        noise = residual.released_variance(budget, mean, X, fold.y, generator)
    else:
        noise = float(np.mean((fold.y - mean(X)) ** 2))
    found = posterior.predict(test_rows)
    spread = np.maximum(found.variance - 1.0 / setting.noise_precision, 0.0)
    released = (*specs, spec, residual.residual_spec(budget, fold.records)) if setting.noised else ()
    return Fitted(found.mean, spread + noise, released)


def network_spec(setting: NetworkSetting, budget: Budget, records: int) -> Spec:
    """The rounds in words; they have what whitening and the noise variance leave of the budget."""
    share = 1.0 - setting.whitening - residual.SHARE
    multiplier = budget.multiplier(share, setting.steps) if setting.noised else SILENT
    algorithm = Variational(
        records=records,
        steps=setting.steps,
        sampling=Sampling.FULL,
        clip=setting.clip,
        noise_multiplier=ConstantSchedule(multiplier),
        step_size=linear_decay(setting.first_step, setting.last_step, setting.steps),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)
