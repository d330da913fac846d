"""Networks by natural gradients on whitened rows: a network with a linear part, clipped and noised in a public metric.

A tenth of the budget centres and whitens the rows, in two rounds of noised second moments; most of the rest goes to
rounds of natural gradients (`algorithm.rounds.natural`). How large a network noise can bear follows from public
numbers: with D parameters, n records and a budget of mu, noise adds about (D / (n mu))^2 of the residual variance to
the error, so D is a share of n mu. What is left pays for a noised sum about the network found: of squared residuals, so
that intervals of new targets have a residual variance that was measured, or of slopes and curvatures of the loss in the
steepness of the scores. The posterior is the network, with the spread that sampling and the noise of the rounds leave
along each direction of the metric.
"""

import math
from typing import NamedTuple

import numpy as np

from sordino.algorithm.noise.sums import DIGITS, digits
from sordino.algorithm.posterior.laws import DrawsPosterior
from sordino.algorithm.rounds.loop import ExactRounds
from sordino.algorithm.rounds.natural import (
    NaturalRelease,
    NaturalRule,
    SkipNetwork,
    hidden_units,
    run_natural_gradients,
)
from sordino.algorithm.rounds.second_moments import StatisticsOptions, StatisticsStack, run_statistics
from sordino.core.arrays import Array
from sordino.core.spec import ListSchedule, Spec
from sordino.estimators.methods.base import (
    Method,
    Outcome,
    Plan,
    Predicted,
    constant_error,
    in_parts,
    method,
    sums_over_all,
    sums_spec,
)
from sordino.estimators.methods.variational import LENGTH, ROUNDS, temperature
from sordino.estimators.situation import Situation, Sources, Task, stand_in
from sordino.model.families.skip_networks import SkipClassification, SkipRegression

# Chosen on synthetic sets by papers/vinaroz_park/tuning.py, for rows and targets scaled to [-sqrt 3, sqrt 3].
_HALF_WIDTH = math.sqrt(3.0)
_PARAMETER_SHARE, _MOST_PARAMETERS = 0.05, 200
_ROUNDS, _FIRST_STEP, _LAST_STEP = 400, 0.2, 0.005
_CLIP = 0.05
_RULE = NaturalRule(momentum=0.5, damping=0.01)
_WHITENING, _WHITENING_ROUNDS = 0.1, 2
# A round that only whitens wants x x' alone. Squared rows may be this much longer than their mean.
_STACK = StatisticsStack(cross=0.01, square=0.01)
_ROOM = 1.5
# Of the sum about the network found; few records need more of it.
_CHECK, _CHECK_OF_FEW, _FEW = 0.02, 0.05, 1000.0
_LEAST_VARIANCE, _LARGEST_VARIANCE = 1e-5, 1.0
_MOST_COLUMNS = 128
_DRAWS, _SEED = 64, 20_267
_GRADIENTS = "gradients of a network in a public metric"
_SQUARES = "squares of residuals, less a half"
_STEEPNESS = "slopes and curvatures of the loss in the steepness of scores"


@method("natural", Task.NETWORK_REGRESSION, Task.NETWORK_CLASSIFICATION)
class NaturalGradients(Method):
    """Whitened rows, natural gradients, and what the network found leaves unexplained."""

    def refusal(self, situation: Situation) -> str | None:
        if len(situation.settings["hidden"]) != 1:
            return "needs one hidden layer"
        if situation.classes not in (None, 2):
            return f"needs a number or two classes, and there are {situation.classes}"
        if not 2 <= situation.features <= _MOST_COLUMNS:
            return f"needs 1 to {_MOST_COLUMNS - 1} encoded columns, and there are {situation.features - 1}"
        return None

    def plan(self, situation: Situation) -> Plan:
        whitening = [
            sums_spec(situation, situation.mu * math.sqrt(_WHITENING / _WHITENING_ROUNDS), _options(1.0))
            for _ in range(_WHITENING_ROUNDS)
        ]
        steps, check = _steps_spec(situation), _check_spec(situation)
        spec = in_parts(situation, *whitening, steps, check)
        details = {"whitening": whitening, "steps": steps, "check": check}
        return Plan(self, situation, spec, _predicted(situation), details)

    def run(self, plan: Plan, X: Array, y: Array, sources: Sources) -> Outcome:
        situation, details = plan.situation, plan.details
        turn = _whitened(situation, X, y, details["whitening"], sources)
        rows = _scaled_rows(X) @ turn.transform
        numbers = situation.classes is None
        target = _HALF_WIDTH * y if numbers else (y + 1.0) / 2.0
        rule = _RULE if numbers else NaturalRule(_RULE.momentum, _RULE.damping, kind="classes")
        network = _network(situation)
        release = run_natural_gradients(details["steps"], network, rows, target, sources.fresh(), rule=rule)
        scores = release.predict(rows)
        if numbers:
            residual = _residual_variance(situation, details["check"], y - scores / _HALF_WIDTH, sources)
            model = SkipRegression(hidden=(network.hidden,), noise_precision=1.0 / residual, cut=_RULE.cut)
            loss_variance = residual * _HALF_WIDTH**2
            factor, settings = 1.0 / _HALF_WIDTH, {"residual_variance": residual}
        else:
            factor = _steepness(situation, details["check"], scores, target, sources)
            model = SkipClassification(hidden=(network.hidden,), cut=_RULE.cut)
            loss_variance, settings = 1.0, {}
        draws = _draws(situation, release, turn, loss_variance, factor)
        return Outcome(DrawsPosterior(model, draws[None]), model, settings)


class _Turn(NamedTuple):
    """A map of scaled rows, intercept first, to centred and whitened ones without it; and their length."""

    transform: Array
    row_norm: float


