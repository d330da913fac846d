"""Natural-gradient variational inference whose posterior accounts for the noise of its own gradients.

The precision of the Gaussian posterior is the prior's plus the sum of products of clipped gradients (Khan et al. 2018);
its mean moves by covariance times gradient, taken at opposite draws from it. Each of three stages measures the products
at a better place than the last one, in coordinates in which every direction carries the same information.

*The noise of the trace enters the posterior* (as in Alrawajfeh, Jälkö & Honkela 2025). Where gradients are linear in
the mean with slope L, mean(m_t) - L^-1 mean(g_t) over the trace of the last stage is the zero of the gradient without
noise, but for L^-1 W^-1 times the mean of the rounds' noises. Its covariance, C^2 s^2 / rounds * L^-1 W^-2 L^-1, is
added to L^-1. L itself is measured once more where the rounds ended, with noise: every draw of the posterior has an L
drawn from what is known of it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import AnyUnit, Batch, Composite, ListSchedule, NoisedSums, Part, Scheme, Spec
from sordino.core.spec.mechanisms import moves
from sordino.core.spec.problem import ConstantSchedule
from sordino.core.validate import instance_of
from sordino.mechanisms.variational.custom_gradients import (
    FIRST_OCTAVE,
    OCTAVES,
    CentredGradients,
    GradientLengths,
    GradientPlace,
    GradientProducts,
    GradientQuestion,
    Path,
    PrivateTable,
    WhitenedGradients,
)
from sordino.models.custom.base import CustomModel
from sordino.noise.lattice import in_doubles
from sordino.noise.port import symmetric, triangle_weights
from sordino.noise.randomness import Randomness

# Clips in units of the root mean square of clipped, whitened gradients.
CLIP = 2.0
# Where the bias of clipping cannot be simulated, less is clipped.
CLIP_AS_OBSERVED = 3.5
# Shares of the squared privacy parameter: lengths, then products and gradients of each stage, then products at the end.
_LENGTHS = 0.02
_SHARES = ((0.05, 0.07), (0.08, 0.13), (0.10, 0.35))
_LAST_PRODUCTS = 0.20
_ROUNDS = (16, 16, 32)
# Full steps while a stage still travels; then averaging.
_TRAVEL = (0.6, 0.4, 0.0)
# What the last stage begins with counts as so many of its rounds.
_BEGUN = 4
# How much shorter steps are where the noise in the information is as large as the information.
_SHORTER = 0.5
_LEAST_INFORMATION = 1e-3
_AT_ONCE = 100
# The share of directions whose information stays as it was while that of others changes, before it is measured.
_STAYED = 0.4


@dataclass(frozen=True)
class Sizes:
    """What a plan is made from: all of it public."""

    records: int
    size: int
    mu: float
    relation: Relation
    delta: float
    unit: AnyUnit


class NaturalPosterior(NamedTuple):
    """The released Gaussian over the unconstrained parameters, and what is known of its making."""

    mean: Array
    covariance: Array
    noise: Array  # the part of the covariance that the privacy noise makes
    doubt: float  # the relative error, by noise, of the information in one direction
    clip: float
    changed: float  # the information at the end over that at the last stage's begin: far from 1, no convergence
    draws: Array  # shape (draws, size)


def part_of(sizes: Sizes, query: str, share: float, rounds: int, apart: float, **options: Any) -> NoisedSums:
    """Rounds of sums of contributions of length 1 that a replacement moves by at most `apart`."""
    moved = apart if sizes.relation is Relation.REPLACE_ONE else 1.0
    multiplier = up(moved / (sizes.mu * math.sqrt(share / rounds)) * (1.0 + 1e-9))
    return NoisedSums(
        query=query,
        records=sizes.records,
        rounds=rounds,
        sampling=Batch(Scheme.FULL),
        contribution=1.0,
        replacement=None if apart == moves(Relation.REPLACE_ONE) else apart,
        noise_multiplier=ConstantSchedule(multiplier),
        unit=sizes.unit,
        options=tuple(options.items()),
    )


def paces(stage: int) -> Array:
    """Full steps for a share of the rounds, then 1, 1/2, 1/3, ... of a step: running averages."""
    rounds, first = _ROUNDS[stage], int(_TRAVEL[stage] * _ROUNDS[stage])
    begun = _BEGUN if stage == len(_ROUNDS) - 1 else 0
    return np.concatenate([np.ones(first), 1.0 / (begun + np.arange(1, rounds - first + 1))])


def spreads() -> Array:
    """How far noise has moved the mean before each round of the last stage, in units of one round's noise."""
    last, before = len(_ROUNDS) - 1, len(_ROUNDS) - 2
    averaged = _ROUNDS[before] - int(_TRAVEL[before] * _ROUNDS[before])
    square = (_ROUNDS[before] / _SHARES[before][1] / averaged) / (_ROUNDS[last] / _SHARES[last][1])
    found = []
    for pace in paces(last):
        found.append(math.sqrt(square))
        square = (1.0 - pace) ** 2 * square + pace**2
    return np.array(found)


