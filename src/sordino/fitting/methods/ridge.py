"""Regression by ridge steps: a noised centre, a sketch where it shows anything, then many noised gradients.

For small tables, and for hundreds of columns, where sums of all products of columns are mostly noise. Classes have the
logistic or softmax loss; numbers Huber's, of targets standardised by their own noised mean and mean square. Columns are
scaled by their declared kind, effects are drawn to 0 by a normal prior, and the pace of the rounds follows from the
budget of a coefficient.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.data import Measurement
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
    target_bound,
    too_many_columns,
)
from sordino.fitting.problem import (
    TUNED,
    FitProblem,
    Sources,
    StandIn,
    log_loss,
    model_for,
    root_mean_square,
    stand_in,
    stand_ins,
)
from sordino.fitting.tasks import Task
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.regression.gradients import NoisedGradients, residuals
from sordino.mechanisms.regression.plan import MOST_IN_MATRIX
from sordino.mechanisms.regression.ridge import (
    Geometry,
    NoisedProducts,
    RidgeFit,
    RidgePrior,
    public_directions,
    public_length,
    public_middle,
    read_geometry,
    with_sketch,
)
from sordino.models.base import LinearScoreModel
from sordino.models.families.regression import Huber
from sordino.noise.integer_sums import COVERED

_SEED = 20_269
# Directions of a sketch, and its rounds: the second looks along what the first has shown.
_DIRECTIONS, _SKETCHES = 8, 2
# Random directions of unit rows have about the root of their share of all columns; this many times it is kept whole.
_KEPT = 2.0
# A sketch is made where it would show directions that hold this share of the rows' squares.
_VISIBLE = 0.15
# Before the data speak, the log-odds of the typical row have this deviation.
_INTERCEPT = 2.0
# Numbers: scores of this deviation, residuals cut at so many deviations of the targets, and the slope that leaves.
_SCORES, _CUT, _SLOPE = 0.8, 1.5, 0.8
# Targets are no less spread than this share of their bound, and scores leave no less of their variance.
_LEAST_SPREAD, _LEAST_LEFT = 0.02, 0.05


class RidgePace(NamedTuple):
    """How the rounds are spent: their number, the share of them averaged, and the clip in lengths of typical rows.

    `least` is the budget of a coefficient from which on a pace is taken: stand-in data, whose columns are independent,
    cannot tell which one is right where columns vary together.
    """

    least: float
    rounds: int
    averaged: float
    clip: float


class RidgeSettings(NamedTuple):
    """Shares of the budget, deviations of effects and of scores, the slope of the loss, and paces to try."""

    share_of_centre: float
    share_of_sketch: float
    effects: float
    scores: float
    slope: float
    paces: tuple[RidgePace, ...]

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> "RidgeSettings":
        """Read what the tuning wrote."""
        return cls(**{**given, "paces": tuple(RidgePace(**one) for one in given["paces"])})


@dataclass(frozen=True, eq=False)
class _Parts:
    """The specs of a plan: the centre, the sketch where there is one, and the steps."""

    centre: Spec
    sketch: Spec | None
    steps: Spec

    @property
    def all(self) -> tuple[Spec, ...]:
        return tuple(one for one in (self.centre, self.sketch, self.steps) if one is not None)


class _Targets(NamedTuple):
    """What targets are standardised by; classes are left as they are."""

    location: float = 0.0
    scale: float = 1.0

    def standard(self, y: Array) -> Array:
        return y if self == _Targets() else (y - self.location) / self.scale


@method("ridge", Task.CLASSIFICATION, Task.REGRESSION)
class RidgeSteps(Method):
    """Centre, sketch and noised gradients of scaled rows under a normal prior."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)
    intervals_withheld: ClassVar[bool] = True

    def __init__(self, settings: RidgeSettings | None = None) -> None:
        self.settings = RidgeSettings.from_json(TUNED["ridge"]) if settings is None else settings

    def refusal(self, problem: FitProblem) -> str | None:
        if not problem.schema.intercept:
            return "needs a schema with an intercept"
        if problem.features < 2:
            return "needs a column that can vary"
        return too_many_columns(problem)

    def considered(self, problem: FitProblem) -> bool:
        # Fewer coefficients of numbers are what bounded influence is for.
        return problem.classes is not None or problem.features > MOST_IN_MATRIX

    def plan(self, problem: FitProblem) -> Plan:
        # Gradients are shortened as they come, so rows need no cap.
        asked = replace(problem, schema=replace(problem.schema, row_norm=None))
        settings = self.settings
        data = (stand_in(asked),) if asked.classes is None else stand_ins(asked)
        budget = asked.budget_of_coefficient
        pace = [one for one in settings.paces if budget >= one.least][-1]
        errors = [_rehearsed(asked, settings, pace, one) for one in data]
        constants = [constant_error(asked, one) for one in data]
        parts = _parts(asked, settings, pace)
        predicted = Predicted(sum(errors) / len(errors), sum(constants) / len(constants))
        details = {"parts": parts, "pace": pace, "asked": asked}
        return Plan(self, problem, in_parts(asked, *parts.all), predicted, details, schema=asked.schema)

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        problem, parts, pace = plan.details["asked"], plan.details["parts"], plan.details["pace"]
        first = _first_rows(problem, X, y)
        ones = NoisedProducts(parts.centre, first, sources.fresh(), 1, ones=True)
        geometry, targets = _read(problem, ones(np.zeros((first.shape[1], 1)), 0)[:, 0], ones.noise)
        if parts.sketch is not None:
            directions = _directions(problem)
            asked = NoisedProducts(parts.sketch, geometry.rows(X), sources.fresh(), directions.shape[1])
            geometry = _sketched(geometry, directions, asked, asked.noise)
        model, rows, y = _learner(problem), geometry.rows(X), targets.standard(y)
        size = X.shape[1] * model.outputs
        gradients = NoisedGradients(parts.steps, model, rows, y, sources.fresh(), size)
        fitted = _fit(problem, self.settings, pace, geometry, targets, gradients.noise)
        answers = _followed(fitted, model.outputs, gradients)
        mean, encode = fitted.next_point(*answers), targets.scale * geometry.to_encoded
        covariance = encode @ fitted.covariance(*answers) @ encode.T
        covariance = np.kron(covariance + 1e-12 * np.eye(len(covariance)), np.eye(model.outputs))
        found = encode @ mean
        found[0] += targets.location
        # What scores do not explain of the targets' variance.
        explained = float(np.trace(mean[1:].T @ geometry.products[1:, 1:] @ mean[1:]))
        told = model_for(problem, targets.scale**2 * max(1.0 - explained, _LEAST_LEFT))
        return Outcome(DenseGaussianPosterior(told, found.ravel(), covariance), told)


