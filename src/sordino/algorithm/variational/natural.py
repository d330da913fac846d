"""Natural-gradient variational inference whose posterior knows the noise of its own gradients.

The posterior is a Gaussian over the unconstrained parameters. Its precision is the prior's plus the sum of products of
clipped gradients (the variational online Gauss-Newton method, Khan et al. 2018); its mean moves by covariance times
gradient, which is taken at opposite draws from it. Three stages, each with its own share of the budget, measure the
products at a better place and in better coordinates than the last one: in whitened coordinates every direction carries
the same information and gets the same noise.

*The noise of the trace enters the posterior* (as in Alrawajfeh, Jälkö & Honkela 2025, who infer where the gradient is
zero from the trace of noised gradients). Where gradients are linear in the mean with slope L, mean(m_t) - L^-1
mean(g_t) over the trace of the last stage is the zero of the gradient without noise, but for L^-1 W^-1 times the mean
of the rounds' noises, whose law is known. Its covariance, C^2 s^2 / rounds * L^-1 W^-2 L^-1, is added to L^-1, both a
little larger for the noise in L itself; where that is not small, the release says so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.algorithm.noise.randomness import Randomness
from sordino.algorithm.rounds.own_gradients import (
    FIRST_OCTAVE,
    OCTAVES,
    Asked,
    Centres,
    Lengths,
    NaturalGradients,
    Path,
    Place,
    PrivateTable,
    Products,
    as_matrix,
)
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import up
from sordino.core.spec import AnyUnit, Batch, Composite, ListSchedule, NoisedSums, Part, Scheme, Spec
from sordino.core.spec.chain import ConstantSchedule
from sordino.core.spec.sums import moves
from sordino.core.validate import instance_of
from sordino.model.own.base import OwnModel

# Clips in units of the root mean square of clipped, whitened gradients.
CLIP = 2.0
# Where the bias of clipping cannot be simulated, less is clipped.
CLIP_AS_OBSERVED = 3.5
# Shares of the squared privacy parameter: lengths, then products and gradients of each stage.
_LENGTHS = 0.02
_SHARES = ((0.10, 0.10), (0.15, 0.15), (0.15, 0.25))
_CENTRE = 0.08
_ROUNDS = (16, 16, 32)
# Full steps while a stage still travels; then averaging.
_TRAVEL = (1.0, 0.6, 0.2)
_LAST_PACE = 0.4
# How much more than its noise a coordinate of the centre has to be to be believed.
_BELIEVED = 2.5
_LEAST_INFORMATION = 1e-3


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
    """The released Gaussian over the unconstrained parameters, and what is known of its making.

    `noise` is the part of the covariance that the privacy noise makes; `doubt` is the relative error, by noise, of the
    information in one direction.
    """

    mean: Array
    covariance: Array
    noise: Array
    doubt: float
    clip: float


def part_of(sizes: Sizes, query: str, share: float, rounds: int, apart: float, **options: Any) -> NoisedSums:
    """Rounds of sums of contributions of length 1 that a replacement moves by at most `apart`."""
    moved = apart if sizes.relation is Relation.REPLACE_ONE else 1.0
    multiplier = up(moved / (sizes.mu * math.sqrt(share / rounds)) * (1.0 + 1e-9))
    replacement = None if apart == moves(Relation.REPLACE_ONE) else apart
    return NoisedSums(
        query=query,
        records=sizes.records,
        rounds=rounds,
        sampling=Batch(Scheme.FULL),
        contribution=1.0,
        replacement=replacement,
        noise_multiplier=ConstantSchedule(multiplier),
        unit=sizes.unit,
        options=tuple(options.items()),
    )


def paces(stage: int) -> Array:
    """Full steps for a share of the rounds, then 1, 1/2, 1/3, ... of a step; in the last stage always the same."""
    rounds, first = _ROUNDS[stage], int(_TRAVEL[stage] * _ROUNDS[stage])
    if stage == len(_ROUNDS) - 1:
        return np.full(rounds, _LAST_PACE)
    return np.concatenate([np.ones(first), 1.0 / np.arange(1, rounds - first + 1)])


def natural_spec(sizes: Sizes) -> Spec:
    """Everything a fit by natural gradients asks, in parts."""
    apart = up(math.sqrt(2.0))
    parts = [part_of(sizes, "lengths of gradients", _LENGTHS, 1, apart)]
    for stage, ((products, gradients), rounds) in enumerate(zip(_SHARES, _ROUNDS, strict=True)):
        parts.append(part_of(sizes, "products of gradients", products, 1, apart))
        if stage == len(_ROUNDS) - 1:
            parts.append(part_of(sizes, "gradients, whitened, of simulated units", _CENTRE, 1, 2.0))
        schedule = ListSchedule(tuple(paces(stage).tolist()))
        parts.append(part_of(sizes, "gradients, whitened", gradients, rounds, 2.0, step_size=schedule))
    whole = Composite(tuple(Part(part, view=View.ALL_ITERATES) for part in parts))
    return Spec(algorithm=whole, relation=sizes.relation, view=View.ALL_ITERATES, delta=sizes.delta)


def information_left(sizes: Sizes) -> float:
    """How many records without noise would say as much about the parameters as the noised last stage."""
    moved = 2.0 if sizes.relation is Relation.REPLACE_ONE else 1.0
    noise = moved / (sizes.mu * math.sqrt(_SHARES[-1][1]))
    # A unit's whitened gradient has variance 1 in each direction; the noise is CLIP sqrt(size) that of contributions.
    return sizes.records / (1.0 + (noise * CLIP) ** 2 * sizes.size / sizes.records)


def run_natural(
    spec: Spec,
    model: OwnModel,
    rows: np.ndarray,
    fresh: Callable[[], Randomness],
    start: Array,
    begin: Callable[[str], None] = lambda _: None,
) -> NaturalPosterior:
    """Run the parts of a spec that `natural_spec` made; every part gets a source of randomness of its own."""
    parts = iter(
        Spec(algorithm=part.algorithm, relation=spec.relation, view=View.ALL_ITERATES, delta=spec.delta)
        for part in instance_of("spec.algorithm", spec.algorithm, Composite).parts
    )
    with in_doubles():
        table, size = PrivateTable.of(model, rows), model.size
        records = _sums(spec).records
        place = first_place(model, start)
        begin("lengths of gradients")
        asked = next(parts)
        found, _ = table.rounds(asked, Lengths(model), Asked(place, jnp.zeros(OCTAVES)), fresh())
        place = place._replace(clip=jnp.asarray(2.0 * median_length(np.asarray(found.answer), records)))
        doubt, error, centre_noise, trace = 0.0, 0.0, np.zeros((size, size)), np.zeros((0, 0))
        for stage in range(len(_ROUNDS)):
            begin(f"stage {stage + 1} of {len(_ROUNDS)}")
            asked = next(parts)
            entries = jnp.zeros(size * (size + 1) // 2)
            found, _ = table.rounds(asked, Products(model, pairs=1), Asked(place, entries), fresh())
            noise = float(_sums_of(asked).sum_noise[0])
            place, doubt, error = _measured(model, place, as_matrix(np.asarray(found.answer), size), noise, records)
            last = stage == len(_ROUNDS) - 1
            if last:
                asked = next(parts)
                place, centre_noise = _centred(table, asked, place, fresh)
            else:
                # Directions whose information is not known yet may have more of it than was seen: shorter steps.
                place = place._replace(covariance=place.covariance / (1.0 + min(2.0 * doubt, size - 1.0)))
            asked = next(parts)
            begun = Path(place, place.mean, jnp.zeros(size))
            path, trace = table.rounds(asked, NaturalGradients(model, pairs=1), begun, fresh(), keep=True)
            place = path.place
        return _posterior(place, asked, trace, centre_noise, doubt, error)


def first_place(model: OwnModel, start: Any) -> Place:
    """Where a fit begins: nothing is whitened, and gradients are taken at the start itself."""
    unit = jnp.eye(model.size)
    zeros = jnp.zeros(model.size)
    return Place(jnp.asarray(start, jnp.float64), 0.0 * unit, unit, unit, unit, jnp.asarray(1.0), zeros)


def median_length(counts: Array, records: int) -> float:
    """The upper end of the octave in which the count from above reaches half of the units that move."""
    from_above = np.cumsum(counts[::-1])[::-1]
    moving = max(records - max(float(counts[0]), 0.0), 0.1 * records)
    reached = np.flatnonzero(from_above >= 0.5 * moving)
    return math.ldexp(1.0, FIRST_OCTAVE + (int(reached[-1]) if len(reached) else OCTAVES // 2))


def _measured(model: OwnModel, place: Place, products: Array, noise: float, records: int) -> tuple[Place, float, float]:
    """The next whitening and covariance, from the noised products; their relative noise, and what is left."""
    clip, unwhitening = float(place.clip), np.asarray(place.unwhitening)
    values, vectors = np.linalg.eigh(products * clip**2)
    values, doubt, error = shrunk(values, noise * clip**2)
    values = np.maximum(values, _LEAST_INFORMATION * records)
    information = unwhitening @ (vectors * values) @ vectors.T @ unwhitening
    information = 0.5 * (information + information.T)
    root_values, root_vectors = np.linalg.eigh(information / records)
    root_values = np.maximum(root_values, 1e-12 * root_values.max())
    whitening = (root_vectors / np.sqrt(root_values)) @ root_vectors.T
    unwhitening = (root_vectors * np.sqrt(root_values)) @ root_vectors.T
    precision = information + _prior_precision(model, np.asarray(place.mean))
    covariance = np.linalg.inv(precision)
    covariance = 0.5 * (covariance + covariance.T)
    spread = np.linalg.cholesky(covariance + 1e-14 * np.trace(covariance) * np.eye(model.size))
    clip = (CLIP if model.simulates else CLIP_AS_OBSERVED) * math.sqrt(model.size)
    found = (spread, whitening, unwhitening, covariance, clip, np.zeros(model.size))
    return Place(place.mean, *map(jnp.asarray, found)), doubt, error


def shrunk(values: Array, noise: float) -> tuple[Array, float, float]:
    """Eigenvalues of noised products drawn towards their mean, as far as their scatter is noise.

    Also the relative size of the noise before and after.

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
    return values, relative * math.sqrt((size + 1) / 2.0), relative * math.sqrt(1 / size + kept * (size + 1) / 2.0)


