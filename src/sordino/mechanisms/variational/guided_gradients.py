"""The query "gradients of the evidence bound, own model": variational inference with a guide, and plain descent.

    phi <- phi - step * optimiser(C * noised sum / b + (penalty part - entropy) / n)

Each unit's gradient in theta, over a public clip C, is shortened by the length of its lift to phi, summed, and the sum
is lifted: no array has as many entries as units times phi. A point mass as guide makes it gradient descent.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.spec import Spec
from sordino.core.validate import SordinoError
from sordino.mechanisms.chain.kernel import SomeRows
from sordino.mechanisms.rounds.device import Public, Query, Rows, Run, query
from sordino.mechanisms.variational.evidence_bound import Adam, Optimiser, OptimiserState, VariationalFamily
from sordino.model.contributions import Parts, Plain
from sordino.model.own.base import OwnModel
from sordino.noise.exact_sums import Total, clipped_total
from sordino.noise.randomness import Purpose


class Guided(NamedTuple):
    """phi, the optimiser's memory, the clip, and sums over the last rounds of phi and of the gradient of its mean."""

    phi: Array
    optimiser: OptimiserState
    clip: Array
    summed: Array
    slopes: Array


class Steps(NamedTuple):
    """Of a round: its step size, the standard normals of its draw, and whether it enters the averages."""

    step_size: Array
    standard: Array
    averaged: Array


@query("gradients of the evidence bound, own model")
@dataclass(frozen=True)
class GuidedGradients(Query):
    """Clipped gradients of each unit at one draw from the guide."""

    keeps_units: ClassVar[bool] = True

    model: OwnModel
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

    def inputs(self, run: Run, first: int, length: int) -> Steps:
        rounds = run.algorithm.rounds
        averaged = np.arange(rounds) >= rounds - self.last(rounds)
        return Steps(
            run.part(run.algorithm.schedule("step_size").values(rounds), first, length),
            run.randomness.gaussians(Purpose.DRAWS, first, length, (self.standards,), run.dtype),
            run.part(averaged, first, length),
        )

    def last(self, rounds: int) -> int:
        """How many rounds are averaged."""
        return max(1, int(self.averaged * rounds))

    def total(self, public: Public, state: Guided, given: Steps, rows: Rows) -> Total:
        theta, squares = self._draw(state, given)

        def of_some(some: SomeRows) -> Total:
            parts = (Plain(self.model.unit_gradients(theta, some.features) / state.clip),)
            return clipped_total(parts, some.present, public.contribution, weights=squares)

        # Cut in two in the one way that depends on the sum alone, so that what is lifted does as well.
        total = rows.total(theta.size, of_some).cut_at(public.contribution)
        return Total(*(self.family.lift(state.phi, given.standard, part) for part in total))

    def contributions(self, point: Guided, given: Steps, rows: SomeRows) -> Parts:
        theta, _ = self._draw(point, given)
        found = self.model.unit_gradients(theta, rows.features) / point.clip
        return (Plain(self.family.lift(point.phi, given.standard, found)),)

    def moved(self, public: Public, state: Guided, given: Steps, noised: Array, number: Array) -> Guided:
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

    def _draw(self, state: Guided, given: Steps) -> tuple[Array, Array | None]:
        standard = given.standard
        return self.family.theta(state.phi, standard), self.family.squares(state.phi, standard)
