"""Queries about the gradients of a custom model: their lengths, their products, and their sum.

Each unit's gradient g is whitened with a public matrix W and divided by a public clip C, both found from what earlier
rounds released; what is summed has length at most 1, whatever W and C are.

    lengths     the octave of |W g|, one of `OCTAVES` places: two different ones are sqrt 2 apart
    products    the entries of u u' with u = W g / C cut to length 1: two such matrices are at most sqrt 2 apart, as
                their inner product (u.v)^2 is not negative; g may be that of a simulated unit
    gradients   u itself: two are at most 2 apart

Everything after the noise is post-processing.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.core.gaussian import up
from sordino.core.spec import Spec
from sordino.mechanisms.chain.kernel import Records, RowLimits, SomeRows, load
from sordino.mechanisms.rounds import Public, Query, Run, check_rows_fit, described, make_rounds
from sordino.models.contributions import LARGEST, Parts, Plain
from sordino.models.custom.base import CustomModel
from sordino.noise.lattice import GROUP
from sordino.noise.port import triangle_weights
from sordino.noise.randomness import Purpose, Randomness

# Octaves of lengths that are distinguished: from 2^-16 up.
OCTAVES, FIRST_OCTAVE = 48, -16
_APART = up(math.sqrt(2.0))


class GradientPlace(NamedTuple):
    """Where gradients are taken and how they are measured: all of it public."""

    mean: Array
    spread: Array  # a root of the covariance that draws are made with; zeros take gradients at the mean
    whitening: Array
    unwhitening: Array
    covariance: Array  # what turns a gradient into a move
    clip: Array


class GradientQuestion(NamedTuple):
    """A place, and the last answer."""

    place: GradientPlace
    answer: Array


@dataclass(frozen=True, eq=False)
class PrivateTable:
    """The packed rows of units on the device, and the model that reads them."""

    model: CustomModel
    table: Records
    rows: int
    dtype: np.dtype

    @classmethod
    def of(cls, model: CustomModel, rows: np.ndarray) -> Self:
        """Load rows; call it and the rounds inside `in_doubles`."""
        table = load(rows, np.zeros(len(rows)), GROUP, np.float64, RowLimits(cut=False))
        return cls(model, table, len(rows), np.dtype(np.float64))

    def rounds(self, spec: Spec, asked: Query, state: Any, randomness: Randomness, *, keep: bool = False) -> Any:
        """The last state after the rounds of a spec, and what is kept of each round or None."""
        algorithm = described(spec, asked.name, asked.replacement, units=asked.keeps_units)
        check_rows_fit(spec, self.rows)
        width = self.table.features.shape[1]
        run = Run(algorithm, self.rows, width, algorithm.sum_noise, randomness, self.dtype)
        return make_rounds(run, asked, self.table, state, keep=keep)


@dataclass(frozen=True)
class OwnGradients(Query):
    """What the three queries share: whitened gradients of each unit, averaged over pairs of draws."""

    keeps_units: ClassVar[bool] = True

    model: CustomModel
    pairs: int = 0
    simulate: bool = False  # whether what a unit is observed to be is drawn from the model first, where that can be

    def inputs(self, run: Run, first: int, length: int) -> Any:
        shape = (self.pairs, self.model.size)
        if not self.pairs:
            return jnp.zeros((length, *shape))
        return run.randomness.gaussians(Purpose.DRAWS, first, length, shape, run.dtype)

    def whitened(self, place: GradientPlace, draws: Array, rows: SomeRows) -> Array:
        """W g over the clip, for every row."""
        mean = sum(self.gradients(point, rows.features) for point in self.points(place, draws)) / max(1, 2 * self.pairs)
        # What is not finite, or so large that a product with it would not be, counts as zero.
        usable = jnp.all(jnp.abs(mean) <= LARGEST, axis=1, keepdims=True)
        return jnp.where(usable, mean, 0.0) @ (place.whitening.T / place.clip)

    def gradients(self, theta: Array, rows: Array) -> Array:
        if self.simulate and self.model.simulates:
            rows = jax.vmap(self.model.simulated, in_axes=(None, 0))(theta, rows)
        return self.model.unit_gradients(theta, rows)

    def points(self, place: GradientPlace, draws: Array) -> list[Array]:
        if not self.pairs:
            return [place.mean]
        steps = [place.spread @ draws[k] for k in range(self.pairs)]
        return [place.mean + sign * step for step in steps for sign in (1.0, -1.0)]

    def moved(self, public: Public, state: Any, given: Any, noised: Array, number: Array) -> Any:
        return GradientQuestion(state.place, noised)

    def kept(self, state: Any) -> Array:
        return state.answer


@dataclass(frozen=True)
class GradientLengths(OwnGradients):
    """How many units have a gradient of each octave of lengths; by default simulated, as those of `Products`."""

    name: ClassVar[str] = "lengths of gradients"
    replacement: ClassVar[float | None] = _APART
    simulate: bool = True

    def size(self, features: int) -> int:
        return OCTAVES

    def contributions(self, point: GradientQuestion, given: Array, rows: SomeRows) -> Parts:
        lengths = jnp.sqrt(jnp.sum(self.whitened(point.place, given, rows) ** 2, axis=1))
        octave = jnp.ceil(jnp.log2(jnp.maximum(lengths, 2.0**FIRST_OCTAVE))) - FIRST_OCTAVE
        return (Plain(jax.nn.one_hot(jnp.clip(octave, 0, OCTAVES - 1).astype(jnp.int32), OCTAVES)),)


@dataclass(frozen=True)
class GradientProducts(OwnGradients):
    """The second moments of whitened gradients, each cut to length 1.

    Of simulated units they are the Fisher information at the place, however far from the data the place is.
    """

    name: ClassVar[str] = "products of gradients"
    replacement: ClassVar[float | None] = _APART
    simulate: bool = True

    def size(self, features: int) -> int:
        return self.model.size * (self.model.size + 1) // 2

    def contributions(self, point: GradientQuestion, given: Array, rows: SomeRows) -> Parts:
        u = _cut(self.whitened(point.place, given, rows))
        first, second = np.triu_indices(self.model.size)
        return (Plain(u[:, first] * u[:, second] * triangle_weights(self.model.size)),)


def _cut(u: Array) -> Array:
    """Rows shortened to length 1."""
    return u / jnp.maximum(1.0, jnp.sqrt(jnp.sum(u * u, axis=1, keepdims=True)))


class Path(NamedTuple):
    """The place of a round, and the mean and the noised drift of the last one."""

    place: GradientPlace
    mean: Array
    drift: Array


class Paces(NamedTuple):
    """For a round: what share of a full step is made, the draws, how far they are spread, and its number."""

    pace: Array
    draws: Array
    spread: Array
    number: Array


@dataclass(frozen=True)
class WhitenedGradients(OwnGradients):
    """Noised whitened gradients, each followed by a step of the mean."""

    name: ClassVar[str] = "gradients, whitened"

    longest: float = 1.0  # a step, in units of the root of a unit's own information

    def size(self, features: int) -> int:
        return self.model.size

    def inputs(self, run: Run, first: int, length: int) -> Paces:
        rounds, options = run.algorithm.rounds, dict(run.algorithm.options)
        paces = run.algorithm.schedule("step_size").values(rounds)
        spreads = run.algorithm.schedule("spread").values(rounds) if "spread" in options else np.ones(rounds)
        pace, spread = (run.part(each, first, length) for each in (paces, spreads))
        return Paces(pace, super().inputs(run, first, length), spread, 1 + first + jnp.arange(length))

    def contributions(self, point: Path, given: Paces, rows: SomeRows) -> Parts:
        return (Plain(self.whitened(point.place, given.draws, rows)),)

    def slope(self, place: GradientPlace, given: Paces) -> Array:
        """The gradient of minus the log-prior, where the units' gradients are taken."""
        slopes = [jax.grad(self.model.penalty)(point) for point in self.points(place, given.draws)]
        return sum(slopes[1:], slopes[0]) / len(slopes)

    def moved(self, public: Public, state: Path, given: Paces, noised: Array, number: Array) -> Path:
        place = state.place
        drift = place.unwhitening @ (noised * place.clip) + self.slope(place, given)
        step = given.pace * (place.covariance @ drift)
        step *= self.longest / jnp.maximum(jnp.linalg.norm(place.unwhitening @ step), self.longest)
        return Path(place._replace(mean=place.mean - step), place.mean, drift)

    def kept(self, state: Path) -> Array:
        return jnp.concatenate([state.mean, state.drift])


