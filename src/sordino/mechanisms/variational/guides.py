"""Variational inference of custom models with a guide: Gaussian guides, and the query that sums their gradients.

As in `evidence_bound`, a draw is theta(phi, e), and every guide here moves theta by products of a coordinate's
own parameters with e. So the squared length of a lifted gradient is again sum_j w_j g_j^2, with w from phi and e alone,
and one record's contribution is clipped before anything as large as phi is made. A round moves

    phi <- phi - step * optimiser(C * noised sum / b + (penalty part - entropy) / n)

Each unit's gradient in theta, over a public clip C, is shortened by the length of its lift to phi, summed, and the sum
is lifted: no array has as many entries as units times phi. A point mass as guide makes it gradient descent.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.spec import Spec
from sordino.core.validate import POSITIVE, SordinoError, check_numbers, one_of, refuse, whole_number
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.rounds.device import Public, Query, RoundRows, Run
from sordino.mechanisms.rounds.registry import query
from sordino.mechanisms.variational.evidence_bound import (
    Adam,
    FactorisedGaussian,
    Optimiser,
    OptimiserState,
    PointMass,
    VariationalFamily,
)
from sordino.models.contributions import Parts, Plain
from sordino.models.custom.base import CustomModel
from sordino.noise.lattice import Total, clipped_total
from sordino.noise.randomness import Purpose

_LIMITS = (math.log(1e-4), math.log(10.0))


@dataclass(frozen=True)
class FullGaussian(VariationalFamily):
    """phi stacks the mean, the logarithms of the diagonal of L and its entries below; theta = mean + L e."""

    first_deviation: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE)

    def size(self, dim: int) -> int:
        return 2 * dim + dim * (dim - 1) // 2

    def first(self, mean: Array) -> Array:
        below = mean.size * (mean.size - 1) // 2
        return jnp.concatenate([mean, jnp.full_like(mean, math.log(self.first_deviation)), jnp.zeros(below)])

    def theta(self, phi: Array, standard: Array) -> Array:
        return phi[: standard.size] + self.root(phi, standard.size) @ standard

    def squares(self, phi: Array, standard: Array) -> Array:
        dim = standard.size
        before = jnp.cumsum(standard**2) - standard**2
        return 1.0 + before + (jnp.exp(phi[dim : 2 * dim]) * standard) ** 2

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        dim = standard.size
        row, column = np.tril_indices(dim, -1)
        moved = gradient * (jnp.exp(phi[dim : 2 * dim]) * standard)
        return jnp.concatenate([gradient, moved, gradient[..., row] * standard[column]], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        dim = dimension(phi.size)
        return jnp.zeros_like(phi).at[dim : 2 * dim].set(1.0)

    def restrained(self, phi: Array) -> Array:
        dim = dimension(phi.size)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def root(self, phi: Array, dim: int) -> Array:
        """The lower triangular root of the covariance."""
        row, column = np.tril_indices(dim, -1)
        return jnp.diag(jnp.exp(phi[dim : 2 * dim])).at[row, column].set(phi[2 * dim :])


@dataclass(frozen=True)
class LowRankGaussian(VariationalFamily):
    """phi stacks the mean, the logarithms of deviations d and a matrix U; theta = mean + d e + U e'."""

    rank: int = 2
    first_deviation: float = 0.05

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE)
        whole_number("rank", self.rank)

    def size(self, dim: int) -> int:
        return (2 + self.rank) * dim

    def first(self, mean: Array) -> Array:
        # Zero factors would stay zero in expectation's first order only by symmetry; a small public pattern breaks it.
        pattern = 0.1 * self.first_deviation * np.cos(np.outer(np.arange(mean.size), 1.0 + np.arange(self.rank)))
        deviations = jnp.full_like(mean, math.log(self.first_deviation))
        return jnp.concatenate([mean, deviations, jnp.asarray(pattern, mean.dtype).ravel()])

    def theta(self, phi: Array, standard: Array) -> Array:
        mean, deviations, factors, own, shared = self._parts(phi, standard)
        return mean + deviations * own + factors @ shared

    def squares(self, phi: Array, standard: Array) -> Array:
        _, deviations, _, own, shared = self._parts(phi, standard)
        return 1.0 + (deviations * own) ** 2 + jnp.sum(shared**2)

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        _, deviations, _, own, shared = self._parts(phi, standard)
        outer = (gradient[..., :, None] * shared).reshape(*gradient.shape[:-1], -1)
        return jnp.concatenate([gradient, gradient * (deviations * own), outer], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        return jax.grad(lambda each: 0.5 * jnp.linalg.slogdet(self.covariance(each))[1])(phi)

    def restrained(self, phi: Array) -> Array:
        dim = phi.size // (2 + self.rank)
        return phi.at[dim : 2 * dim].set(jnp.clip(phi[dim : 2 * dim], *_LIMITS))

    def covariance(self, phi: Array) -> Array:
        """The covariance of theta."""
        dim = phi.size // (2 + self.rank)
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return jnp.diag(jnp.exp(2.0 * phi[dim : 2 * dim])) + factors @ factors.T

    def _parts(self, phi: Array, standard: Array) -> tuple[Array, ...]:
        dim = standard.size - self.rank
        factors = phi[2 * dim :].reshape(dim, self.rank)
        return phi[:dim], jnp.exp(phi[dim : 2 * dim]), factors, standard[:dim], standard[dim:]


def dimension(size: int) -> int:
    """The number of parameters of a full Gaussian whose phi has this length: size = d (d + 3) / 2."""
    return round((math.sqrt(9.0 + 8.0 * size) - 3.0) / 2.0)


def standards(family: VariationalFamily, dim: int) -> int:
    """How many standard normals a draw is made of."""
    return dim + (family.rank if isinstance(family, LowRankGaussian) else 0)


def mean_and_covariance(family: VariationalFamily, phi: NDArray[np.floating], dim: int) -> tuple[Any, Any]:
    """Of theta under the guide."""
    phi = np.asarray(phi, np.float64)
    if isinstance(family, FullGaussian):
        root = np.asarray(family.root(jnp.asarray(phi), dim))
        return phi[:dim], root @ root.T
    if isinstance(family, LowRankGaussian):
        return phi[:dim], np.asarray(family.covariance(jnp.asarray(phi)))
    if isinstance(family, FactorisedGaussian):
        return phi[:dim], np.diag(np.exp(2.0 * phi[dim:]))
    return phi, np.zeros((dim, dim))


# NumPyro's automatic guides, by the names of their classes, and the words for them.
_GUIDES = {
    "point": PointMass,
    "diagonal": FactorisedGaussian,
    "low-rank": LowRankGaussian,
    "full": FullGaussian,
}
_AUTOMATIC = {
    "AutoDelta": "point",
    "AutoNormal": "diagonal",
    "AutoDiagonalNormal": "diagonal",
    "AutoLowRankMultivariateNormal": "low-rank",
    "AutoMultivariateNormal": "full",
}


def guide_for(given: Any) -> VariationalFamily:
    """The guide for a word, or for a class or object of NumPyro's automatic guides."""
    if isinstance(given, VariationalFamily):
        return given
    if isinstance(given, str):
        return _GUIDES[one_of("guide", given, tuple(_GUIDES))]()
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    if name not in _AUTOMATIC:
        raise refuse("guide", f"to be one of {', '.join((*_GUIDES, *_AUTOMATIC))}", name)
    if name == "AutoLowRankMultivariateNormal" and getattr(given, "rank", None):
        return LowRankGaussian(rank=int(given.rank))
    return _GUIDES[_AUTOMATIC[name]]()


class Guided(NamedTuple):
    """phi, the optimiser's memory, the clip, and sums over the last rounds of phi and of the gradient of its mean."""

    phi: Array
    optimiser: OptimiserState
    clip: Array
    summed: Array
    slopes: Array


class GuideInputs(NamedTuple):
    """Of a round: its step size, the standard normals of its draw, and whether it enters the averages."""

    step_size: Array
    standard: Array
    averaged: Array


@query("gradients of the evidence bound, own model")
@dataclass(frozen=True)
class GuidedGradients(Query):
    """Clipped gradients of each unit at one draw from the guide."""

    keeps_units: ClassVar[bool] = True

    model: CustomModel
    family: VariationalFamily
    standards: int
    optimiser: Optimiser = field(default_factory=Adam)
    averaged: float = 0.5

    def size(self, features: int) -> int:
        return self.family.size(self.model.size)

    def first(self, run: Run) -> Any:
        raise SordinoError("Rounds of a model of one's own begin from a state that is given.")

    def started(self, theta: Array, clip: float) -> Guided:
        """The state before the first round."""
        phi = self.family.first(theta)
        zeros = jnp.zeros(self.model.size, theta.dtype)
        return Guided(phi, self.optimiser.first(phi), jnp.asarray(clip, theta.dtype), jnp.zeros_like(phi), zeros)

    def inputs(self, run: Run, first: int, length: int) -> GuideInputs:
        rounds = run.algorithm.rounds
        averaged = np.arange(rounds) >= rounds - self.last(rounds)
        return GuideInputs(
            run.part(run.algorithm.schedule("step_size").values(rounds), first, length),
            run.randomness.gaussians(Purpose.DRAWS, first, length, (self.standards,), run.dtype),
            run.part(averaged, first, length),
        )

    def last(self, rounds: int) -> int:
        """How many rounds are averaged."""
        return max(1, int(self.averaged * rounds))

    def total(self, public: Public, state: Guided, given: GuideInputs, rows: RoundRows) -> Total:
        theta, squares = self._draw(state, given)

        def of_some(some: SomeRows) -> Total:
            parts = (Plain(self.model.unit_gradients(theta, some.features) / state.clip),)
            return clipped_total(parts, some.present, public.contribution, weights=squares)

        # Cut in two in the one way that depends on the sum alone, so that what is lifted does as well.
        total = rows.total(theta.size, of_some).cut_at(public.contribution)
        return Total(*(self.family.lift(state.phi, given.standard, part) for part in total))

    def contributions(self, point: Guided, given: GuideInputs, rows: SomeRows) -> Parts:
        theta, _ = self._draw(point, given)
        found = self.model.unit_gradients(theta, rows.features) / point.clip
        return (Plain(self.family.lift(point.phi, given.standard, found)),)

    def moved(self, public: Public, state: Guided, given: GuideInputs, noised: Array, number: Array) -> Guided:
        family, phi = self.family, state.phi
        theta, _ = self._draw(state, given)
        prior = family.lift(phi, given.standard, jax.grad(self.model.penalty)(theta))
        drift = noised * (state.clip / public.batch) + (prior - family.entropy_gradient(phi)) / public.records
        memory, direction = self.optimiser.direction(state.optimiser, drift, number)
        moved = family.restrained(phi - given.step_size * direction)
        counted = given.averaged > 0.0
        summed = state.summed + jnp.where(counted, phi, 0.0)
        slopes = state.slopes + jnp.where(counted, drift[: self.model.size], 0.0)
        return Guided(moved, memory, state.clip, summed, slopes)

    def kept(self, state: Guided) -> Array:
        return state.phi

    def release(self, spec: Spec, run: Run, state: Any, iterates: Any) -> Any:
        raise SordinoError("Rounds of a model of one's own are released by the fit that asks them.")

    def _draw(self, state: Guided, given: GuideInputs) -> tuple[Array, Array | None]:
        standard = given.standard
        return self.family.theta(state.phi, standard), self.family.squares(state.phi, standard)
