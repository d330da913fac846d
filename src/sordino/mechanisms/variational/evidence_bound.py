"""The query "gradients of the evidence bound": private variational inference.

    phi <- phi - step * optimiser((sum of clipped gradients + noise) / b + penalty part - entropy / n)

The optimiser, the limits of the family and the running average act on what the noise already protects.

phi is the flat vector of the family, a point or independent Gaussians; a draw is theta(phi, e) with e standard normal,
and the chain rule gives the stacked gradient `lift(phi, e, g)`, whose squared length is sum_j w_j g_j^2 with w =
`squares(phi, e)`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.spec import Spec
from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, check_numbers, instance_of, refuse, whole_number
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.chain.rows import DataParallel
from sordino.mechanisms.posterior.laws import DrawsPosterior, FactorisedPosterior, Posterior
from sordino.mechanisms.rounds.device import Public, Query, RoundRows, Run, run_sums
from sordino.mechanisms.rounds.registry import SumsRelease, query
from sordino.models.base import Model
from sordino.models.contributions import Parts, Plain
from sordino.noise.lattice import Total, clipped_total, in_precision
from sordino.noise.randomness import Purpose, Randomness


@dataclass(frozen=True)
class VariationalFamily:
    """A family of approximate posteriors over `dim` parameters; what it does not say is that of a single point."""

    def size(self, dim: int) -> int:
        """Length of phi."""
        return dim

    def first(self, mean: Array) -> Array:
        """phi at the beginning of a run."""
        return mean

    def theta(self, phi: Array, standard: Array) -> Array:
        """The draw that belongs to a standard normal vector."""
        return phi

    def squares(self, phi: Array, standard: Array) -> Array | None:
        """How much a unit of each squared coordinate of a gradient counts in the squared length of its lift.

        None where each counts once: a matrix of ones is not only work for nothing, but was also multiplied wrongly in
        compiled programs (`model.contributions`).
        """
        return None

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        """The gradient in phi of a function whose gradient in theta, at the draw, is given."""
        return gradient

    def entropy_gradient(self, phi: Array) -> Array:
        """The gradient of the family's entropy."""
        return jnp.zeros_like(phi)

    def restrained(self, phi: Array) -> Array:
        """phi brought back into the family's public limits, which is post-processing."""
        return phi

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        """The posterior that phi stands for."""
        return DrawsPosterior(model, np.asarray(phi)[None, None])


@dataclass(frozen=True)
class PointMass(VariationalFamily):
    """A single point: variational inference becomes the search for the largest posterior density."""


