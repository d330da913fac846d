"""Replay of whole fits: no record moves a noised call of an estimator further than its certificate says.

For each method and relation, real fits on D are recorded and D's answers are replayed into fits on D'. The shift of
every call is at most the planned one; calls, shapes, scales and releases are the same to the last bit; and where the
plan can be reached it is, so that a plan twice too small, or code that moves twice as far, fails.
"""

import math

import numpy as np
import pytest
from scipy import stats

from sordino.auditing.replay.plan import planned_calls
from sordino.auditing.replay.port import Recorder
from sordino.core.bound import Relation, View
from sordino.core.guarantee import GaussianDP
from sordino.estimators.fit import ESTIMATORS
from sordino.fitting.tasks.base import AUTO, AUTO_OR_CONSTANT, MODELS
from sordino.noise.randomness import Law
from tests.replay.estimator_cases import CASES, DELTA, Bench


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    """One for all cases: kernels are compiled for a recorder."""
    return Recorder()


def test_every_method_of_every_estimator_has_a_case():
    wanted = {(model, method) for model in ESTIMATORS for method in (AUTO, *MODELS[model][0].methods)}
    chosen = {(model, word) for model in ESTIMATORS for word in (AUTO, AUTO_OR_CONSTANT)}
    assert {(case.model, case.method) for case in CASES} == wanted - chosen


# Each of these has a shorter twin that runs the same code in every run of the tests.
_TWINS = (
    "network-classifier-natural-3",
    "network-regressor-natural-named",
    "network-classifier-dp-vi-3",
    "logistic-ridge-3",
    "logistic-ridge-2-named",
    "logistic-bounded-influence-3",
)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if case.name in _TWINS else ()) for case in CASES],
    ids=lambda case: case.name,
)
def test_neighbours_move_no_call_beyond_its_plan_and_some_reach_it(case, relation, recorder):
    bench = Bench(case, relation, recorder)
    reached, noise = 0.0, {}
    for name, recording, found in bench.pairs():
        assert found.faults == (), name
        assert found.excesses() == {}, name
        reached = np.maximum(reached, _by_part(bench.spec, [shift.ratio for shift in found.shifts]))
        noise[recording.seed] = recording.deviations()
    assert len(reached) == len(case.floors(relation))
    assert np.all(reached >= case.floors(relation)), reached
    _check_noise(np.concatenate(list(noise.values())))
    _check_certificate(bench)


def _by_part(spec, ratios):
    """The largest ratio among the calls of each part of the run."""
    lengths = [len(planned_calls(part)) for part in spec.runs()]
    return np.array([max(part) for part in np.split(np.array(ratios), np.cumsum(lengths)[:-1])])


def _check_noise(deviations):
    """Noise has the scale that the port was told: by its squares, with a false-alarm rate of 2e-9 over random seeds."""
    if deviations.size:
        tails = stats.chi2(deviations.size).ppf([1e-9, 1 - 1e-9])
        assert tails[0] <= np.sum(deviations**2) <= tails[1]


def _check_certificate(bench):
    """The plans of all calls together are what the release certifies; hidden iterates certify less: not compared."""
    if bench.spec.view is View.LAST_ITERATE:
        return
    plans, stated = planned_calls(bench.spec), bench.release.bound.guarantee.epsilon(DELTA)
    gaussian = [plan.bound for plan in plans if plan.law is Law.GAUSSIAN]
    if gaussian:
        assert len(gaussian) == len(plans)
        assert stated >= GaussianDP(float(np.linalg.norm(gaussian))).epsilon(DELTA) * (1 - 1e-9)
    else:  # two Laplace laws apart by so much have delta = 1 - exp((epsilon - apart) / 2)
        (apart,) = (plan.bound for plan in plans)
        assert stated >= apart + 2 * math.log1p(-DELTA) - 1e-9
    assert stated <= bench.case.epsilon
