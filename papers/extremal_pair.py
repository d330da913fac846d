"""The worst-case quadratic of a spec's constants as two neighbouring datasets on which the law is exact."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Certificate, Relation
from sordino.core.spec import Spec
from sordino.core.validate import InputError, Interval, whole_number
from sordino.models.exact import Quadratics


class QuadraticPair(NamedTuple):
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
    kinds = np.zeros(spec.n, dtype=np.int64)
    kinds[at] = 1
    if spec.relation is Relation.REPLACE_ONE:
        half = _value(spec, "gradient_sensitivity") / 2
        return QuadraticPair(_constant(spec, half, kinds), _constant(spec, -half, kinds), spec.relation, at)
    bound = _value(spec, "gradient_bound")
    absent = _constant(spec, bound, np.delete(kinds, at))
    return QuadraticPair(_constant(spec, bound, kinds), absent, spec.relation, at)


def _constant(spec: Spec, pull: float, kinds: NDArray[np.int64]) -> Quadratics:
    """Records whose gradients are constants: 0, or `pull` along the first axis."""
    pulls = np.zeros((2, spec.dim))
    pulls[1, 0] = pull
    certificate: Certificate | None = getattr(spec.problem, "strong_convexity", None)
    return Quadratics(np.zeros((2, spec.dim, spec.dim)), pulls, kinds, certificate.value if certificate else 0.0)


def _value(spec: Spec, name: str) -> float:
    certificate: Certificate | None = getattr(spec.problem, name, None)
    if certificate is None:
        raise InputError(f"problem.{name} is missing; {spec.relation.value} needs it.")
    return certificate.value