def _scaled_rows(X: Array) -> Array:
    """Encoded rows with numbers in [-sqrt 3, sqrt 3]; the intercept stays 1."""
    return np.column_stack([X[:, :1], _HALF_WIDTH * X[:, 1:]])


def _options(row_norm: float) -> StatisticsOptions:
    return StatisticsOptions(row_norm, 1.0, stack=_STACK)


def _whitened(situation: Situation, X: Array, y: Array, specs: list[Spec], sources: Sources) -> _Turn:
    """Centre and whiten, round by round: what rises above the noise to variance 1, the rest as far as it does."""
    rows, width = _scaled_rows(X), situation.features - 1
    transform, row_norm = np.eye(width + 1), math.sqrt(_ROOM * (width + 1))
    target = y if situation.classes is None else 0.5 * y
    for spec in specs:
        release = run_statistics(spec, rows @ transform, target, sources.fresh(), options=_options(row_norm))
        unit = row_norm**2 / situation.records
        moments = unit * _STACK.parts(release.statistics, width + 1)[0]
        centre = moments[1:, 0]
        values, vectors = np.linalg.eigh(moments[1:, 1:] - np.outer(centre, centre))
        kept = np.maximum(values, unit * release.noise * math.sqrt(width))
        step = np.eye(width + 1)
        step[1:, 1:] = vectors / np.sqrt(kept)
        step[0, 1:] = -centre @ step[1:, 1:]
        transform = transform @ step
        row_norm = math.sqrt(_ROOM * (1.0 + float(np.sum(np.clip(values, 0.0, None) / kept))))
    return _Turn(transform[:, 1:], row_norm)


def _network(situation: Situation) -> SkipNetwork:
    """As many hidden units as noise can bear, and no more than were asked for."""
    inner = situation.features - 1
    most = min(_PARAMETER_SHARE * situation.records * situation.mu, _MOST_PARAMETERS)
    return SkipNetwork(min(situation.settings["hidden"][0], hidden_units(most, inner)))


def _share_of_check(situation: Situation) -> float:
    return _CHECK if situation.records * situation.mu > _FEW else _CHECK_OF_FEW


def _steps_spec(situation: Situation) -> Spec:
    mu = situation.mu * math.sqrt((1.0 - _WHITENING - _share_of_check(situation)) / _ROUNDS)
    size = _network(situation).size(situation.features - 1)
    steps = ListSchedule(tuple(np.linspace(_FIRST_STEP, _LAST_STEP, _ROUNDS).tolist()))
    return sums_over_all(situation, _GRADIENTS, _ROUNDS, _CLIP * math.sqrt(size), mu, step_size=steps)


def _check_spec(situation: Situation) -> Spec:
    """One sum of numbers between -1/2 and 1/2, or sums of pairs for the steepness."""
    numbers = situation.classes is None
    query, bound, rounds = (_SQUARES, 0.5, 1) if numbers else (_STEEPNESS, LENGTH, ROUNDS)
    mu = situation.mu * math.sqrt(_share_of_check(situation) / rounds)
    return sums_over_all(situation, query, rounds, bound, mu)


def _residual_variance(situation: Situation, spec: Spec, residuals: Array, sources: Sources) -> float:
    """The mean of squared residuals, noised, half a standard deviation of its noise added: rarely much too small."""
    squares = np.minimum(residuals**2, _LARGEST_VARIANCE)
    total = np.array([digits(squares - 0.5).astype(np.int64).sum()])
    rounds = ExactRounds(spec, _SQUARES, len(residuals), 1, sources.fresh())
    noised = float(rounds.noised(0, total, -DIGITS)[0])
    mean_square = 0.5 + (noised + 0.5 * rounds.scale(0)) / situation.records
    return float(np.clip(mean_square, _LEAST_VARIANCE, _LARGEST_VARIANCE))


def _steepness(situation: Situation, spec: Spec, scores: Array, codes: Array, sources: Sources) -> float:
    """The factor of the log-odds with the least loss, by two noised steps."""
    rounds = ExactRounds(spec, _STEEPNESS, len(codes), 2, sources.fresh())

    def noised_mean(given: Array, k: int) -> Array:
        return rounds.noised(k, digits(given).astype(np.int64).sum(axis=0), -DIGITS) / situation.records

    both = np.column_stack([np.zeros(len(scores)), scores])
    return temperature(both, codes.astype(np.int64), noised_mean)


def _draws(situation: Situation, release: NaturalRelease, turn: _Turn, variance: float, factor: float) -> Array:
    """Draws of all parameters; the output layer carries the units of the target, or the steepness."""
    inner, hidden = situation.features - 1, release.network.hidden
    spread = math.sqrt(variance / situation.records + release.wander)
    standard = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(release.theta)))
    # Draws in pairs of opposite sign: their mean is the network found.
    standard[1::2] = -standard[::2]
    found = release.theta + spread * standard @ release.spread
    found[:, hidden * (inner + 1) :] *= factor
    # The map takes encoded rows, whose numbers are in [-1, 1].
    own = np.concatenate([turn.transform[:1], _HALF_WIDTH * turn.transform[1:]]).ravel()
    return np.concatenate([np.tile(own, (_DRAWS, 1)), found], axis=1).astype(np.float32)


def _predicted(situation: Situation) -> Predicted:
    """By a formula: a share of the constant's error, and what noise adds to it with so many parameters."""
    constant = constant_error(situation, stand_in(situation))
    size = _network(situation).size(situation.features - 1)
    return Predicted(constant * min(1.5, 0.3 + 2.0 * size / (situation.records * situation.mu)), constant)
