"""Variational inference: exact where the answer is known, its noise as described, its sensitivity as certified."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino import InputError, Spec
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.networks.training import Descent
from sordino.mechanisms.rounds import Public, RoundRows
from sordino.mechanisms.variational.evidence_bound import (
    EvidenceGradients,
    FactorisedGaussian,
    PointMass,
    VariationalInputs,
    VariationalOptions,
    VariationalState,
    run_variational,
)
from sordino.models import GaussianLinear, JaxModel, Logistic, MLPClassification, MLPRegression
from sordino.models.contributions import RowSizes, whole_rows
from sordino.noise.lattice import in_doubles
from sordino.noise.randomness import SeededRandomness
from tests.mechanisms.specs import rounds_spec


def described(records: int, steps: int, **values) -> Spec:
    return rounds_spec("variational", records, **{"steps": steps, "clip": 1e4, "step_size": 0.05, **values})


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 3))
    return X, X @ np.array([0.5, -1.0, 0.2]) + 0.5 * rng.standard_normal(400)


def test_the_best_independent_gaussians_of_a_conjugate_posterior(regression):
    """Their means are the posterior's, their precisions the diagonal of its precision matrix."""
    X, y = regression
    prior, noise = 2.0, 4.0
    model = GaussianLinear(noise_precision=noise, weight_decay=prior / len(X))
    steps = 4000
    decay = {"kind": "list", "values": np.linspace(0.05, 1e-4, steps).tolist()}
    options = VariationalOptions(averaged=0.3)
    spec = described(len(X), steps, step_size=decay)
    release = run_variational(spec, model, X, y, SeededRandomness(1), options=options)
    precision = noise * X.T @ X + prior * np.eye(3)
    exact = np.linalg.solve(precision, noise * X.T @ y)
    # Averages over 1,200 rounds; the tolerance is some five of their standard errors.
    assert release.posterior.mean == pytest.approx(exact, abs=0.02)
    assert np.sqrt(release.posterior.variance) == pytest.approx(1 / np.sqrt(np.diag(precision)), rel=0.2)


def test_a_point_is_the_largest_posterior_density(regression):
    X, _ = regression
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.1, 1.0, -1.0)
    model = Logistic(weight_decay=0.05)
    options = VariationalOptions(family=PointMass(), optimiser=Descent(1.0, 0.9), start_scale=0.0)
    release = run_variational(described(len(X), 1500), model, X, y, SeededRandomness(0), options=options)
    gradient = np.asarray(jax.jit(jax.vmap(model.gradient, (None, 0, 0)))(release.phi, X, y)).mean(0)
    assert gradient + 0.05 * release.phi == pytest.approx(np.zeros(3), abs=1e-4)
    np.testing.assert_array_equal(release.posterior.mean, release.phi)


MODELS = {
    "linear": (GaussianLinear(), 3),
    "regression network": (MLPRegression(hidden=(5, 4)), 3),
    "classification network": (MLPClassification(hidden=(6,), classes=3, activation="relu"), 3),
    "any loss": (JaxModel(lambda theta, x, y: jnp.log1p(jnp.exp(-y * jnp.tanh(x @ theta))), parameters=3), 3),
}


def summed_in_phi(model, phi, standard, rows, clip):
    """The clipped sum over given rows as a round computes it."""
    with in_doubles():
        return np.asarray(
            _summed(model, *(jnp.asarray(np.asarray(part, float)) for part in (phi, standard, *rows, clip)))
        )


