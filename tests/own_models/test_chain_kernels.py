"""DP-SGLD and DP-HMC: kernels for NumPyro's MCMC, their noise, their certificate, and where their chains settle."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import sordino
from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.variational.chain_kernels import (
    DPHMC,
    DPSGLD,
    NO_INTERVALS,
    Dynamics,
    noised_gradient,
    run_chains,
)
from sordino.model.own.numpyro_program import NumPyroProgram
from sordino.model.own.records import pack, read_layout

N = 3000
BUDGET = {"epsilon": 4.0, "delta": 1e-5, "relation": "replace-one"}


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)


def data():
    generator = np.random.default_rng(2)
    x = generator.normal(size=N)
    return {"x": x, "y": 0.7 * x + generator.normal(size=N)}


DATA = data()
LAYOUT = read_layout(DATA)
OWN = NumPyroProgram(model, LAYOUT)
ROWS = pack(LAYOUT, DATA)


@pytest.mark.parametrize("kind", [DPSGLD, DPHMC])
def test_numpyros_mcmc_runs_a_kernel_with_secure_noise(kind):
    kernel = kind(model, records=N, steps=120, clip=3.0, **BUDGET)
    assert 3.99 < sordino.certify(kernel.spec).epsilon <= 4.0
    with jax.enable_x64(True):
        mcmc = numpyro.infer.MCMC(kernel, num_warmup=60, num_samples=60, progress_bar=False)
        mcmc.run(sordino.secure_key(), **DATA)
        draws = np.asarray(mcmc.get_samples()["slope"])
        assert kernel.cautions(mcmc.last_state) == (NO_INTERVALS,)
        assert draws.shape == (60,)
        assert abs(draws.mean() - 0.7) < 0.2
        with pytest.raises(sordino.InputError, match="make another kernel"):
            mcmc.run(sordino.secure_key(), **DATA)


def test_a_seeded_chain_is_marked_and_steps_beyond_the_plan_are_no_numbers():
    kernel = DPSGLD(model, records=N, steps=5, clip=3.0, **BUDGET)
    with jax.enable_x64(True):
        mcmc = numpyro.infer.MCMC(kernel, num_warmup=0, num_samples=7, progress_bar=False)
        mcmc.run(jax.random.key(0), **DATA)
        draws = np.asarray(mcmc.get_samples()["slope"])
        seeded, intervals = kernel.cautions(mcmc.last_state)
        assert "NON-PRIVATE" in seeded
        assert intervals == NO_INTERVALS
    assert np.isfinite(draws).tolist() == [True] * 5 + [False] * 2


def test_a_chain_settles_at_the_posterior_with_its_width():
    """Little is clipped and the posterior known: mean within 5 errors, deviation within 15 % (false alarms < 1e-5)."""
    x, y = DATA["x"], DATA["y"]
    precision = 1.0 + np.sum(x * x)
    mean, deviation = np.sum(x * y) / precision, 1.0 / math.sqrt(precision)
    for friction, step_size in ((1.0, 0.2 / precision), (0.2, 0.03 / precision)):
        dynamics = Dynamics.of(30.0, 0.1, friction, step_size)
        with in_doubles():
            keys = list(jax.random.split(jax.random.key(5), 2))
            draws = run_chains(OWN, dynamics, 4000, ROWS[:, :], keys, 500, 1).ravel()
        assert abs(draws.mean() - mean) < 5.0 * deviation / math.sqrt(len(draws) / 40.0)
        assert abs(draws.std() / deviation - 1.0) < 0.15


def test_the_gradient_is_the_naive_clipped_sum_and_its_noise_that_of_the_plan():
    dynamics, theta = Dynamics.of(1.2, 40.0, 1.0), np.array([0.3])
    each = -(DATA["y"] - theta[0] * DATA["x"]) * DATA["x"]
    expected = np.clip(each, -1.2, 1.2).sum() + theta[0]
    with in_doubles():
        step = jax.jit(lambda key: noised_gradient(OWN, dynamics, jnp.asarray(ROWS), jnp.asarray(theta), key))
        found = np.array([float(step(key)[0]) for key in jax.random.split(jax.random.key(1), 400)])
    assert (np.abs(each) > 1.2).sum() > 100
    # 400 draws: 5 errors of the mean, and 18 % of the deviation; false alarms below 1e-6.
    assert abs(found.mean() - expected) < 5.0 * 48.0 / 20.0
    assert abs(found.std() / 48.0 - 1.0) < 0.18


def test_a_plan_counts_the_steps_of_all_its_chains_and_runs_with_its_noise():
    kernel = DPSGLD(model, records=N, steps=50, chains=3, clip=3.0, **BUDGET)
    assert kernel.spec.algorithm.rounds == 150
    assert kernel.dynamics.noise == kernel.spec.algorithm.sum_noise[0]
    assert sordino.certify(kernel.spec).epsilon <= 4.0


def test_chains_that_begin_at_once_are_refused_because_one_call_would_count_them_as_one():
    kernel = DPSGLD(model, records=N, steps=50, chains=3, clip=3.0, **BUDGET)
    with in_doubles():
        keys = jax.random.split(sordino.secure_key(), 3)
        with pytest.raises(sordino.InputError, match="sequential"):
            kernel.init(keys, 0, model_kwargs=DATA)
        with pytest.raises(sordino.InputError, match="sequential"):
            jax.vmap(lambda key: kernel.init(key, 0, model_kwargs=DATA).z)(keys)
        kernel.init(keys[0], 0, model_kwargs=DATA)


def test_no_step_may_be_hotter_than_the_posterior():
    dynamics = Dynamics.of(2.0, 50.0, 0.5)
    assert dynamics.step_size == pytest.approx(2.0 * 0.5 / 100.0**2)
    assert dynamics.public_noise == pytest.approx(0.0, abs=1e-9)
    assert Dynamics.of(2.0, 50.0, 0.5, 5e-5).public_noise > 0.0
    with pytest.raises(sordino.InputError, match="step_size to be at most"):
        Dynamics.of(2.0, 50.0, 0.5, 1e-3)


def test_fit_takes_both_as_methods_and_releases_kept_draws():
    release = sordino.fit(
        model, DATA, **BUDGET, method="hmc", options={"clip": 3.0, "steps": 100, "chains": 2}, draws=100, random_state=0
    )
    assert release.kind == "own-model/hmc"
    assert 3.99 < release.epsilon <= 4.0
    assert not release.private
    assert release.sites["slope"].shape == (2, 50)
    assert abs(release.sites["slope"].mean() - 0.7) < 0.2
    assert any("intervals were seen not to hold, and are withheld" in caution for caution in release.cautions)
    assert all(line["low"] is line["high"] is None for line in release.summary(0.9))
    with pytest.raises(sordino.InputError, match="options with clip"):
        sordino.fit(model, DATA, **BUDGET, method="sgld")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 0}, "steps"),
        ({"clip": -1.0}, "clip"),
        ({"friction": 1.5}, "friction"),
        ({"relation": "swap"}, "relation"),
    ],
)
def test_what_no_chain_can_be_is_refused(arguments, words):
    with pytest.raises(sordino.InputError, match=words):
        DPSGLD(model, **{"records": N, "steps": 10, "clip": 1.0, **BUDGET, **arguments})