@dataclass(frozen=True)
class FactorisedGaussian(VariationalFamily):
    """Independent Gaussians; phi stacks means and logarithms of standard deviations, kept between two public limits."""

    first_deviation: float = 0.05
    least_deviation: float = 1e-4
    largest_deviation: float = 10.0

    def __post_init__(self) -> None:
        check_numbers(self, first_deviation=POSITIVE, least_deviation=POSITIVE, largest_deviation=POSITIVE)
        if not self.least_deviation <= self.first_deviation <= self.largest_deviation:
            raise refuse(
                "first_deviation", "to lie between least_deviation and largest_deviation", self.first_deviation
            )

    def size(self, dim: int) -> int:
        return 2 * dim

    def first(self, mean: Array) -> Array:
        return jnp.concatenate([mean, jnp.full_like(mean, math.log(self.first_deviation))])

    def theta(self, phi: Array, standard: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        return mean + jnp.exp(log_deviation) * standard

    def squares(self, phi: Array, standard: Array) -> Array:
        return 1.0 + self._moved(phi, standard) ** 2

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        return jnp.concatenate([gradient, gradient * self._moved(phi, standard)], axis=-1)

    def entropy_gradient(self, phi: Array) -> Array:
        half = jnp.zeros(phi.size // 2, phi.dtype)
        return jnp.concatenate([half, half + 1.0])

    def restrained(self, phi: Array) -> Array:
        mean, log_deviation = jnp.split(phi, 2)
        limits = math.log(self.least_deviation), math.log(self.largest_deviation)
        return jnp.concatenate([mean, jnp.clip(log_deviation, *limits)])

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        mean, log_deviation = np.split(np.asarray(phi, np.float64), 2)
        return FactorisedPosterior(model, mean, np.exp(log_deviation))

    def _moved(self, phi: Array, standard: Array) -> Array:
        """d theta / d log deviation."""
        return jnp.exp(jnp.split(phi, 2)[1]) * standard


_SHARE = Interval(0.0, 1.0, high_open=True)
OptimiserState = tuple[Array, ...]


@dataclass(frozen=True)
class Optimiser(ABC):
    """A rule that turns gradients into directions."""

    @abstractmethod
    def first(self, phi: Array) -> OptimiserState:
        """The state before the first step."""

    @abstractmethod
    def direction(self, state: OptimiserState, gradient: Array, step: Array) -> tuple[OptimiserState, Array]:
        """The next state and the direction that the step size multiplies; `step` counts from 0."""


@dataclass(frozen=True)
class GradientDescent(Optimiser):
    """Gradient descent, with a share of the last direction kept."""

    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, momentum=_SHARE)

    def first(self, phi: Array) -> OptimiserState:
        return (jnp.zeros_like(phi),)

    def direction(self, state: OptimiserState, gradient: Array, step: Array) -> tuple[OptimiserState, Array]:
        velocity = self.momentum * state[0] + gradient
        return (velocity,), velocity


@dataclass(frozen=True)
class Adam(Optimiser):
    """Kingma & Ba 2015: running means of the gradient and of its square, corrected for their start."""

    mean_share: float = 0.9
    square_share: float = 0.999
    floor: float = 1e-8

    def __post_init__(self) -> None:
        check_numbers(self, mean_share=_SHARE, square_share=_SHARE, floor=POSITIVE)

    def first(self, phi: Array) -> OptimiserState:
        return jnp.zeros_like(phi), jnp.zeros_like(phi)

    def direction(self, state: OptimiserState, gradient: Array, step: Array) -> tuple[OptimiserState, Array]:
        mean = self.mean_share * state[0] + (1.0 - self.mean_share) * gradient
        square = self.square_share * state[1] + (1.0 - self.square_share) * gradient * gradient
        made = step.astype(gradient.dtype) + 1.0
        centred = mean / (1.0 - self.mean_share**made)
        spread = jnp.sqrt(square / (1.0 - self.square_share**made))
        return (mean, square), centred / (spread + self.floor)


@dataclass(frozen=True)
class VariationalOptions:
    """How the posterior is written, moved and started."""

    family: VariationalFamily = field(default_factory=FactorisedGaussian)  # the approximate posterior
    optimiser: Optimiser = field(default_factory=Adam)  # what is done with noised gradients
    draws: int = 1  # how many draws of theta a round takes the expected loss at; the same for every record
    start_scale: float = 0.1  # standard deviation of the random, data-free means a run starts from; 0 starts at 0
    averaged: float = 0.0  # share of the last rounds whose phi is averaged into the release; 0 releases the last one

    def __post_init__(self) -> None:
        instance_of("family", self.family, VariationalFamily)
        instance_of("optimiser", self.optimiser, Optimiser)
        object.__setattr__(self, "draws", whole_number("draws", self.draws))
        check_numbers(self, start_scale=NON_NEGATIVE, averaged=_SHARE)


@dataclass(frozen=True, eq=False)
class VariationalRelease(SumsRelease):
    """A private posterior; `iterates` holds phi after every round where the view is all-iterates, else None."""

    query: ClassVar[str] = "gradients of the evidence bound"

    model: Model
    family: VariationalFamily
    phi: NDArray[np.floating]
    iterates: NDArray[np.floating] | None

    @property
    def posterior(self) -> Posterior:
        """The approximate posterior."""
        return self.family.posterior(self.model, self.phi)


class VariationalState(NamedTuple):
    """phi, the optimiser's memory, and the sum of the phi that are averaged."""

    phi: Array
    optimiser: OptimiserState
    summed: Array


class VariationalInputs(NamedTuple):
    """The step size of a round, the standard normals its draws are made of, and whether it enters the average."""

    step_size: Array
    standards: Array
    averaged: Array


@query("gradients of the evidence bound")
@dataclass(frozen=True)
class EvidenceGradients(Query):
    """Gradients in phi of each record's expected loss, each averaged over the draws and then shortened."""

    model: Model
    options: VariationalOptions

    def size(self, features: int) -> int:
        return self.options.family.size(self.model.dim(features))

    def first(self, run: Run) -> VariationalState:
        dim, scale = self.model.dim(run.features), self.options.start_scale
        phi = self.options.family.first(scale * run.start((dim,)) if scale > 0.0 else jnp.zeros(dim))
        return VariationalState(phi, self.options.optimiser.first(phi), jnp.zeros_like(phi))

    def inputs(self, run: Run, first: int, length: int) -> VariationalInputs:
        rounds, shape = run.algorithm.rounds, (self.options.draws, self.model.dim(run.features))
        averaged = np.arange(rounds) >= rounds - self._averaged(run)
        return VariationalInputs(
            run.part(run.algorithm.schedule("step_size").values(rounds), first, length),
            run.randomness.gaussians(Purpose.DRAWS, first, length, shape, run.dtype),
            run.part(averaged, first, length),
        )

    def total(self, public: Public, state: VariationalState, given: VariationalInputs, rows: RoundRows) -> Total:
        """With one draw the gradients in theta are summed, and the sum is lifted."""
        # That rounds by 2^-53 of it: for up to 2^29 records less than what the working bound leaves of the clip. The
        # sum is cut in two in the one way that depends on it alone, so that what is lifted does as well.
        if len(given.standards) > 1:
            return super().total(public, state, given, rows)
        family, phi, standard = self.options.family, state.phi, given.standards[0]
        theta, squares = family.theta(phi, standard), family.squares(phi, standard)

        def of_some(some: SomeRows) -> Total:
            parts = self.model.record_gradients(theta, some.features, some.target, some.sizes)
            return clipped_total(parts, some.present, public.contribution, weights=squares)

        total = rows.total(theta.size, of_some).cut_at(public.contribution)
        return Total(*(family.lift(phi, standard, part) for part in total))

    def contributions(self, point: VariationalState, given: VariationalInputs, rows: SomeRows) -> Parts:
        family, phi = self.options.family, point.phi

        def lifted(standard: Array) -> Array:
            gradient = jax.vmap(self.model.gradient, in_axes=(None, 0, 0))
            found = gradient(family.theta(phi, standard), rows.features, rows.target)
            return jax.vmap(lambda each: family.lift(phi, standard, each))(found)

        return (Plain(jnp.mean(jax.vmap(lifted)(given.standards), axis=0)),)

    def moved(
        self, public: Public, state: VariationalState, given: VariationalInputs, noised: Array, number: Array
    ) -> VariationalState:
        family, phi = self.options.family, state.phi

        def penalty(standard: Array) -> Array:
            """At the same draws; no row is read."""
            return family.lift(phi, standard, self.model.penalty_gradient(family.theta(phi, standard)))

        drift = noised / public.batch + jnp.mean(jax.vmap(penalty)(given.standards), axis=0)
        drift -= family.entropy_gradient(phi) / public.records
        memory, direction = self.options.optimiser.direction(state.optimiser, drift, number)
        moved = family.restrained(phi - given.step_size * direction)
        return VariationalState(moved, memory, state.summed + jnp.where(given.averaged > 0.0, moved, 0.0))

    def kept(self, state: VariationalState) -> Array:
        return state.phi

    def release(
        self, spec: Spec, run: Run, state: VariationalState, iterates: NDArray[Any] | None
    ) -> VariationalRelease:
        averaged = self._averaged(run)
        phi = in_precision(state.summed / averaged if averaged else state.phi, run.dtype)
        return VariationalRelease(spec, self.model, self.options.family, phi, iterates)

    def _averaged(self, run: Run) -> int:
        return int(self.options.averaged * run.algorithm.rounds)


def run_variational(
    spec: Spec,
    model: Model,
    features: Any,
    target: Any,
    randomness: Randomness,
    *,
    options: VariationalOptions,
    placement: DataParallel | None = None,
) -> VariationalRelease:
    """Fit the family to the posterior of a model by clipped noisy gradients, and release its parameters.

    The objective is the mean loss plus the model's penalty, expected under the family, minus the family's entropy over
    the number of records: with a weight decay of prior precision / n, the evidence bound over n. Options are public.
    With a `placement`, devices share the rows of every round.
    """
    asked = EvidenceGradients(instance_of("model", model, Model), options)
    return run_sums(spec, asked, features, target, randomness, placement)
