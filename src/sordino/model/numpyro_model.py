"""A NumPyro model with a data plate, as a model whose gradients can be clipped and certified.

Read off the model function: its unconstrained parameters, its prior, its likelihood of one record.

NumPyro is imported here and nowhere else, and only when a model is built from it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from sordino.core.bound import REGULARISER_SMOOTHNESS, REGULARISER_STRONG_CONVEXITY, Certificate, Evidence
from sordino.core.gaussian import widen_down, widen_up
from sordino.core.spec import Ball, Clipping, Problem
from sordino.core.validate import InputError, refuse, whole_number
from sordino.model.base import Model
from sordino.model.facts import NOTHING_KNOWN, Domain, LossFacts, need_declared

ModelFunction = Callable[[Array, Array], Any]
Site = dict[str, Any]


@dataclass(frozen=True)
class Latent:
    """A global parameter: where it lies in the flat vector and how it is made unconstrained."""

    name: str
    shape: tuple[int, ...]
    transform: Any

    @property
    def size(self) -> int:
        """Number of unconstrained numbers."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """The latents in the order of the flat vector, and whether targets are whole numbers."""

    latents: tuple[Latent, ...]
    discrete_target: bool

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(latent.size for latent in self.latents)

    def constrained(self, theta: Array) -> Iterator[tuple[str, Array, Array]]:
        """For each latent its name, its value, and the log-determinant of the map from the flat vector to the value."""
        start = 0
        for latent in self.latents:
            free = theta[start : start + latent.size].reshape(latent.shape)
            value = latent.transform(free)
            yield latent.name, value, jnp.sum(latent.transform.log_abs_det_jacobian(free, value))
            start += latent.size

    def target(self, y: Array) -> Array:
        """The target in the type the likelihood reads."""
        return y.astype(jnp.int32) if self.discrete_target else y


def numpyro() -> ModuleType:
    """The numpyro package, or a refusal that says how to get it."""
    try:
        import_module("numpyro.distributions")
        import_module("numpyro.handlers")
        return import_module("numpyro")
    except ImportError:
        raise InputError("Expected numpyro to be installed, got no such package; install sordino[numpyro].") from None


@cache
def read_layout(model: ModelFunction, features: int) -> Layout:
    """Run the model once on a record of zeros and list what it samples."""
    package = numpyro()
    sites = package.handlers.trace(package.handlers.seed(model, rng_seed=0)).get_trace(*blank_record(features))
    observed = [site for site in sites.values() if _is_observed(site)]
    if not observed:
        raise InputError(
            "Expected a NumPyro model that observes y with obs=y, got one without observations; add obs=y."
        )
    for site in observed:
        frames = site["cond_indep_stack"]
        if not frames or any(frame.size != 1 for frame in frames) or site["scale"] not in (None, 1, 1.0):
            raise InputError(
                f"Expected site {site['name']!r} to be observed inside a plate of one entry per row of x and unscaled, "
                f"got plates {[(frame.name, frame.size) for frame in frames]} for one row; size the plate by "
                "x.shape[0]."
            )
    plates = {frame.name for site in observed for frame in site["cond_indep_stack"]}
    latents = [site for site in sites.values() if site["type"] in {"sample", "param"} and not _is_observed(site)]
    discrete = all(site["fn"].support.is_discrete for site in observed)
    return Layout(tuple(_latent(package, site, plates) for site in latents), discrete)


def trace_with(model: ModelFunction, layout: Layout, theta: Array, x: Array, y: Array) -> tuple[dict[str, Site], Array]:
    """The sites of the model at theta on one record, and the log-determinant of the unconstraining maps."""
    package = numpyro()
    triples = list(layout.constrained(theta))
    values = {name: value for name, value, _ in triples}
    substituted = package.handlers.substitute(model, data=values)
    sites = package.handlers.trace(substituted).get_trace(x[None], layout.target(y)[None])
    return sites, sum((volume for _, _, volume in triples), jnp.zeros((), theta.dtype))


def log_density(sites: dict[str, Site], observed: bool) -> Array:
    """The sum of the log-densities of the observed sites, or of the others."""
    chosen = [site for site in sites.values() if site["type"] == "sample" and _is_observed(site) == observed]
    return sum((jnp.sum(site["fn"].log_prob(site["value"])) for site in chosen), jnp.zeros(()))


def blank_record(features: int) -> tuple[Array, Array]:
    """A batch of one record of zeros: public, so whatever depends on it is data-free."""
    return jnp.zeros((1, features)), jnp.zeros(1)


def prior_precisions(model: ModelFunction, features: int) -> tuple[float, float] | None:
    """Smallest and largest precision, if every prior is a normal with constant mean and scale; else None."""
    layout = read_layout(model, features)
    normals: list[tuple[float, float] | None] = []

    def look(theta: Array) -> Array:
        x, y = blank_record(features)
        sites, _ = trace_with(model, layout, theta, x[0], y[0])
        normals.extend(_scales(sites[latent.name]["fn"]) for latent in layout.latents)
        return theta

    # Under forward differentiation only what depends on theta is a tracer, so a concrete scale is a constant one.
    point = jnp.zeros(layout.size)
    jax.jvp(look, (point,), (point,))
    scales = [pair for pair in normals if pair is not None]
    if len(scales) < len(normals):
        return None
    return 1.0 / max(high for _, high in scales) ** 2, 1.0 / min(low for low, _ in scales) ** 2


def _scales(prior: Any) -> tuple[float, float] | None:
    distributions = numpyro().distributions
    while isinstance(prior, distributions.ExpandedDistribution | distributions.Independent):
        prior = prior.base_dist
    constant = type(prior) is distributions.Normal and not any(
        isinstance(part, Tracer) for part in (prior.loc, prior.scale)
    )
    return (float(jnp.min(prior.scale)), float(jnp.max(prior.scale))) if constant else None


def _is_observed(site: Site) -> bool:
    return bool(site.get("is_observed"))


def _latent(package: ModuleType, site: Site, data_plates: set[str]) -> Latent:
    name = site["name"]
    if site["type"] == "param":
        raise InputError(f"Expected a NumPyro model without numpyro.param, got {name!r}; give it a prior instead.")
    if any(frame.name in data_plates for frame in site["cond_indep_stack"]):
        raise InputError(f"Expected global parameters only, got {name!r} inside the data plate; integrate it out.")
    if site["fn"].support.is_discrete:
        raise InputError(f"Expected continuous parameters only, got the discrete {name!r}; sum it out.")
    transform = package.distributions.biject_to(site["fn"].support)
    return Latent(name, tuple(transform.inverse_shape(jnp.shape(site["value"]))), transform)


# Priors may be written in single precision; their precisions are rounded outward by more than that.
_SINGLE_PRECISION = 2.0**-20


@dataclass(frozen=True)
class NumPyroModel(Model):
    """`model_fn(x, y)` observes y, shape (rows,), in a plate over the rows of x, shape (rows, features).

    theta is the flat vector of unconstrained parameters in the order of sampling. The loss is minus the log-likelihood
    of one row; the penalty is minus the log-prior, volume term included, over `records`. Gradients are certified by
    clipping, or by facts in `declared`. Normal priors with constant scales certify the regulariser; others do not.
    """

    model_fn: ModelFunction
    features: int
    records: int
    declared: LossFacts = NOTHING_KNOWN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_decay:
            raise refuse("weight_decay", "to be 0 for a NumPyro model", self.weight_decay, "the prior plays its part")
        if not callable(self.model_fn):
            raise refuse("model_fn", "to be a function of (x, y)", self.model_fn)
        whole_number("features", self.features)
        whole_number("records", self.records)
        need_declared(self.declared)
        read_layout(self.model_fn, self.features)

    def dim(self, features: int) -> int:
        if features != self.features:
            raise refuse("features", f"to be the {self.features} the NumPyro model was built for", features)
        return self._layout.size

    def constrain(self, theta: Array) -> dict[str, Array]:
        """The named parameters of the NumPyro model at theta."""
        return {name: value for name, value, _ in self._layout.constrained(theta)}

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        sites, _ = trace_with(self.model_fn, self._layout, theta, x, y)
        return -log_density(sites, observed=True)

    def penalty(self, theta: Array) -> Array:
        x, y = blank_record(self.features)
        sites, volume = trace_with(self.model_fn, self._layout, theta, x[0], y[0])
        return -(log_density(sites, observed=False) + volume) / self.records

    def penalty_gradient(self, theta: Array) -> Array:
        return jax.grad(self.penalty)(theta)

    def facts(self, domain: Domain) -> LossFacts:
        return self.declared

    def certificates(
        self, domain: Domain, clipping: Clipping | None, projection: Ball | None = None
    ) -> dict[str, Certificate]:
        # A prior need not be centred, and the growth constants count the whole gradient at theta = 0.
        certified = super().certificates(domain, clipping, projection)
        return {name: certificate for name, certificate in certified.items() if not name.startswith("gradient_growth.")}

    def regulariser_certificates(self) -> dict[str, Certificate]:
        precisions = prior_precisions(self.model_fn, self.features)
        if precisions is None:
            return {}
        low, high = (precision / self.records for precision in precisions)
        reason = (
            f"independent normal priors with precisions {precisions[0]:g} to {precisions[1]:g} over n = {self.records}"
        )
        values = {
            REGULARISER_STRONG_CONVEXITY: widen_down(low, _SINGLE_PRECISION),
            REGULARISER_SMOOTHNESS: widen_up(high, _SINGLE_PRECISION),
        }
        return {constant.name: Certificate(constant, at, Evidence.PROVED, reason) for constant, at in values.items()}

    def problem(
        self, n: int, domain: Domain, clipping: Clipping | None = None, projection: Ball | None = None
    ) -> Problem:
        if n != self.records:
            raise refuse("n", f"to be the {self.records} records over which the prior was spread", n)
        return super().problem(n, domain, clipping, projection)

    @property
    def _layout(self) -> Layout:
        return read_layout(self.model_fn, self.features)
