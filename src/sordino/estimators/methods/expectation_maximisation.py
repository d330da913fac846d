"""Mixtures by private expectation maximisation."""

import math

from sordino.algorithm.rounds.expectation_maximisation import EmOptions, run_em
from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.estimators.methods.base import Method, Outcome, Plan, Predicted, method, multiplier
from sordino.estimators.situation import MOST_COLUMNS, Situation, Sources, Task, model_for
from sordino.model.families.mixture import GaussianMixture

_ROUNDS = 12


@method("em", Task.MIXTURE)
class ExpectationMaximisation(Method):
    """Noised counts and sums of the components, round after round."""

    def refusal(self, situation: Situation) -> str | None:
        if situation.features <= MOST_COLUMNS:
            return None
        return f"needs at most {MOST_COLUMNS} encoded columns, and the schema has {situation.features}"

    def plan(self, situation: Situation) -> Plan:
        noise = multiplier(situation.mu / math.sqrt(_ROUNDS))
        clip = math.hypot(situation.row_norm, 1.0)
        spec = Spec.from_dict(
            {
                "algorithm": {
                    "kind": "em",
                    "records": situation.records,
                    "steps": _ROUNDS,
                    "sampling": "full",
                    "clip": clip,
                    "noise_multiplier": noise,
                    "components": situation.settings["components"],
                },
                "relation": situation.relation.value,
                "view": View.POSTERIOR_PARAMETERS.value,
                "delta": situation.delta,
            }
        )
        each = situation.records / situation.settings["components"]
        # The noise on a mean, beside the spread of a component: as far off as a constant centre would be at 1.
        error = situation.clips * clip * noise / each
        return Plan(self, situation, spec, Predicted(error, situation.settings["spread"]))

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        del y
        model = instance_of("model", model_for(plan.situation, 1.0), GaussianMixture)
        options = EmOptions(learn_weights=True, start_scale=0.5, rate=0.7)
        posterior = run_em(plan.spec, model, X, sources.fresh(), options=options).posterior
        return Outcome(posterior, instance_of("model", posterior.model, GaussianMixture))
