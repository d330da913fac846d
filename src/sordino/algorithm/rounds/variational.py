"""The query "gradients of the evidence bound": private variational inference.

    phi <- phi - step * optimiser((sum of clipped gradients + noise) / b + penalty part - entropy / n)

The optimiser, the limits of the family and the running average act on what the noise already protects.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sordino.algorithm.chain.kernel import SomeRows
from sordino.algorithm.noise.exact_sums import Total, clipped_total, in_precision
from sordino.algorithm.noise.randomness import Purpose, Randomness
from sordino.algorithm.posterior.base import Posterior
from sordino.algorithm.rounds.loop import Public, Query, Rows, Run, SumsRelease, query, run_sums
from sordino.algorithm.rounds.variational_family import State as OptimiserState
from sordino.algorithm.rounds.variational_family import VariationalFamily, VariationalOptions
from sordino.core.spec import Spec
from sordino.core.validate import instance_of
from sordino.model.base import Model
from sordino.model.contributions import Parts, Plain


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


class State(NamedTuple):
    """phi, the optimiser's memory, and the sum of the phi that are averaged."""

    phi: Array
    optimiser: OptimiserState
    summed: Array


class Inputs(NamedTuple):
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

    def first(self, run: Run) -> State:
        dim, scale = self.model.dim(run.features), self.options.start_scale
        phi = self.options.family.first(scale * run.start((dim,)) if scale > 0.0 else jnp.zeros(dim))
        return State(phi, self.options.optimiser.first(phi), jnp.zeros_like(phi))

    def inputs(self, run: Run, first: int, length: int) -> Inputs:
        rounds, shape = run.algorithm.rounds, (self.options.draws, self.model.dim(run.features))
        averaged = np.arange(rounds) >= rounds - self._averaged(run)
        return Inputs(
            run.part(run.algorithm.schedule("step_size").values(rounds), first, length),
            run.randomness.gaussians(Purpose.DRAWS, first, length, shape, run.dtype),
            run.part(averaged, first, length),
        )

    def total(self, public: Public, state: State, given: Inputs, rows: Rows) -> Total:
        """With one draw the gradients in theta are summed, and the sum is lifted.

        That rounds by 2^-53 of it: for up to 2^29 records less than what the working bound leaves of the clip.
        """
        if len(given.standards) > 1:
            return super().total(public, state, given, rows)
        family, phi, standard = self.options.family, state.phi, given.standards[0]
        theta, squares = family.theta(phi, standard), family.squares(phi, standard)

        def of_some(some: SomeRows) -> Total:
            parts = self.model.record_gradients(theta, some.features, some.target, some.sizes)
            return clipped_total(parts, some.present, public.contribution, weights=squares)

        return Total(*(family.lift(phi, standard, part) for part in rows.total(theta.size, of_some)))

    def contributions(self, point: State, given: Inputs, rows: SomeRows) -> Parts:
        family, phi = self.options.family, point.phi

        def lifted(standard: Array) -> Array:
            gradient = jax.vmap(self.model.gradient, in_axes=(None, 0, 0))
            found = gradient(family.theta(phi, standard), rows.features, rows.target)
            return jax.vmap(lambda each: family.lift(phi, standard, each))(found)

        return (Plain(jnp.mean(jax.vmap(lifted)(given.standards), axis=0)),)

    def moved(self, public: Public, state: State, given: Inputs, noised: Array, number: Array) -> State:
        family, phi = self.options.family, state.phi

        def penalty(standard: Array) -> Array:
            """At the same draws; no row is read."""
            return family.lift(phi, standard, self.model.penalty_gradient(family.theta(phi, standard)))

        drift = noised / public.batch + jnp.mean(jax.vmap(penalty)(given.standards), axis=0)
        drift -= family.entropy_gradient(phi) / public.records
        memory, direction = self.options.optimiser.direction(state.optimiser, drift, number)
        moved = family.restrained(phi - given.step_size * direction)
        return State(moved, memory, state.summed + jnp.where(given.averaged > 0.0, moved, 0.0))

    def kept(self, state: State) -> Array:
        return state.phi

    def release(self, spec: Spec, run: Run, state: State, iterates: NDArray[Any] | None) -> VariationalRelease:
        averaged = self._averaged(run)
        phi = in_precision(state.summed / averaged if averaged else state.phi, run.dtype)
        return VariationalRelease(spec, self.model, self.options.family, phi, iterates)

    def _averaged(self, run: Run) -> int:
        return int(self.options.averaged * run.algorithm.rounds)


def run_variational(
    spec: Spec, model: Model, features: Any, target: Any, randomness: Randomness, *, options: VariationalOptions
) -> VariationalRelease:
    """Fit the family to the posterior of a model by clipped noisy gradients, and release its parameters.

    The objective is the mean loss plus the model's penalty, expected under the family, minus the family's entropy over
    the number of records: with a weight decay of prior precision / n, the evidence bound over n. Options are public.
    """
    asked = EvidenceGradients(instance_of("model", model, Model), options)
    return run_sums(spec, asked, features, target, randomness)
