"""Rényi divergences of a dominating pair, given that its loss is finite.

P = (1 - f) P0 + f P1 with P1 on infinite losses. Q holds the mass s on finite ones; with g = max(s, 1 - f) it is at
least (1 - f) times the (sub-)probability Q / g there. So D(P0 || Q / g), composed, bounds everything but the failure f.
"""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from sordino.core.loss.atomic_pairs import ExplicitPair, ResponsePair
from sordino.core.loss.grid_law import Side
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair, Request

Array = NDArray[np.float64]

_RESOLUTION = 100.0
_LONGEST = 2.0**17
_TAIL = 1e-40
_ROUNDING = 1e-12


@singledispatch
def pair_renyi(pair: Pair, orders: Array) -> tuple[Array, float]:
    """Upper bounds on D_order, one per order, and the probability outside which they hold.

    In general they are those of a grid law above the pair; what that law misses (its `error`) counts as failure.
    """
    losses, masses = pair.sketch()
    mean = float(masses @ losses) / float(masses.sum())
    deviation = math.sqrt(float(masses @ (losses - mean) ** 2) / float(masses.sum()))
    spacing = max(deviation / _RESOLUTION, float(np.ptp(losses)) / _LONGEST, 1e-9)
    if pair.lattice is not None:
        spacing = pair.lattice / math.ceil(pair.lattice / spacing)
    law = pair.on_grid(Request(Side.UPPER, 0.0, _RESOLUTION, _TAIL), spacing)
    return _divergences(law.losses + law.shift, law.masses * math.exp(law.log_scale), law.infinite, law.error, orders)


@pair_renyi.register
def _(pair: GaussianPair, orders: Array) -> tuple[Array, float]:
    return orders * (pair.mu * pair.mu / 2) * (1 + _ROUNDING), 0.0


@pair_renyi.register(ResponsePair)
@pair_renyi.register(ExplicitPair)
def _(pair: ResponsePair | ExplicitPair, orders: Array) -> tuple[Array, float]:
    atoms = pair.atoms()
    return _divergences(atoms.losses, atoms.masses, pair.infinite, 0.0, orders)


def _divergences(losses: Array, masses: Array, infinite: float, error: float, orders: Array) -> tuple[Array, float]:
    positive = masses > 0
    losses, masses = losses[positive], masses[positive]
    if infinite >= 1.0 or len(masses) == 0:
        return np.zeros(len(orders)), 1.0
    finite = math.log1p(-infinite)
    below = float((masses * np.exp(-losses)).sum()) * (1 + _ROUNDING)
    # Losses beyond 700 leave nothing that a float could hold.
    support = max(finite, math.log(min(1.0, below))) if below > 0 else finite
    logs = np.log(masses)
    values = np.empty(len(orders))
    for i, order in enumerate(orders):
        exponents = logs + (order - 1) * losses
        peak = float(exponents.max())
        log_moment = peak + math.log(float(np.exp(exponents - peak).sum()))
        value = (log_moment - order * finite) / (order - 1) + support
        values[i] = value + _ROUNDING * (abs(log_moment) / (order - 1) + float(np.abs(losses).max()) + 1 / (order - 1))
    return np.maximum(values, 0.0), infinite + error
