"""The best constant, learned from noised counts: what is left when a budget is too small for anything else."""

import math
from typing import ClassVar

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Certificate, View, exactly_computed
from sordino.core.spec import Spec
from sordino.fitting.methods.base import FitPlan, Method, Outcome, method, sums_over_all, target_bound
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, class_codes
from sordino.fitting.tasks.base import TASKS
from sordino.ledger.release.coverage import A_CONSTANT, LEARNED, ONLY_A_CONSTANT
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.rounds import ExactRounds
from sordino.models.registry import build_model
from sordino.noise.integer_sums import COVERED, DIGITS, check_size, digits, tallies, vectors
from sordino.noise.port import ExactDraws
from sordino.noise.randomness import Randomness

_NEGLIGIBLE = 1e-9  # keeps a covariance positive where there is next to no noise
_LEAST_SHARE = 1e-4
_TARGETS, _COUNTS = "targets and their squares, over sqrt 2", "counts of the classes"


@method("constant")
class BestConstant(Method):
    """A record contributes its sign or class, or its target and the square of it, to one noised sum."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        if problem.task.linear and not problem.schema.intercept:
            return "needs a schema with an intercept"
        return None

    def plan(self, problem: FitProblem) -> FitPlan:
        view = View.POSTERIOR_PARAMETERS
        if problem.classes == 2:
            # The sum of signs over the declared number of records, the minimiser of n c^2 / 2 - c sum of signs. One
            # number, so Laplace noise is the smaller one. It is drawn as a whole number, at the same guarantee.
            noise = {"kind": "laplace", "scale": _whole_scale(problem) / problem.records}
            mean: dict[str, object] = {"kind": "output-perturbation", "lipschitz": problem.clips}
            mean |= {"strong_convexity": float(problem.records), "tolerance": 0.0, "dim": 1, "noise": noise}
            stated = {"relation": problem.relation.value, "view": view.value, "delta": problem.delta}
            spec = Spec.from_dict({"algorithm": mean, **stated})
        else:
            spec = sums_over_all(problem, _TARGETS if problem.classes is None else _COUNTS, 1, 1.0, problem.mu, view)
        return FitPlan(self, problem, spec, predicted=1.0, cautions=(ONLY_A_CONSTANT,))

    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
        check_size(rows.X)
        problem, task = plan.problem, plan.problem.task
        fitted = _regression if problem.classes is None else _classification
        scores, variances, residual_variance = fitted(problem, plan.spec, rows.y, sources.fresh())
        if not task.linear:  # the linear model whose intercept stands for a network's constant
            task = TASKS["classification" if task.classifies else "regression"]
        # A posterior of an intercept and of nothing else: no coefficient is in a release that was not estimated.
        named = task.model(problem, residual_variance)
        posterior = DenseGaussianPosterior(build_model(named), scores, np.diag(variances))
        more = {"residual_variance": residual_variance} if problem.classes is None else {}
        return Outcome(posterior, named, {LEARNED: A_CONSTANT, **more})


def _whole_scale(problem: FitProblem) -> float:
    """The scale of the Laplace noise on the sum of signs, a hair more than the budget asks for."""
    return problem.clips / problem.epsilon * (1.0 + 1e-9)


def _regression(problem: FitProblem, spec: Spec, y: Array, randomness: Randomness) -> tuple[Array, Array, float]:
    """The constant, its variance, and that of residuals."""
    bound = target_bound(problem)
    scaled = np.clip(y / bound, -1.0, 1.0)
    rounds = ExactRounds(spec, _TARGETS, len(y), 2, randomness)
    noise = np.sqrt(2.0) * rounds.scale(0)  # the spec has (y, y^2) over its largest length
    whole = digits(scaled).astype(np.int64)
    both = vectors(len(y), None, np.column_stack([whole << DIGITS, whole * whole]).__getitem__)
    first, second = rounds.noised(0, both, -2 * DIGITS, length=math.sqrt(2.0))
    mean, variance = _shrunk(first / problem.records, noise / problem.records, 0.0)
    residual = float(np.clip(second / problem.records - mean**2, 1e-3, 1.0))
    spread = np.array([bound**2 * (variance + residual / problem.records)])
    return np.array([bound * mean]), spread, bound**2 * residual


def _classification(problem: FitProblem, spec: Spec, y: Array, randomness: Randomness) -> tuple[Array, Array, float]:
    """The scores of the classes, and their variances."""
    classes = problem.classes or 2
    if classes == 2:  # the sum of signs: half the noise of two counts, as their total is declared
        scale = _whole_scale(problem)
        signs = ExactDraws.of(randomness).laplace(int(np.where(y > 0, 1, -1).sum()), scale) / problem.records
        found = [_shrunk(0.5 - 0.5 * signs, scale / math.sqrt(2.0) / problem.records, 0.5)]
        found.append((1.0 - found[0][0], found[0][1]))
    else:
        once = tallies(len(y), None, class_codes(y, classes), lambda part: np.full(len(y[part]), 1 << DIGITS), classes)
        rounds = ExactRounds(spec, _COUNTS, len(y), classes, randomness)
        counts, noise = rounds.noised(0, once, -DIGITS), rounds.scale(0)
        found = [_shrunk(count / problem.records, noise / problem.records, 1.0 / classes) for count in counts]
    shares = np.clip([mean for mean, _ in found], _LEAST_SHARE, 1.0)
    shares /= shares.sum()
    # The noise, and what finitely many records leave open about the law they come from.
    spread = (np.array([variance for _, variance in found]) + shares * (1.0 - shares) / problem.records) / shares**2
    if classes == 2:
        scores, variances = np.array([special.logit(shares[1])]), np.array([spread[1] / (1.0 - shares[1]) ** 2])
    else:
        scores, variances = np.log(shares), spread
    return scores, np.minimum(variances, 10.0), 1.0


def _shrunk(value: float, noise: float, prior: float) -> tuple[float, float]:
    """Mean and variance of a share given its noised value and a vague prior."""
    spread = 0.25
    gain = spread / (spread + noise * noise)
    return float(prior + gain * (value - prior)), float(gain * noise * noise) + _NEGLIGIBLE
