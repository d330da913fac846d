"""How much a step of one dataset stretches a distance when the loss need not be convex.

Three routes, the first that is certified: the contraction of `shifts.contraction`; for clipped gradients of a
beta-smooth loss of any shape, the regulariser's modulus plus eta beta, because cutting a vector down to a ball is a
projection and stretches nothing; and 1 + eta M for an update that is M-smooth as run. The last is the one to declare
for losses that are not convex: elsewhere unclipped_smoothness is that of a convex loss.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.certified_sections import unusable
from sordino.accounting.constants import certificate_for
from sordino.accounting.shifts.contraction import Contraction, contraction_of, regulariser_contraction
from sordino.core.certificate import Certificate, Constant
from sordino.core.constants import REGULARISER_SMOOTHNESS, SMOOTHNESS, UNCLIPPED_SMOOTHNESS
from sordino.core.rounding import up
from sordino.core.spec import Spec

Array = NDArray[np.float64]

# Two products and two sums.
_ACCURACY = 1e-15


def near_modulus(spec: Spec) -> Contraction | str:
    """The modulus of a step on one dataset, or why none is certified."""
    contraction = contraction_of(spec)
    if isinstance(contraction, Contraction):
        return contraction
    found = _by_clipped_smoothness(spec) or _by_smoothness(spec)
    return found or (
        "needs smoothness (of the update as run) or unclipped_smoothness (of the loss before clipping) from public "
        "knowledge, and neither is given"
    )


def _by_clipped_smoothness(spec: Spec) -> Contraction | None:
    beta, modulus = _public(spec, UNCLIPPED_SMOOTHNESS), regulariser_contraction(spec)
    if beta is None or not isinstance(modulus, Contraction):
        return None

    def at(step: float) -> float:
        return up(modulus.at(step) + step * beta.value, 3)

    def at_each(steps: Array) -> Array:
        return (modulus.at_each(steps) + steps * beta.value) * (1 + _ACCURACY)

    return _finite((beta, *modulus.certificates), at, at_each)


def _by_smoothness(spec: Spec) -> Contraction | None:
    smooth, regulariser = _public(spec, SMOOTHNESS), _public(spec, REGULARISER_SMOOTHNESS)
    if smooth is None:
        return None
    # A batch smaller than its divisor keeps the regulariser whole, and a share of everything else.
    value = max(smooth.value, 0.0 if regulariser is None else regulariser.value)
    used = (smooth,) if regulariser is None else (smooth, regulariser)

    def at(step: float) -> float:
        return up(1.0 + step * value, 2)

    def at_each(steps: Array) -> Array:
        return (1.0 + steps * value) * (1 + _ACCURACY)

    return _finite(used, at, at_each)


def _finite(
    certificates: tuple[Certificate, ...], at: Callable[[float], float], at_each: Callable[[Array], Array]
) -> Contraction:
    def silent(steps: Array) -> Array:
        with np.errstate(over="ignore", under="ignore"):
            return at_each(steps)

    return Contraction(certificates, at, silent)


def _public(spec: Spec, constant: Constant) -> Certificate | None:
    found = certificate_for(spec, constant)
    return None if found is None or unusable([found]) else found
