"""Eight NumPyro models of different kinds, each with a table drawn from it and the values it was drawn with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist


@dataclass(frozen=True)
class Case:
    """A model, how its table is drawn, and how it is fitted."""

    model: Callable[..., Any]
    draw: Callable[[np.random.Generator], tuple[dict[str, Any], dict[str, Any]]]  # data, true values of sites
    options: dict[str, Any] = field(default_factory=dict)
    observed: str = "y"
    new: tuple[str, ...] = ("x",)


def linear(x, y=None):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 2.0).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ weights, sigma), obs=y)


def draw_linear(generator):
    weights, x = np.array([1.0, -0.5, 0.3]), generator.normal(size=(8000, 3))
    y = x @ weights + 0.7 * generator.normal(size=len(x))
    return {"x": x, "y": y}, {"weights": weights, "sigma": 0.7}


def logistic(x, y=None):
    bias = numpyro.sample("bias", dist.Normal(0.0, 2.0))
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(x.shape[1]), 2.0).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Bernoulli(logits=bias + x @ weights), obs=y)


def draw_logistic(generator):
    weights, x = np.array([1.0, -1.0]), generator.normal(size=(8000, 2))
    chance = 1.0 / (1.0 + np.exp(-(x @ weights - 0.5)))
    return {"x": x, "y": (generator.uniform(size=len(x)) < chance).astype(int)}, {"weights": weights, "bias": -0.5}


def counts(x, y=None):
    bias = numpyro.sample("bias", dist.Normal(0.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(bias + slope * x)), obs=y)


def draw_counts(generator):
    x = generator.uniform(-1, 1, 8000)
    return {"x": x, "y": generator.poisson(np.exp(1.0 + 0.5 * x))}, {"bias": 1.0, "slope": 0.5}


def radon(floor, y=None):
    """One county: its rows, and an intercept of its own that is integrated out."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0))
    between = numpyro.sample("between", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("county", 1):
        own = numpyro.sample("own", dist.Normal(mean, between))
    with numpyro.plate("records", floor.shape[0]):
        numpyro.sample("y", dist.Normal(own + slope * floor, sigma), obs=y)


def draw_radon(generator):
    counties = 3000
    own = generator.normal(1.3, 0.4, counties)
    county = np.repeat(np.arange(counties), generator.integers(2, 7, counties))
    floor = generator.integers(0, 2, len(county)).astype(float)
    y = own[county] - 0.7 * floor + 0.5 * generator.normal(size=len(county))
    truth = {"mean": 1.3, "between": 0.4, "slope": -0.7, "sigma": 0.5}
    return {"floor": floor, "y": y, "county": county}, truth


def mixture(y=None, rows=None):
    centres = numpyro.sample("centres", dist.Normal(jnp.array([-1.0, 1.0]), 1.0).to_event(1))
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    with numpyro.plate("records", rows.shape[0]):
        kind = numpyro.sample("kind", dist.Categorical(jnp.stack([1.0 - share, share])))
        numpyro.sample("y", dist.Normal(centres[kind], 0.5), obs=y)


def draw_mixture(generator):
    kind = generator.uniform(size=8000) < 0.3
    y = np.where(kind, 1.5, -1.0) + 0.5 * generator.normal(size=8000)
    return {"y": y, "rows": np.zeros(8000)}, {"centres": np.array([-1.0, 1.5]), "share": 0.3}


FREQUENCIES = np.array([0.7, 1.4, 2.1])


def features_of_a_process(x, y=None):
    """A Gaussian process by public features: its kernel's first cosines and sines, with falling prior scales."""
    basis = jnp.concatenate([jnp.cos(x[:, None] * FREQUENCIES), jnp.sin(x[:, None] * FREQUENCIES)], axis=1)
    scales = jnp.asarray(np.tile(np.exp(-0.5 * FREQUENCIES), 2))
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(6), scales).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(basis @ weights, sigma), obs=y)


def draw_process(generator):
    weights, x = np.array([0.5, -0.4, 0.2, 0.6, 0.1, -0.2]), generator.uniform(-2, 2, 12000)
    basis = np.concatenate([np.cos(x[:, None] * FREQUENCIES), np.sin(x[:, None] * FREQUENCIES)], axis=1)
    return {"x": x, "y": basis @ weights + 0.3 * generator.normal(size=len(x))}, {"sigma": 0.3}


def survival(x, censored, time=None):
    """Times are exponential; at a censored one only survival until then is known."""
    bias = numpyro.sample("bias", dist.Normal(0.0, 2.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    rate = jnp.exp(bias + slope * x)
    with numpyro.plate("records", x.shape[0]):
        if time is None:
            numpyro.sample("time", dist.Exponential(rate))
        else:
            with numpyro.handlers.mask(mask=censored == 0):
                numpyro.sample("time", dist.Exponential(rate), obs=time)
            with numpyro.handlers.mask(mask=censored == 1):
                numpyro.factor("survived", -rate * time)


def draw_survival(generator):
    x = generator.normal(size=8000)
    time = generator.exponential(1.0 / np.exp(-0.5 + 0.8 * x))
    end = 3.0
    data = {"x": x, "censored": (time > end).astype(int), "time": np.minimum(time, end)}
    return data, {"bias": -0.5, "slope": 0.8}


def ordinal(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    cuts = numpyro.sample(
        "cuts",
        dist.TransformedDistribution(dist.Normal(0.0, 2.0).expand([3]).to_event(1), dist.transforms.OrderedTransform()),
    )
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.OrderedLogistic(slope * x, cuts), obs=y)


def draw_ordinal(generator):
    cuts, x = np.array([-1.0, 0.3, 1.5]), generator.normal(size=8000)
    latent = 0.9 * x + generator.logistic(size=len(x))
    return {"x": x, "y": np.searchsorted(cuts, latent)}, {"slope": 0.9, "cuts": cuts}


CASES = {
    "linear": Case(linear, draw_linear),
    "logistic": Case(logistic, draw_logistic),
    "poisson": Case(counts, draw_counts),
    "hierarchical": Case(radon, draw_radon, {"unit": "county", "most_records": 5, "records": 3000}, new=("floor",)),
    "mixture": Case(mixture, draw_mixture, new=("rows",)),
    "process": Case(features_of_a_process, draw_process),
    "survival": Case(survival, draw_survival, observed="time", new=("x", "censored")),
    "ordinal": Case(ordinal, draw_ordinal),
}


def eight_schools(sigma, y=None):
    """One school is one unit; its effect is integrated out."""
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    between = numpyro.sample("between", dist.HalfCauchy(5.0))
    with numpyro.plate("schools", sigma.shape[0]):
        effect = numpyro.sample("effect", dist.Normal(mean, between))
        numpyro.sample("y", dist.Normal(effect, sigma), obs=y)


SCHOOLS = {
    "sigma": np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]),
    "y": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]),
}
