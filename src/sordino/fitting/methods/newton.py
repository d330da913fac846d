"""Classification by noise-aware steps: noised sums for centre, covariance and share, then noised full gradients.

How the rounds are spent (how many, how many of them are averaged, the clip) is chosen among tuned settings by
simulating them on stand-in data from the declaration.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.fitting.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    in_parts,
    method,
    multiplier,
    sums_of,
    sums_over_all,
    sums_spec,
)
from sordino.fitting.problem import MOST_COLUMNS, TUNED, FitProblem, Sources, StandIn, log_loss, model_for, stand_ins
from sordino.fitting.tasks import Task
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.regression.gradients import NoisedGradients, residuals
from sordino.mechanisms.regression.newton import GuidedFit, PriorRule, SecondMoments, Share, centred, second_moments
from sordino.mechanisms.statistics.second_moments import StatisticsOptions, StatisticsStack, run_statistics
from sordino.models.base import LinearScoreModel
from sordino.noise.integer_sums import COVERED

_SEED = 20_265
# What "auto" leaves to "ridge": less than this many records times the privacy parameter for each coefficient where
# there are fewer records than that, and more coefficients.
_LEAST_BUDGET, _MANY_RECORDS, _MOST_AUTOMATIC = 12.0, 10_000, 160
_LEAST_SHARE = 0.01
# Beyond this many coefficients a simulation leaves out the last step, which takes their third power.
_MOST_SIMULATED = 600
# Sums of x x' and of y^2, which counts the positive labels where labels are 0 and 1; sums of y x are not used.
_UNUSED = 0.01


class Pace(NamedTuple):
    """How the rounds are spent: their number, the share averaged, the clip in row lengths, and the slope."""

    rounds: int
    averaged: float
    clip: float
    slope: float


class NewtonSettings(NamedTuple):
    """The share of the budget for sums, the weight of the count among them, the prior of effects, and paces to try."""

    share_of_sums: float
    weight_of_count: float
    prior: PriorRule
    paces: tuple[Pace, ...]

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> "NewtonSettings":
        """Read what the tuning wrote."""
        prior, paces = PriorRule(**given["prior"]), tuple(Pace(**one) for one in given["paces"])
        return cls(given["share_of_sums"], given["weight_of_count"], prior, paces)


@method("newton", Task.CLASSIFICATION)
class NoiseAwareSteps(Method):
    """A part of the budget for noised sums, the rest for noised gradients of centred rows."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def __init__(self, settings: NewtonSettings | None = None) -> None:
        self.settings = NewtonSettings.from_json(TUNED["newton"]) if settings is None else settings

    def refusal(self, problem: FitProblem) -> str | None:
        size = problem.features * _model(problem).outputs
        if problem.features <= MOST_COLUMNS and size <= 2 * MOST_COLUMNS:
            return None
        return (
            f"needs at most {MOST_COLUMNS} encoded columns and {2 * MOST_COLUMNS} coefficients, and the schema has "
            f"{problem.features} and {size}"
        )

    def considered(self, problem: FitProblem) -> bool:
        # Stand-in data have independent columns, which is what noised products are drawn towards, and so flatter this
        # method where the products are mostly noise. On tables whose columns vary together "ridge" has the smaller
        # error there, and with hundreds of columns the steps may overshoot.
        size = problem.features * _model(problem).outputs
        rich = problem.budget_of_coefficient >= _LEAST_BUDGET or problem.records >= _MANY_RECORDS
        return rich and size <= _MOST_AUTOMATIC

    def plan(self, problem: FitProblem) -> Plan:
        data, settings = stand_ins(problem), self.settings
        known = [_simulated_sums(problem, settings, one) for one in data]
        tried = [
            [_simulated(problem, settings, pace, *one) for one in zip(data, known, strict=True)]
            for pace in settings.paces
        ]
        pace, errors = min(zip(settings.paces, tried, strict=True), key=lambda one: sum(one[1]))
        constants = [constant_error(problem, one) for one in data]
        options = _options(problem, settings)
        sums = sums_spec(problem, _mu_of_sums(problem, settings), options)
        steps = _steps_spec(problem, settings, pace)
        spec = in_parts(problem, sums, steps)
        details = {"options": options, "sums": sums, "steps": steps, "pace": pace}
        predicted = Predicted(sum(errors) / len(errors), sum(constants) / len(constants))
        return Plan(self, problem, spec, predicted, details)

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        problem, details = plan.problem, plan.details
        options, pace = details["options"], details["pace"]
        sums = run_statistics(details["sums"], X, _counted(y, problem), sources.fresh(), options=options)
        gram, _, square = options.stack.parts(sums.statistics, X.shape[1])
        moments = second_moments(
            problem.schema, options.row_norm**2 * gram, options.row_norm**2 * sums.noise, problem.records
        )
        model = _model(problem)
        size = X.shape[1] * model.outputs
        asked = NoisedGradients(details["steps"], model, centred(X, moments), y, sources.fresh(), size)
        share = _share(problem, square, sums.noise / options.stack.square)
        fitted = _fit(problem, self.settings, pace, moments, share, asked.noise)
        points, gradients = _followed(fitted, model.outputs, pace.rounds, asked)
        mean, covariance = fitted.posterior(points, gradients)
        return Outcome(DenseGaussianPosterior(model, mean, covariance), model)