def natural_spec(sizes: Sizes, *, simulates: bool = True) -> Spec:
    """Everything a fit by natural gradients asks, in parts."""
    apart = up(math.sqrt(2.0))
    parts = [part_of(sizes, "lengths of gradients", _LENGTHS, 1, apart)]
    for stage, ((products, gradients), rounds) in enumerate(zip(_SHARES, _ROUNDS, strict=True)):
        parts.append(part_of(sizes, "products of gradients", products, 1, apart))
        options, words = {"step_size": ListSchedule(tuple(paces(stage).tolist()))}, "gradients, whitened"
        if simulates and stage == len(_ROUNDS) - 1:
            options["spread"] = ListSchedule(tuple(spreads().tolist()))
            words = CentredGradients.name
        parts.append(part_of(sizes, words, gradients, rounds, 2.0, **options))
    parts.append(part_of(sizes, "products of gradients", _LAST_PRODUCTS, 1, apart))
    return in_turn(sizes, *parts)


def in_turn(sizes: Sizes, *parts: NoisedSums) -> Spec:
    """One after the other, everything released."""
    whole = Composite(tuple(Part(part, view=View.ALL_ITERATES) for part in parts))
    return Spec(algorithm=whole, relation=sizes.relation, view=View.ALL_ITERATES, delta=sizes.delta)


def parts_of(spec: Spec) -> Iterator[Spec]:
    """The parts of such a spec, each by itself."""
    for part in instance_of("spec.algorithm", spec.algorithm, Composite).parts:
        yield Spec(algorithm=part.algorithm, relation=spec.relation, view=View.ALL_ITERATES, delta=spec.delta)


def information_left(sizes: Sizes) -> float:
    """How many records without noise would say as much about the parameters as the noised last stage."""
    moved = 2.0 if sizes.relation is Relation.REPLACE_ONE else 1.0
    noise = moved / (sizes.mu * math.sqrt(_SHARES[-1][1]))
    # A unit's whitened gradient has variance 1 in each direction; the noise is CLIP sqrt(size) that of contributions.
    return sizes.records / (1.0 + (noise * CLIP) ** 2 * sizes.size / sizes.records)


def run_natural(
    spec: Spec,
    model: CustomModel,
    rows: np.ndarray,
    fresh: Callable[[], Randomness],
    start: Array,
    begin: Callable[[str], None] = lambda _: None,
    draws: int = 1000,
) -> NaturalPosterior:
    """Run the parts of a spec that `natural_spec` made; every part gets a source of randomness of its own."""
    parts = parts_of(spec)
    with in_doubles():
        table, size = PrivateTable.of(model, rows), model.size
        place = first_place(model, start)
        begin("lengths of gradients")
        asked = next(parts)
        last_rounds = _sums_of(asked)
        records = last_rounds.records
        found, _ = table.rounds(asked, GradientLengths(model), GradientQuestion(place, jnp.zeros(OCTAVES)), fresh())
        place = place._replace(clip=jnp.asarray(2.0 * median_length(np.asarray(found.answer), records)))
        path, asked, last = Path(place, place.mean, jnp.zeros(size)), next(parts), len(_ROUNDS) - 1
        trace = np.zeros((0, 0))
        for stage in range(len(_ROUNDS)):
            begin(f"stage {stage + 1} of {len(_ROUNDS)}")
            information, noise = _products(table, asked, place, fresh, pairs=1)
            place, doubt = _measured(model, place, information, noise, records)
            asked, query = next(parts), WhitenedGradients(model, pairs=1)
            if stage < last:
                # Directions whose information is not known yet may have more of it than was seen: shorter steps.
                place = place._replace(covariance=place.covariance / (1.0 + min(_SHORTER * doubt, size - 1.0)))
            elif model.simulates:
                moved = place.covariance @ place.unwhitening * place.clip * float(_sums_of(asked).sum_noise[0])
                place, query = place._replace(spread=moved), CentredGradients(model, pairs=1)
            path, trace = table.rounds(asked, query, Path(place, place.mean, jnp.zeros(size)), fresh(), keep=True)
            place, last_rounds, asked = path.place, _sums_of(asked), next(parts)
        begin("information at the end")
        information, noise = _products(table, asked, place, fresh, pairs=0)
        return _posterior(model, place, last_rounds, trace, (information, noise), draws)


