"""Exact laws of chains on quadratics, against plain matrix recursions and simulated chains."""

import itertools
import math

import numpy as np
import pytest

from sordino.core.validate import InputError
from sordino.models.exact import GaussianLaw, GaussianMixtureLaw, Quadratics, chain_law
from tests.models.exact.laws import chain_moments, density, fixed, moments, passes, ridge

SCHEDULES = {
    "step_size": {"kind": "polynomial", "initial": 0.3, "offset": 1.0, "power": 0.5},
    "noise": {"kind": "gaussian", "scale": {"kind": "list", "values": [0.3, 0.1, 0.2, 0.5, 0.4]}},
}


@pytest.fixture
def table(generator):
    return generator.normal(size=(5, 2)), generator.normal(size=5)


def affine_steps(x, y, batches, steps, noises, divisor, decay):
    """The matrices of each step, written as the chain's definition."""
    for batch, size, scale in zip(batches, steps, noises, strict=True):
        curvature = sum((np.outer(x[i], x[i]) for i in batch), np.zeros((2, 2))) / divisor + decay * np.eye(2)
        pull = sum((y[i] * x[i] for i in batch), np.zeros(2)) / divisor
        yield np.eye(2) - size * curvature, size * pull, scale**2 * np.eye(2)


def path_law(maps, mean, covariance):
    """Joint law of all iterates from the definition theta_k = M_k theta_{k-1} + o_k + noise."""
    maps = list(maps)
    means, size = [mean], 2 * (len(maps) + 1)
    joint = np.zeros((size, size))
    joint[:2, :2] = covariance
    for k, (matrix, offset, noise) in enumerate(maps, start=1):
        here, before = slice(2 * k, 2 * k + 2), slice(2 * k - 2, 2 * k)
        means.append(matrix @ means[-1] + offset)
        joint[here, : 2 * k] = matrix @ joint[before, : 2 * k]
        joint[: 2 * k, here] = joint[here, : 2 * k].T
        joint[here, here] = matrix @ joint[before, before] @ matrix.T + noise
    return np.concatenate(means), joint


