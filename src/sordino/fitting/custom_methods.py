"""The ways to fit a custom model, and the registry that `fit` chooses from; each plans from public numbers alone."""

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.bound import Certificate
from sordino.core.gaussian import largest_mu, least_true, up
from sordino.core.spec import NoisedSums, Spec, Unit
from sordino.core.validate import POSITIVE, InputError, instance_of, number, whole_number
from sordino.fitting.problem import Sources
from sordino.fitting.tasks.base import Begin
from sordino.mechanisms.networks.training import Adam
from sordino.mechanisms.variational import evidence_bound, natural
from sordino.mechanisms.variational.custom_gradients import OCTAVES, GradientLengths, GradientQuestion, PrivateTable
from sordino.models.custom.base import MOST_NATURAL, CustomModel
from sordino.noise.lattice import Lattice, in_doubles

# Front ends register themselves; a new file of them is named here once.
for _home in ("modules", "numpyro_program"):
    importlib.import_module(f"sordino.models.custom.{_home}")

# The kind of a release of a custom model, and the names of its arrays.
CUSTOM = "own-model"
SITE_DRAWS, FREE_DRAWS, WEIGHTS = "site_draws", "free_draws", "weights"
_LARGEST_EPSILON = 1e6
# At 41 records a parameter, intervals of a regression were measured to hold, at 12 they did not (bench/own_models.py).
_LEAST_LEFT = 35.0
_LEAST_OF_FEW, _MOST_OF_FEW = 3.0, 0.75
_DOUBTFUL = 0.6  # relative error of the information in one direction beyond which a release says so
_SETTLED = 1.6  # by how much the information may change in the last stage of a fit that has settled


@dataclass(frozen=True, eq=False)
class CustomProblem:
    """What is to be fitted, and for what: all of it public."""

    model: CustomModel
    sizes: natural.Sizes
    epsilon: float
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def thing(self) -> str:
        return "records" if isinstance(self.sizes.unit, Unit) else "units"


@dataclass(frozen=True, eq=False)
class CustomOutcome:
    """Draws of the unconstrained parameters, shape (chains, draws, size), and what is to be said of them."""

    draws: Array
    settings: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    audit: LowerBound | None = None
    floating_point: Certificate | None = None  # absent: not covered


class CustomMethod(ABC):
    """One way to fit."""

    name: ClassVar[str]
    packs: ClassVar[bool] = True  # whether it reads a row of numbers for each unit; otherwise the arrays by name

    def refusal(self, wanted: CustomProblem) -> str | None:
        """Why a model is out of its reach, or None."""
        return None

    @abstractmethod
    def plan(self, wanted: CustomProblem) -> Spec:
        """The run, its noise included."""

    @abstractmethod
    def run(self, wanted: CustomProblem, spec: Spec, rows: Any, sources: Sources, begin: Begin) -> CustomOutcome:
        """Read the rows, once the plan is certified and debited."""


Kind = TypeVar("Kind", bound=type[CustomMethod])
CUSTOM_METHODS: dict[str, CustomMethod] = {}


def custom_method(name: str) -> Callable[[Kind], Kind]:
    """Register a method under the word that `method=` takes."""

    def registered(kind: Kind) -> Kind:
        if name in CUSTOM_METHODS:
            raise InputError(f"The method {name!r} is already registered.")
        kind.name = name
        CUSTOM_METHODS[name] = cast(CustomMethod, kind())
        return kind

    return registered


def _least_left(sizes: natural.Sizes) -> float:
    """How many records the noise has to leave: 35 for each parameter, or three quarters of a table that has fewer."""
    return min(_LEAST_LEFT * sizes.size, max(_LEAST_OF_FEW * sizes.size, _MOST_OF_FEW * sizes.records))


