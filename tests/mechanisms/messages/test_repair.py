"""Repairs make precisions definite, leave definite ones alone, and are counted."""

from functools import partial

import jax
import numpy as np
import pytest

from papers.vinaroz_park.refinements import ShiftSpectrum, SkipRound
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.messages import (
    CentredCoordinates,
    Prior,
    RaiseAroundMean,
    Refinement,
    Repair,
    run_message_passing,
)
from sordino.models.message_passing.gaussians import BlockGaussian, DiagonalGaussian, Natural
from sordino.models.message_passing.sites import GaussianSite

BLOCK, DIAGONAL = BlockGaussian(2), DiagonalGaussian(2, 1)
LINEAR = np.array([0.5, -1.0])


def block(eigenvalues):
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    precision = turn @ np.diag(eigenvalues) @ turn.T
    return jax.jit(BLOCK.pack)(Natural(LINEAR[None], precision[None], np.zeros(0)))


def diagonal(precisions, gamma=(3.0, -2.0)):
    return jax.jit(DIAGONAL.pack)(Natural(LINEAR, np.array(precisions), np.array(gamma)))


@pytest.mark.parametrize(
    ("repair", "expected"), [(Repair(0.1), [0.1, 3.0]), (ShiftSpectrum(0.1), [0.1, 5.1]), (SkipRound(0.1), [1.0, 2.0])]
)
def test_each_repair_does_what_it_says_to_a_full_matrix(repair, expected):
    with jax.enable_x64(True):
        fixed, number = jax.jit(partial(repair, BLOCK))(block([-2.0, 3.0]), block([1.0, 2.0]))
        np.testing.assert_allclose(np.linalg.eigvalsh(BLOCK.unpack(fixed).precision[0]), expected, atol=1e-12)
        assert int(number) == 1
        np.testing.assert_allclose(BLOCK.unpack(fixed).linear[0], LINEAR)


@pytest.mark.parametrize("repair", [Repair(0.1), ShiftSpectrum(0.1), SkipRound(0.1)])
def test_what_needs_no_repair_is_not_touched(repair):
    for family, theta in ((BLOCK, block([0.2, 3.0])), (DIAGONAL, diagonal([0.2, 3.0]))):
        fixed, number = jax.jit(partial(repair, family))(theta, np.zeros_like(theta))
        np.testing.assert_array_equal(fixed, theta)
        assert int(number) == 0


@pytest.mark.parametrize("low", [-5.0, 0.05])
def test_raised_around_the_mean_a_step_moves_the_mean_by_its_own_push(low):
    """A step to precision L' and linear part m L' + g leaves m + g / r after L' was raised to r = .1."""
    mean, push = np.array([2.0, -1.0]), np.array([0.3, 0.4])
    with jax.enable_x64(True):
        turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
        precision = turn @ np.diag([low, 3.0]) @ turn.T
        theta = BLOCK.pack(Natural((precision @ mean + push)[None], precision[None], np.zeros(0)))
        before = BLOCK.pack(Natural(mean[None], np.eye(2)[None], np.zeros(0)))
        fixed, number = jax.jit(partial(RaiseAroundMean(0.1), BLOCK))(theta, before)
        expected = mean + turn @ np.diag([10.0, 1 / 3]) @ turn.T @ push
        np.testing.assert_allclose(BLOCK.moments(fixed).mean[0], expected)
        assert int(number) == 1
        plain = np.array([low, 3.0])
        theta = DIAGONAL.pack(Natural(plain * mean + push, plain, np.array([3.0, -2.0])))
        before = DIAGONAL.pack(Natural(mean, np.ones(2), np.array([3.0, -2.0])))
        fixed, _ = RaiseAroundMean(0.1)(DIAGONAL, theta, before)
        np.testing.assert_allclose(DIAGONAL.moments(fixed).mean, mean + push / [0.1, 3.0])


def test_low_precisions_shapes_and_rates_are_each_counted():
    fixed, number = Repair(0.1)(DIAGONAL, diagonal([-1.0, 0.05], (-0.5, 1.0)), diagonal([1.0, 1.0]))
    assert int(number) == 4
    moments = DIAGONAL.moments(fixed)
    assert (moments.covariance > 0).all()
    assert float(moments.shape[0]) > 1.0
    assert float(moments.rate[0]) > 0.0


@pytest.mark.every(3)
@pytest.mark.parametrize("repair", [Repair(0.5), ShiftSpectrum(0.5), SkipRound(0.5)])
@pytest.mark.parametrize(
    "site",
    [pytest.param(GaussianSite(), marks=pytest.mark.slow), GaussianSite(diagonal=True)],
    ids=["full", "diagonal"],
)
def test_a_drowned_run_reports_its_repairs_and_stays_definite(spec, rows, repair, site):
    """Noise fifty times the prior's precision: almost every round has to be repaired, and the release says so."""
    described = spec(21, "full", steps=20, damping=21.0, noise_multiplier=50.0)
    release = run_message_passing(
        described, site, *rows, SeededRandomness(0), prior=Prior(1.0), refinement=Refinement(repair=repair)
    )
    assert 5 <= release.repairs.rounds <= 20
    assert release.repairs.eigenvalues >= release.repairs.rounds
    # The average message is shortened after the repair, towards the prior, which is above the floor.
    assert 1.0 / np.linalg.eigvalsh(release.posterior.covariance).max() >= 0.5 * (1 - 1e-4)


def test_a_run_that_overflows_is_taken_back_and_counted(spec, rows):
    """Noise beyond the range of single precision: every round is taken back, and the posterior is still the prior."""
    described = spec(21, "full", steps=5, damping=21.0, noise_multiplier=1e4, clip=1e35)
    refinement = Refinement(CentredCoordinates(0.1))
    release = run_message_passing(
        described, GaussianSite(diagonal=True), *rows, SeededRandomness(0), prior=Prior(1.0), refinement=refinement
    )
    assert release.repairs.rounds == 5
    np.testing.assert_array_equal(release.posterior.mean, np.zeros(2))
    np.testing.assert_array_equal(release.posterior.variance, np.ones(2))
