"""The last iterate of noisy gradient descent: only the end is released, and hidden steps cost less than seen ones."""

import math
from typing import ClassVar

import numpy as np

from sordino.accounting.calibration import calibrate
from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.algorithm.chain.hidden import COVERED, ROUNDING, stated_rounding
from sordino.algorithm.chain.release import LastIterate, on_release_grid
from sordino.algorithm.chain.run import run
from sordino.algorithm.posterior.laws import DenseGaussianPosterior
from sordino.algorithm.rounds.gradients import noise_left
from sordino.core.arrays import Array
from sordino.core.bound import Bound, Certificate, View, exactly_computed
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Clipping, ClippingKind, NoisyGradient, Spec
from sordino.core.spec.fields import write_keys
from sordino.core.validate import instance_of
from sordino.estimators.methods.base import Method, Outcome, Plan, Predicted, constant_error, described, method
from sordino.estimators.situation import Situation, Sources, Task, log_loss, stand_in
from sordino.model.base import LinearScoreModel
from sordino.model.facts import Domain
from sordino.model.families.classification import Logistic

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

    def refusal(self, situation: Situation) -> str | None:
        return None if situation.classes == 2 else f"needs two classes, and the schema has {situation.classes}"

    def plan(self, situation: Situation) -> Plan:
        model = _model(situation)
        clip = Clipping(ClippingKind.RESIDUAL, _CLIP_SHARE * situation.row_norm)
        domain = Domain(situation.features, situation.schema.feature_norm_certificate(), 1.0, 2.0, situation.classes)
        problem = model.problem(situation.records, domain, clip)
        smoothness = 0.25 * situation.row_norm**2 + model.weight_decay
        algorithm = {
            "kind": "noisy-gradient",
            "steps": _STEPS,
            "step_size": 1.0 / smoothness,
            "noise": {"kind": "gaussian", "scale": 1.0 / situation.records},
            "batch": {"scheme": "full"},
            "clipping": write_keys(clip),
            "rounding": ROUNDING,
        }
        uncalibrated = described(situation, algorithm, View.LAST_ITERATE, problem=write_keys(problem))
        spec = _calibrated(uncalibrated, situation)
        while (needed := stated_rounding(spec, model)) > spec.to_dict()["algorithm"]["rounding"]:
            spec = _calibrated(spec.with_values({"algorithm.rounding": needed}), situation)
        return Plan(self, situation, spec, _predicted(situation, spec))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        model = _model(plan.situation)
        release = instance_of("release", run(plan.spec, model, X, y, sources.fresh()), LastIterate)
        point = on_release_grid(plan.spec, release.iterates[0])
        return Outcome(_posterior(plan, point), model)


def _calibrated(spec: Spec, situation: Situation) -> Spec:
    """The least noise: the shifted bound is Gaussian, inverse to the noise but for what roundings add to it."""
    real, mu = _mu(spec.with_values({"algorithm.rounding": 0.0})), _mu(spec)
    if real is None or mu is None or mu - real >= 0.5 * situation.mu:
        return calibrate(spec, situation.epsilon, situation.delta, "noise").spec
    _, noise = _pace_and_noise(spec)
    scale = noise * real / (situation.mu - (mu - real)) * (1.0 + 1e-6)
    return spec.with_values({"algorithm.noise.scale": scale})


def _mu(spec: Spec) -> float | None:
    found = evaluate(theorem_named(_THEOREM), spec)
    return found.guarantee.mu if isinstance(found, Bound) and isinstance(found.guarantee, GaussianDP) else None


def _model(situation: Situation) -> LinearScoreModel:
    return Logistic(weight_decay=_PRIOR_PRECISION / situation.records)


def _pace_and_noise(spec: Spec) -> tuple[float, float]:
    chain = instance_of("spec.algorithm", spec.algorithm, NoisyGradient)
    return float(chain.step_size.values(1)[0]), float(chain.noise.scale.values(1)[0])


def _posterior(plan: Plan, point: Array) -> DenseGaussianPosterior:
    situation = plan.situation
    pace, noise = _pace_and_noise(plan.spec)
    # Rows of length R with d entries, and slopes of the residual of about 1/8.
    curvature = np.array([situation.row_norm**2 / situation.features / 8.0])
    left = noise_left(curvature, np.full(_STEPS, pace), noise / pace, 1)
    own = 1.0 / (situation.records * curvature[0] + _PRIOR_PRECISION) + left.variance[0]
    spread = own + left.start_share[0] ** 2 / _PRIOR_PRECISION
    return DenseGaussianPosterior(_model(situation), point, spread * np.eye(len(point)))


def _predicted(situation: Situation, spec: Spec) -> Predicted:
    data, generator = stand_in(situation), np.random.default_rng(_SEED)
    pace, noise = _pace_and_noise(spec)
    theta, cap = np.zeros(situation.features), _CLIP_SHARE * situation.row_norm
    norms = np.linalg.norm(data.X, axis=1)
    for _ in range(_STEPS):
        slopes = -data.y / (1.0 + np.exp(data.y * (data.X @ theta)))
        gradient = np.clip(slopes, -cap / norms, cap / norms) @ data.X / len(data.y)
        theta = theta - pace * gradient + noise * generator.standard_normal(len(theta))
    error = log_loss(data.held_rows @ theta[:, None], data.held_targets, situation.classes or 2)
    return Predicted(error if math.isfinite(error) else 1e9, constant_error(situation, data))