@dataclass(frozen=True)
class CentredGradients(WhitenedGradients):
    """A unit's clipped gradient at the mean, less what it is on average if the model is true around the mean.

    Gradients have mean zero under the model, clipped ones need not; and a mean that noise has moved away from the truth
    makes gradients differ from zero by terms of second order, which averaging over rounds does not remove (a scale of
    residuals comes out too large). Both are taken away unit by unit, as in conditionally unbiased bounded-influence
    estimates (Künsch, Stefanski & Carroll 1989): what a unit is observed to be is drawn anew, once from each of two
    opposite points that lie as far from the mean as noise has moved it.
    """

    name: ClassVar[str] = "gradients, whitened, less simulated ones"

    def contributions(self, point: Path, given: Paces, rows: SomeRows) -> Parts:
        place = point.place

        def clipped(features: Array) -> Array:
            u = self.model.unit_gradients(place.mean, features)
            u = jnp.where(jnp.all(jnp.abs(u) <= LARGEST, axis=1, keepdims=True), u, 0.0)
            return _cut(u @ (place.whitening.T / place.clip))

        around = self.points(place, given.spread * given.draws)
        own, found = clipped(rows.features), jnp.zeros((len(rows.features), self.model.size))
        for which, theta in enumerate(around):
            number = len(around) * given.number + which
            drawn = jax.vmap(self.model.simulated, in_axes=(None, 0, None))(theta, rows.features, number)
            # If the model is true, the two are alike and their difference has no direction, cut or not.
            found += _cut(own - clipped(drawn)) / len(around)
        return (Plain(found),)

    def slope(self, place: GradientPlace, given: Paces) -> Array:
        return jax.grad(self.model.penalty)(place.mean)
