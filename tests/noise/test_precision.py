"""Products of what is clipped are made in the precision it has: on a GPU the default would be TensorFloat-32.

What a compiled kernel asks for is read off its text, on any machine; what a GPU does is measured where there is one.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sordino.auditing.fleet import DenseFleet
from sordino.core.spec import Clipping, ClippingKind
from sordino.mechanisms import SeededRandomness, run
from sordino.mechanisms import rounds as device
from sordino.mechanisms.chain import kernel
from sordino.mechanisms.messages import CentredCoordinates, Prior, Refinement, run_message_passing
from sordino.mechanisms.mixture import EmOptions, run_em
from sordino.mechanisms.variational.evidence_bound import VariationalOptions, run_variational
from sordino.models import GaussianMixture, JaxModel, Logistic, MLPClassification, MLPRegression
from sordino.models.message_passing.sites import GaussianSite, NetworkSite
from tests.mechanisms.specs import chain_spec, rounds_spec

ROWS = 600
on_gpu = pytest.mark.skipif(jax.default_backend() != "gpu", reason="needs a GPU that JAX sees")


def described(kind, **more):
    return rounds_spec(kind, ROWS, noise_multiplier=1.0, **more)


def chain(dim):
    quiet = {"kind": "gaussian", "scale": 1e-9}
    return chain_spec(ROWS, dim, steps=1, step_size=1.0, noise=quiet, clipping={"kind": "norm", "bound": 1.0})


def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 4)), rng.choice([-1.0, 1.0], ROWS)


def own_loss(theta, x, y):
    return jnp.sum((x.reshape(2, 2) @ theta.reshape(2, 2) - y) ** 2)


RUNS = {
    "chain": lambda: run(chain(4), Logistic(), *rows(), SeededRandomness(0)),
    "chain of an own loss": lambda: run(chain(4), JaxModel(own_loss, 4), *rows(), SeededRandomness(0)),
    "variational": lambda: run_variational(
        described("variational", step_size=0.1),
        MLPRegression(hidden=(3,)),
        *rows(),
        SeededRandomness(0),
        options=VariationalOptions(),
    ),
    "em": lambda: run_em(
        described("em", components=2),
        GaussianMixture((0.5, 0.5), 0.5),
        rows()[0],
        SeededRandomness(0),
        options=EmOptions(),
    ),
    **{
        f"messages of a {name}": lambda site=site: run_message_passing(
            described("message-passing", damping=1.0),
            site,
            *rows(),
            SeededRandomness(0),
            prior=Prior(1.0),
            refinement=Refinement(CentredCoordinates()),
        )
        for name, site in (("line", GaussianSite()), ("network", NetworkSite(3, 4.0)))
    },
}


class Seen(Exception):
    """The kernel was asked for."""


@pytest.mark.every(2)
@pytest.mark.parametrize("name", RUNS)
def test_every_product_of_a_kernel_asks_for_full_precision(name, monkeypatch):
    """And is made in double precision, which no shorter kind of number replaces."""
    place = kernel if name.startswith("chain") else device
    advance, texts = place.advance, []

    def watched(*arguments):
        texts.append(advance.lower(*arguments).as_text())
        raise Seen  # its text is enough: it need be neither compiled nor run

    monkeypatch.setattr(place, "advance", watched)
    with pytest.raises(Seen):
        RUNS[name]()
    products = [line for text in texts for line in text.splitlines() if "dot_general" in line]
    assert products
    for line in products:
        assert re.search(r"precision = \[HIGHEST, HIGHEST\]", line), line
        assert re.search(r"-> tensor<[0-9x]*f64>", line), line


@pytest.mark.parametrize("clipping", [Clipping(ClippingKind.NORM, 1.0), None], ids=["clipped", "plain"])
@pytest.mark.parametrize("model", [Logistic(), MLPClassification(hidden=(3,), classes=2)], ids=["linear", "network"])
def test_sums_of_clipped_gradients_ask_for_full_precision(model, clipping):
    theta, X, y = jnp.zeros(model.dim(4)), jnp.zeros((8, 4)), jnp.zeros(8)
    text = jax.jit(lambda *given: model.batch_gradient(*given, jnp.ones(8), clipping)).lower(theta, X, y).as_text()
    assert "precision = [HIGHEST, HIGHEST]" in [line for line in text.splitlines() if "dot_general" in line][-1]


@pytest.mark.gpu
@on_gpu
def test_what_a_gpu_clips_is_within_its_bound():
    """The exact length of one record's clipped gradient, in single precision and as a run adds it up."""
    rng = np.random.default_rng(1)
    models = {"linear": Logistic(), "network": MLPClassification(hidden=(40,), classes=2)}
    for model in models.values():
        dim = model.dim(60)
        summed = jax.jit(lambda *given, model=model: model.batch_gradient(*given, Clipping(ClippingKind.NORM, 1.0)))
        fleet = DenseFleet(model, 60) if isinstance(model, MLPClassification) else None
        for _ in range(50):
            theta, x = rng.normal(size=dim), 30.0 * rng.normal(size=(1, 60))
            y = np.ones(1)
            given = (jnp.asarray(theta, jnp.float32), jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))
            assert np.linalg.norm(np.asarray(summed(*given, jnp.ones(1)), np.float64)) <= 1.0
            if fleet is not None:
                parts = fleet.split(given[0][None])
                of_fleet = fleet.gradient_sum(parts, given[1][None], given[2][None], jnp.ones((1, 1)), 1.0)
                assert np.linalg.norm(np.asarray(fleet.join(of_fleet), np.float64)) <= 1.0
    X, y = rows()
    X[0] = 1e4
    # One step from 0 is minus the mean gradient: replacing the first record moves it by at most 2 / n.
    other = X.copy()
    other[0] = -1e4
    one, two = (np.asarray(run(chain(4), Logistic(), Z, y, SeededRandomness(0)).iterates, float) for Z in (X, other))
    assert np.linalg.norm(one - two) * ROWS <= 2.0 + 1e-3  # the release is in single precision
