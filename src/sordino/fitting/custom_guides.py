"""Variational inference with a guide, and descent to a point: compiled rounds of clipped, noised gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.noise.lattice import Lattice
from sordino.algorithm.rounds.guided_gradients import GuidedGradients
from sordino.algorithm.rounds.own_gradients import OCTAVES, Asked, Lengths, PrivateTable
from sordino.algorithm.rounds.variational import Adam, Optimiser, OptimiserState, PointMass, VariationalFamily
from sordino.algorithm.variational.guides import guide_for, mean_and_covariance, standards
from sordino.algorithm.variational.natural import first_place, median_length, part_of
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import Batch, Composite, NoisedSums, Part, Scheme, Spec
from sordino.core.spec.schedules import ConstantSchedule
from sordino.core.validate import POSITIVE, InputError, instance_of, number, whole_number
from sordino.fitting.custom_methods import CustomMethod, CustomOutcome, CustomProblem, check_worth_while, custom_method
from sordino.fitting.problem import Sources

_LENGTHS = 0.03
_QUERY = "gradients of the evidence bound, own model"


@dataclass(frozen=True)
class Transformation(Optimiser):
    """An optax gradient transformation as an optimiser: its updates take the place of minus the direction."""

    optax: Any

    def first(self, phi: Any) -> OptimiserState:
        return self.optax.init(phi)

    def direction(self, state: OptimiserState, gradient: Any, step: Any) -> tuple[OptimiserState, Any]:
        updates, state = self.optax.update(gradient, state)
        return state, -updates


def _optimiser(wanted: CustomProblem) -> Optimiser:
    """Adam, or that of optax which the options name; one that needs more than gradients is refused, by a trace."""
    given = wanted.options.get("optimiser")
    if given is None:
        return Adam()
    if not (hasattr(given, "init") and hasattr(given, "update")):
        raise InputError("Expected an optax gradient transformation as optimiser, got something else.")
    made = Transformation(given)
    try:
        with in_doubles():
            phi = jax.ShapeDtypeStruct((wanted.model.size,), jnp.float64)
            jax.eval_shape(lambda each: made.direction(made.first(each), each, jnp.zeros((), int)), phi)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"Expected an optimiser that needs gradients alone, got a {type(error).__name__}: {str(error)[:200]}"
        ) from None
    return made


def _clip(wanted: CustomProblem) -> float | None:
    clip = wanted.options.get("clip")
    return None if clip is None else number("clip", clip, POSITIVE)


def _spec(wanted: CustomProblem, family: VariationalFamily, rounds: int, step_size: float) -> Spec:
    """A round of lengths, unless a clip is given, and rounds of gradients of every unit or of Poisson batches."""
    sizes, clip = wanted.sizes, _clip(wanted)
    share = 1.0 if clip is not None else 1.0 - _LENGTHS
    moved = 2.0 if sizes.relation is Relation.REPLACE_ONE else 1.0
    algorithm = NoisedSums(
        query=_QUERY,
        records=sizes.records,
        rounds=rounds,
        sampling=Batch(Scheme.FULL),
        contribution=1.0,
        noise_multiplier=ConstantSchedule(up(moved / (sizes.mu * math.sqrt(share / rounds)) * (1.0 + 1e-9))),
        unit=sizes.unit,
        options=(("step_size", step_size),),
    )
    # Noise that no lattice holds is refused here, before a debit.
    Lattice.of(algorithm.contribution, family.size(sizes.size), float(algorithm.sum_noise.max()))
    parts = [] if clip is not None else [part_of(sizes, "lengths of gradients", _LENGTHS, 1, up(math.sqrt(2.0)))]
    whole = Composite(tuple(Part(part, view=View.ALL_ITERATES) for part in (*parts, algorithm)))
    return Spec(algorithm=whole, relation=sizes.relation, view=View.ALL_ITERATES, delta=sizes.delta)


def _made(
    wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, family: VariationalFamily, optimiser: Optimiser
) -> tuple[Any, GuidedGradients, NoisedSums]:
    model, clip = wanted.model, _clip(wanted)
    whole = instance_of("spec.algorithm", spec.algorithm, Composite)
    parts = [
        Spec(algorithm=part.algorithm, relation=spec.relation, view=part.view, delta=spec.delta) for part in whole.parts
    ]
    asked = GuidedGradients(model, family, standards(family, model.size), optimiser)
    with in_doubles():
        table = PrivateTable.of(model, rows)
        start = jnp.asarray(model.start(), jnp.float64)
        if clip is None:
            place = first_place(model, start)
            lengths = Lengths(model, simulate=False)
            found, _ = table.rounds(parts[0], lengths, Asked(place, jnp.zeros(OCTAVES)), sources.fresh())
            clip = 2.0 * median_length(np.asarray(found.answer), wanted.sizes.records)
        state, _ = table.rounds(parts[-1], asked, asked.started(start, clip), sources.fresh())
        return jax.tree.map(np.asarray, state), asked, instance_of("a part", parts[-1].algorithm, NoisedSums)


@custom_method("variational")
class GuidedVariationalInference(CustomMethod):
    """A guide by noised gradients and Adam; its posterior knows the noise by the trace of its last rounds."""

    def plan(self, wanted: CustomProblem) -> Spec:
        check_worth_while(wanted)
        family = guide_for(wanted.options.get("guide", "diagonal"))
        rounds = whole_number("rounds", wanted.options.get("rounds", 300))
        return _spec(wanted, family, rounds, number("step_size", wanted.options.get("step_size", 0.03), POSITIVE))

    def run(
        self, wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, begin: Callable[[str], None]
    ) -> CustomOutcome:
        family = guide_for(wanted.options.get("guide", "diagonal"))
        begin("rounds of gradients")
        state, asked, algorithm = _made(wanted, spec, rows, sources, family, Adam())
        size, records, last = wanted.model.size, wanted.sizes.records, asked.last(algorithm.rounds)
        mean, covariance = mean_and_covariance(family, state.summed / last, size)
        # At the optimum the guide's covariance is the inverse slope of the gradient of the evidence bound, so the zero
        # of the averaged noised gradient is the averaged mean less covariance times that gradient.
        deviation = float(algorithm.sum_noise[0]) * float(state.clip) / math.sqrt(last)
        mean -= covariance @ (state.slopes / last * records)
        noise = (covariance @ covariance) * deviation**2
        draws = np.random.default_rng(0).multivariate_normal(
            mean, covariance + noise, int(wanted.options.get("draws", 1000)), method="eigh"
        )
        settings = {"clip": float(state.clip), "guide": type(family).__name__}
        return CustomOutcome(draws[None], settings, (), {"free_mean": mean, "free_covariance": covariance + noise})


@custom_method("rounds")
class Descent(CustomMethod):
    """One point by noised gradients and an optimiser, Adam or one of optax: the average of the last rounds."""

    def plan(self, wanted: CustomProblem) -> Spec:
        _optimiser(wanted)
        rounds = whole_number("rounds", wanted.options.get("rounds", 100))
        return _spec(wanted, PointMass(), rounds, number("step_size", wanted.options.get("step_size", 0.05), POSITIVE))

    def run(
        self, wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, begin: Callable[[str], None]
    ) -> CustomOutcome:
        begin("rounds of gradients")
        state, asked, algorithm = _made(wanted, spec, rows, sources, PointMass(), _optimiser(wanted))
        point = state.summed / asked.last(algorithm.rounds)
        return CustomOutcome(
            point[None, None], {"clip": float(state.clip)}, ("One point was released, without a spread.",)
        )