def _products(
    table: PrivateTable, asked: Spec, place: GradientPlace, fresh: Callable[[], Randomness], pairs: int
) -> tuple[Array, float]:
    """The noised sum of products of whitened gradients at a place, and the noise on its diagonal."""
    query, square = GradientProducts(table.model, pairs=pairs), float(place.clip) ** 2
    found, _ = table.rounds(asked, query, GradientQuestion(place, jnp.zeros(query.size(0))), fresh())
    products = symmetric(np.asarray(found.answer) / triangle_weights(table.model.size))
    return products * square, float(_sums_of(asked).sum_noise[0]) * square


def first_place(model: CustomModel, start: Any) -> GradientPlace:
    """Where a fit begins: nothing is whitened, and gradients are taken at the start itself."""
    unit = jnp.eye(model.size)
    return GradientPlace(jnp.asarray(start, jnp.float64), 0.0 * unit, unit, unit, unit, jnp.asarray(1.0))


def median_length(counts: Array, records: int) -> float:
    """The upper end of the octave in which the count from above reaches half of the units that move."""
    from_above = np.cumsum(counts[::-1])[::-1]
    reached = np.flatnonzero(from_above >= 0.5 * max(records - max(float(counts[0]), 0.0), 0.1 * records))
    return math.ldexp(1.0, FIRST_OCTAVE + (int(reached[-1]) if len(reached) else OCTAVES // 2))


def _measured(
    model: CustomModel, place: GradientPlace, products: Array, noise: float, records: int
) -> tuple[GradientPlace, float]:
    """The next whitening and covariance, from the noised products, and their relative noise."""
    unwhitening = np.asarray(place.unwhitening)
    values, vectors = np.linalg.eigh(products)
    values, doubt, _ = shrunk(values, noise)
    values = np.maximum(values, _LEAST_INFORMATION * records)
    information = _even(unwhitening @ (vectors * values) @ vectors.T @ unwhitening)
    root_values, root_vectors = np.linalg.eigh(information / records)
    root_values = np.maximum(root_values, 1e-12 * root_values.max())
    whitening = (root_vectors / np.sqrt(root_values)) @ root_vectors.T
    unwhitening = (root_vectors * np.sqrt(root_values)) @ root_vectors.T
    covariance = _even(np.linalg.inv(information + _prior_precision(model, np.asarray(place.mean))))
    spread = np.linalg.cholesky(covariance + 1e-14 * np.trace(covariance) * np.eye(model.size))
    clip = (CLIP if model.simulates else CLIP_AS_OBSERVED) * math.sqrt(model.size)
    return GradientPlace(place.mean, *map(jnp.asarray, (spread, whitening, unwhitening, covariance, clip))), doubt


def shrunk(values: Array, noise: float) -> tuple[Array, float, float]:
    """Eigenvalues of noised products drawn towards their mean, as far as their scatter is noise.

    Also the relative size of the noise, and what share of the scatter is kept.

    In whitened coordinates all directions have the same information but for what the last stage got wrong. The noise
    has variance s^2 on the diagonal and s^2 / 2 off it, so d (d + 1) / 2 s^2 of the squared scatter of the eigenvalues,
    less what their mean takes, is noise (a Stein estimate).
    """
    size, mean = len(values), max(float(values.mean()), 0.0)
    scatter = float(((values - mean) ** 2).sum())
    expected = noise**2 * (size * (size + 1) / 2.0 - 1.0)
    kept = max(0.0, 1.0 - expected / scatter) if scatter > 0.0 else 0.0
    # Where the scatter is kept, an eigenvalue below the noise left in it is not known to be there.
    values = np.maximum(mean + kept * (values - mean), noise * math.sqrt(kept * 2.0 * size))
    relative = noise / max(mean, noise)
    return values, relative * math.sqrt((size + 1) / 2.0), kept


def _even(matrices: NDArray[np.floating]) -> Array:
    """The symmetric part of matrices."""
    return np.asarray(0.5 * (matrices + np.swapaxes(matrices, -1, -2)), np.float64)


def _prior_precision(model: CustomModel, mean: Array) -> Array:
    """The curvature of the prior at the mean, where it is one: directions in which it bends outwards count as flat."""
    values, vectors = np.linalg.eigh(np.asarray(jax.hessian(model.penalty)(jnp.asarray(mean))))
    return (vectors * np.maximum(values, 1e-9)) @ vectors.T


def _posterior(
    model: CustomModel, place: GradientPlace, asked: NoisedSums, trace: Array, measured: tuple[Array, float], draws: int
) -> NaturalPosterior:
    """Draws of the zero of the gradient, each with an information drawn from what is known of it."""
    size, used = len(place.mean), trace[int(_TRAVEL[-1] * asked.rounds) :]
    means, drifts = used[:, :size].mean(axis=0), used[:, size:].mean(axis=0)
    unwhitening, prior = np.asarray(place.unwhitening), _prior_precision(model, np.asarray(place.mean))
    deviation = float(asked.sum_noise[0]) * float(place.clip) / math.sqrt(len(used))

    def given(information: Array) -> tuple[Any, Any, Any]:
        covariance = np.linalg.inv(_even(unwhitening @ information @ unwhitening + prior))
        turned = covariance @ unwhitening * deviation
        return means - covariance @ drifts, covariance, turned @ np.swapaxes(turned, -1, -2)

    # What is drawn from a release is post-processing, so its seed is public.
    generator = np.random.default_rng(0)
    centre, doubt, several = informations(*measured, asked.records, generator)
    free, covariances, noises = [], [], []
    for start in range(0, draws, _AT_ONCE):
        mean, covariance, noise = given(several(min(_AT_ONCE, draws - start)))
        roots = np.linalg.cholesky(covariance + noise)
        free.append(mean + (roots @ generator.normal(size=(*mean.shape, 1)))[..., 0])
        covariances.append(covariance.mean(axis=0))
        noises.append(noise.mean(axis=0))
    table = np.concatenate(free)
    covariance, noise = np.mean(covariances, axis=0), np.mean(noises, axis=0)
    changed = float(np.trace(centre)) / (size * asked.records)
    return NaturalPosterior(given(centre)[0], covariance + noise, noise, doubt, float(place.clip), changed, table)


def informations(
    products: Array, noise: float, records: int, generator: np.random.Generator
) -> tuple[Array, float, Callable[[int], Array]]:
    """The information by noised products, its relative noise, and a function that draws from what is known of it.

    In whitened coordinates it is a multiple of the identity plus a symmetric matrix whose entries have a common
    variance, found from the scatter of the eigenvalues (`shrunk`); given the noised products it is normal. Gradients
    were whitened where every direction had the information of `records`. If it is another one now on average, some
    directions need not have changed: that of a scale does not, when the scale makes all others change. So every
    coordinate may have stayed as it was, by the odds that its own noised product gives it.
    """
    # Beside the diagonal the noise has half the variance.
    size = len(products)
    values, vectors = np.linalg.eigh(products)
    found, doubt, kept = shrunk(values, noise)
    centre, mean = (vectors * found) @ vectors.T, float(found.mean())
    gaps = np.stack([np.diag(products) - records, np.diag(products) - mean]) / noise
    odds = _STAYED / (1.0 - _STAYED) * np.exp(np.clip(0.5 * (gaps[1] ** 2 - gaps[0] ** 2), -50.0, 50.0))

    def several(number: int) -> Array:
        entries = generator.normal(size=(number, size, size))
        level = generator.normal(size=(number, 1, 1)) * np.eye(size) / math.sqrt(size)
        drawn = centre + noise * (level + math.sqrt(kept) * _even(entries))
        stayed = generator.random((number, size)) < odds / (1.0 + odds)
        drawn += (stayed * (records - mean) * (1.0 - kept))[:, :, None] * np.eye(size)
        each, turns = np.linalg.eigh(drawn)
        return (turns * np.maximum(each, 0.2 * mean)[:, None, :]) @ np.swapaxes(turns, 1, 2)

    return centre, doubt, several


def _sums_of(spec: Spec) -> NoisedSums:
    return instance_of("spec.algorithm", spec.algorithm, NoisedSums)