def _learner(problem: FitProblem) -> LinearScoreModel:
    """Whose gradients are asked for."""
    if problem.classes is None:
        return Huber(threshold=_CUT)
    return instance_of("model", model_for(problem, 1.0), LinearScoreModel)


def _first_rows(problem: FitProblem, X: Array, y: Array) -> Array:
    """What the centre is read from: columns less their public middle; with numbers as targets, those and squares."""
    less = (X - public_middle(problem.schema))[:, 1:]
    if problem.classes is not None:
        return less
    part = np.clip(y / target_bound(problem), -1.0, 1.0)
    return np.column_stack([less, part, part * part])


def _read(problem: FitProblem, mean: Array, noise: float) -> tuple[Geometry, _Targets]:
    """From noised means of those."""
    if problem.classes is not None:
        return read_geometry(problem.schema, mean, noise), _Targets()
    bound, (location, square) = target_bound(problem), mean[-2:]
    variance = max(float(square - location**2), 2.0 * noise, _LEAST_SPREAD**2)
    targets = _Targets(bound * float(np.clip(location, -1.0, 1.0)), bound * min(math.sqrt(variance), 1.0))
    return read_geometry(problem.schema, mean[:-2], noise), targets


def _parts(problem: FitProblem, settings: RidgeSettings, pace: RidgePace) -> _Parts:
    mu, sketched = problem.mu, _shows(problem, settings)
    loss = {None: "Huber", 2: "logistic"}.get(problem.classes, "softmax")
    length = public_length(problem.schema)
    centre = sums_over_all(
        problem,
        "products of rows with 1, for their centre",
        1,
        length if problem.classes is not None else math.hypot(length, 1.0),
        mu * math.sqrt(settings.share_of_centre),
    )
    sketch = None
    if sketched:
        each = mu * math.sqrt(settings.share_of_sketch / _SKETCHES)
        words = "products of scaled rows with directions, in units of what is kept whole"
        sketch = sums_over_all(problem, words, _SKETCHES, 1.0, each)
    left = 1.0 - settings.share_of_centre - settings.share_of_sketch * sketched
    clip = pace.clip * math.sqrt(min(_learner(problem).outputs, 2))
    query = f"gradients of the {loss} loss of scaled rows"
    steps = sums_over_all(problem, query, pace.rounds, clip, mu * math.sqrt(left / pace.rounds))
    return _Parts(centre, sketch, steps)


def _directions(problem: FitProblem) -> Array:
    return public_directions(problem.features, min(_DIRECTIONS, problem.features - 1))


def _kept(problem: FitProblem) -> float:
    """How long products of unit rows with random directions may be."""
    return min(1.0, _KEPT * math.sqrt(_directions(problem).shape[1] / problem.features))


def _shows(problem: FitProblem, settings: RidgeSettings) -> bool:
    """Whether a sketch would show, above its noise, a direction with a good share of the rows' squares."""
    columns, count = _directions(problem).shape
    mu = problem.mu * math.sqrt(settings.share_of_sketch / _SKETCHES)
    noise = problem.clips * _kept(problem) / mu / problem.records
    return noise * (math.sqrt(columns) + math.sqrt(count)) / math.sqrt(count / columns) < _VISIBLE


