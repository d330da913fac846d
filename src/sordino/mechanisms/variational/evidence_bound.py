"""Variational inference by noised gradients of the evidence bound, of a model or of a custom one, and its families.

    phi <- phi + step * optimiser((sum of clipped gradients + noise) / b + (penalty part - entropy) / n)

phi is the flat vector of a family: of a point, which makes this gradient descent, or of independent Gaussians. A draw
is theta(phi, e) with e standard normal, of the size of theta. The chain rule gives the gradient in phi, `lift(phi, e,
g)`, whose squared length is sum_j w_j g_j^2 with w = `squares(phi, e)`, from phi and e alone. Each record's gradient in
theta is shortened by that length, summed, and the sum is lifted: no array has as many entries as records times phi. The
optimiser, the limits of the family and the running average act on what the noise already protects.
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.core.spec import Spec
from sordino.core.validate import NON_NEGATIVE, Declared, Interval, instance_of, one_of
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.networks.training import Adam
from sordino.mechanisms.posterior.laws import DrawsPosterior, FactorisedPosterior, Posterior
from sordino.mechanisms.rounds import Public, Query, RoundRows, Run, SumsRelease, run_sums
from sordino.models.base import Model
from sordino.models.contributions import Parts, Plain
from sordino.models.custom.base import CustomModel
from sordino.noise.lattice import Total, clipped_total, in_precision
from sordino.noise.randomness import Purpose, Randomness


@dataclass(frozen=True)
class PointMass:
    """A family of approximate posteriors over `dim` parameters; this one is a point, that of the largest density."""

    def size(self, dim: int) -> int:
        return dim

    def first(self, mean: Array) -> Array:
        return mean

    def theta(self, phi: Array, standard: Array) -> Array:
        """The draw that belongs to a standard normal vector."""
        return phi

    def squares(self, phi: Array, standard: Array) -> Array | None:
        """How much a unit of each squared coordinate of a gradient counts in the squared length of its lift.

        None where each counts once: a matrix of ones was multiplied wrongly in compiled programs (`contributions`).
        """
        return None

    def lift(self, phi: Array, standard: Array, gradient: Array) -> Array:
        """The gradient in phi of a function whose gradient in theta, at the draw, is given."""
        return gradient

    def entropy_gradient(self, phi: Array) -> Array:
        return jnp.zeros_like(phi)

    def restrained(self, phi: Array) -> Array:
        """phi brought back into the family's public limits, which is post-processing."""
        return phi

    def covariance(self, phi: Array, dim: int) -> Array:
        """The covariance of theta; its mean is the first `dim` entries of phi."""
        return jnp.zeros((dim, dim))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        return DrawsPosterior(model, np.asarray(phi)[None, None])


_DEVIATIONS = Interval(1e-4, 10.0)


@dataclass(frozen=True)
class FactorisedGaussian(Declared, PointMass):
    """Independent Gaussians; phi stacks means and logarithms of standard deviations, kept between two public limits."""

    first_deviation: Annotated[float, _DEVIATIONS] = 0.05

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
        return jnp.concatenate([mean, jnp.clip(log_deviation, *map(math.log, (_DEVIATIONS.low, _DEVIATIONS.high)))])

    def covariance(self, phi: Array, dim: int) -> Array:
        return jnp.diag(jnp.exp(2.0 * phi[dim:]))

    def posterior(self, model: Model, phi: NDArray[np.floating]) -> Posterior:
        mean, log_deviation = np.split(np.asarray(phi, np.float64), 2)
        return FactorisedPosterior(model, mean, np.exp(log_deviation))

    def _moved(self, phi: Array, standard: Array) -> Array:
        """d theta / d log deviation."""
        return jnp.exp(jnp.split(phi, 2)[1]) * standard


# The words for guides, and the names of NumPyro's automatic ones.
_GUIDES: dict[str, type[PointMass]] = {"point": PointMass, "diagonal": FactorisedGaussian}
_GUIDES |= {"AutoDelta": PointMass, "AutoNormal": FactorisedGaussian, "AutoDiagonalNormal": FactorisedGaussian}