def _followed(
    fitted: GuidedFit, outputs: int, rounds: int, asked: Callable[[Array, int], Array]
) -> tuple[Array, Array]:
    """Points and noised gradients of all rounds."""
    points, gradients = [fitted.start(outputs)], []
    for k in range(rounds):
        gradients.append(asked(points[k].ravel(), k).reshape(points[k].shape))
        if k + 1 < rounds:
            points.append(fitted.next_point(np.array(points), np.array(gradients)))
    return np.array(points), np.array(gradients)


def _fit(
    problem: FitProblem,
    settings: NewtonSettings,
    pace: Pace,
    moments: SecondMoments,
    share: Share | None,
    noise: float,
) -> GuidedFit:
    return GuidedFit(moments, share, problem.records, noise, pace.slope, pace.averaged, settings.prior)


def _model(problem: FitProblem) -> LinearScoreModel:
    return instance_of("model", model_for(problem, 1.0), LinearScoreModel)


def _steps_spec(problem: FitProblem, settings: NewtonSettings, pace: Pace) -> Spec:
    mu = problem.mu * math.sqrt((1.0 - settings.share_of_sums) / pace.rounds)
    loss = "logistic" if problem.classes == 2 else "softmax"
    return sums_over_all(problem, f"gradients of the {loss} loss", pace.rounds, _clip(problem, pace), mu)


def _clip(problem: FitProblem, pace: Pace) -> float:
    return pace.clip * math.sqrt(min(_model(problem).outputs, 2)) * problem.row_norm


def _mu_of_sums(problem: FitProblem, settings: NewtonSettings) -> float:
    return problem.mu * math.sqrt(settings.share_of_sums)


def _options(problem: FitProblem, settings: NewtonSettings) -> StatisticsOptions:
    weight = settings.weight_of_count if problem.classes == 2 else _UNUSED
    return StatisticsOptions(problem.row_norm, 1.0, stack=StatisticsStack(cross=_UNUSED, square=weight))


def _counted(y: Array, problem: FitProblem) -> Array:
    """0 and 1 for two classes, so that squares count; several classes have no one number, so their sums hold none."""
    return (y + 1.0) / 2.0 if problem.classes == 2 else np.zeros_like(y)


def _share(problem: FitProblem, count: float, noise: float) -> Share | None:
    if problem.classes != 2:
        return None
    n = problem.records
    share = float(np.clip(count / n, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
    width = share * (1.0 - share)
    return Share(float(special.logit(share)), (noise / n / width) ** 2 + 1.0 / (n * width))


class _Sums(NamedTuple):
    moments: SecondMoments
    share: Share | None


def _simulated_sums(problem: FitProblem, settings: NewtonSettings, data: StandIn) -> _Sums:
    """What the sums would say if so many records were like these."""
    options, generator = _options(problem, settings), np.random.default_rng(_SEED)
    stack, growth = options.stack, problem.records / len(data.X)
    total = growth * stack.total(data.X / options.row_norm, _counted(data.y, problem))
    noise = stack.sensitivity(problem.relation) * multiplier(_mu_of_sums(problem, settings))
    gram, _, square = stack.parts(total + noise * generator.standard_normal(len(total)), data.X.shape[1])
    scale = options.row_norm**2
    moments = second_moments(problem.schema, scale * gram, scale * noise, problem.records)
    return _Sums(moments, _share(problem, square, noise / stack.square))


def _simulated(problem: FitProblem, settings: NewtonSettings, pace: Pace, data: StandIn, sums: _Sums) -> float:
    """The log-loss on held rows."""
    model, generator = _model(problem), np.random.default_rng(_SEED + 1)
    sums_of_gradients = sums_of(_steps_spec(problem, settings, pace))
    noise = float(sums_of_gradients.sum_noise[0]) / problem.records
    rows = centred(data.X, sums.moments)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)

    def asked(theta: Array, k: int) -> Array:
        del k
        found = residuals(model, rows @ theta.reshape(-1, model.outputs), data.y)
        longest = np.maximum(np.linalg.norm(found, axis=1, keepdims=True) * lengths, 1e-300)
        found *= np.minimum(1.0, sums_of_gradients.contribution / longest)
        mean = rows.T @ found / len(rows)
        return (mean + noise * generator.standard_normal(mean.shape)).ravel()

    fitted = _fit(problem, settings, pace, sums.moments, sums.share, noise)
    points, gradients = _followed(fitted, model.outputs, pace.rounds, asked)
    small = points[0].size <= _MOST_SIMULATED
    best = fitted.answer(points, gradients)[0] if small else fitted.next_point(points, gradients)
    held = centred(data.held_rows, sums.moments)
    return log_loss(held @ best, data.held_targets, problem.classes or 2)
