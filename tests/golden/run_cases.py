"""Seeded chains, custom models and a network."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import sordino
from sordino.algorithm import dp_sgd
from sordino.algorithm.training.train import Descent, Training
from sordino.core.spec import Batch, Problem
from sordino.estimators.trained import fit_network

CHAIN_SCHEMES = ("full", "cyclic", "shuffle-once", "reshuffled", "without-replacement", "poisson")
_BUDGET = {"epsilon": 2.0, "delta": 1e-5, "random_state": 2}


def _rows(n: int = 200) -> tuple[Any, Any]:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -1.0] + 0.3 * rng.normal(size=n)


def _square(theta: Any, x: Any, y: Any) -> Any:
    return (x @ theta - y) ** 2


def chain(scheme: str, relation: str) -> Any:
    """A release of DP-SGD with batches of a scheme."""
    spec = dp_sgd(
        Problem(n=200, dim=2, gradient_sensitivity=2.0, gradient_bound=1.0),
        step_size=0.3,
        batch=Batch(scheme) if scheme == "full" else Batch(scheme, 50),
        noise_multiplier=1.0,
        clip_norm=1.0,
        steps=12,
        relation=relation,
        view="last-iterate",
        delta=1e-5,
    )
    return sordino.fit_chain(spec, _square, *_rows(), epsilon=2.0, random_state=2)


def _regression(x: Any, y: Any = None) -> None:
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 2.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, sigma), obs=y)


def custom(method: str, relation: str) -> Any:
    """A release of a NumPyro model by a method, or of a loss in JAX."""
    X, y = _rows(400)
    if method == "loss":
        return sordino.fit(
            lambda params, x, y: (x @ params["w"] - y) ** 2,
            {"x": X, "y": y},
            params={"w": np.zeros(2)},
            relation=relation,
            records=400,
            options={"steps": 20},
            **_BUDGET,
        )
    return sordino.fit(
        _regression, {"x": X, "y": y}, relation=relation, records=400, method=method, draws=50, **_BUDGET
    )


def network(relation: str) -> Any:
    """A release of a linear network, trained by gradient descent."""
    X, y = _rows(400)
    examples = (X.astype(np.float32), y.astype(np.float32))
    return fit_network(
        lambda params, example: (example[0] @ params["w"] - example[1]) ** 2,
        {"w": np.zeros(2, np.float32)},
        examples,
        relation=relation,
        records=400,
        rounds=10,
        clip=0.5,
        training=Training(Descent(0.5)),
        sampling={"scheme": "poisson", "size": 100},
        **_BUDGET,
    ).release
