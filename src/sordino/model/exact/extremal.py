"""Neighbouring quadratics on which the shift bounds are attained, or as nearly as the scheme allows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.certificate import Certificate
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.validate import Interval, whole_number
from sordino.model.exact.quadratic import Quadratics


@dataclass(frozen=True, eq=False)
class QuadraticPair:
    """Two neighbours and the position of the record they differ in."""

    first: Quadratics
    second: Quadratics
    relation: Relation
    position: int


def extremal_pair(spec: Spec, position: int) -> QuadraticPair:
    """Two datasets that push the chain apart along one axis as hard as the certified constants allow.

    Every per-example gradient is a constant vector, so the certified curvature m is carried by the weight decay
    (m / 2) |theta|^2, which no record changes: one step is theta -> (1 - eta m) theta + (eta / b) sum of pulls. On it
    `shifted.full` is exact whenever eta <= 2 / (m + M), and drift-bounded Langevin with linear V is covered too.

    | relation | record `position` in the first | in the second | other records |
    | --- | --- | --- | --- |
    | replace-one | pulls Delta / 2 along the first axis | pulls -Delta / 2 | pull 0 |
    | add-remove | pulls `gradient_bound` | absent | pull 0 |
    """
    at = whole_number("position", position, Interval(0, spec.n - 1))
    return QuadraticPair(*_BUILDERS[spec.relation](spec, at), spec.relation, at)


def _replace_one(spec: Spec, position: int) -> tuple[Quadratics, Quadratics]:
    half = _value(spec, "gradient_sensitivity") / 2
    kinds = np.zeros(spec.n, dtype=np.int64)
    kinds[position] = 1
    return _constant(spec, half, kinds), _constant(spec, -half, kinds)


def _add_remove(spec: Spec, position: int) -> tuple[Quadratics, Quadratics]:
    bound = _value(spec, "gradient_bound")
    kinds = np.zeros(spec.n, dtype=np.int64)
    kinds[position] = 1
    return _constant(spec, bound, kinds), _constant(spec, bound, np.delete(kinds, position))


_BUILDERS = {Relation.REPLACE_ONE: _replace_one, Relation.ADD_REMOVE: _add_remove}


def _constant(spec: Spec, pull: float, kinds: NDArray[np.int64]) -> Quadratics:
    """Records whose gradients are constants: 0, or `pull` along the first axis."""
    pulls = np.zeros((2, spec.dim))
    pulls[1, 0] = pull
    certificate = None if spec.problem is None else spec.problem.strong_convexity
    decay = 0.0 if certificate is None else certificate.value
    return Quadratics(np.zeros((2, spec.dim, spec.dim)), pulls, kinds, decay)


def _value(spec: Spec, name: str) -> float:
    certificate: Certificate | None = getattr(spec.problem, name, None)
    if certificate is None:
        raise InputError(f"Expected problem.{name} to be given for {spec.relation.value}, got none.")
    return certificate.value
