"""DP-VI, private variational inference: independent Gaussians over the parameters, noised full gradients.

Every round is released, so the spread of the last rounds' means around their average, privacy noise, is added to the
variational variances. A twentieth of the budget goes to the noised sum of squared residuals of a number, or to the
steepness of a network's scores of classes (`temperature`).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import jax
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, exactly_computed
from sordino.core.gaussian import up
from sordino.core.spec import Spec
from sordino.core.validate import InputError
from sordino.fitting.methods.base import FitPlan, Method, Outcome, in_parts, method, methods_of, sums_of, sums_over_all
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, model_for
from sordino.fitting.tasks.network import USUAL_HIDDEN
from sordino.mechanisms.posterior.laws import FactorisedPosterior
from sordino.mechanisms.rounds import ExactRounds
from sordino.mechanisms.variational import evidence_bound
from sordino.models.base import Model, describe_model
from sordino.models.families.networks import DenseNetwork
from sordino.noise.integer_sums import DIGITS, digits, own_products, vectors
from sordino.noise.lattice import COVERED, in_doubles

ROUNDS = 2
_LENGTH = 4.0
_STEEPEST, _CURVED = math.sqrt(2.0) * _LENGTH, 0.5 * _LENGTH**2
_LEAST, _LARGEST = 0.2, 3.0
_LEAST_CURVATURE = 0.02

LENGTH = up(math.sqrt(2.0), 2)  # the largest length of one record's pair (g / its bound, h / its bound), rounded up


def contributions(z: Array, codes: NDArray[np.int64], t: float) -> Array:
    """Each record's (g, h) at t over their bounds, shape (records, 2)."""
    centred = z - z.mean(axis=1, keepdims=True)
    centred *= np.minimum(1.0, _LENGTH / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-300))
    shares = special.softmax(t * centred, axis=1)
    mean = (shares * centred).sum(axis=1)
    slope = mean - centred[np.arange(len(codes)), codes]
    curvature = (shares * centred**2).sum(axis=1) - mean**2
    return np.stack([np.clip(slope / _STEEPEST, -1.0, 1.0), np.clip(curvature / _CURVED, 0.0, 1.0)], axis=1)


def temperature(z: Array, codes: NDArray[np.int64], noised_mean: Callable[[Array, int], Array]) -> float:
    """The factor of the scores; `noised_mean` answers each round with the noised mean of contributions.

    Clipped gradients make a network too sure, or not sure enough. With scores z, centred and cut to a public length,
    the loss of softmax(t z) has the derivatives g = (p - y).z and h = the variance of z under p, whose noised sums give
    a step of Newton's method. One record moves g by at most sqrt(2) times the length and h by half its square.
    """
    t = 1.0
    for k in range(ROUNDS):
        slope, curvature = noised_mean(contributions(z, codes, t), k) * np.array([_STEEPEST, _CURVED])
        t = float(np.clip(t - slope / max(curvature, _LEAST_CURVATURE), max(_LEAST, 0.4 * t), min(_LARGEST, 2.0 * t)))
    return t


_ROUNDS, _STEP_SIZE = 150, 0.03
# The variance of residuals of scaled targets that a model is fitted with, and what it is kept between later.
_RESIDUAL_VARIANCE = 0.02
_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-3, 1.0
SHARE_OF_CHECK = 0.05
_FAMILY = evidence_bound.FactorisedGaussian(first_deviation=0.02)
_OPTIONS = evidence_bound.VariationalOptions(family=_FAMILY, start_scale=0.3, averaged=0.3)
_MOST_PARAMETERS = 200_000
_ROWS_PER_BLOCK = 4096
_SQUARES = "squares of residuals, less a half"
_STEEPNESS = "slopes and curvatures of the loss in the steepness of scores"


