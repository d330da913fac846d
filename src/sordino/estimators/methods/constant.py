"""The best constant, learned from noised counts: what is left when a budget is too small for anything else."""

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import special

from sordino.algorithm.noise.exact import ExactGaussians, noised_whole
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.noise.sums import COVERED, DIGITS, check_size, digits, noised_sums
from sordino.algorithm.posterior.gaussian import DenseGaussianPosterior
from sordino.core.arrays import Array
from sordino.core.bound import Certificate, View, exactly_computed
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.estimators.methods.base import Method, Outcome, Plan, Predicted, method, multiplier
from sordino.estimators.situation import (
    LINEAR,
    Situation,
    Sources,
    Task,
    class_codes,
    constant_log_loss,
    model_for,
    root_mean_square,
    stand_in,
)
from sordino.ledger.release.folder import A_CONSTANT, LEARNED, ONLY_A_CONSTANT
from sordino.model.base import LinearScoreModel

# The linear model whose intercept stands for a network's constant.
_LINEAR_TASKS = {Task.NETWORK_REGRESSION: Task.REGRESSION, Task.NETWORK_CLASSIFICATION: Task.CLASSIFICATION}
# Keeps a covariance positive where there is next to no noise.
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
        predicted = Predicted(best + min(1.0, noise / situation.records), best)
        return Plan(self, situation, spec, predicted, cautions=(ONLY_A_CONSTANT,))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        situation = plan.situation
        check_size(X)
        randomness = sources.fresh()
        if situation.classes is None:
            return _regression(situation, y, randomness)
        return _classification(situation, y, randomness)


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


def _regression(situation: Situation, y: Array, randomness: Randomness) -> Outcome:
    bound = situation.schema.target_bound_certificate().value
    scaled = np.clip(y / bound, -1.0, 1.0)
    noise = np.sqrt(2.0) * _noise(situation)  # (y, y^2) is at most sqrt(2) long
    whole = digits(scaled).astype(np.int64)
    sums = np.array([whole.sum() << DIGITS, (whole * whole).sum()])
    first, second = noised_sums(sums, -2 * DIGITS, noise, ExactGaussians.of(randomness, 2))
    mean, variance = _shrunk(first / situation.records, noise / situation.records, 0.0)
    residual = float(np.clip(second / situation.records - mean**2, 1e-3, 1.0))
    spread = np.array([bound**2 * (variance + residual / situation.records)])
    settings = {"residual_variance": bound**2 * residual}
    return _outcome(situation, np.array([bound * mean]), spread, bound**2 * residual, settings)


def _classification(situation: Situation, y: Array, randomness: Randomness) -> Outcome:
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
    # The noise, and what finitely many records leave open about the law they come from.
    spread = (np.array([variance for _, variance in found]) + shares * (1.0 - shares) / situation.records) / shares**2
    if classes == 2:
        scores, variances = np.array([special.logit(shares[1])]), np.array([spread[1] / (1.0 - shares[1]) ** 2])
    else:
        scores, variances = np.log(shares), spread
    return _outcome(situation, scores, np.minimum(variances, 10.0), 1.0, {})


def _shrunk(value: float, noise: float, prior: float) -> tuple[float, float]:
    """Mean and variance of a share given its noised value and a vague prior."""
    spread = 0.25
    gain = spread / (spread + noise * noise)
    return float(prior + gain * (value - prior)), float(gain * noise * noise) + _NEGLIGIBLE


def _outcome(
    situation: Situation, scores: Array, variances: Array, residual_variance: float, settings: dict[str, Any]
) -> Outcome:
    """The posterior of an intercept and of nothing else: no coefficient is in a release that was not estimated."""
    linear = replace(situation, task=_LINEAR_TASKS.get(situation.task, situation.task))
    model = instance_of("the model", model_for(linear, residual_variance), LinearScoreModel)
    posterior = DenseGaussianPosterior(model, scores, np.diag(variances))
    return Outcome(posterior, model, {LEARNED: A_CONSTANT, **settings})
