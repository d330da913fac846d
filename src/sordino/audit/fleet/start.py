"""Where the members of a fleet start: each from its own key, never from data."""

from collections.abc import Callable
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.audit.fleet.draws import gaussians, threefry
from sordino.audit.fleet.network import FleetNetwork
from sordino.audit.fleet.plan import FanInStart, FleetStart
from sordino.core.spec import GaussianStart, PointStart
from sordino.core.validate import refuse

StartLaw = Callable[[Any, FleetNetwork, tuple[Array, Array]], Array]
_LAWS: dict[type[FleetStart], StartLaw] = {}


def start_law(start: type[FleetStart]) -> Callable[[StartLaw], StartLaw]:
    """Decorator: draw the first points of this kind of start."""

    def registered(law: StartLaw) -> StartLaw:
        _LAWS[start] = law
        return law

    return registered


def first_points(start: FleetStart, network: FleetNetwork, keys: tuple[Array, Array]) -> Array:
    """The points members with these keys start from, shape (members, dim)."""
    return _LAWS[type(start)](start, network, keys)


@start_law(FanInStart)
def _fan_in(_start: FanInStart, network: FleetNetwork, keys: tuple[Array, Array]) -> Array:
    if len(network.shapes) < 2:
        remedy = "start from a Gaussian or a point"
        raise refuse("a model that starts by its fan-in", "to be a network with layers", network.model, remedy)
    # Parts come in pairs, weights and biases; both have the bound of the weights' inputs.
    bounds = [
        np.full(prod(shape), prod(weights[:-1]) ** -0.5, np.float32)
        for weights, biases in zip(network.shapes[::2], network.shapes[1::2], strict=True)
        for shape in (weights, biases)
    ]
    places = jnp.arange(network.dim, dtype=jnp.uint32)[None, :]
    words, _ = threefry((keys[0][:, None], keys[1][:, None]), jnp.uint32(0), places)
    return (words.astype(jnp.float32) * np.float32(2.0**-31) - 1.0) * np.concatenate(bounds)


@start_law(GaussianStart)
def _gaussian(start: GaussianStart, network: FleetNetwork, keys: tuple[Array, Array]) -> Array:
    return start.scale * gaussians(keys, jnp.uint32(0), network.dim)


@start_law(PointStart)
def _point(start: PointStart, network: FleetNetwork, keys: tuple[Array, Array]) -> Array:
    if start.values is not None and len(start.values) != network.dim:
        raise refuse("start.values", f"to have {network.dim} coordinates", len(start.values))
    point = jnp.asarray(0.0 if start.values is None else start.values, jnp.float32)
    return jnp.broadcast_to(point, (keys[0].shape[0], network.dim))
