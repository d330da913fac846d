"""The last iterate of noisy gradient descent: only the end is released, and hidden steps cost less than seen ones."""

import math
from typing import ClassVar

import numpy as np

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.core.arrays import Array
from sordino.core.bound import Bound, Certificate, View, exactly_computed
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Clipping, ClippingKind, NoisyGradient, Spec
from sordino.core.spec.fields import write_keys
from sordino.core.validate import instance_of
from sordino.fitting.methods.base import Method, Outcome, Plan, Predicted, constant_error, described, method
from sordino.fitting.problem import FitProblem, Sources, log_loss, stand_in
from sordino.fitting.tasks import Task
from sordino.mechanisms.chain.release import LastIterate, on_release_grid
from sordino.mechanisms.chain.rounding import COVERED, ROUNDING, stated_rounding
from sordino.mechanisms.chain.run import run
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior
from sordino.mechanisms.regression.gradients import noise_left
from sordino.models.base import LinearScoreModel
from sordino.models.facts import Domain
from sordino.models.families.classification import Logistic

_THEOREM = "shifted.full"
_STEPS, _CLIP_SHARE, _PRIOR_PRECISION = 100, 0.6, 1.0
_SEED = 20_263


@method("chain", Task.CLASSIFICATION)
class LastOfChain(Method):
    """Noisy gradient descent on all records; the spec is the canonical chain, seen at its last iterate.

    Its posterior rests on a guess, not on released sums: the curvature is taken as even in every direction. So it is
    used only where it is asked for.
    """

    automatic: ClassVar[bool] = False
    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        return None if problem.classes == 2 else f"needs two classes, and the schema has {problem.classes}"

    def plan(self, problem: FitProblem) -> Plan:
        model = _model(problem)
        clip = Clipping(ClippingKind.RESIDUAL, _CLIP_SHARE * problem.row_norm)
        domain = Domain(problem.features, problem.schema.feature_norm_certificate(), 1.0, 2.0, problem.classes)
        stated = model.problem(problem.records, domain, clip)
        smoothness = 0.25 * problem.row_norm**2 + model.weight_decay
        algorithm = {
            "kind": "noisy-gradient",
            "steps": _STEPS,
            "step_size": 1.0 / smoothness,
            "noise": {"kind": "gaussian", "scale": 1.0 / problem.records},
            "batch": {"scheme": "full"},
            "clipping": write_keys(clip),
            "rounding": ROUNDING,
        }
        uncalibrated = described(problem, algorithm, View.LAST_ITERATE, problem=write_keys(stated))
        spec = _calibrated(uncalibrated, problem)
        while (needed := stated_rounding(spec, model)) > spec.to_dict()["algorithm"]["rounding"]:
            spec = _calibrated(spec.with_values({"algorithm.rounding": needed}), problem)
        return Plan(self, problem, spec, _predicted(problem, spec))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        model = _model(plan.problem)
        release = instance_of("release", run(plan.spec, model, X, y, sources.fresh()), LastIterate)
        point = on_release_grid(plan.spec, release.iterates[0])
        return Outcome(_posterior(plan, point), model)


def _calibrated(spec: Spec, problem: FitProblem) -> Spec:
    """The least noise: the shifted bound is Gaussian, inverse to the noise but for what roundings add to it."""
    real, mu = _mu(spec.with_values({"algorithm.rounding": 0.0})), _mu(spec)
    if real is None or mu is None or mu - real >= 0.5 * problem.mu:
        return calibrate(spec, problem.epsilon, problem.delta, "noise").spec
    _, noise = _pace_and_noise(spec)
    scale = noise * real / (problem.mu - (mu - real)) * (1.0 + 1e-6)
    return spec.with_values({"algorithm.noise.scale": scale})


def _mu(spec: Spec) -> float | None:
    found = evaluate(theorem_named(_THEOREM), spec)
    return found.guarantee.mu if isinstance(found, Bound) and isinstance(found.guarantee, GaussianDP) else None


def _model(problem: FitProblem) -> LinearScoreModel:
    return Logistic(weight_decay=_PRIOR_PRECISION / problem.records)


def _pace_and_noise(spec: Spec) -> tuple[float, float]:
    chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    return float(chain.step_size.values(1)[0]), float(chain.noise.scale.values(1)[0])


def _posterior(plan: Plan, point: Array) -> DenseGaussianPosterior:
    problem = plan.problem
    pace, noise = _pace_and_noise(plan.spec)
    # Rows of length R with d entries, and slopes of the residual of about 1/8.
    curvature = np.array([problem.row_norm**2 / problem.features / 8.0])
    left = noise_left(curvature, np.full(_STEPS, pace), noise / pace, 1)
    own = 1.0 / (problem.records * curvature[0] + _PRIOR_PRECISION) + left.variance[0]
    spread = own + left.start_share[0] ** 2 / _PRIOR_PRECISION
    return DenseGaussianPosterior(_model(problem), point, spread * np.eye(len(point)))


def _predicted(problem: FitProblem, spec: Spec) -> Predicted:
    data, generator = stand_in(problem), np.random.default_rng(_SEED)
    pace, noise = _pace_and_noise(spec)
    theta, cap = np.zeros(problem.features), _CLIP_SHARE * problem.row_norm
    norms = np.linalg.norm(data.X, axis=1)
    for _ in range(_STEPS):
        slopes = -data.y / (1.0 + np.exp(data.y * (data.X @ theta)))
        gradient = np.clip(slopes, -cap / norms, cap / norms) @ data.X / len(data.y)
        theta = theta - pace * gradient + noise * generator.standard_normal(len(theta))
    error = log_loss(data.held_rows @ theta[:, None], data.held_targets, problem.classes or 2)
    return Predicted(error if math.isfinite(error) else 1e9, constant_error(problem, data))