def _prior_precision(model: OwnModel, mean: Array) -> Array:
    """The curvature of the prior at the mean, where it is one: directions in which it bends outwards count as flat."""
    values, vectors = np.linalg.eigh(np.asarray(jax.hessian(model.penalty)(jnp.asarray(mean))))
    return (vectors * np.maximum(values, 1e-9)) @ vectors.T


def _centred(table: PrivateTable, asked: Spec, place: Place, fresh: Callable[[], Randomness]) -> tuple[Place, Array]:
    """The place with the centre of its clipped gradients, and a root of the covariance of that centre's noise.

    Coordinates of the unwhitened centre that are not told apart from noise count as zero.
    """
    size = table.model.size
    if not table.model.simulates:
        return place, np.zeros((size, 1))
    found, _ = table.rounds(asked, Centres(table.model), Asked(place, jnp.zeros(size)), fresh())
    clip, unwhitening = float(place.clip), np.asarray(place.unwhitening)
    centre = unwhitening @ np.asarray(found.answer) * clip
    root = unwhitening * clip * float(_sums_of(asked).sum_noise[0])
    # A coordinate is believed by how far it is above its noise (a non-negative garrote), and what is not believed of it
    # stays in its variance.
    ratio = np.abs(centre) / np.sqrt((root**2).sum(axis=1))
    share = np.maximum(0.0, 1.0 - (_BELIEVED / np.maximum(ratio, 1e-12)) ** 2)
    taken = np.asarray(place.whitening) @ (share * centre)
    # Beside the noise, the centre has the scatter of the simulated units: a share of the information itself.
    scatter = unwhitening * math.sqrt(_sums_of(asked).records / Centres.simulations)
    believed = (share > 0.0)[:, None]
    doubted = np.diag((1.0 - share) * centre)
    errors = np.where(believed, np.hstack([share[:, None] * root, share[:, None] * scatter, doubted]), 0.0)
    return place._replace(centre=jnp.asarray(taken)), errors


