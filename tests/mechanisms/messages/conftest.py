"""Small data and specs that the message-passing tests share."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.core.spec import NoisedSums, Spec
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.messages import Messages
from sordino.mechanisms.rounds import Run, execute
from sordino.models.message_passing.gaussians import DiagonalGaussian, GaussianFamily, Moments, Natural
from sordino.models.message_passing.sites import GaussianSite, NetworkSite
from sordino.noise.lattice import in_doubles
from tests.mechanisms.specs import rounds_spec


def described(records: int, sampling: str, **values: Any) -> Spec:
    given = {"steps": 6, "batch": None if sampling == "full" else 4, "noise_multiplier": 2.0, "damping": 3.0}
    return rounds_spec("message-passing", records, **(given | {"sampling": sampling} | values))


def executed(asked: Messages, algorithm: NoisedSums, rows: Any, sum_noise: Any, *, seed: int = 0, clipped: bool = True):
    """The last state of a run with this noise on its sums."""
    X, y = rows
    with in_doubles() as dtype:
        run = Run(algorithm, len(X), X.shape[1], np.asarray(sum_noise), SeededRandomness(seed), dtype)
        return execute(run, asked, X, y, keep=False, clipped=clipped)[0]


@partial(jax.jit, static_argnums=0)
def natural(family: GaussianFamily, moments: Moments) -> Any:
    """The natural vector of the member of a family with these moments."""
    gamma = jnp.concatenate([jnp.asarray(moments.shape) - 1.0, -jnp.asarray(moments.rate)])
    if isinstance(family, DiagonalGaussian):
        return family.pack(Natural(moments.mean / moments.covariance, 1.0 / moments.covariance, gamma))
    precision = jnp.linalg.inv(moments.covariance)
    return family.pack(Natural(jnp.einsum("bij,bj->bi", precision, moments.mean), precision, gamma))


@pytest.fixture
def spec():
    """Build a message-passing spec: `spec(records, sampling, **changes)`."""
    return described


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    """Twenty-one rows of two features: the last batch of a pass of fours is a partial one."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(21, 2))
    return X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=21)


@pytest.fixture
def network() -> NetworkSite:
    return NetworkSite(3, 4.0)


@pytest.fixture
def line() -> GaussianSite:
    return GaussianSite(diagonal=True, noise_precision=2.0)
