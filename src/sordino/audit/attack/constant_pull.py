"""The extremal quadratic as a model the kernel can run: every record pulls with a constant gradient."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
from jax import Array

from sordino.audit.attack.effort import chain_of
from sordino.core.spec import PointStart, Spec
from sordino.data.neighbours import Dataset, NeighbourPair
from sordino.model.base import Model
from sordino.model.clip import clip_by_norm
from sordino.model.domain import Domain
from sordino.model.exact.extremal import extremal_pair
from sordino.model.exact.quadratic import Quadratics
from sordino.model.facts import NOTHING_KNOWN, LossFacts


@dataclass(frozen=True)
class ConstantPull(Model):
    """Loss -x.theta: the gradient of a record is -x wherever theta is, and weight decay carries all curvature."""

    def dim(self, features: int) -> int:
        return features

    @property
    def scalar_residual(self) -> bool:
        return True

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return -jnp.vdot(x, theta)

    def gradient_sum(self, theta: Array, X: Array, Y: Array, weights: Array) -> Array:
        return -(weights @ X)

    def clipped_gradient_sum(
        self, theta: Array, X: Array, Y: Array, weights: Array, bound: float, row_norms: Array | None
    ) -> Array:
        return -(weights @ clip_by_norm(X, bound))

    def facts(self, domain: Domain) -> LossFacts:
        return NOTHING_KNOWN


def constant_pull_model(spec: Spec) -> ConstantPull:
    """The model of a spec's extremal quadratic: its weight decay is the certified curvature."""
    problem = spec.problem
    curvature = None if problem is None else problem.strong_convexity
    if problem is not None and curvature is None and problem.regulariser is not None:
        curvature = problem.regulariser.strong_convexity
    return ConstantPull(weight_decay=0.0 if curvature is None else curvature.value)


def on_one_axis(spec: Spec) -> Spec:
    """The same run with the first coordinate alone: on the extremal quadratic no record moves the others.

    A projection couples the coordinates, so a projected run keeps them all.
    """
    chain = chain_of(spec)
    if chain.projection is not None or spec.problem is None:
        return spec
    values = chain.start.values if isinstance(chain.start, PointStart) else None
    start = chain.start if values is None else PointStart(values[:1])
    return replace(
        spec,
        algorithm=replace(chain, start=start),
        problem=replace(spec.problem, dim=1),
        average=None if spec.average is None else replace(spec.average, dim=1),
    )


def extremal_rows(spec: Spec, position: int) -> NeighbourPair:
    """The two neighbours of `extremal_pair` as rows of features that `ConstantPull` reads."""
    pair = extremal_pair(spec, position)
    return NeighbourPair(_rows(pair.first), _rows(pair.second), pair.relation, pair.position)


def _rows(data: Quadratics) -> Dataset:
    pulls = data.pulls[data.kinds]
    return Dataset(pulls, pulls[:, 0] * 0.0)
