"""Output perturbation: the minimiser of a regularised loss, released once with Gaussian noise.

The weight of the regulariser, and for least squares the radius of the ball, are chosen on stand-in data. The posterior
treats the release as the optimum plus known noise; what finitely many records leave open is guessed with a curvature
that is even in every direction, and the bias of the regulariser is not in it.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, View, exactly_computed
from sordino.core.gaussian import up
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.fitting.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    described,
    method,
    multiplier,
    target_bound,
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
from sordino.mechanisms.regression.gradients import (
    MINIMISER_COVERED,
    MOST_PRODUCTS,
    MOST_RECORDS,
    minimiser,
    ridge_in_ball,
    run_output,
    summed,
)
from sordino.mechanisms.regression.newton import PriorRule, effects, posterior_of
from sordino.models.base import LinearScoreModel

_SEED = 20_267
_RULE = PriorRule(**TUNED["newton"]["prior"])
# Regularisers by record, in squared row lengths, and radii of the ball in units of target over row length.
_WEIGHTS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_RADII = (1.0, 2.0, 4.0)
# Half of it is for the search, half for the rounding of sums over records (`algorithm.rounds.gradients.minimiser`).
_TOLERANCE_SHARE = 1e-4
_SLOPE = 0.25
_GUESSED_RESIDUAL = 0.04


class Choice(NamedTuple):
    """The regulariser of the sum over records, and the radius of the ball; no ball where the radius is infinite."""

    regulariser: float
    radius: float


@method("output", Task.CLASSIFICATION, Task.REGRESSION)
class Output(Method):
    """Regularised logistic or softmax loss, or least squares in a ball."""

    floating_point: ClassVar[Certificate] = exactly_computed(MINIMISER_COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        columns = problem.features * _outputs(problem)
        if columns > 4096:
            return f"needs at most 4096 coefficients, and there are {columns}"
        if problem.records > MOST_RECORDS or problem.records * columns > MOST_PRODUCTS:
            return (
                f"needs at most {MOST_RECORDS} records, and {MOST_PRODUCTS} times coefficients, for its tolerance to "
                f"cover roundings, and there are {problem.records} records and {columns} coefficients"
            )
        return None

    def plan(self, problem: FitProblem) -> Plan:
        data = (stand_in(problem),) if problem.classes is None else stand_ins(problem)
        radii = (math.inf,) if problem.classes is not None else tuple(_unit(problem) * one for one in _RADII)
        sums = problem.records * problem.row_norm**2
        choices = [Choice(sums * weight, radius) for weight in _WEIGHTS for radius in radii]
        middle = data[len(data) // 2]
        choice = min(choices, key=lambda one: _simulated(problem, one, middle))
        errors = [_simulated(problem, choice, one) for one in data]
        constants = [constant_error(problem, one) for one in data]
        predicted = Predicted(sum(errors) / len(errors), sum(constants) / len(constants))
        return Plan(self, problem, _spec(problem, choice), predicted, {"choice": choice})

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        problem, choice = plan.problem, plan.details["choice"]
        point = _minimiser(problem, choice, X, y)
        released = run_output(plan.spec, point, sources.fresh())
        mean, covariance = _posterior(problem, choice, released)
        model = instance_of("model", model_for(problem, _GUESSED_RESIDUAL), LinearScoreModel)
        settings = {} if problem.classes is not None else {"residual_variance": _GUESSED_RESIDUAL}
        return Outcome(DenseGaussianPosterior(model, mean, covariance), model, settings)


def _outputs(problem: FitProblem) -> int:
    return 1 if problem.classes is None or problem.classes == 2 else problem.classes


def _unit(problem: FitProblem) -> float:
    return target_bound(problem) / problem.row_norm


def _lipschitz(problem: FitProblem, choice: Choice) -> float:
    """How steep the difference of two neighbours' objectives can be."""
    if problem.classes is None:
        steepest = (problem.row_norm * choice.radius + target_bound(problem)) * problem.row_norm
    else:
        steepest = problem.row_norm * math.sqrt(min(_outputs(problem), 2))
    return up(problem.clips * steepest, 4)


