"""Networks by private variational inference: independent Gaussians over the weights, noised full gradients."""

import math

from sordino.algorithm.variational import FactorisedGaussian, VariationalOptions, run_variational
from sordino.core.spec import Spec
from sordino.core.view import View
from sordino.estimators.methods.base import Array, Method, Outcome, Plan, Predicted, method, multiplier
from sordino.estimators.models import model_for
from sordino.estimators.simulate import constant_log_loss, root_mean_square, stand_in
from sordino.estimators.situation import Situation, Task
from sordino.estimators.sources import Sources

_ROUNDS, _STEP_SIZE = 150, 0.03
_CLIPS = {Task.NETWORK_REGRESSION: 2.0, Task.NETWORK_CLASSIFICATION: 1.0}
# The variance of residuals of scaled targets that a network is fitted with.
_RESIDUAL_VARIANCE = 0.02
_OPTIONS = VariationalOptions(family=FactorisedGaussian(first_deviation=0.02), start_scale=0.3, averaged=0.3)
_MOST_PARAMETERS = 200_000


@method("variational", Task.NETWORK_REGRESSION, Task.NETWORK_CLASSIFICATION)
class VariationalInference(Method):
    """Clipped noised gradients of the evidence bound."""

    def refusal(self, situation: Situation) -> str | None:
        size = model_for(situation, _RESIDUAL_VARIANCE).dim(situation.features)
        return None if size <= _MOST_PARAMETERS else f"needs at most {_MOST_PARAMETERS} weights, and there are {size}"

    def plan(self, situation: Situation) -> Plan:
        noise = multiplier(situation.mu / math.sqrt(_ROUNDS))
        spec = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "variational",
                    "records": situation.records,
                    "steps": _ROUNDS,
                    "sampling": "full",
                    "clip": _CLIPS[situation.task],
                    "noise_multiplier": noise,
                    "step_size": _STEP_SIZE,
                },
                "relation": situation.relation.value,
                "view": View.POSTERIOR_PARAMETERS.value,
                "delta": situation.delta,
            }
        )
        return Plan(self, situation, spec, _predicted(situation, noise))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        model = model_for(plan.situation, _RESIDUAL_VARIANCE)
        labels = (y + 1.0) / 2.0 if plan.situation.classes == 2 else y
        release = run_variational(plan.spec, model, X, labels, sources.fresh(), options=_OPTIONS)
        return Outcome(release.posterior, model)


def _predicted(situation: Situation, noise: float) -> Predicted:
    """By a formula: the share of a move that is noise, which takes the error from half the constant's to all of it.

    Means and deviations make twice as many noised entries as there are weights; the last rounds are averaged.
    """
    data = stand_in(situation)
    if situation.classes is None:
        constant = root_mean_square(data.held_targets - data.y.mean())
    else:
        constant = constant_log_loss(data.y, data.held_targets, situation.classes)
    size = model_for(situation, _RESIDUAL_VARIANCE).dim(situation.features)
    ratio = situation.clips * noise * math.sqrt(2 * size) / situation.records / math.sqrt(_ROUNDS / 3)
    return Predicted(constant * min(1.5, 0.5 + 2.0 * ratio), constant)
