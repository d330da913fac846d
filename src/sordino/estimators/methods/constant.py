"""The best constant, learned from noised counts: what is left when a budget is too small for anything else."""

import math
from functools import singledispatch
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sordino.algorithm.exact_noise import COVERED, ExactGaussians, noised_sums
from sordino.algorithm.exact_noise.record_sums import DIGITS, check_size, digits
from sordino.algorithm.exact_noise.whole_laplace import noised_whole
from sordino.algorithm.posterior.dense_gaussian import DenseGaussianPosterior
from sordino.algorithm.posterior.factorised import FactorisedPosterior
from sordino.algorithm.randomness import Randomness
from sordino.core.certificate import Certificate
from sordino.core.floating_point import exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import refuse
from sordino.core.view import View
from sordino.estimators.methods.base import Array, Method, Outcome, Plan, Predicted, method, multiplier
from sordino.estimators.models import model_for
from sordino.estimators.simulate import class_codes, constant_log_loss, root_mean_square, stand_in
from sordino.estimators.situation import LINEAR, Situation, Task
from sordino.estimators.sources import Sources
from sordino.model.base import LinearScoreModel, Model
from sordino.model.mlp import DenseNetwork

# Nothing is learned about the other coefficients: they are 0, as good as exactly.
_NEGLIGIBLE = 1e-9
_LEAST_SHARE = 1e-4
# More noise than the rounding of its scale could take away.
_HAIR = 2.0**-50