def _sketched(geometry: Geometry, directions: Array, asked: Callable[[Array, int], Array], noise: float) -> Geometry:
    """Two rounds of block power iteration; products are asked for in units of what is kept whole."""
    kept = min(1.0, _KEPT * math.sqrt(directions.shape[1] / directions.shape[0]))
    first = asked(directions / kept, 0)
    return with_sketch(geometry, asked(np.linalg.qr(first)[0], 1), noise)


def _fit(
    problem: FitProblem,
    settings: RidgeSettings,
    pace: RidgePace,
    geometry: Geometry,
    targets: _Targets,
    noise: float,
) -> RidgeFit:
    declared = problem.settings.get("effect_scale") or 1.0
    if problem.classes is None:
        kind = problem.schema.declared_target().kind
        if declared != 1.0 and isinstance(kind, Measurement):
            declared /= kind.centre_and_scale[1] * targets.scale
        prior = RidgePrior(declared * settings.effects, _SCORES, _SCORES)
        return RidgeFit(geometry, prior, _SLOPE, problem.records, noise, pace.rounds, pace.averaged)
    prior = RidgePrior(declared * settings.effects, declared * settings.scores, _INTERCEPT)
    share = 1.0 / max(2, problem.classes)
    # Two classes have the tuned slope; of more, each is rarer.
    slope = settings.slope * 4.0 * share * (1.0 - share)
    return RidgeFit(geometry, prior, slope, problem.records, noise, pace.rounds, pace.averaged)


def _followed(fitted: RidgeFit, outputs: int, asked: Callable[[Array, int], Array]) -> tuple[Array, Array]:
    """Points and noised gradients: every round is asked for at the point that the rounds before it give."""
    shape = (fitted.rounds, len(fitted.geometry.centre), outputs)
    points, gradients = np.zeros(shape), np.zeros(shape)
    for k in range(fitted.rounds):
        if k:
            points[k] = fitted.next_point(points[:k], gradients[:k])
        gradients[k] = asked(points[k].ravel(), k).reshape(shape[1:])
    return points, gradients


def _rehearsed_reading(problem: FitProblem, settings: RidgeSettings, data: StandIn) -> tuple[Geometry, _Targets]:
    """What centre and sketch would say if the records were like these."""
    generator, parts = np.random.default_rng(_SEED), _parts(problem, settings, settings.paces[0])
    first = _first_rows(problem, data.X, data.y)
    noise = _noise(problem, parts.centre)
    mean = _shortened_mean(first, np.ones((len(first), 1)), sums_of(parts.centre).contribution)[:, 0]
    geometry, targets = _read(problem, mean + noise * generator.standard_normal(len(mean)), noise)
    if parts.sketch is None:
        return geometry, targets
    rows, noise = geometry.rows(data.X), _noise(problem, parts.sketch)

    def asked(directions: Array, k: int) -> Array:
        del k
        found = _shortened_mean(rows, rows @ directions, 1.0)
        return found + noise * generator.standard_normal(found.shape)

    return _sketched(geometry, _directions(problem), asked, noise), targets


def _rehearsed(problem: FitProblem, settings: RidgeSettings, pace: RidgePace, data: StandIn) -> float:
    """The error on held rows."""
    geometry, targets = _rehearsed_reading(problem, settings, data)
    model, generator = _learner(problem), np.random.default_rng(_SEED + 1)
    steps = _parts(problem, settings, pace).steps
    noise, rows, y = _noise(problem, steps), geometry.rows(data.X), targets.standard(data.y)

    def asked(theta: Array, k: int) -> Array:
        del k
        found = residuals(model, rows @ theta.reshape(-1, model.outputs), y)
        mean = _shortened_mean(rows, found, sums_of(steps).contribution)
        return (mean + noise * generator.standard_normal(mean.shape)).ravel()

    fitted = _fit(problem, settings, pace, geometry, targets, noise)
    scores = geometry.rows(data.held_rows) @ fitted.next_point(*_followed(fitted, model.outputs, asked))
    if problem.classes is None:
        return root_mean_square(data.held_targets - targets.location - targets.scale * scores[:, 0])
    return log_loss(scores, data.held_targets, problem.classes)


def _noise(problem: FitProblem, spec: Spec) -> float:
    """The deviation of the noise on a mean of the first round."""
    return float(sums_of(spec).sum_noise[0]) / problem.records


def _shortened_mean(rows: Array, values: Array, most: float) -> Array:
    """The mean of outer products of rows and values, longer ones shortened."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(values, axis=1)
    return rows.T @ (values * np.minimum(1.0, most / np.maximum(lengths, 1e-300))[:, None]) / len(rows)