@method("dp-vi")
class VariationalInference(Method):
    """Clipped noised gradients of the evidence bound."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        size = model_for(problem, _RESIDUAL_VARIANCE).dim(problem.features)
        return None if size <= _MOST_PARAMETERS else f"needs at most {_MOST_PARAMETERS} weights, and there are {size}"

    def considered(self, problem: FitProblem) -> bool:
        # Where one hidden layer beside a linear part will do, "natural" has the smaller error and intervals that hold;
        # models of one score and mixtures have better methods too.
        natural = methods_of(problem.task).get("natural")
        return problem.task.methods[0] == self.name or (natural is not None and natural.refusal(problem) is not None)

    def plan(self, problem: FitProblem) -> FitPlan:
        steps = _steps_spec(problem)
        spec = in_parts(problem, steps, check_spec(problem)) if check_rounds(problem) else steps
        lattice = sums_of(steps), _OPTIONS.family.size(_model(problem).dim(problem.features))
        # The share of a move that is noise takes the error from half the constant's to all of it.
        size, noise = lattice[1] // 2, float(sums_of(steps).noise_multiplier.values(1)[0])
        ratio = noise * math.sqrt(2 * size) / problem.records / math.sqrt(_ROUNDS / 3)
        return FitPlan(self, problem, spec, min(1.5, 0.5 + 2.0 * ratio), lattice=lattice)

    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
        problem, X, y = plan.problem, rows.X, rows.y
        model = _model(problem)
        steepens = isinstance(model, DenseNetwork) and problem.classes is not None
        labels = (y + 1.0) / 2.0 if steepens and problem.classes == 2 else y
        given = (_steps_spec(problem), model, X, labels, sources.fresh())
        release = evidence_bound.run_variational(*given, options=_OPTIONS)
        if release.iterates is None:
            raise InputError("The certificate covers the whole run. Use the view all-iterates.")
        # The variational posterior, its variances plus those of the last rounds' means.
        mean, log_deviation = np.split(np.asarray(release.phi, np.float64), 2)
        last = np.asarray(release.iterates[-int(_OPTIONS.averaged * _ROUNDS) :, : len(mean)], np.float64)
        posterior = FactorisedPosterior(model, mean, np.sqrt(np.exp(2.0 * log_deviation) + last.var(axis=0)))
        if steepens:
            return Outcome(_steepened(problem, model, posterior, X, labels, sources), describe_model(model))
        if not check_rounds(problem):
            return Outcome(posterior, describe_model(model))
        residual = noised_residual_variance(problem, y - scores_at(model, posterior.mean, X)[:, 0], sources)
        return Outcome(posterior, describe_model(model_for(problem, residual)), {"residual_variance": residual})


def _model(problem: FitProblem) -> Model:
    """The model of the task; where it has no penalty, with that of a prior of precision 1."""
    model = model_for(problem, _RESIDUAL_VARIANCE)
    return model if model.weight_decay else replace(model, weight_decay=1.0 / problem.records)


def noised_residual_variance(problem: FitProblem, residuals: Array, sources: Sources) -> float:
    """The mean of squared residuals, noised, a standard deviation of its noise added: rarely too small."""
    squares = np.minimum(residuals**2, _LARGEST_VARIANCE)
    whole = vectors(len(residuals), None, digits(squares - 0.5)[:, None].__getitem__)
    rounds = ExactRounds(check_spec(problem), _SQUARES, len(residuals), 1, sources.fresh())
    noised = float(rounds.noised(0, whole, -DIGITS)[0])
    mean_square = 0.5 + (noised + rounds.scale(0)) / problem.records
    return float(np.clip(mean_square, _LEAST_VARIANCE, _LARGEST_VARIANCE))


def _steepened(
    problem: FitProblem, model: Model, posterior: FactorisedPosterior, X: Array, codes: Array, sources: Sources
) -> FactorisedPosterior:
    """The posterior with its last layer multiplied by the temperature."""
    rounds = ExactRounds(check_spec(problem), _STEEPNESS, len(codes), 2, sources.fresh())

    def noised_mean(given: Array, k: int) -> Array:
        return rounds.noised(k, vectors(len(given), None, digits(given).__getitem__), -DIGITS) / problem.records

    t = temperature(scores_at(model, posterior.mean, X), codes.astype(np.int64), noised_mean)
    last = ((problem.settings["hidden"] or USUAL_HIDDEN)[-1] + 1) * (problem.classes or 2)
    means, deviations = np.array(posterior.means), np.array(posterior.deviations)
    means[-last:] *= t
    deviations[-last:] *= t
    return FactorisedPosterior(model, means, deviations)


def scores_at(model: Model, mean: Array, X: Array) -> Array:
    """Every row's scores, from that row alone: sums over them must not depend on how rows are cut into blocks."""
    if not isinstance(model, DenseNetwork):
        return own_products(X, mean[:, None])
    found = np.empty((len(X), model.outputs))
    with in_doubles():
        for first in range(0, len(X), _ROWS_PER_BLOCK):
            rows = X[first : first + _ROWS_PER_BLOCK]
            padded = np.zeros((_ROWS_PER_BLOCK, X.shape[1]))
            padded[: len(rows)] = rows
            found[first : first + len(rows)] = _outputs(model, mean, padded)[: len(rows)]
    return found


_outputs = jax.jit(lambda network, theta, rows: network.record_outputs(theta, rows), static_argnums=0)


def check_rounds(problem: FitProblem) -> int:
    """How many noised sums judge what was fitted."""
    if problem.classes is None:
        return int(problem.schema.target is not None)
    return ROUNDS if isinstance(_model(problem), DenseNetwork) else 0


def _steps_spec(problem: FitProblem) -> Spec:
    mu = problem.mu * math.sqrt((1.0 - (SHARE_OF_CHECK if check_rounds(problem) else 0.0)) / _ROUNDS)
    clip = problem.task.gradient_clip(problem)
    return sums_over_all(problem, "gradients of the evidence bound", _ROUNDS, clip, mu, step_size=_STEP_SIZE)


def check_spec(problem: FitProblem) -> Spec:
    """One sum of numbers between -1/2 and 1/2, or sums of pairs for the temperature."""
    query, bound = (_SQUARES, 0.5) if problem.classes is None else (_STEEPNESS, LENGTH)
    rounds = check_rounds(problem)
    return sums_over_all(problem, query, rounds, bound, problem.mu * math.sqrt(SHARE_OF_CHECK / rounds))