@method(
    "constant",
    Task.REGRESSION,
    Task.ROBUST,
    Task.CLASSIFICATION,
    Task.NETWORK_REGRESSION,
    Task.NETWORK_CLASSIFICATION,
)
class Constant(Method):
    """A record contributes its sign or class, or its target and the square of it, to one noised sum."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, situation: Situation) -> str | None:
        if situation.task in LINEAR and not situation.schema.intercept:
            return "needs a schema with an intercept"
        return None

    def plan(self, situation: Situation) -> Plan:
        spec = Spec.from_dict(
            {
                "algorithm": _mean_of_signs(situation) if situation.classes == 2 else _sums(situation),
                "relation": situation.relation.value,
                "view": View.POSTERIOR_PARAMETERS.value,
                "delta": situation.delta,
            }
        )
        data = stand_in(situation)
        if situation.classes is None:
            best = root_mean_square(data.held_targets - data.y.mean())
        else:
            best = constant_log_loss(data.y, data.held_targets, situation.classes)
        noise = math.sqrt(2.0) * _whole_scale(situation) if situation.classes == 2 else _noise(situation)
        return Plan(self, situation, spec, Predicted(best + min(1.0, noise / situation.records), best))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        situation = plan.situation
        check_size(X)
        randomness = sources.fresh()
        if situation.classes is None:
            return _regression(situation, X, y, randomness)
        return _classification(situation, X, y, randomness)


def _sums(situation: Situation) -> dict[str, Any]:
    return {
        "kind": "message-passing",
        "records": situation.records,
        "steps": 1,
        "sampling": "full",
        "clip": 1.0,
        "noise_multiplier": multiplier(situation.mu),
        "damping": float(situation.records),
    }


def _mean_of_signs(situation: Situation) -> dict[str, Any]:
    """The sum of signs over the declared number of records, the minimiser of n c^2 / 2 - c sum of signs.

    One number, so Laplace noise is the smaller one. It is drawn as a whole number, at the same guarantee.
    """
    n = situation.records
    return {
        "kind": "output-perturbation",
        "lipschitz": situation.clips,
        "strong_convexity": float(n),
        "tolerance": 0.0,
        "dim": 1,
        "noise": {"kind": "laplace", "scale": _whole_scale(situation) / n},
    }


def _whole_scale(situation: Situation) -> float:
    """The scale of the Laplace noise on the sum of signs, a hair more than the budget asks for."""
    return situation.clips / situation.epsilon * (1.0 + 1e-9)


def _noise(situation: Situation) -> float:
    """The noise on each sum: contributions are at most 1 long."""
    return situation.clips * multiplier(situation.mu) * (1.0 + _HAIR)


def _regression(situation: Situation, X: Array, y: Array, randomness: Randomness) -> Outcome:
    bound = situation.schema.target_bound_certificate().value
    scaled = np.clip(y / bound, -1.0, 1.0)
    noise = np.sqrt(2.0) * _noise(situation)  # (y, y^2) is at most sqrt(2) long
    whole = digits(scaled).astype(np.int64)
    sums = np.array([whole.sum() << DIGITS, (whole * whole).sum()])
    first, second = noised_sums(sums, -2 * DIGITS, noise, ExactGaussians.of(randomness, 2))
    mean, variance = _shrunk(first / situation.records, noise / situation.records, 0.0)
    residual = float(np.clip(second / situation.records - mean**2, 1e-3, 1.0)) * bound**2
    model = model_for(situation, residual)
    centre, spread = np.array([bound * mean]), np.array([bound**2 * variance])
    return Outcome(_posterior(model, X.shape[1], centre, spread), model, {"residual_variance": residual})


def _classification(situation: Situation, X: Array, y: Array, randomness: Randomness) -> Outcome:
    classes = situation.classes or 2
    noise = _noise(situation)
    if classes == 2:  # the sum of signs: half the noise of two counts, as their total is declared
        scale = _whole_scale(situation)
        signs = noised_whole(int(np.where(y > 0, 1, -1).sum()), scale, randomness) / situation.records
        found = [_shrunk(0.5 - 0.5 * signs, scale / math.sqrt(2.0) / situation.records, 0.5)]
        found.append((1.0 - found[0][0], found[0][1]))
    else:
        exact = np.bincount(class_codes(y, classes), minlength=classes).astype(np.int64) << DIGITS
        counts = noised_sums(exact, -DIGITS, noise, ExactGaussians.of(randomness, classes))
        found = [_shrunk(count / situation.records, noise / situation.records, 1.0 / classes) for count in counts]
    shares = np.clip([mean for mean, _ in found], _LEAST_SHARE, 1.0)
    shares /= shares.sum()
    spread = np.array([variance for _, variance in found]) / shares**2
    model = model_for(situation, 1.0)
    if getattr(model, "outputs", 1) == 1:
        scores, variances = np.array([special.logit(shares[1])]), np.array([spread[1] / (1.0 - shares[1]) ** 2])
    else:
        scores, variances = np.log(shares), spread
    return Outcome(_posterior(model, X.shape[1], scores, np.minimum(variances, 10.0)), model)


def _shrunk(value: float, noise: float, prior: float) -> tuple[float, float]:
    """Mean and variance of a share given its noised value and a vague prior."""
    spread = 0.25
    gain = spread / (spread + noise * noise)
    return float(prior + gain * (value - prior)), float(gain * noise * noise) + _NEGLIGIBLE


@singledispatch
def _posterior(
    model: Model, features: int, scores: Array, variances: Array
) -> DenseGaussianPosterior | FactorisedPosterior:
    """The posterior under which every row has these scores."""
    del features, scores, variances
    raise refuse("the model", "to have a constant", type(model).__name__)


@_posterior.register
def _(model: LinearScoreModel, features: int, scores: Array, variances: Array) -> DenseGaussianPosterior:
    outputs = model.outputs
    means, spread = np.zeros(features * outputs), np.full(features * outputs, _NEGLIGIBLE)
    means[:outputs], spread[:outputs] = scores, variances + _NEGLIGIBLE
    return DenseGaussianPosterior(model, means, np.diag(spread))


@_posterior.register
def _(model: DenseNetwork, features: int, scores: Array, variances: Array) -> FactorisedPosterior:
    means, deviations = np.zeros(model.dim(features)), np.full(model.dim(features), np.sqrt(_NEGLIGIBLE))
    means[-model.outputs :], deviations[-model.outputs :] = scores, np.sqrt(variances + _NEGLIGIBLE)
    return FactorisedPosterior(model, means, deviations)