def _posterior(
    place: Place, asked: Spec, trace: Array, centre_noise: Array, doubt: float, error: float
) -> NaturalPosterior:
    """The zero of the noised gradient by the trace of the last stage, and its covariance, noise included."""
    size, rounds = len(place.mean), _sums_of(asked).rounds
    used = trace[int(_TRAVEL[-1] * rounds) :]
    covariance, unwhitening = np.asarray(place.covariance), np.asarray(place.unwhitening)
    mean = used[:, :size].mean(axis=0) - covariance @ used[:, size:].mean(axis=0)
    deviation = float(_sums_of(asked).sum_noise[0]) * float(place.clip) / math.sqrt(len(used))
    turned = covariance @ unwhitening * deviation
    moved = covariance @ centre_noise
    # 1 / h and 1 / h^2 for an information h known up to a relative error have these means.
    noise = (turned @ turned.T + moved @ moved.T) * (1.0 + 3.0 * error**2)
    return NaturalPosterior(mean, covariance * (1.0 + error**2) + noise, noise, doubt, float(place.clip))


def _sums_of(spec: Spec) -> NoisedSums:
    return instance_of("spec.algorithm", spec.algorithm, NoisedSums)


def _sums(spec: Spec) -> NoisedSums:
    whole = instance_of("spec.algorithm", spec.algorithm, Composite)
    return instance_of("the first part", whole.parts[0].algorithm, NoisedSums)