def _tolerance(problem: FitProblem, choice: Choice) -> float:
    return _TOLERANCE_SHARE * _lipschitz(problem, choice) / choice.regulariser


def _noise(problem: FitProblem, choice: Choice) -> float:
    moved = _lipschitz(problem, choice) / choice.regulariser + 2.0 * _tolerance(problem, choice)
    return up(moved * multiplier(problem.mu) * (1.0 + 1e-9))


def _spec(problem: FitProblem, choice: Choice) -> Spec:
    algorithm = {
        "kind": "output-perturbation",
        "lipschitz": _lipschitz(problem, choice),
        "strong_convexity": choice.regulariser,
        "tolerance": _tolerance(problem, choice),
        "dim": problem.features * _outputs(problem),
        "noise": {"kind": "gaussian", "scale": _noise(problem, choice)},
    }
    return described(problem, algorithm, View.POSTERIOR_PARAMETERS)


def _minimiser(problem: FitProblem, choice: Choice, X: Array, y: Array, growth: float = 1.0) -> Array:
    """The optimum over these rows, each counted `growth` times, as a simulation does."""
    if problem.classes is None:
        bound = target_bound(problem)
        both = np.column_stack([X, np.clip(y, -bound, bound)])
        sums = growth * summed(lambda part: X[part].T @ both[part], len(X), (X.shape[1], X.shape[1] + 1))
        tolerance = 0.5 * _tolerance(problem, choice)
        return ridge_in_ball(sums[:, :-1], sums[:, -1], choice.regulariser, choice.radius, tolerance)
    model = instance_of("model", model_for(problem, 1.0), LinearScoreModel)
    slope = _SLOPE if model.outputs == 1 else 2.0 * _SLOPE
    # Scaling the objective by 1 / growth leaves its minimiser.
    return minimiser(
        model,
        X,
        y,
        smoothness=slope * len(X) * problem.row_norm**2,
        regulariser=choice.regulariser / growth,
        tolerance=_tolerance(problem, choice),
    )


def _posterior(problem: FitProblem, choice: Choice, released: Array) -> tuple[Array, Array]:
    """Effects drawn towards 0 by as much as noise explains of them; the intercept is left as it is."""
    outputs = _outputs(problem)
    point = released.reshape(-1, outputs)
    noise = _noise(problem, choice) ** 2
    even = problem.row_norm**2 / problem.features
    own = 1.0 / (problem.records * even * (_SLOPE if problem.classes is not None else 1.0 / _GUESSED_RESIDUAL))
    columns = len(point) - 1
    ones, identity = np.ones(columns), np.eye(columns)
    blocks = tuple(slice(block.start - 1, block.stop - 1) for _, block in problem.schema.blocks())
    found = effects(point[1:], ones, identity, np.full(columns, noise + own), blocks, _RULE)
    _, left = posterior_of(point[1:], ones, identity, np.full(columns, noise + own), found.prior)
    spread = np.zeros((1 + columns, 1 + columns))
    spread[0, 0], spread[1:, 1:] = noise + own, left
    mean = np.concatenate([point[:1], found.mean])
    return mean.ravel(), np.kron(spread, np.eye(outputs)) + 1e-12 * np.eye(mean.size)


def _simulated(problem: FitProblem, choice: Choice, data: StandIn) -> float:
    point = _minimiser(problem, choice, data.X, data.y, problem.records / len(data.X))
    drawn = np.random.default_rng(_SEED).standard_normal(len(point))
    mean, _ = _posterior(problem, choice, point + _noise(problem, choice) * drawn)
    scores = data.held_rows @ mean.reshape(-1, _outputs(problem))
    if problem.classes is None:
        return root_mean_square(data.held_targets - scores[:, 0])
    return log_loss(scores, data.held_targets, problem.classes)
