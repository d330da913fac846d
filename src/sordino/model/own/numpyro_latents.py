"""The latents of a NumPyro model function: where each lies in the flat vector, and its density.

NumPyro is imported here and nowhere else, and only when a model is built from it.
"""

import math
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.validate import InputError


def numpyro() -> ModuleType:
    """The numpyro package, or a refusal that says how to get it."""
    try:
        import_module("numpyro.distributions")
        import_module("numpyro.handlers")
        return import_module("numpyro")
    except ImportError:
        raise InputError("Expected numpyro to be installed, got no such package; install sordino[numpyro].") from None


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


def latent_of(site: dict[str, Any], other: dict[str, Any]) -> Latent:
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


def values_of(latents: tuple[Latent, ...], theta: Any) -> list[tuple[str, Array, Array]]:
    """Name, value and log-determinant of the unconstraining map of every latent."""
    found = []
    for latent, block in zip(latents, blocks_of(latents, theta), strict=True):
        free = block.reshape(latent.shape)
        value = latent.transform(free)
        found.append((latent.name, value, jnp.sum(latent.transform.log_abs_det_jacobian(free, value))))
    return found


def blocks_of(latents: tuple[Latent, ...], theta: Any) -> list[Array]:
    """The part of the flat vector that belongs to each latent; one that is in parts already stays so."""
    if isinstance(theta, list):
        return theta
    ends = np.cumsum([latent.size for latent in latents])
    return [theta[end - latent.size : end] for latent, end in zip(latents, ends, strict=True)]


def substituted(latents: tuple[Latent, ...], theta: Any) -> tuple[dict[str, Array], Array]:
    """The values of the latents by name, and the sum of the log-determinants."""
    triples = values_of(latents, theta)
    return {name: value for name, value, _ in triples}, sum((each for *_, each in triples), jnp.zeros(()))


def log_prob(site: dict[str, Any]) -> Array:
    """The log-density of a site at its value."""
    return site["fn"].log_prob(site["value"])


def record_densities(site: dict[str, Any], axis: int) -> Array:
    """The log-density of an observed site for each record: other axes are summed."""
    found = log_prob(site)
    return jnp.sum(jnp.moveaxis(found, axis, 0).reshape(found.shape[axis], -1), axis=1)
