"""Named chains translate the papers' parameters as the table of the design says, and have no default that matters."""

import math

import numpy as np
import pytest

from sordino import InputError, Relation, View
from sordino.core.spec import (
    Batch,
    Clipping,
    ClippingKind,
    GaussianNoise,
    ListSchedule,
    PolynomialSchedule,
    Problem,
    Scheme,
    Spec,
)
from sordino.mechanisms import dp_sgd, heavy_tailed_sgd, noisy_gd, noisy_sgd, sgld, ula
from sordino.models.exact import Quadratics, chain_law

N = 500
PROBLEM = Problem(n=N, dim=3)
COMMON = {"steps": 6, "relation": Relation.REPLACE_ONE, "view": View.LAST_ITERATE}
POISSON = Batch(Scheme.POISSON, 50)
CLIP = Clipping(ClippingKind.NORM, 2.0)
STEP = 0.004


def numbers(spec):
    assert isinstance(spec, Spec)
    algorithm = spec.algorithm
    return algorithm.step_size.values(6), algorithm.noise.scale.values(6)


@pytest.mark.parametrize(
    ("spec", "eta", "tau"),
    [
        (sgld(PROBLEM, step=STEP, batch=POISSON, **COMMON), N * STEP / 2, math.sqrt(STEP)),
        (ula(PROBLEM, step=STEP, **COMMON), N * STEP, math.sqrt(2 * STEP)),
        (noisy_gd(PROBLEM, step_size=0.1, sigma=0.3, **COMMON), 0.1, math.sqrt(2 * 0.1) * 0.3),
        (noisy_gd(PROBLEM, step_size=0.1, noise_scale=0.3, **COMMON), 0.1, 0.3),
        (noisy_sgd(PROBLEM, step_size=0.1, inverse_temperature=8.0, batch=POISSON, **COMMON), 0.1, math.sqrt(0.2 / 8)),
        (noisy_sgd(PROBLEM, step_size=0.1, sigma=0.3, batch=POISSON, **COMMON), 0.1, math.sqrt(0.2) * 0.3),
        (
            dp_sgd(PROBLEM, step_size=0.1, noise_multiplier=1.5, clip_norm=2.0, batch=POISSON, **COMMON),
            0.1,
            0.1 * 1.5 * 2 / 50,
        ),
        (
            dp_sgd(PROBLEM, step_size=0.1, noise_multiplier=1.5, clip_norm=2.0, batch=Batch(Scheme.FULL), **COMMON),
            0.1,
            0.3 / N,
        ),
        (heavy_tailed_sgd(PROBLEM, step_size=0.1, alpha=1.5, sigma=0.3, batch=POISSON, **COMMON), 0.1, 0.3),
    ],
)
def test_step_size_and_noise_scale(spec, eta, tau):
    step_sizes, scales = numbers(spec)
    np.testing.assert_allclose(step_sizes, eta, rtol=1e-12)
    np.testing.assert_allclose(scales, tau, rtol=1e-12)
    assert Spec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("step", [PolynomialSchedule(0.01, 2.0, 0.55), ListSchedule((0.3, 0.2, 0.1, 0.4, 0.5, 0.6))])
def test_a_schedule_of_steps_becomes_schedules_of_both(step):
    values = step.values(6)
    step_sizes, scales = numbers(sgld(PROBLEM, step=step, batch=POISSON, **COMMON))
    np.testing.assert_allclose(step_sizes, N * values / 2, rtol=1e-12)
    np.testing.assert_allclose(scales, np.sqrt(values), rtol=1e-12)


def test_what_the_names_say_is_in_the_spec():
    assert sgld(PROBLEM, step=STEP, batch=POISSON, clipping=CLIP, **COMMON).algorithm.clipping == CLIP
    assert ula(PROBLEM, step=STEP, **COMMON).algorithm.batch == Batch(Scheme.FULL)
    private = dp_sgd(PROBLEM, step_size=0.1, noise_multiplier=1.5, clip_norm=2.0, batch=POISSON, **COMMON)
    assert private.algorithm.clipping == CLIP
    assert isinstance(private.algorithm.noise, GaussianNoise)
    heavy = heavy_tailed_sgd(PROBLEM, step_size=0.1, alpha=1.5, sigma=0.3, batch=POISSON, **COMMON)
    assert heavy.algorithm.noise.alpha == 1.5


@pytest.mark.parametrize("absent", ["relation", "view", "steps"])
def test_relation_view_and_steps_have_no_default(absent):
    given = {name: value for name, value in COMMON.items() if name != absent}
    with pytest.raises(TypeError, match=absent):
        ula(PROBLEM, step=STEP, **given)


def test_exactly_one_way_of_stating_the_noise():
    for noise in ({}, {"sigma": 0.1, "noise_scale": 0.1}):
        with pytest.raises(InputError, match="exactly one"):
            noisy_gd(PROBLEM, step_size=0.1, **noise, **COMMON)


def test_bad_numbers_are_refused_by_name():
    with pytest.raises(InputError, match="sigma"):
        noisy_gd(PROBLEM, step_size=0.1, sigma=-1.0, **COMMON)
    with pytest.raises(InputError, match="step"):
        ula(PROBLEM, step=0.0, **COMMON)
    with pytest.raises(InputError, match=r"problem\.n"):
        ula(Problem(dim=3), step=0.1, **COMMON)


def test_full_batch_sgld_is_ula_at_half_the_step_and_both_settle_at_their_known_variance():
    """The law of the described chain, exactly: 1 / (P (1 - h P / 2)) around the posterior mean, P its precision.

    `test_moments` compares what runs with that law.
    """
    rows, target, prior = np.array([0.9, -0.4, 0.3, 1.2, -0.8]), np.array([1.0, -0.8, 0.4, 0.9, -0.1]), 0.5
    precision = float(rows @ rows) + prior
    data = Quadratics.from_records((rows**2)[:, None, None], (rows * target)[:, None], prior / 5)
    for part in (0.4, 0.1):
        step, given = part / precision, {**COMMON, "steps": 2000}
        unadjusted = ula(Problem(n=5, dim=1), step=step, **given)
        langevin = sgld(Problem(n=5, dim=1), step=2.0 * step, batch=Batch(Scheme.FULL), **given)
        for law in (chain_law(unadjusted, data), chain_law(langevin, data)):
            assert law.mean == pytest.approx([float(rows @ target) / precision])
            assert law.covariance[0] == pytest.approx([1.0 / (precision * (1.0 - part / 2.0))])
