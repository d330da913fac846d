"""Linear regression from noised sums: one Gaussian mechanism, and a posterior that knows its noise."""

import math
from typing import ClassVar

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.fitting.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    method,
    multiplier,
    sums_spec,
    target_bound,
    too_many_columns,
)
from sordino.fitting.problem import FitProblem, Sources, root_mean_square, stand_in
from sordino.fitting.tasks import Task
from sordino.mechanisms.statistics.second_moments import (
    Fitted,
    NoisedSecondMoments,
    StatisticsOptions,
    StatisticsRelease,
    StatisticsStack,
    fit,
    run_statistics,
)
from sordino.models.families.regression import GaussianLinear
from sordino.noise.integer_sums import COVERED

_SEED = 20_261
# One lucky draw of the noise must not promise what the next does not keep.
_DRAWS = 5
# "auto" leaves wider tables to "ridge" unless there is this much budget for each coefficient and root of columns.
_MOST_AUTOMATIC, _PER_ROOT = 160, 4.0
# A unit of y^2 weighs as much as one of x x': a little more noise, and residuals whose variance is known better.
_STACK = StatisticsStack(cross=1.0, square=1.0)


@method("statistics", Task.REGRESSION)
class Statistics(Method):
    """Sums of x x', y x and y^2, noised once."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        return too_many_columns(problem)

    def considered(self, problem: FitProblem) -> bool:
        # Products of hundreds of columns are mostly noise, and take long to rehearse.
        wide = problem.features > _MOST_AUTOMATIC
        return not wide or problem.budget_of_coefficient >= _PER_ROOT * math.sqrt(problem.features)

    def plan(self, problem: FitProblem) -> Plan:
        options = StatisticsOptions(problem.row_norm, target_bound(problem), stack=_STACK)
        spec = sums_spec(problem, problem.mu, options)
        data = stand_in(problem)
        scale = options.target_bound / options.row_norm
        found = [simulated_fit(problem, problem.mu, options, data.X, data.y, draw) for draw in range(_DRAWS)]
        errors = [root_mean_square(data.held_targets - data.held_rows @ (scale * one.mean)) for one in found]
        predicted = Predicted(sum(errors) / _DRAWS, constant_error(problem, data))
        return Plan(self, problem, spec, predicted, {"options": options})

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        release = run_statistics(plan.spec, X, y, sources.fresh(), options=plan.details["options"])
        posterior = release.posterior
        model = GaussianLinear(noise_precision=1.0 / residual_variance(release))
        return Outcome(posterior, model)


def residual_variance(release: StatisticsRelease) -> float:
    """In the units of the encoded target."""
    return release.fitted.residual_variance * release.options.target_bound**2


def simulated_fit(
    problem: FitProblem, mu: float, options: StatisticsOptions, X: Array, y: Array, draw: int = 0
) -> Fitted:
    """The fit that so many records like these would give, with the noise the plan has."""
    stack = options.stack
    growth = problem.records / len(X)
    total = growth * stack.total(X / options.row_norm, y / options.target_bound)
    noise = stack.sensitivity(problem.relation) * multiplier(mu)
    total = total + noise * np.random.default_rng(_SEED + draw).standard_normal(len(total))
    gram, cross, square = stack.parts(total, X.shape[1])
    sums = NoisedSecondMoments(gram, cross, square, noise, noise / stack.cross, problem.records, noise / stack.square)
    return fit(sums, options.prior_precision, options.least_variance)
