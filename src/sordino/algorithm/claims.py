"""What a spec claims about the update has to hold for the model that runs it, and for every row it runs on."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from sordino.core.certificate import Certificate, Direction
from sordino.core.errors import InputError
from sordino.core.search import least_true
from sordino.core.spec import Ball, Clipping, NoisyGradient, Problem, Spec
from sordino.core.spec.section import Section
from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.domain import Domain

# Rows and targets beyond this are not limited: products of a few of them are still numbers.
_UNLIMITED = 1e60
# Rows this short have no use; a claim that fails even for them fails for all.
_SHORTEST = 1e-30
_ROUNDING = 2.0**-50


def check_regulariser(spec: Spec, model: Model) -> None:
    """Refuse a spec that claims another weight decay, or a better prior, than the model has.

    A chain is certified from its spec, so a spec written for a stronger regulariser would certify what does not run.
    A model that certifies nothing about its penalty leaves the claim to whoever declared it.
    """
    claimed = None if spec.problem is None else spec.problem.regulariser
    held = model.regulariser_certificates()
    if claimed is None or "regulariser.strong_convexity" not in held:
        return
    convexity, smoothness = held["regulariser.strong_convexity"].value, held["regulariser.smoothness"].value
    if claimed.strong_convexity.value > convexity:
        raise refuse(
            "problem.regulariser.strong_convexity",
            f"to be at most the model's {convexity!r}",
            claimed.strong_convexity.value,
        )
    if claimed.smoothness.value < smoothness:
        raise refuse(
            "problem.regulariser.smoothness", f"to be at least the model's {smoothness!r}", claimed.smoothness.value
        )


def longest_row(spec: Spec, algorithm: NoisyGradient, model: Model, features: int) -> tuple[float, float]:
    """The longest row, and the largest target, for which the model certifies what the spec claims.

    Gradient bounds, smoothness and growth depend on how long rows are. A run brings every row within this length, so
    what was certified holds whatever rows it is given. Infinite where no claim depends on it: clipped gradients of a
    network, or a loss of which nothing is known but what the caller declared.
    """
    if spec.problem is None:
        return math.inf, math.inf
    length, target = _limits(spec.problem, model, algorithm.clipping, algorithm.projection, features)
    if algorithm.clipping is not None and model.clipping_rule(algorithm.clipping).of_rows:
        length = min(length, algorithm.clipping.bound)
    return length, target


@lru_cache(256)
def _limits(
    problem: Problem, model: Model, clipping: Clipping | None, projection: Ball | None, features: int
) -> tuple[float, float]:
    claimed = dict(_upper(problem))

    def holds(length: float, target: float | None) -> bool:
        held = model.certificates(Domain(features, length, target), clipping, projection)
        return all(held[name].value <= value for name, value in claimed.items() if name in held)

    def largest(of: Callable[[float], bool], name: str) -> float:
        if of(_UNLIMITED):
            return math.inf
        if not of(_SHORTEST):
            raise refuse("the problem of the spec", f"to claim what the model has for some {name}", "less", "state it")
        found = 1.0 / least_true(lambda inverse: of(1.0 / inverse), 1.0 / _UNLIMITED, 1.0)
        # Limits are declared as short decimals; those that were are met exactly.
        declared = float(f"{found:.12g}")
        return declared if of(declared) else found * (1.0 - _ROUNDING)

    length = largest(lambda one: holds(one, None), "length of rows")
    if math.isinf(length):
        return length, math.inf
    try:
        return length, largest(lambda one: holds(length, one), "size of targets")
    except InputError:  # a model of labels, which has no sizes of targets
        return length, math.inf


def _upper(section: Any) -> Iterator[tuple[str, float]]:
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Certificate) and value.constant.direction is Direction.UPPER:
            yield value.constant.name, value.value
        elif isinstance(value, Section) and field.name != "regulariser":
            yield from _upper(value)
