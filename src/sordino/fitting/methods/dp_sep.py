"""DP-SEP, private stochastic expectation propagation (Vinaroz & Park 2022), for four kinds of models.

All records refine one shared factor at once: every round releases a noised sum of clipped messages, and the factor
moves a share of the way there. The posterior knows nothing of the privacy noise, so its intervals are not reported.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sordino.core.bound import Certificate, exactly_computed
from sordino.core.spec import ListSchedule, Spec
from sordino.fitting.methods.base import FitPlan, Method, Outcome, in_parts, method, sums_of, sums_over_all
from sordino.fitting.methods.dp_vi import SHARE_OF_CHECK, check_rounds, check_spec, noised_residual_variance, scores_at
from sordino.fitting.problem import EncodedRows, FitProblem, Sources, model_for
from sordino.fitting.tasks.network import USUAL_HIDDEN
from sordino.mechanisms import messages
from sordino.mechanisms.posterior.laws import DenseGaussianPosterior, FactorisedPosterior, Posterior
from sordino.models.base import Model, describe_model
from sordino.models.families.networks import MLPRegression
from sordino.models.message_passing.gaussians import Site
from sordino.models.message_passing.sites import GaussianSite, LogisticSite, MixtureSite, NetworkSite
from sordino.noise.lattice import COVERED

QUERY = "messages of stochastic expectation propagation"
# A full Gaussian has a precision for each pair of columns; a network's are independent.
_MOST_COLUMNS, _MOST_PARAMETERS = 64, 20_000
_RESIDUAL = 0.2  # the standard deviation of residuals that messages are computed with, in units of scaled targets
# Rows and targets of a network are multiplied by these, so that a usual spread is about 1.
_ROW_UNIT, _TARGET_UNIT = 2.5, 4.0
_SPREAD = 0.5  # the spread of a mixture's components in the units that its rounds were chosen in


@dataclass(frozen=True)
class MessageRounds:
    """A record's likelihood, and how messages are clipped, weighed and averaged, in public units of rows."""

    site: Site
    number: int
    clip: float
    weight: float
    first: float
    last: float
    floor: float
    start_scale: float = 0.0
    unit: float = 1.0
    target_unit: float = 1.0


def rounds_of(problem: FitProblem) -> MessageRounds:
    """The rounds of a task. A message is about (R / s, R^2 / s^2) for length R, residual s: weight s / R."""
    n, norm = problem.records, problem.row_norm
    match problem.task.word:
        case "regression":
            site, floor = GaussianSite(noise_precision=_RESIDUAL**-2), max(1.0, 0.05 * n)
            return MessageRounds(site, 30, 1.8 * norm / _RESIDUAL, _RESIDUAL / norm, 0.6, 0.06, floor)
        case "classification":
            return MessageRounds(LogisticSite(), 30, norm, 2.0 / norm, 0.6, 0.06, max(1.0, 0.002 * n))
        case "mixture":
            components, unit = problem.settings["components"], _SPREAD / problem.settings["spread"]
            site, floor = MixtureSite((1.0 / components,) * components, _SPREAD), 0.1 * n / components / _SPREAD**2
            return MessageRounds(
                site, 200, 2.0 * math.sqrt(problem.features), 1.0, 0.3, 0.01, max(1.0, floor), 1.0, unit
            )
        case _:
            site, floor = NetworkSite(_hidden(problem), 10.0), max(1.0, 0.003 * n)
            return MessageRounds(site, 160, 0.5, 0.3, 0.1, 0.003, floor, 0.5, _ROW_UNIT, _TARGET_UNIT)


def _hidden(problem: FitProblem) -> int:
    return (problem.settings["hidden"] or USUAL_HIDDEN)[0]


