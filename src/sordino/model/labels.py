"""Checks that the domain's target is coded the way a model reads it."""

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import refuse
from sordino.model.domain import Domain


def need_signs(domain: Domain, model: str) -> None:
    """Refuse a target that is declared as anything but the two signs -1 and +1."""
    width, bound = domain.target_width, domain.target_bound
    measured = bound is not None and (bound.value != 1.0 or domain.classes is None)
    if measured or (width is not None and width.value != 2.0) or domain.classes not in (None, 2):
        raise refuse(f"the target of {model}", "to be the signs -1 and +1", domain, 'use boolean labels "signs"')


def as_signs(y: Array) -> Array:
    """Every target as -1 or +1: what is above 0 counts as +1."""
    return jnp.where(y > 0, 1, -1).astype(y.dtype)


def as_codes(y: Array, classes: int) -> Array:
    """Every target as one of the codes 0, ..., classes - 1."""
    return jnp.clip(y, 0, classes - 1)


def need_codes(domain: Domain, classes: int, model: str) -> None:
    """Refuse a target that is declared as anything but the codes 0, ..., classes - 1."""
    signs = domain.target_width is not None and domain.target_width.value != 1.0
    if domain.classes not in (None, classes) or signs:
        raise refuse(
            f"the target of {model}", f"to be the codes 0..{classes - 1}", domain, "use a category target or bits"
        )
