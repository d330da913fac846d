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
from sordino.estimators.methods.base import (
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
from sordino.estimators.situation import (
    MOST_COLUMNS,
    TUNED,
    Situation,
    Sources,
    StandIn,
    Task,
    log_loss,
    model_for,
    stand_ins,
)
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.regression.gradients import NoisedGradients, residuals
from sordino.mechanisms.regression.newton import GuidedFit, PriorRule, SecondMoments, Share, centred, second_moments
from sordino.mechanisms.statistics.second_moments import StatisticsOptions, StatisticsStack, run_statistics
from sordino.model.base import LinearScoreModel
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

    def refusal(self, situation: Situation) -> str | None:
        size = situation.features * _model(situation).outputs
        if situation.features <= MOST_COLUMNS and size <= 2 * MOST_COLUMNS:
            return None
        return (
            f"needs at most {MOST_COLUMNS} encoded columns and {2 * MOST_COLUMNS} coefficients, and the schema has "
            f"{situation.features} and {size}"
        )

    def considered(self, situation: Situation) -> bool:
        # Stand-in data have independent columns, which is what noised products are drawn towards, and so flatter this
        # method where the products are mostly noise. On tables whose columns vary together "ridge" has the smaller
        # error there, and with hundreds of columns the steps may overshoot.
        size = situation.features * _model(situation).outputs
        rich = situation.budget_of_coefficient >= _LEAST_BUDGET or situation.records >= _MANY_RECORDS
        return rich and size <= _MOST_AUTOMATIC

    def plan(self, situation: Situation) -> Plan:
        data, settings = stand_ins(situation), self.settings
        known = [_simulated_sums(situation, settings, one) for one in data]
        tried = [
            [_simulated(situation, settings, pace, *one) for one in zip(data, known, strict=True)]
            for pace in settings.paces
        ]
        pace, errors = min(zip(settings.paces, tried, strict=True), key=lambda one: sum(one[1]))
        constants = [constant_error(situation, one) for one in data]
        options = _options(situation, settings)
        sums = sums_spec(situation, _mu_of_sums(situation, settings), options)
        steps = _steps_spec(situation, settings, pace)
        spec = in_parts(situation, sums, steps)
        details = {"options": options, "sums": sums, "steps": steps, "pace": pace}
        predicted = Predicted(sum(errors) / len(errors), sum(constants) / len(constants))
        return Plan(self, situation, spec, predicted, details)

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        situation, details = plan.situation, plan.details
        options, pace = details["options"], details["pace"]
        sums = run_statistics(details["sums"], X, _counted(y, situation), sources.fresh(), options=options)
        gram, _, square = options.stack.parts(sums.statistics, X.shape[1])
        moments = second_moments(
            situation.schema, options.row_norm**2 * gram, options.row_norm**2 * sums.noise, situation.records
        )
        model = _model(situation)
        size = X.shape[1] * model.outputs
        asked = NoisedGradients(details["steps"], model, centred(X, moments), y, sources.fresh(), size)
        share = _share(situation, square, sums.noise / options.stack.square)
        fitted = _fit(situation, self.settings, pace, moments, share, asked.noise)
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
    situation: Situation,
    settings: NewtonSettings,
    pace: Pace,
    moments: SecondMoments,
    share: Share | None,
    noise: float,
) -> GuidedFit:
    return GuidedFit(moments, share, situation.records, noise, pace.slope, pace.averaged, settings.prior)


def _model(situation: Situation) -> LinearScoreModel:
    return instance_of("model", model_for(situation, 1.0), LinearScoreModel)


def _steps_spec(situation: Situation, settings: NewtonSettings, pace: Pace) -> Spec:
    mu = situation.mu * math.sqrt((1.0 - settings.share_of_sums) / pace.rounds)
    loss = "logistic" if situation.classes == 2 else "softmax"
    return sums_over_all(situation, f"gradients of the {loss} loss", pace.rounds, _clip(situation, pace), mu)


def _clip(situation: Situation, pace: Pace) -> float:
    return pace.clip * math.sqrt(min(_model(situation).outputs, 2)) * situation.row_norm


def _mu_of_sums(situation: Situation, settings: NewtonSettings) -> float:
    return situation.mu * math.sqrt(settings.share_of_sums)


def _options(situation: Situation, settings: NewtonSettings) -> StatisticsOptions:
    weight = settings.weight_of_count if situation.classes == 2 else _UNUSED
    return StatisticsOptions(situation.row_norm, 1.0, stack=StatisticsStack(cross=_UNUSED, square=weight))


def _counted(y: Array, situation: Situation) -> Array:
    """0 and 1 for two classes, so that squares count; several classes have no one number, so their sums hold none."""
    return (y + 1.0) / 2.0 if situation.classes == 2 else np.zeros_like(y)


def _share(situation: Situation, count: float, noise: float) -> Share | None:
    if situation.classes != 2:
        return None
    n = situation.records
    share = float(np.clip(count / n, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
    width = share * (1.0 - share)
    return Share(float(special.logit(share)), (noise / n / width) ** 2 + 1.0 / (n * width))


class _Sums(NamedTuple):
    moments: SecondMoments
    share: Share | None


def _simulated_sums(situation: Situation, settings: NewtonSettings, data: StandIn) -> _Sums:
    """What the sums would say if so many records were like these."""
    options, generator = _options(situation, settings), np.random.default_rng(_SEED)
    stack, growth = options.stack, situation.records / len(data.X)
    total = growth * stack.total(data.X / options.row_norm, _counted(data.y, situation))
    noise = stack.sensitivity(situation.relation) * multiplier(_mu_of_sums(situation, settings))
    gram, _, square = stack.parts(total + noise * generator.standard_normal(len(total)), data.X.shape[1])
    scale = options.row_norm**2
    moments = second_moments(situation.schema, scale * gram, scale * noise, situation.records)
    return _Sums(moments, _share(situation, square, noise / stack.square))


def _simulated(situation: Situation, settings: NewtonSettings, pace: Pace, data: StandIn, sums: _Sums) -> float:
    """The log-loss on held rows."""
    model, generator = _model(situation), np.random.default_rng(_SEED + 1)
    sums_of_gradients = sums_of(_steps_spec(situation, settings, pace))
    noise = float(sums_of_gradients.sum_noise[0]) / situation.records
    rows = centred(data.X, sums.moments)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)

    def asked(theta: Array, k: int) -> Array:
        del k
        found = residuals(model, rows @ theta.reshape(-1, model.outputs), data.y)
        longest = np.maximum(np.linalg.norm(found, axis=1, keepdims=True) * lengths, 1e-300)
        found *= np.minimum(1.0, sums_of_gradients.contribution / longest)
        mean = rows.T @ found / len(rows)
        return (mean + noise * generator.standard_normal(mean.shape)).ravel()

    fitted = _fit(situation, settings, pace, sums.moments, sums.share, noise)
    points, gradients = _followed(fitted, model.outputs, pace.rounds, asked)
    small = points[0].size <= _MOST_SIMULATED
    best = fitted.answer(points, gradients)[0] if small else fitted.next_point(points, gradients)
    held = centred(data.held_rows, sums.moments)
    return log_loss(held @ best, data.held_targets, situation.classes or 2)
