"""The latents of a NumPyro model function: global ones in the flat vector, those of one unit integrated out.

The integral is taken unit by unit by adaptive Gauss-Hermite quadrature (Naylor & Smith 1982): the nodes are placed
around the mode of the unit's own joint density, scaled by its curvature there, and are constants in derivatives.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from sordino.core.validate import InputError, refuse

Site = dict[str, Any]  # of a trace: its name, value, distribution and plates

MOST_LOCAL = 3
_NODES = {1: 15, 2: 9, 3: 7}
_NEWTON_STEPS = 12
_LONGEST_STEP = 5.0
_LEAST_CURVATURE, _LARGEST_CURVATURE = 1e-6, 1e12


def log_integral(log_joint: Callable[[Array], Array], constant: Callable[[Array], Array], dim: int) -> Array:
    """The logarithm of the integral of exp(log_joint(z)) over z in `dim` dimensions.

    `constant` is the same function with everything but z a constant in derivatives; it places the nodes.
    """
    if dim > MOST_LOCAL:
        raise refuse("the latents of one unit", f"to be at most {MOST_LOCAL} numbers", dim, "integrate them by hand")
    mode, root = _placed(constant, dim)
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES[dim])
    points, logs = np.array(list(product(nodes, repeat=dim))), product(np.log(weights) + nodes**2, repeat=dim)
    values = jax.vmap(lambda point: log_joint(mode + jnp.sqrt(2.0) * (root @ point)))(jnp.asarray(points))
    volume = 0.5 * dim * jnp.log(2.0) + jnp.linalg.slogdet(root)[1]
    return logsumexp(values + jnp.asarray(list(map(sum, logs)))) + volume


def _placed(log_joint: Callable[[Array], Array], dim: int) -> tuple[Array, Array]:
    """The mode by Newton's method, and a root of the inverse curvature there; constants in derivatives."""

    def curvature(z: Array) -> tuple[Array, Array]:
        values, vectors = jnp.linalg.eigh(-jax.hessian(log_joint)(z))
        return jnp.clip(jnp.abs(values), _LEAST_CURVATURE, _LARGEST_CURVATURE), vectors

    def step(_: int, z: Array) -> Array:
        values, vectors = curvature(z)
        move = vectors @ ((vectors.T @ jax.grad(log_joint)(z)) / values)
        moved = z + move * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(jnp.linalg.norm(move), _LONGEST_STEP * 1e-9))
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, z)

    mode = lax.fori_loop(0, _NEWTON_STEPS, step, jnp.zeros(dim))
    values, vectors = curvature(mode)
    return mode, vectors / jnp.sqrt(values)


def numpyro() -> ModuleType:
    """The numpyro package, or a refusal that says how to get it."""
    try:
        import_module("numpyro.distributions")
        import_module("numpyro.handlers")
        return import_module("numpyro")
    except ImportError:
        raise InputError("This needs numpyro. Install sordino[numpyro].") from None


@dataclass(frozen=True)
class Latent:
    """A global parameter: where it lies in the flat vector and how it is made unconstrained."""

    name: str
    shape: tuple[int, ...]
    transform: Any

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def latent_of(site: Site, other: Site) -> Latent:
    """A global latent; refused where it belongs to a record, is discrete or is empty."""
    name = site["name"]
    if jnp.shape(site["value"]) != jnp.shape(other["value"]):
        raise InputError(f"Expected global latents of one shape, got {name!r}, which has one for each record.")
    if site["fn"].support.is_discrete:
        raise InputError(f"Expected continuous global latents, got the discrete {name!r}; sum it out.")
    if 0 in jnp.shape(site["value"]):
        raise InputError(f"Expected latents with at least one number, got the empty {name!r}.")
    transform = numpyro().distributions.biject_to(site["fn"].support)
    return Latent(name, tuple(transform.inverse_shape(jnp.shape(site["value"]))), transform)


def blocks_of(latents: tuple[Latent, ...], theta: Any) -> list[Array]:
    """The part of the flat vector that belongs to each latent; one that is in parts already stays so."""
    if isinstance(theta, list):
        return theta
    ends = np.cumsum([latent.size for latent in latents])
    return [theta[end - latent.size : end] for latent, end in zip(latents, ends, strict=True)]


def substituted(latents: tuple[Latent, ...], theta: Any) -> tuple[dict[str, Array], Array]:
    """The values of the latents by name, and the sum of the log-determinants of their unconstraining maps."""
    values, volume = {}, jnp.zeros(())
    for latent, block in zip(latents, blocks_of(latents, theta), strict=True):
        free = block.reshape(latent.shape)
        values[latent.name] = value = latent.transform(free)
        volume = volume + jnp.sum(latent.transform.log_abs_det_jacobian(free, value))
    return values, volume


def log_prob(site: Site) -> Array:
    """The log-density of a site at its value."""
    return site["fn"].log_prob(site["value"])


def record_densities(site: Site, axis: int) -> Array:
    """The log-density of an observed site for each record: other axes are summed."""
    found = log_prob(site)
    return jnp.sum(jnp.moveaxis(found, axis, 0).reshape(found.shape[axis], -1), axis=1)