@partial(jax.jit, static_argnums=0)
def _summed(model, phi, standard, X, y, present, clip):
    whole = whole_rows(X)
    given = SomeRows(whole.rows, y, RowSizes(*whole[1:]), present)
    public = Public(clip, jnp.asarray(1.0), jnp.asarray(1.0))
    inputs = VariationalInputs(jnp.asarray(0.1), standard, jnp.asarray(0.0))
    every = RoundRows(X.shape[1], True, lambda size, of_rows: of_rows(given))
    total = EvidenceGradients(model, VariationalOptions()).total(public, VariationalState(phi, (), phi), inputs, every)
    return total.high + total.low


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "network" in name else ()) for name in MODELS]
)
def test_the_clipped_sum_is_the_sum_of_clipped_stacked_gradients(name):
    model, features = MODELS[name]
    rng = np.random.default_rng(7)
    dim, family = model.dim(features), FactorisedGaussian()
    X, y = rng.standard_normal((20, features)).astype(np.float32), rng.integers(0, 3, 20).astype(np.float32)
    phi = np.concatenate([rng.standard_normal(dim), rng.uniform(-1, 1, dim)]).astype(np.float32)
    standard = rng.standard_normal(dim).astype(np.float32)
    rows = rng.integers(0, 2, 20).astype(np.float32)
    theta = jax.jit(family.theta)(phi, standard)
    gradients = np.asarray(jax.jit(jax.vmap(model.gradient, (None, 0, 0)))(theta, X, y), np.float64)
    stacked = np.concatenate([gradients, gradients * np.exp(phi[dim:]) * standard], axis=1)
    bound = float(np.median(np.linalg.norm(stacked, axis=1)))
    cut = stacked * (bound / np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), bound))
    found = summed_in_phi(model, phi, standard, (X, y, rows), bound)
    assert found == pytest.approx(rows @ cut, rel=2e-4, abs=2e-4 * bound)


@pytest.mark.parametrize(("relation", "clips"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_the_noise_is_the_multiplier_times_the_sensitivity_over_the_divisor(relation, clips):
    """Zero rows have zero gradients, so one step of descent releases the noise alone. False-alarm rate about 1e-6."""
    records, clip, multiplier, step = 50, 0.5, 3.0, 2.0
    spec = described(records, 1, relation=relation, clip=clip, noise_multiplier=multiplier, step_size=step)
    options = VariationalOptions(family=PointMass(), optimiser=Descent(1.0), start_scale=0.0)
    model, X, y = GaussianLinear(), np.zeros((records, 400)), np.zeros(records)
    phi = run_variational(spec, model, X, y, SeededRandomness(5), options=options).phi
    expected = step * multiplier * clips * clip / records
    assert np.std(phi) == pytest.approx(expected, rel=4.9 / np.sqrt(2 * phi.size))


@pytest.mark.every(4)
@pytest.mark.parametrize("sampling", ["poisson", "full", "without-replacement", "passes"])
def test_every_sampling_and_every_iterate(regression, sampling):
    X, y = regression
    values = {} if sampling == "full" else {"batch": 30}
    spec = described(len(X), 23, sampling=sampling, clip=1.0, noise_multiplier=5.0, view="all-iterates", **values)
    release = run_variational(spec, GaussianLinear(), X, y, SeededRandomness(0), options=VariationalOptions())
    assert release.iterates is not None
    assert release.iterates.shape == (23, 6)
    assert np.array_equal(release.iterates[-1], release.phi)


def test_wrong_rows_are_refused(regression):
    X, y = regression
    with pytest.raises(InputError, match=r"algorithm\.records = 10 under replace-one"):
        run_variational(described(10, 5), GaussianLinear(), X, y, SeededRandomness(0), options=VariationalOptions())
    with pytest.raises(InputError, match="first_deviation"):
        FactorisedGaussian(first_deviation=1e-6)


@pytest.mark.every(2)
@pytest.mark.parametrize("family", [FactorisedGaussian(), PointMass()], ids=["gaussian", "point"])
def test_replacing_a_record_of_a_whole_run_moves_its_sum_by_two_clips_at_most(family):
    """Of blocks as large as runs have: compiled programs multiply matrices otherwise there than in small tests.

    The record is pulled one way in one table and the other way in the next, so the sums are two whole clips apart.
    Compiled by JAX 0.10.2, a product with a matrix of ones made lengths too short, and this distance 2.59 clips.
    """
    rows, clip = 600, 0.3
    rng = np.random.default_rng(11)
    X, y, far = rng.standard_normal((rows, 9)), rng.standard_normal(rows), 100.0
    model = MLPRegression(weight_decay=0.0, hidden=(10,), activation="tanh")
    options = VariationalOptions(family=family, optimiser=Descent(1.0), start_scale=0.3)
    spec = described(rows, 1, clip=clip, noise_multiplier=1e-9, step_size=1.0)
    ends = []
    for pull in (far, -far):
        neighbour = np.append(y[1:], pull)
        ends.append(run_variational(spec, model, X, neighbour, SeededRandomness(5), options=options).phi)
    apart = rows * np.linalg.norm(np.float64(ends[0]) - np.float64(ends[1])) / clip
    assert 1.9 < apart <= 2.0 + 1e-4
