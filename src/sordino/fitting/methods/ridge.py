"""Regression by ridge steps: a noised centre, lengths of rows, a sketch where it shows anything, then gradients.

For small tables, and for hundreds of columns, where sums of all products of columns are mostly noise. Classes have the
logistic or softmax loss; numbers Huber's, of targets standardised by their noised mean and mean square.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.data import Measurement
from sordino.fitting.methods import base
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, model_for
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.regression import ridge as engine
from sordino.mechanisms.regression.plan import TYPICAL_SPREAD
from sordino.models.base import LinearScoreModel
from sordino.models.families.regression import Huber
from sordino.models.registry import build_model
from sordino.noise.integer_sums import COVERED

_DIRECTIONS, _SKETCHES = 8, 2  # directions of a sketch, and its rounds: the second looks along what the first has shown
# Random directions of unit rows have about the root of their share of all columns; this many times it is kept whole.
_KEPT = 2.0
_VISIBLE = 0.15  # a sketch is made where it would show directions that hold this share of the rows' squares
# Large tables take longer paces a little earlier: drawn ones are as good with either, Adult is better by 7 %.
_MANY_RECORDS, _EARLIER = 10_000, 1.35
_INTERCEPT = 2.0  # prior standard deviation of the log-odds of a typical row
_CUT, _SLOPE = 1.5, 0.8  # numbers: residuals are cut at so many deviations of the targets, and the slope that leaves
# Targets are no less spread than this share of their bound, and scores leave no less of their variance.
_LEAST_SPREAD, _LEAST_LEFT = 0.02, 0.05


class RidgePace(NamedTuple):
    """From a `least` budget of a coefficient on: rounds, share averaged, and the clip in lengths of typical rows."""

    least: float
    rounds: int
    averaged: float
    clip: float


class RidgeSettings(NamedTuple):
    """Shares of the budget, deviations of effects and scores, slope of the loss, and paces, tuned on drawn tables."""

    share_of_centre: float = 0.07
    share_of_lengths: float = 0.02
    share_of_sketch: float = 0.1
    effects: float = 0.5
    scores: float = 1.4
    slope: float = 0.12
    paces: tuple[RidgePace, ...] = (
        RidgePace(least=0.0, rounds=16, averaged=1.0, clip=0.65),
        RidgePace(least=6.0, rounds=32, averaged=0.7, clip=0.65),
        RidgePace(least=30.0, rounds=64, averaged=0.5, clip=0.9),
    )


class _Parts(NamedTuple):
    """The specs of a plan: centre, lengths of rows, the sketch where there is one, and the steps."""

    centre: Spec
    lengths: Spec
    sketch: Spec | None
    steps: Spec


class _Targets(NamedTuple):
    """What targets are standardised by; classes are left as they are."""

    location: float = 0.0
    scale: float = 1.0

    def standard(self, y: Array) -> Array:
        return y if self == _Targets() else (y - self.location) / self.scale


@base.method("ridge")
class RidgeSteps(base.Method):
    """Centre, sketch and noised gradients of scaled rows under a normal prior."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    settings: RidgeSettings = RidgeSettings()

    def refusal(self, problem: FitProblem) -> str | None:
        if not problem.schema.intercept:
            return "needs a schema with an intercept"
        if problem.features < 2:
            return "needs a column that can vary"
        return base.too_many_columns(problem)

    def plan(self, problem: FitProblem) -> base.FitPlan:
        asked, pace, parts = self._decided(problem)
        # The error over a constant's if columns were centred in their bounds and spread as is typical.
        numbers, noise = asked.classes is None, _noise(asked, parts.centre)
        geometry, targets = _read(asked, np.zeros(asked.features - 1 + (2 if numbers else 0)), noise)
        fit = _fit(asked, self.settings, pace, geometry, targets, _noise(asked, parts.steps))
        # A number starts at its noised mean, which is cut to the declared range; classes start at even odds.
        located = (min(noise, 1.0) / TYPICAL_SPREAD) ** 2 if numbers else fit.prior.intercept**2
        predicted = base.error_over_constant(asked, fit.expected_share, fit.expected_offset(located))
        return base.FitPlan(self, problem, base.in_parts(asked, *filter(None, parts)), predicted, schema=asked.schema)

    def _decided(self, problem: FitProblem) -> tuple[FitProblem, RidgePace, _Parts]:
        """The problem as rows are read, the pace of the rounds, and what is asked for."""
        # Gradients are shortened as they come, so rows need no cap.
        asked = replace(problem, schema=replace(problem.schema, row_norm=None))
        budget = asked.budget_of_coefficient * (_EARLIER if asked.records >= _MANY_RECORDS else 1.0)
        pace = [one for one in self.settings.paces if budget >= one.least][-1]
        return asked, pace, _parts(asked, self.settings, pace)

    def run(self, plan: base.FitPlan, rows: EncodedRows, sources: Sources) -> base.Outcome:
        problem, pace, parts = self._decided(plan.problem)
        X, y = rows.X, rows.y
        # The centre is read from columns less their public middle; with numbers as targets, from those and squares.
        first = (X - engine.public_middle(problem.schema))[:, 1:]
        if problem.classes is None:
            part = np.clip(y / base.target_bound(problem), -1.0, 1.0)
            first = np.column_stack([first, part, part * part])
        ones = engine.NoisedProducts(parts.centre, first, sources.fresh(), 1, ones=True)
        geometry, targets = _read(problem, ones(np.zeros((first.shape[1], 1)), 0)[:, 0], ones.noise)
        counts = engine.length_counts(parts.lengths, geometry.rows(X), sources.fresh())
        noise = float(base.sums_of(parts.lengths).sum_noise[0])
        geometry = geometry.scaled_by(engine.typical_length(counts, problem.records, noise))
        if parts.sketch is not None:
            directions = _directions(problem)
            asked = engine.NoisedProducts(parts.sketch, geometry.rows(X), sources.fresh(), directions.shape[1])
            # Two rounds of block power iteration; products are asked for in units of what is kept whole.
            first = asked(directions / _kept(problem), 0)
            geometry = engine.with_sketch(geometry, asked(np.linalg.qr(first)[0], 1), asked.noise)
        model, scaled, y = _learner(problem), geometry.rows(X), targets.standard(y)
        size = X.shape[1] * model.outputs
        gradients = engine.NoisedGradients(parts.steps, model, scaled, y, sources.fresh(), size)
        fitted = _fit(problem, self.settings, pace, geometry, targets, gradients.noise)
        answers = _followed(fitted, model.outputs, gradients)
        mean, encode = fitted.next_point(*answers), targets.scale * geometry.to_encoded
        covariance = encode @ fitted.covariance(*answers) @ encode.T
        each = np.eye(model.outputs)
        covariance = np.asarray(np.kron(covariance + 1e-12 * np.eye(len(covariance)), each), np.float64)
        found = encode @ mean
        found[0] += targets.location
        # What scores do not explain of the targets' variance.
        explained = float(np.trace(mean[1:].T @ geometry.products[1:, 1:] @ mean[1:]))
        named = problem.task.model(problem, targets.scale**2 * max(1.0 - explained, _LEAST_LEFT))
        return base.Outcome(DenseGaussianPosterior(build_model(named), found.ravel(), covariance), named)


