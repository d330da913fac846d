"""Latents that belong to one unit, integrated out: what is released is about the population.

A latent of one unit is known from that unit alone, so no private release can hold it. Its integral is taken unit by
unit by adaptive Gauss-Hermite quadrature (Naylor & Smith 1982): the nodes are placed around the mode of the unit's own
joint density, scaled by its curvature there. The nodes count as constants in derivatives, which are then those of a
quadrature with fixed nodes.
"""

from collections.abc import Callable
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp

from sordino.core.validate import refuse

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
    points, weights = _grid(dim)
    values = jax.vmap(lambda point: log_joint(mode + jnp.sqrt(2.0) * (root @ point)))(jnp.asarray(points))
    volume = 0.5 * dim * jnp.log(2.0) + jnp.linalg.slogdet(root)[1]
    return logsumexp(values + jnp.asarray(weights)) + volume


def _placed(log_joint: Callable[[Array], Array], dim: int) -> tuple[Array, Array]:
    """The mode by Newton's method, and a root of the inverse curvature there; constants in derivatives."""

    def curvature(z: Array) -> tuple[Array, Array]:
        values, vectors = jnp.linalg.eigh(-jax.hessian(log_joint)(z))
        return jnp.clip(jnp.abs(values), _LEAST_CURVATURE, _LARGEST_CURVATURE), vectors

    def step(_: int, z: Array) -> Array:
        values, vectors = curvature(z)
        move = vectors @ ((vectors.T @ jax.grad(log_joint)(z)) / values)
        length = jnp.linalg.norm(move)
        moved = z + move * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(length, _LONGEST_STEP * 1e-9))
        return jnp.where(jnp.all(jnp.isfinite(moved)), moved, z)

    mode = lax.fori_loop(0, _NEWTON_STEPS, step, jnp.zeros(dim))
    values, vectors = curvature(mode)
    return mode, vectors / jnp.sqrt(values)


def _grid(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, shape (nodes, dim), and the logarithms of their weights for an integral without a weight function."""
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES[dim])
    logs = np.log(weights) + nodes**2
    points = np.array(list(product(nodes, repeat=dim)))
    return points, np.array([sum(each) for each in product(logs, repeat=dim)])
