"""The accountant alone: its runs are the specs one would write, and its numbers those of the theorems and of a peer."""

import math
from functools import partial

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from sordino import InputError, accounting
from sordino.accounting import ApproxDP, GaussianDP, PureDP, RenyiDP, TotalVariation, subsample
from sordino.core.spec import Participation, ParticipationScheme, Problem
from sordino.core.spec.matrices import TreeStrategy

DELTA = 1e-6


@pytest.mark.parametrize(("multiplier", "rate", "steps"), [(1.1, 0.01, 1000), (4.0, 0.3, 50)])
def test_dp_sgd_is_what_dp_accounting_says(multiplier, rate, steps):
    run = accounting.dp_sgd(noise_multiplier=multiplier, sampling_rate=rate, steps=steps, relation="add-remove")
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(multiplier))
    theirs = PLDAccountant().compose(event, steps).get_epsilon(DELTA)
    assert theirs * 0.995 - 1e-3 <= run.epsilon(DELTA) <= theirs * 1.001
    assert 0.98 * DELTA <= run.delta(run.epsilon(DELTA)) <= DELTA * 1.001


def test_composition_adds_up_and_keeps_one_relation():
    once = accounting.gaussian(noise_multiplier=2.0, relation="add-remove")
    four = once.compose(once, times=2)
    assert four.epsilon(DELTA) == pytest.approx(GaussianDP(1.0).epsilon(DELTA), rel=1e-6)
    assert four.compose(once).epsilon(DELTA) == pytest.approx(GaussianDP(math.sqrt(5) / 2).epsilon(DELTA), rel=1e-6)
    with pytest.raises(InputError, match="different relations"):
        once.compose(accounting.gaussian(noise_multiplier=2.0, relation="replace-one"))


@pytest.mark.parametrize(
    "run",
    [
        accounting.gaussian(noise_multiplier=1.0, relation="add-remove", times=3),
        accounting.laplace(scale=1.0, relation="add-remove", times=3),
        accounting.dp_sgd(noise_multiplier=1.0, records=500, scheme="full", steps=20, relation="replace-one"),
        accounting.matrix(
            noise_multiplier=1.0,
            steps=16,
            strategy=TreeStrategy(),
            participation=Participation(ParticipationScheme.SINGLE),
            relation="add-remove",
        ),
    ],
    ids=["gaussian", "laplace", "dp-sgd", "matrix"],
)
def test_calibrated_noise_meets_the_target_and_hardly_more(run):
    assert 0.69 < run.calibrate(epsilon=0.7, delta=DELTA).epsilon(DELTA) <= 0.7


@pytest.mark.parametrize("scheme", ["poisson", "without-replacement"])
def test_a_run_needs_its_batches_said_once(scheme):
    words = {"noise_multiplier": 1.0, "steps": 10, "relation": "add-remove", "scheme": scheme}
    with pytest.raises(InputError, match="exactly one of the two"):
        accounting.dp_sgd(**words)
    with pytest.raises(InputError, match="exactly one of the two"):
        accounting.dp_sgd(**words, sampling_rate=0.1, batch_size=10, records=100)
    if scheme != "poisson":
        with pytest.raises(InputError, match="not sampling_rate"):
            accounting.dp_sgd(**words, sampling_rate=0.1)


def test_a_run_without_a_theorem_is_refused_in_a_sentence():
    run = accounting.noisy_gd(
        Problem(n=10, dim=2), step_size=0.5, noise_scale=0.1, steps=3, relation="replace-one", view="all-iterates"
    )
    with pytest.raises(InputError, match="finite epsilon"):
        run.epsilon(DELTA)
    assert run.delta(1.0) == 1.0


@pytest.mark.parametrize("rate", [0.01, 0.9, 1.0])
def test_subsampling_is_above_the_exact_sampled_gaussian_and_below_no_sampling(rate):
    for multiplier in (0.8, 2.0):
        exact = accounting.gaussian(
            noise_multiplier=multiplier, relation="add-remove", sampling_rate=rate if rate < 1 else None
        )
        bound = subsample(GaussianDP(1 / multiplier), rate, "add-remove")
        for delta in (1e-3, 1e-8):
            assert exact.epsilon(delta) <= bound.epsilon(delta) * (1 + 1e-9) + 1e-12
            assert bound.epsilon(delta) <= max(GaussianDP(1 / multiplier).epsilon(delta), 1e-4) * 1.05
        assert bound.epsilon(1e-8) <= exact.epsilon(1e-8) * 1.05 + 1e-4


def test_subsampling_of_single_points_and_of_curves():
    sampled = partial(subsample, rate=0.1, relation="add-remove")
    assert sampled(PureDP(2.0), rate=0.5).epsilon(1e-9) == pytest.approx(math.log1p(0.5 * math.expm1(2.0)))
    assert sampled(ApproxDP(1.0, 1e-4)).delta(math.log1p(0.1 * math.expm1(1.0)) + 1e-12) == pytest.approx(1e-5)
    assert sampled(TotalVariation(0.2)).delta(0.0) == pytest.approx(0.02)
    assert sampled(PureDP(1000.0), rate=0.5).epsilon(1e-9) >= 999.999
    assert (
        0.0 < sampled(RenyiDP((2.0, 4.0), (0.1, 0.2))).epsilon(DELTA) < RenyiDP((2.0, 4.0), (0.1, 0.2)).epsilon(DELTA)
    )
    with pytest.raises(InputError, match="rate"):
        sampled(PureDP(1.0), rate=0.0)
    with pytest.raises(InputError, match="add-remove"):  # if the draw shows, two records differ by all of epsilon
        sampled(PureDP(1.0), relation="replace-one")