def check_worth_while(wanted: CustomProblem) -> None:
    """Refuse a fit whose noise leaves the information of fewer than 35 records per parameter; no row is read."""
    sizes = wanted.sizes
    left = natural.information_left(sizes)
    if left >= _least_left(sizes):
        return

    def enough(epsilon: float) -> bool:
        return natural.information_left(replace(sizes, mu=largest_mu(epsilon, sizes.delta))) >= _least_left(sizes)

    def many(records: float) -> bool:
        return natural.information_left(replace(sizes, records=math.ceil(records))) >= _LEAST_LEFT * sizes.size

    needed = least_true(enough, wanted.epsilon, _LARGEST_EPSILON) if enough(_LARGEST_EPSILON) else None
    advice = "No epsilon is enough: you need" if needed is None else f"You need epsilon {_shown(needed)}, or"
    more = math.ceil(least_true(many, sizes.records, 1e12))
    why = f"Too few {wanted.thing}: {sizes.records} for {sizes.size} parameters. At epsilon {wanted.epsilon:g} the"
    why += f" release would hold as much information as {left:.2g} {wanted.thing} without noise."
    raise InputError(f"{why} {advice} {more:,} {wanted.thing}.")


def _shown(value: float) -> str:
    """Rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit - 1e-9) * unit:g}"


def points_caution(points: int) -> str:
    """What a fit of points says first."""
    return f"{'One point was' if points == 1 else f'{points} points were'} released, without a spread."


def natural_cautions(doubt: float, changed: float) -> tuple[str, ...]:
    """What the noised information of natural variational inference says of its intervals."""
    uncertain = f"The information of single directions is known to about {100 * doubt:.0f} % only"
    uncertain += ", because of the noise: intervals may be too short or too long."
    moving = f"The fit had not converged: the information changed {changed:.2g} times in the last stage"
    moving += ", so intervals may be too narrow. Start nearer: give `start`, or scale the columns."
    settled = 1.0 / _SETTLED < changed < _SETTLED
    return (*(() if doubt <= _DOUBTFUL else (uncertain,)), *(() if settled else (moving,)))


@custom_method("natural")
class NaturalVariationalInference(CustomMethod):
    """Natural-gradient variational inference with a full covariance that knows the noise."""

    def refusal(self, wanted: CustomProblem) -> str | None:
        size = wanted.sizes.size
        return None if size <= MOST_NATURAL else f"needs at most {MOST_NATURAL} parameters, and there are {size}"

    def plan(self, wanted: CustomProblem) -> Spec:
        check_worth_while(wanted)
        return natural.natural_spec(wanted.sizes, simulates=wanted.model.simulates)

    def run(self, wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, begin: Begin) -> CustomOutcome:
        start = np.asarray(wanted.model.start())
        draws = int(wanted.options.get("draws", 1000))
        found = natural.run_natural(spec, wanted.model, rows, sources.fresh, start, begin, draws)
        settings = {name: getattr(found, name) for name in ("clip", "doubt", "changed")}
        settings["share_of_noise"] = (np.diag(found.noise) / np.diag(found.covariance)).tolist()
        arrays = {"free_mean": found.mean, "free_covariance": found.covariance}
        return CustomOutcome(found.draws[None], settings, natural_cautions(found.doubt, found.changed), arrays)


# Variational inference with a guide, and descent to a point: compiled rounds of clipped, noised gradients.

_LENGTHS = 0.03


def check_optimiser(optimiser: Any, size: int, *, with_weights: bool = False) -> Any:
    """The optimiser of optax; one that needs more than gradients, or weights where it has them, fails by a trace."""
    try:
        with in_doubles():
            phi = jax.ShapeDtypeStruct((size,), jnp.float64)
            jax.eval_shape(lambda each: optimiser.update(each, optimiser.init(each), *[each][: int(with_weights)]), phi)
    except (TypeError, ValueError, AttributeError) as error:
        why = "The optimiser must be an optax gradient transformation and must need gradients alone"
        raise InputError(f"{why}. It raised {type(error).__name__}: {str(error)[:200]}") from None
    return optimiser


def _clip(wanted: CustomProblem) -> float | None:
    clip = wanted.options.get("clip")
    return None if clip is None else number("clip", clip, POSITIVE)


def _spec(wanted: CustomProblem, family: evidence_bound.PointMass, rounds: int, step_size: float) -> Spec:
    """A round of lengths, unless a clip is given, and rounds of gradients of every unit; so many if none are asked."""
    rounds = whole_number("rounds", wanted.options.get("rounds", rounds))
    step_size = number("step_size", wanted.options.get("step_size", step_size), POSITIVE)
    sizes, lengths = wanted.sizes, 0.0 if _clip(wanted) is not None else _LENGTHS
    query = evidence_bound.GuidedGradients.name
    gradients = natural.part_of(sizes, query, 1.0 - lengths, rounds, 2.0, step_size=step_size)
    # Noise that no lattice holds is refused here, before a debit.
    Lattice.of(gradients.contribution, family.size(sizes.size), float(gradients.sum_noise.max()))
    parts = [natural.part_of(sizes, "lengths of gradients", lengths, 1, up(math.sqrt(2.0)))] if lengths else []
    return natural.in_turn(sizes, *parts, gradients)


def _made(
    wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, family: evidence_bound.PointMass
) -> tuple[Any, evidence_bound.GuidedGradients, NoisedSums]:
    model, clip, parts = wanted.model, _clip(wanted), list(natural.parts_of(spec))
    optimiser = wanted.options.get("optimiser") if isinstance(family, evidence_bound.PointMass) else None
    options = evidence_bound.VariationalOptions(family, optimiser or Adam(), averaged=0.5)
    asked = evidence_bound.GuidedGradients(model, options)
    with in_doubles():
        table = PrivateTable.of(model, rows)
        start = jnp.asarray(model.start(), jnp.float64)
        if clip is None:
            question = GradientQuestion(natural.first_place(model, start), jnp.zeros(OCTAVES))
            found, _ = table.rounds(parts[0], GradientLengths(model, simulate=False), question, sources.fresh())
            clip = 2.0 * natural.median_length(np.asarray(found.answer), wanted.sizes.records)
        state, _ = table.rounds(parts[-1], asked, asked.started(start, clip), sources.fresh())
        return jax.tree.map(np.asarray, state), asked, instance_of("a part", parts[-1].algorithm, NoisedSums)


@custom_method("variational")
class GuidedVariationalInference(CustomMethod):
    """A guide by noised gradients and Adam; its posterior knows the noise by the trace of its last rounds."""

    def plan(self, wanted: CustomProblem) -> Spec:
        check_worth_while(wanted)
        return _spec(wanted, evidence_bound.guide_for(wanted.options.get("guide", "diagonal")), 300, 0.03)

    def run(self, wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, begin: Begin) -> CustomOutcome:
        family = evidence_bound.guide_for(wanted.options.get("guide", "diagonal"))
        begin("rounds of gradients")
        state, asked, algorithm = _made(wanted, spec, rows, sources, family)
        size, records, last = wanted.model.size, wanted.sizes.records, asked.last(algorithm.rounds)
        phi = np.asarray(state.summed / last, np.float64)
        with in_doubles():
            mean, covariance = phi[:size].copy(), np.asarray(family.covariance(jnp.asarray(phi), size))
        # At the optimum the guide's covariance is the inverse slope of the gradient of the evidence bound, so the zero
        # of the averaged noised gradient is the averaged mean less covariance times that gradient.
        deviation = float(algorithm.sum_noise[0]) * float(state.clip) / math.sqrt(last)
        mean -= covariance @ (state.slopes / last * records)
        noise = (covariance @ covariance) * deviation**2
        count = int(wanted.options.get("draws", 1000))
        draws = np.random.default_rng(0).multivariate_normal(mean, covariance + noise, count, method="eigh")
        settings = {"clip": float(state.clip), "guide": type(family).__name__}
        return CustomOutcome(draws[None], settings, (), {"free_mean": mean, "free_covariance": covariance + noise})


@custom_method("rounds")
class PointDescent(CustomMethod):
    """One point by noised gradients and an optimiser, Adam or one of optax: the average of the last rounds."""

    def plan(self, wanted: CustomProblem) -> Spec:
        check_optimiser(wanted.options.get("optimiser") or Adam(), wanted.model.size)
        return _spec(wanted, evidence_bound.PointMass(), 100, 0.05)

    def run(self, wanted: CustomProblem, spec: Spec, rows: Array, sources: Sources, begin: Begin) -> CustomOutcome:
        begin("rounds of gradients")
        state, asked, algorithm = _made(wanted, spec, rows, sources, evidence_bound.PointMass())
        point, cautions = state.summed / asked.last(algorithm.rounds), (points_caution(1),)
        return CustomOutcome(point[None, None], {"clip": float(state.clip)}, cautions)
