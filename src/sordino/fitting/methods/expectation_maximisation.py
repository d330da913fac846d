"""Mixtures by private expectation maximisation."""

import math
from typing import ClassVar

from sordino.core.bound import Certificate, View, exactly_computed
from sordino.core.validate import instance_of
from sordino.fitting.methods.base import FitPlan, Method, Outcome, method, sums_of, sums_over_all, too_many_columns
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, model_for
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.models.base import describe_model
from sordino.models.families.regression import GaussianMixture
from sordino.noise.lattice import COVERED

_ROUNDS = 12


@method("em")
class ExpectationMaximisation(Method):
    """Noised counts and sums of the components, round after round."""

    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        return too_many_columns(problem)

    def plan(self, problem: FitProblem) -> FitPlan:
        components, view = problem.settings["components"], View.POSTERIOR_PARAMETERS
        clip, mu = math.hypot(problem.row_norm, 1.0), problem.mu / math.sqrt(_ROUNDS)
        query = "expected statistics of a mixture"
        spec = sums_over_all(problem, query, _ROUNDS, clip, mu, view, components=components)
        # The noise on a mean, beside the spread of a component: as far off as a constant centre would be at 1.
        sums = sums_of(spec)
        error = float(sums.sum_noise[0]) / (problem.records / components)
        lattice = sums, components * (1 + problem.features)
        return FitPlan(self, problem, spec, error / problem.settings["spread"], lattice=lattice)

    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
        model = instance_of("model", model_for(plan.problem, 1.0), GaussianMixture)
        options = EmOptions(learn_weights=True, start_scale=0.5, rate=0.7)
        posterior = run_em(plan.spec, model, rows.X, sources.fresh(), options=options).posterior
        return Outcome(posterior, describe_model(posterior.model))