def _learner(problem: FitProblem) -> LinearScoreModel:
    if problem.classes is None:
        return Huber(threshold=_CUT)
    return instance_of("model", model_for(problem, 1.0), LinearScoreModel)


def _read(problem: FitProblem, mean: Array, noise: float) -> tuple[engine.Geometry, _Targets]:
    if problem.classes is not None:
        return engine.read_geometry(problem.schema, mean, noise), _Targets()
    bound, (location, square) = base.target_bound(problem), mean[-2:]
    variance = max(float(square - location**2), 2.0 * noise, _LEAST_SPREAD**2)
    targets = _Targets(bound * float(np.clip(location, -1.0, 1.0)), bound * min(math.sqrt(variance), 1.0))
    return engine.read_geometry(problem.schema, mean[:-2], noise), targets


def _parts(problem: FitProblem, settings: RidgeSettings, pace: RidgePace) -> _Parts:
    mu, (columns, count) = problem.mu, _directions(problem).shape
    # A sketch is made where it would show, above its noise, a direction with a good share of the rows' squares.
    each = mu * math.sqrt(settings.share_of_sketch / _SKETCHES)
    noise = problem.clips * _kept(problem) / each / problem.records
    sketched = noise * (math.sqrt(columns) + math.sqrt(count)) / math.sqrt(count / columns) < _VISIBLE
    loss = {None: "Huber", 2: "logistic"}.get(problem.classes, "softmax")
    length = engine.public_length(problem.schema)
    length = length if problem.classes is not None else math.hypot(length, 1.0)
    query = "products of rows with 1, for their centre"
    centre = base.sums_over_all(problem, query, 1, length, mu * math.sqrt(settings.share_of_centre))
    lengths = base.counts_spec(problem, "lengths of rows, counted", settings.share_of_lengths)
    sketch = None
    if sketched:
        words = "products of scaled rows with directions, in units of what is kept whole"
        sketch = base.sums_over_all(problem, words, _SKETCHES, 1.0, each)
    left = 1.0 - settings.share_of_centre - settings.share_of_lengths - settings.share_of_sketch * sketched
    clip = pace.clip * math.sqrt(min(_learner(problem).outputs, 2))
    query = f"gradients of the {loss} loss of scaled rows"
    steps = base.sums_over_all(problem, query, pace.rounds, clip, mu * math.sqrt(left / pace.rounds))
    return _Parts(centre, lengths, sketch, steps)


