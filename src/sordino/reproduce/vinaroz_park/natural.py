"""Networks with a linear part fitted by natural gradients, on rows that one noised sum has centred and whitened.

How large a network noise can bear follows from public numbers: with D parameters, n records and a budget of mu, noise
adds about (D / (n mu))^2 of the residual variance to the error, so D is a share of n mu.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.full_gradients import NaturalRule, SkipNetwork, hidden_units, run_natural_gradients
from sordino.algorithm.message_passing import linear_decay
from sordino.algorithm.randomness import SeededRandomness
from sordino.core.spec import ConstantSchedule, Sampling, Spec, Variational
from sordino.core.view import View
from sordino.reproduce.vinaroz_park import residual, statistics
from sordino.reproduce.vinaroz_park.budget import Budget
from sordino.reproduce.vinaroz_park.folds import Fold
from sordino.reproduce.vinaroz_park.networks import SILENT, Fitted

Array = NDArray[np.float64]


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
    basis = statistics.centred(budget, fold.X, fold.y, setting.whitening, setting.whitening_rounds, seed)
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
    algorithm = Variational(
        records=records,
        steps=setting.steps,
        sampling=Sampling.FULL,
        clip=setting.clip * size**0.5,
        noise_multiplier=ConstantSchedule(budget.multiplier(share, setting.steps) if setting.noised else SILENT),
        step_size=linear_decay(setting.first_step, setting.last_step, setting.steps),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)