@method("dp-sep")
class StochasticExpectationPropagation(Method):
    """Noised sums of clipped messages over all records."""

    automatic: ClassVar[bool] = False
    floating_point: ClassVar[Certificate] = exactly_computed(COVERED)

    def refusal(self, problem: FitProblem) -> str | None:
        if isinstance(site := rounds_of(problem).site, NetworkSite):
            hidden = problem.settings["hidden"]
            if hidden is not None and len(hidden) > 1:
                return "has one hidden layer, and you declared several; method 'dp-vi' has as many as declared"
            size = site.family(problem.features).dim
            reason = f"needs at most {_MOST_PARAMETERS} weights, and there are {size}"
            return reason if size > _MOST_PARAMETERS else None
        if problem.classes not in (None, 2):
            return f"needs two classes, and the schema has {problem.classes}"
        if problem.features > _MOST_COLUMNS:
            return f"needs at most {_MOST_COLUMNS} encoded columns, and the schema has {problem.features}"
        return None

    def plan(self, problem: FitProblem) -> FitPlan:
        rounds = rounds_of(problem)
        steps = _steps_spec(problem, rounds)
        spec = in_parts(problem, steps, check_spec(problem)) if check_rounds(problem) else steps
        lattice = sums_of(steps), rounds.site.family(problem.features).size
        # Noise beside what all messages sum to takes the error from half the constant's to all of it.
        size = rounds.site.family(problem.features).dim
        noise = float(sums_of(steps).noise_multiplier.values(1)[0]) * math.sqrt(size * rounds.last)
        return FitPlan(self, problem, spec, min(1.5, 0.5 + 2.0 * noise / problem.records), lattice=lattice)

    def run(self, plan: FitPlan, rows: EncodedRows, sources: Sources) -> Outcome:
        problem, rounds = plan.problem, rounds_of(plan.problem)
        steps = _steps_spec(problem, rounds)
        # About how large the noise in a precision is after the last rounds: below it, an eigenvalue says nothing.
        width = 1 if isinstance(rounds.site, NetworkSite) else problem.features
        noise = float(sums_of(steps).sum_noise[0]) / rounds.weight * math.sqrt(rounds.last * width)
        repair = messages.RaiseAroundMean(max(rounds.floor, noise))
        weighed = messages.CentredCoordinates(rounds.weight)
        refinement = messages.Refinement(weighed, repair, start_scale=rounds.start_scale)
        X, y = rounds.unit * rows.X, rounds.target_unit * rows.y
        given = (steps, rounds.site, X, y, sources.fresh())
        release = messages.run_message_passing(*given, prior=messages.Prior(), refinement=refinement)
        model = _model(problem, _RESIDUAL**2)
        posterior = _posterior(problem, release, model, rounds)
        if not check_rounds(problem):
            return Outcome(posterior, describe_model(model))
        residual = noised_residual_variance(problem, rows.y - scores_at(model, posterior.mean, rows.X)[:, 0], sources)
        return Outcome(posterior, describe_model(_model(problem, residual)), {"residual_variance": residual})


def _steps_spec(problem: FitProblem, rounds: MessageRounds) -> Spec:
    """The rounds in words, with what the check of residuals leaves of the budget."""
    share = 1.0 - SHARE_OF_CHECK if check_rounds(problem) else 1.0
    damping = problem.records * np.linspace(rounds.first, rounds.last, rounds.number)
    mu, steps = problem.mu * math.sqrt(share / rounds.number), ListSchedule(tuple(damping.tolist()))
    return sums_over_all(problem, QUERY, rounds.number, rounds.clip, mu, damping=steps)


def _model(problem: FitProblem, residual_variance: float) -> Model:
    """The model of the task; a network has the activation of its site."""
    model = model_for(problem, residual_variance)
    return replace(model, activation="relu") if isinstance(model, MLPRegression) else model


def _posterior(
    problem: FitProblem, release: messages.MessagePassingRelease, model: Model, rounds: MessageRounds
) -> Posterior:
    """The release as a posterior over the model's parameters, for rows and targets in encoded units."""
    found = release.posterior
    if isinstance(rounds.site, MixtureSite):
        return DenseGaussianPosterior(model, found.mean / rounds.unit, found.covariance / rounds.unit**2)
    if not isinstance(rounds.site, NetworkSite):
        return DenseGaussianPosterior(model, found.mean, found.covariance)
    hidden, features = _hidden(problem), problem.features
    # The site divides the inputs of a layer, a bias among them, by the root of their number and stacks the first
    # layer unit by unit; the model stacks weights and biases, input by input.
    inner = np.full((hidden, features + 1), 1.0 / math.sqrt(features + 1))
    inner[:, :-1] *= rounds.unit
    outer = np.full(hidden + 1, 1.0 / (math.sqrt(hidden + 1) * rounds.target_unit))
    means, deviations = (
        np.concatenate([(inner * values[: inner.size].reshape(inner.shape)).T.ravel(), outer * values[inner.size :]])
        for values in (found.mean, np.sqrt(found.variance))
    )
    return FactorisedPosterior(model, means, deviations)
