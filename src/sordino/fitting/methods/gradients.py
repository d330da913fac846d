"""Robust regression: a tenth of the budget for noised sums, the rest for noised full gradients.

The sums give a start (the quadratic that is closest to the loss) and the curvature; the gradients do the learning. How
many rounds there are, and how fast they move, is chosen on stand-in data from the declaration.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import ListSchedule, Spec
from sordino.core.validate import instance_of
from sordino.fitting.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    in_parts,
    method,
    sums_of,
    sums_over_all,
    sums_spec,
    target_bound,
    too_many_columns,
)
from sordino.fitting.methods.statistics import residual_variance, simulated_fit
from sordino.fitting.problem import ROWS, FitProblem, Sources, StandIn, model_for, root_mean_square, stand_in
from sordino.fitting.tasks import Task
from sordino.mechanisms.regression.gradients import ClippedGradients, MovingRule, descend, run_full_gradients
from sordino.mechanisms.regression.newton import gradient_posterior
from sordino.mechanisms.statistics.second_moments import Fitted, StatisticsOptions, StatisticsStack, run_statistics
from sordino.models.families.regression import Huber
from sordino.noise.integer_sums import COVERED

_SHARE_OF_SUMS = 0.1
_CLIP_SHARE = 0.7
_SCHEDULES = ((16, 0.15), (32, 0.1), (64, 0.05), (64, 0.1))
_RULE = MovingRule()
_SEED = 20_262


class Schedule(NamedTuple):
    """Rounds and the first step size; steps shrink linearly to 0."""

    rounds: int
    step_size: float

    @property
    def steps(self) -> list[float]:
        """The step size of each round."""
        return [self.step_size * (1.0 - k / self.rounds) for k in range(self.rounds)]


@method("gradients", Task.ROBUST)
class Gradients(Method):
    """Noised sums, then noised gradients over all records."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        return too_many_columns(problem)

    def plan(self, problem: FitProblem) -> Plan:
        options = _sum_options(problem)
        data = stand_in(problem)
        start = _start(problem, simulated_fit(problem, _mu_of_sums(problem), options, data.X, data.y))
        schedule, error = min(
            ((Schedule(*one), _simulated_error(problem, Schedule(*one), data, start)) for one in _SCHEDULES),
            key=lambda item: item[1],
        )
        sums = sums_spec(problem, _mu_of_sums(problem), options)
        steps = gradients_spec(problem, schedule)
        spec = in_parts(problem, sums, steps)
        details = {"options": options, "sums": sums, "steps": steps}
        return Plan(self, problem, spec, Predicted(error, constant_error(problem, data)), details)

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        problem, details = plan.problem, plan.details
        sums = run_statistics(details["sums"], X, y, sources.fresh(), options=details["options"])
        found = sums.fitted
        model = _model(problem)
        release = run_full_gradients(
            details["steps"], model, X, y, sources.fresh(), start=_start(problem, found), rule=_RULE
        )
        posterior = gradient_posterior(release, sums, start_spread=_start_scale(problem) ** 2)
        return Outcome(posterior, model, {"residual_variance": residual_variance(sums)})


def gradients_spec(problem: FitProblem, schedule: Schedule) -> Spec:
    """The description of the rounds, with what the sums leave of the budget."""
    mu = problem.mu * math.sqrt((1.0 - _SHARE_OF_SUMS) / schedule.rounds)
    steps = ListSchedule(tuple(schedule.steps))
    query = "gradients of the Huber loss"
    return sums_over_all(problem, query, schedule.rounds, _clip(problem), mu, step_size=steps)


def _model(problem: FitProblem) -> Huber:
    return instance_of("model", model_for(problem, 1.0), Huber)


def _clip(problem: FitProblem) -> float:
    """A share of the longest gradient there can be; residuals near that are rare."""
    return _CLIP_SHARE * _model(problem).threshold * problem.row_norm


def _mu_of_sums(problem: FitProblem) -> float:
    return problem.mu * math.sqrt(_SHARE_OF_SUMS)


def _sum_options(problem: FitProblem) -> StatisticsOptions:
    return StatisticsOptions(problem.row_norm, target_bound(problem), stack=StatisticsStack(1.0, 0.5))


def _start_scale(problem: FitProblem) -> float:
    """From least squares of scaled rows to coefficients."""
    return target_bound(problem) / problem.row_norm


def _start(problem: FitProblem, found: Fitted) -> Array:
    return _start_scale(problem) * found.mean


def _simulated_error(problem: FitProblem, schedule: Schedule, data: StandIn, start: Array) -> float:
    model, generator = _model(problem), np.random.default_rng(_SEED)
    sums = sums_of(gradients_spec(problem, schedule))
    noise = float(sums.sum_noise[0]) / problem.records
    summed = ClippedGradients(model, data.X, data.y, sums.contribution).total
    points, _, _ = descend(
        lambda theta, _: summed(theta) / ROWS + noise * generator.standard_normal(len(theta)),
        start,
        np.array(schedule.steps),
        _RULE,
        _RULE.prior_precision / problem.records,
    )
    theta = points[-schedule.rounds // 2 :].mean(axis=0)
    return root_mean_square(data.held_targets - data.held_rows @ theta)