def _directions(problem: FitProblem) -> Array:
    return engine.public_directions(problem.features, min(_DIRECTIONS, problem.features - 1))


def _kept(problem: FitProblem) -> float:
    """How long products of unit rows with random directions may be."""
    return min(1.0, _KEPT * math.sqrt(_directions(problem).shape[1] / problem.features))


def _fit(
    problem: FitProblem,
    settings: RidgeSettings,
    pace: RidgePace,
    geometry: engine.Geometry,
    targets: _Targets,
    noise: float,
) -> engine.RidgeFit:
    declared = problem.settings.get("effect_scale") or 1.0
    if problem.classes is None:
        kind = problem.schema.declared_target().kind
        if declared != 1.0 and isinstance(kind, Measurement):
            declared /= kind.centre_and_scale[1] * targets.scale
        prior, slope = engine.RidgePrior(declared * settings.effects, base.NUMBER_SCORES, base.NUMBER_SCORES), _SLOPE
    else:
        prior = engine.RidgePrior(declared * settings.effects, declared * settings.scores, _INTERCEPT)
        share = 1.0 / max(2, problem.classes)
        # Two classes have the tuned slope; of more, each is rarer.
        slope = settings.slope * 4.0 * share * (1.0 - share)
    return engine.RidgeFit(geometry, prior, slope, problem.records, noise, pace.rounds, pace.averaged)


def _followed(fitted: engine.RidgeFit, outputs: int, asked: Callable[[Array, int], Array]) -> tuple[Array, Array]:
    """Points and noised gradients: every round is asked for at the point that the rounds before it give."""
    shape = (fitted.rounds, len(fitted.geometry.centre), outputs)
    points, gradients = np.zeros(shape), np.zeros(shape)
    for k in range(fitted.rounds):
        if k:
            points[k] = fitted.next_point(points[:k], gradients[:k])
        gradients[k] = asked(points[k].ravel(), k).reshape(shape[1:])
    return points, gradients


def _noise(problem: FitProblem, spec: Spec) -> float:
    """The deviation of the noise on a mean of the first round."""
    return float(base.sums_of(spec).sum_noise[0]) / problem.records