FIXED = {
    "full": ({"scheme": "full"}, [range(5)] * 5, 5),
    "cyclic": ({"scheme": "cyclic", "size": 2}, [[0, 1], [2, 3], [4], [0, 1], [2, 3]], 2),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("scheme", FIXED)
@pytest.mark.parametrize("schedules", [{}, SCHEDULES], ids=["constant", "scheduled"])
@pytest.mark.parametrize(
    "start", [{"kind": "gaussian", "scale": 0.7}, {"kind": "point", "values": [1.0, -1.0]}], ids=str
)
def test_fixed_orders_agree_with_the_matrix_recursion(table, chain_spec, scheme, schedules, start):
    x, y = table
    batch, batches, divisor = FIXED[scheme]
    data = ridge(x, y, 0.1)
    spec = chain_spec(n=5, dim=2, batch=batch, start=start, **schedules)
    eta, tau = spec.algorithm.step_size.values(5), spec.algorithm.noise.scale.values(5)
    mean, covariance = (
        (np.zeros(2), 0.49 * np.eye(2)) if start["kind"] == "gaussian" else (np.array([1.0, -1.0]), np.zeros((2, 2)))
    )
    means, joint = path_law(affine_steps(x, y, batches, eta, tau, divisor, 0.1), mean, covariance)

    last = chain_law(spec, data)
    assert np.allclose(last.mean, means[-2:], rtol=0, atol=1e-13)
    assert np.allclose(last.covariance, joint[-2:, -2:], rtol=0, atol=1e-13)
    path = chain_law(spec.with_values({"view": "all-iterates"}), data)
    assert np.allclose(path.mean, means[2:], rtol=0, atol=1e-13)
    assert np.allclose(path.covariance, joint[2:, 2:], rtol=0, atol=1e-13)
    thinned = chain_law(spec.with_values({"view": "all-iterates", "algorithm.keep": {"burn_in": 1, "thin": 3}}), data)
    kept = [4, 5, 10, 11]
    assert np.allclose(thinned.covariance, joint[np.ix_(kept, kept)], rtol=0, atol=1e-13)
    release = {"lipschitz": 1.0, "dim": 2, "noise": {"kind": "gaussian", "scale": 0.05}}
    average = chain_law(spec.with_values({"view": "average", "average": release}), data)
    weights = np.tile(np.eye(2), 5) / 5
    assert np.allclose(average.mean, weights @ means[2:], rtol=0, atol=1e-13)
    expected = weights @ joint[2:, 2:] @ weights.T + 0.0025 * np.eye(2)
    assert np.allclose(average.covariance, expected, rtol=0, atol=1e-13)


def test_a_million_steps_by_repeated_squaring_reach_the_stationary_law(table, chain_spec):
    x, y = table
    data = ridge(x, y, 0.1)
    law = chain_law(chain_spec(n=5, dim=2, steps=10**6, batch={"scheme": "full"}), data)
    hessian = x.T @ x / 5 + 0.1 * np.eye(2)
    assert np.allclose(law.mean, np.linalg.solve(hessian, x.T @ y / 5), atol=1e-12)
    # Stationary covariance of theta <- (I - eta H) theta + tau xi: tau^2 (I - (I - eta H)^2)^-1.
    contraction = np.eye(2) - 0.2 * hessian
    assert np.allclose(law.covariance, 0.09 * np.linalg.inv(np.eye(2) - contraction @ contraction), atol=1e-12)


RANDOM = [
    {"scheme": "shuffle-once", "size": 1},
    {"scheme": "reshuffled", "size": 1},
    {"scheme": "reshuffled", "size": 2},
    {"scheme": "without-replacement", "size": 2},
    {"scheme": "poisson", "size": 2, "rate": 0.3},
]


def every_sequence(batch, steps):
    """All sequences of batches of three records with their probabilities, record by record, nothing grouped."""
    orders = list(itertools.permutations(range(3)))
    size = batch["size"]
    if batch["scheme"] == "shuffle-once":
        yield from ((passes(3, size, [order], steps), 1 / 6) for order in orders)
    elif batch["scheme"] == "reshuffled":
        epochs = math.ceil(steps / math.ceil(3 / size))
        for several in itertools.product(orders, repeat=epochs):
            yield passes(3, size, several, steps), 6.0**-epochs
    elif batch["scheme"] == "without-replacement":
        subsets = list(itertools.combinations(range(3), size))
        yield from ((several, len(subsets) ** -float(steps)) for several in itertools.product(subsets, repeat=steps))
    else:
        subsets = [s for k in range(4) for s in itertools.combinations(range(3), k)]
        for several in itertools.product(subsets, repeat=steps):
            yield several, math.prod(0.3 ** len(s) * 0.7 ** (3 - len(s)) for s in several)


@pytest.mark.every(2)
@pytest.mark.parametrize("batch", RANDOM, ids=lambda batch: f"{batch['scheme']}-{batch['size']}")
@pytest.mark.parametrize("schedules", [{}, {"step_size": SCHEDULES["step_size"]}], ids=["constant", "scheduled"])
def test_random_orders_agree_with_every_sequence_written_out(chain_spec, batch, schedules, generator):
    """Two of three records are equal, so grouping is at work; the mixture and its moments must not notice."""
    x, y = np.array([[1.0, 0.5], [1.0, 0.5], [-0.3, 2.0]]), np.array([1.0, 1.0, -2.0])
    data = ridge(x, y, 0.1)
    steps = 3 if batch["scheme"] == "poisson" else 4
    spec = chain_spec(n=3, dim=2, steps=steps, batch=batch, start={"kind": "gaussian", "scale": 0.5}, **schedules)
    law = chain_law(spec, data)
    assert isinstance(law, GaussianMixtureLaw)
    sequences = list(every_sequence(batch, steps))
    assert sum(weight for _, weight in sequences) == pytest.approx(1.0, abs=1e-12)
    assert len(law.weights) < len(sequences)
    listed = [(chain_law(spec, data, fixed(data, batches)), weight) for batches, weight in sequences]
    points = generator.normal(size=(4, 2))
    whole = sum(weight * density(part, points) for part, weight in listed)
    assert np.allclose(density(law, points), whole, rtol=1e-11, atol=0)
    for enumerated, recursive in zip(moments(law), chain_moments(spec, data), strict=True):
        assert np.allclose(recursive, enumerated, rtol=0, atol=1e-12)


@pytest.mark.every(3)
@pytest.mark.parametrize("batch", RANDOM, ids=lambda batch: f"{batch['scheme']}-{batch['size']}")
def test_moments_agree_with_simulated_chains(chain_spec, batch, generator):
    """Two moments of 40,000 chains for five schemes at 5 standard errors: false alarm below 6e-6."""
    x, y = np.array([1.0, 0.4, -0.6]), np.array([1.0, -1.0, 2.0])
    data = ridge(x[:, None], y)
    mean, covariance = chain_moments(chain_spec(n=3, dim=1, steps=4, batch=batch), data)
    sequences = list(every_sequence(batch, 4))
    chosen = generator.choice(len(sequences), size=40_000, p=[weight for _, weight in sequences])
    theta = np.zeros(len(chosen))
    member = np.array([[[i in b for i in range(3)] for b in batches] for batches, _ in sequences], dtype=float)[chosen]
    for k in range(4):
        gradient = (member[:, k] * (x * (x * theta[:, None] - y))).sum(axis=1) / batch["size"]
        theta = theta - 0.2 * gradient + 0.3 * generator.standard_normal(len(theta))
    assert abs(theta.mean() - mean[0]) < 5 * theta.std() / 200
    squares = (theta - mean[0]) ** 2
    assert abs(squares.mean() - covariance[0, 0]) < 5 * squares.std() / 200


def test_an_odd_record_among_many_equal_ones_needs_only_its_positions(chain_spec):
    data = Quadratics(np.ones((2, 1, 1)), np.array([[0.0], [5.0]]), np.arange(1000) == 999)
    law = chain_law(chain_spec(n=1000, steps=200, batch={"scheme": "shuffle-once", "size": 10}), data)
    assert len(law.weights) == 100
    mean, covariance = chain_moments(chain_spec(n=1000, steps=250, batch={"scheme": "reshuffled", "size": 10}), data)
    assert np.isfinite(mean).all()
    assert covariance[0, 0] > 0


def test_several_chains_are_stacked_and_independent(chain_spec, table):
    data = ridge(*table)
    one, three = chain_law(chain_spec(n=5, dim=2), data), chain_law(chain_spec(n=5, dim=2, chains=3), data)
    assert isinstance(three, GaussianLaw)
    assert np.allclose(three.covariance, np.kron(np.eye(3), one.covariance))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"projection": {"kind": "ball", "radius": 1.0}}, "projection"),
        ({"noise": {"kind": "stable", "alpha": 1.5, "scale": 0.1}}, "stable_chain_law"),
        ({"n": 6, "batch": {"scheme": "cyclic", "size": 2}}, "Expected 6 records"),
        ({"dim": 3}, "problem.dim"),
        ({"batch": {"scheme": "shuffle-once", "size": 1}, "chains": 2}, "a single chain"),
        ({"steps": 30, "batch": {"scheme": "poisson", "size": 2}}, "at most 100000 patterns"),
    ],
)
def test_what_has_no_exact_law_here_is_refused(chain_spec, table, changes, message):
    with pytest.raises(InputError, match=message):
        chain_law(chain_spec(**{"n": 5, "dim": 2, **changes}), ridge(*table))
