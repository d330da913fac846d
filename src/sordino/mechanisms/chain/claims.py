"""What a spec claims about the update has to hold for the model that runs it, and for every row it runs on.

A chain is certified from its spec, so everything a theorem may read is brought about here, whatever rows are given: the
length of rows and the size of targets, the length of a record's gradient, the divisor and the radius.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Certificate, Direction
from sordino.core.gaussian import least_true
from sordino.core.spec import Ball, Clipping, GaussianNoise, NoisyGradient, Problem, Spec
from sordino.core.spec.fields import Section
from sordino.core.validate import InputError, instance_of, refuse
from sordino.mechanisms.chain.kernel import Constants, GradientSum, Program, RowLimits
from sordino.mechanisms.chain.rounding import hidden_lattice
from sordino.models.base import Model
from sordino.models.clip import working_bound
from sordino.models.facts import Domain
from sordino.noise.lattice import Lattice, checked_bound
from sordino.noise.port import NoisePort

# Rows and targets beyond this are not limited: products of a few of them are still numbers.
_UNLIMITED = 1e60
# Rows this short have no use; a claim that fails even for them fails for all.
_SHORTEST = 1e-30
_ROUNDING = 2.0**-50
# How short a length in double precision may be computed, for every entry and for some operations more.
_LENGTH_ERROR = 2.0**-51
_SPARE_OPERATIONS = 8
# What flooring a sum to the lattice of its noise may add to the length of a difference (`lattice`).
_FOR_THE_LATTICE = 2.0**-23


def check_regulariser(spec: Spec, model: Model) -> None:
    """Refuse a spec that claims another weight decay, or a better prior, than the model has."""
    # A chain is certified from its spec, so a spec written for a stronger regulariser would certify what does not run.
    # A model that certifies nothing about its penalty leaves the claim to the user who declared it.
    claimed = None if spec.problem is None else spec.problem.regulariser
    own = model.regulariser_certificates()
    if claimed is None or "regulariser.strong_convexity" not in own:
        return
    convexity, smoothness = own["regulariser.strong_convexity"].value, own["regulariser.smoothness"].value
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
    """The longest row, and the largest target, for which the model certifies what the spec claims."""
    # Gradient bounds, smoothness and growth depend on how long rows are. A run brings every row within this length, so
    # what was certified holds whatever rows it is given. Infinite where no claim depends on it: clipped gradients of a
    # network, or a loss of which nothing is known but what the caller declared.
    if spec.problem is None:
        return math.inf, math.inf
    length, target = _limits(spec.problem, model, algorithm.clipping, algorithm.projection, features)
    if algorithm.clipping is not None and model.clips_rows(algorithm.clipping):
        length = min(length, algorithm.clipping.bound)
    return length, target


@lru_cache(256)
def _limits(
    problem: Problem, model: Model, clipping: Clipping | None, projection: Ball | None, features: int
) -> tuple[float, float]:
    claimed = dict(_upper(problem))

    def holds(length: float, target: float | None) -> bool:
        certified = model.certificates(Domain(features, length, target), clipping, projection)
        return all(certified[name].value <= value for name, value in claimed.items() if name in certified)

    def largest(of: Callable[[float], bool], name: str) -> float:
        if of(_UNLIMITED):
            return math.inf
        if not of(_SHORTEST):
            raise refuse("the problem of the spec", f"to claim what the model has for some {name}", "less", "state it")
        limit = 1.0 / least_true(lambda inverse: of(1.0 / inverse), 1.0 / _UNLIMITED, 1.0)
        # Limits are declared as short decimals; those that were are met exactly.
        declared = float(f"{limit:.12g}")
        return declared if of(declared) else limit * (1.0 - _ROUNDING)

    length = largest(lambda row: holds(row, None), "length of rows")
    if math.isinf(length):
        return length, math.inf
    try:
        return length, largest(lambda target: holds(length, target), "size of targets")
    except InputError:  # a model of labels, which has no sizes of targets
        return length, math.inf


def _upper(section: Any) -> Iterator[tuple[str, float]]:
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, Certificate) and value.constant.direction is Direction.UPPER:
            yield value.constant.name, value.value
        elif isinstance(value, Section) and field.name != "regulariser":
            yield from _upper(value)


def described_chain(spec: Spec, model: Model) -> NoisyGradient:
    """The chain that a spec describes, if the model is one that it can run."""
    instance_of("spec", spec, Spec)
    instance_of("model", model, Model)
    check_regulariser(spec, model)
    return instance_of("spec.algorithm", spec.algorithm, NoisyGradient)


def row_limits(spec: Spec, algorithm: NoisyGradient, model: Model, features: int) -> RowLimits:
    """What every record is brought within; rows are cut to whole numbers where the gradients have a bound."""
    bounded = gradient_reach(spec, algorithm, model) is not None
    return RowLimits(*longest_row(spec, algorithm, model, features), model.as_labels, bounded and model.cuts_rows)


def program_for(
    spec: Spec, algorithm: NoisyGradient, model: Model, gradient_sum: GradientSum, slots: int, port: NoisePort
) -> Program:
    """What is compiled for a spec: bounded, clipped and projected as it says."""
    bounded = gradient_reach(spec, algorithm, model) is not None
    clipped, projected = _clips_gradients(algorithm, model), algorithm.projection is not None
    hidden = bounded and algorithm.rounding is not None
    return Program(model, bounded, clipped, gradient_sum, projected, slots, port, hidden)


def run_constants(spec: Spec, algorithm: NoisyGradient, model: Model) -> Constants:
    """The public numbers that hold for every step: what sums are divided by, how far gradients and iterates reach."""
    reach = gradient_reach(spec, algorithm, model) or 0.0
    radius = 0.0 if algorithm.projection is None else working_bound(algorithm.projection.radius, spec.dim)
    return Constants(*(jnp.asarray(value, float) for value in (algorithm.divisor(spec.n), reach, radius)))


def sum_noise(algorithm: NoisyGradient, n: int) -> NDArray[np.float64]:
    """The noise on the sum of gradients at every step: the step multiplies the sum by eta / b."""
    scales = algorithm.noise.scale.values(algorithm.steps) * algorithm.divisor(n)
    on_sum = scales / algorithm.step_size.values(algorithm.steps)
    if not np.isfinite(on_sum).all():
        raise refuse("noise.scale", "to be finite when divided by step_size over the batch size", "infinity")
    return on_sum


def chain_lattice(spec: Spec, algorithm: NoisyGradient, model: Model) -> Lattice | None:
    """The lattice of a chain's noise; None where gradients have no bound, or noise is not Gaussian."""
    reach = gradient_reach(spec, algorithm, model)
    if reach is None or not isinstance(algorithm.noise, GaussianNoise):
        return None
    if algorithm.rounding is not None:
        return hidden_lattice(spec, algorithm, model, reach)
    return Lattice.of(reach, spec.dim, float(sum_noise(algorithm, spec.n).max()))


def _clips_gradients(algorithm: NoisyGradient, model: Model) -> bool:
    return algorithm.clipping is not None and not model.clips_rows(algorithm.clipping)


def gradient_reach(spec: Spec, algorithm: NoisyGradient, model: Model) -> float | None:
    """What every record's gradient is shortened to: by a clip, or by the bound that the spec certifies."""
    # No gradient of an honest row exceeds a certified bound. None where the spec states neither: no theorem reads one
    # then, and sums have no grid.
    if algorithm.clipping is not None and _clips_gradients(algorithm, model):
        bound = checked_bound("algorithm.clipping.bound", algorithm.clipping.bound)
        return working_bound(bound, spec.dim)
    certified = None if spec.problem is None else spec.problem.gradient_bound
    if certified is None or certified.value == 0.0:
        return None
    bound = checked_bound("problem.gradient_bound", certified.value)
    return bound * (1.0 - _FOR_THE_LATTICE - (spec.dim / 2 + _SPARE_OPERATIONS) * _LENGTH_ERROR)