def guide_for(given: Any) -> PointMass:
    """The guide for a word, or for a class or object of NumPyro's automatic guides."""
    if isinstance(given, PointMass):
        return given
    name = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
    return _GUIDES[one_of("guide", name, tuple(_GUIDES))]()


@dataclass(frozen=True)
class VariationalOptions(Declared):
    """How the posterior is written, moved and started."""

    family: PointMass = field(default_factory=FactorisedGaussian)  # the approximate posterior
    optimiser: Any = field(default_factory=Adam)  # what is done with noised gradients, in the form of optax
    # Standard deviation of the random, data-free means a run starts from; 0 starts at 0.
    start_scale: Annotated[float, NON_NEGATIVE] = 0.1
    # Share of the last rounds whose phi is averaged into the release; 0 releases the last one.
    averaged: Annotated[float, Interval(0.0, 1.0, high_open=True)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        instance_of("family", self.family, PointMass)


@dataclass(frozen=True, eq=False)
class VariationalRelease(SumsRelease):
    """A private posterior; `iterates` holds phi after every round where the view is all-iterates, else None."""

    model: Model
    family: PointMass
    phi: NDArray[np.floating]
    iterates: NDArray[np.floating] | None

    @property
    def posterior(self) -> Posterior:
        return self.family.posterior(self.model, self.phi)


class VariationalState(NamedTuple):
    """phi, the optimiser's memory, and the sum of the phi that are averaged."""

    phi: Array
    optimiser: Any
    summed: Array
    clip: Any = None  # of a custom model
    slopes: Any = None  # of a custom model, the sum of the gradients in the mean where phi is averaged


class VariationalInputs(NamedTuple):
    """The step size of a round, the standard normals its draw is made of, and whether it enters the average."""

    step_size: Array
    standard: Array
    averaged: Array


@dataclass(frozen=True)
class EvidenceGradients(Query):
    """Gradients in phi of each record's loss, at one draw of theta a round, the same for every record."""

    name: ClassVar[str] = "gradients of the evidence bound"

    model: Any
    options: VariationalOptions

    def dim(self, features: int) -> int:
        return self.model.dim(features)

    def size(self, features: int) -> int:
        return self.options.family.size(self.dim(features))

    def first(self, run: Run) -> VariationalState:
        dim, scale = self.dim(run.features), self.options.start_scale
        phi = self.options.family.first(scale * run.start((dim,)) if scale > 0.0 else jnp.zeros(dim))
        return VariationalState(phi, self.options.optimiser.init(phi), jnp.zeros_like(phi))

    def inputs(self, run: Run, first: int, length: int) -> VariationalInputs:
        rounds = run.algorithm.rounds
        averaged = np.arange(rounds) >= rounds - self.last(rounds)
        sizes = run.algorithm.schedule("step_size").values(rounds)
        normals = run.randomness.gaussians(Purpose.DRAWS, first, length, (self.dim(run.features),), run.dtype)
        return VariationalInputs(run.part(sizes, first, length), normals, run.part(averaged, first, length))

    def last(self, rounds: int) -> int:
        return int(self.options.averaged * rounds)

    def contributions(self, point: VariationalState, given: VariationalInputs, rows: SomeRows) -> Parts:
        theta = self.options.family.theta(point.phi, given.standard)
        return self.model.record_gradients(theta, rows.features, rows.target, rows.sizes)

    def total(self, public: Public, state: VariationalState, given: VariationalInputs, rows: RoundRows) -> Total:
        """The gradients in theta are shortened by the length of their lift and summed, and the sum is lifted."""
        # That rounds by 2^-53 of it: for up to 2^29 records less than what the working bound leaves of the clip. The
        # sum is cut in two in the one way that depends on it alone, so that what is lifted does as well.
        family, phi, standard = self.options.family, state.phi, given.standard
        squares = family.squares(phi, standard)

        def of_some(some: SomeRows) -> Total:
            parts = self.contributions(state, given, some)
            return clipped_total(parts, some.present, public.contribution, weights=squares)

        total = rows.total(standard.size, of_some).cut_at(public.contribution)
        return Total(*(family.lift(phi, standard, part) for part in total))

    def drift(self, public: Public, state: VariationalState, given: VariationalInputs, noised: Array) -> Array:
        """The gradient in phi of the objective, from the noised sum."""
        family, phi, standard = self.options.family, state.phi, given.standard
        penalty = family.lift(phi, standard, self.model.penalty_gradient(family.theta(phi, standard)))
        return noised / public.batch + penalty - family.entropy_gradient(phi) / public.records

    def moved(
        self, public: Public, state: VariationalState, given: VariationalInputs, noised: Array, number: Array
    ) -> VariationalState:
        drift, options = self.drift(public, state, given, noised), self.options
        update, memory = options.optimiser.update(drift, state.optimiser)
        moved = options.family.restrained(state.phi + given.step_size * update)
        return self.averaged(state, drift, given.averaged > 0.0, moved)._replace(phi=moved, optimiser=memory)

    def averaged(self, state: VariationalState, drift: Array, counted: Array, moved: Array) -> VariationalState:
        """The state with what is averaged of a round added to its sums."""
        return state._replace(summed=state.summed + jnp.where(counted, moved, 0.0))

    def kept(self, state: VariationalState) -> Array:
        return state.phi

    def release(
        self, spec: Spec, run: Run, state: VariationalState, iterates: NDArray[np.floating] | None
    ) -> VariationalRelease:
        averaged = self.last(run.algorithm.rounds)
        phi = in_precision(state.summed / averaged if averaged else state.phi, run.dtype)
        return VariationalRelease(spec, self.model, self.options.family, phi, iterates)


@dataclass(frozen=True)
class GuidedGradients(EvidenceGradients):
    """The same for each unit of a custom model: gradients over a public clip, which the state holds."""

    name: ClassVar[str] = "gradients of the evidence bound, own model"
    keeps_units: ClassVar[bool] = True

    model: CustomModel

    def dim(self, features: int) -> int:
        return self.model.size

    def last(self, rounds: int) -> int:
        return max(1, super().last(rounds))

    def started(self, theta: Array, clip: float) -> VariationalState:
        phi, slopes = self.options.family.first(theta), jnp.zeros(self.model.size, theta.dtype)
        memory = self.options.optimiser.init(phi)
        return VariationalState(phi, memory, jnp.zeros_like(phi), jnp.asarray(clip, theta.dtype), slopes)

    def contributions(self, point: VariationalState, given: VariationalInputs, rows: SomeRows) -> Parts:
        theta = self.options.family.theta(point.phi, given.standard)
        return (Plain(self.model.unit_gradients(theta, rows.features) / point.clip),)

    def drift(self, public: Public, state: VariationalState, given: VariationalInputs, noised: Array) -> Array:
        family, phi, standard = self.options.family, state.phi, given.standard
        prior = family.lift(phi, standard, jax.grad(self.model.penalty)(family.theta(phi, standard)))
        return noised * (state.clip / public.batch) + (prior - family.entropy_gradient(phi)) / public.records

    def averaged(self, state: VariationalState, drift: Array, counted: Array, moved: Array) -> VariationalState:
        # The gradient was taken before the move.
        summed = state.summed + jnp.where(counted, state.phi, 0.0)
        return state._replace(summed=summed, slopes=state.slopes + jnp.where(counted, drift[: self.model.size], 0.0))


def run_variational(
    spec: Spec, model: Model, features: Any, target: Any, randomness: Randomness, *, options: VariationalOptions
) -> VariationalRelease:
    """Fit the family to the posterior of a model by clipped noisy gradients, and release its parameters.

    The objective is the mean loss plus the model's penalty, expected under the family, minus the family's entropy over
    the number of records: with a weight decay of prior precision / n, the evidence bound over n. Options are public.
    """
    asked = EvidenceGradients(instance_of("model", model, Model), options)
    return run_sums(spec, asked, features, target, randomness)
