"""The exact law of a noisy gradient chain on quadratics: Gaussian for every view, stable in one dimension.

A step is a random affine map theta -> A theta + o + N(0, C). Maps are composed and repeated, alone or in stacks.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core import spec as specs
from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec.chain import OWN_PLACES
from sordino.core.validate import NON_NEGATIVE, Declared, InputError, instance_of
from sordino.models.exact.gaussian_law import GaussianLaw, GaussianMixtureLaw
from sordino.models.exact.line import LineMixture, StableFamily, StableLaw1D, read_only

Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Quadratics(Declared):
    """Record i has the gradient curvatures[k] @ theta - pulls[k], k = kinds[i]; identical records share a kind."""

    curvatures: Array  # one symmetric matrix per kind
    pulls: Array  # one vector per kind
    kinds: NDArray[np.int64]  # of each record, in the order of the records
    weight_decay: Annotated[float, NON_NEGATIVE] = 0.0  # of a penalty that every step has, whatever its batch

    def __post_init__(self) -> None:
        super().__post_init__()
        pulls = read_only("pulls", self.pulls, (None, None))
        count, dim = pulls.shape
        kinds = np.array(self.kinds, dtype=np.int64)
        if kinds.ndim != 1 or (kinds.size and not 0 <= kinds.min() <= kinds.max() < count):
            raise InputError(f"Expected kinds to be numbers from 0 to {count - 1}, one per record.")
        kinds.flags.writeable = False
        object.__setattr__(self, "pulls", pulls)
        object.__setattr__(self, "curvatures", read_only("curvatures", self.curvatures, (count, dim, dim)))
        object.__setattr__(self, "kinds", kinds)

    @classmethod
    def from_records(cls, curvatures: ArrayLike, pulls: ArrayLike, weight_decay: float = 0.0) -> "Quadratics":
        """One curvature and one pull per record; equal records are found and grouped."""
        b = read_only("pulls", pulls, (None, None))
        a = read_only("curvatures", curvatures, (len(b), b.shape[1], b.shape[1]))
        rows = np.concatenate([a.reshape(len(b), -1), b], axis=1)
        _, first, kinds = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return cls(a[first], b[first], kinds.reshape(-1), weight_decay)

    @property
    def n(self) -> int:
        return len(self.kinds)

    @property
    def dim(self) -> int:
        return self.pulls.shape[1]

    @property
    def counts(self) -> Counts:
        return self.counted(self.kinds)

    def counted(self, kinds: NDArray[np.int64]) -> Counts:
        return np.bincount(kinds, minlength=len(self.pulls))

    def drift(self, counts: ArrayLike, divisor: float) -> tuple[Array, Array]:
        """Curvature and pull of a batch with these kinds, weight decay included; stacks of counts give stacks."""
        share = np.asarray(counts, float) / divisor
        curvature = np.einsum("...k,kab->...ab", share, self.curvatures)
        return curvature + self.weight_decay * np.eye(self.dim), share @ self.pulls


@dataclass(frozen=True, eq=False)
class AffineStep:
    """One map, or a stack of them along leading axes: matrix (..., d, d), offset (..., d), noise (..., d, d)."""

    matrix: Array
    offset: Array
    noise: Array

    @classmethod
    def identity(cls, dim: int) -> "AffineStep":
        return cls(np.eye(dim), np.zeros(dim), np.zeros((dim, dim)))

    def push(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance after the map, of stacks of laws."""
        moved, spread = _linear(self.matrix, mean, covariance)
        return moved + self.offset, spread + self.noise

    def then(self, following: "AffineStep") -> "AffineStep":
        """This map first, then `following`, with independent noise."""
        return AffineStep(following.matrix @ self.matrix, *following.push(self.offset, self.noise))

    def repeated(self, times: int) -> "AffineStep":
        """The map `times` times in a row, in about 2 log2(times) compositions."""
        result, square = AffineStep.identity(self.offset.shape[-1]), self
        while times:
            if times & 1:
                result = result.then(square)
            times >>= 1
            if times:
                square = square.then(square)
        return result


# A batch matters only through how many records of each kind it holds. A run is a sequence of independent stages; a
# stage has alternatives with probabilities, and every alternative is a periodic sequence of batches.

MOST_PATTERNS = 100_000
Vector = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Stage:
    """Alternative j has probability weights[j]; its step k holds counts[j, k % period] records of each kind."""

    weights: Array
    counts: Counts
    steps: int


def draws(counts: Vector, size: int) -> Iterator[tuple[Vector, float]]:
    """What a uniform draw of `size` records without replacement may hold, with probabilities."""
    ways = math.comb(sum(counts), size)
    for chosen in _splits(counts, size):
        yield chosen, math.prod(map(math.comb, counts, chosen)) / ways


def _splits(counts: Vector, size: int) -> Iterator[Vector]:
    if len(counts) == 1:
        if size <= counts[0]:
            yield (size,)
        return
    rest = sum(counts[1:])
    for first in range(max(0, size - rest), min(counts[0], size) + 1):
        for others in _splits(counts[1:], size - first):
            yield (first, *others)


def _orders(counts: Vector, sizes: Sequence[int]) -> list[tuple[tuple[Vector, ...], float]]:
    """Every sequence of batches of these sizes in a uniform pass, with probabilities."""
    orders: list[tuple[tuple[Vector, ...], Vector, float]] = [((), counts, 1.0)]
    for size in sizes:
        orders = [
            ((*order, batch), tuple(a - b for a, b in zip(left, batch, strict=True)), weight * probability)
            for order, left, weight in orders
            for batch, probability in draws(left, size)
        ]
        if len(orders) > MOST_PATTERNS:
            raise too_many(len(orders))
    return [(order, weight) for order, _, weight in orders]


def _sizes(chain: specs.NoisyGradient, n: int) -> list[int]:
    """Sizes of the batches of one pass; the last may be smaller."""
    size = chain.divisor(n)
    return [min(size, n - start) for start in range(0, n, size)]


def _one_pass(chain: specs.NoisyGradient, n: int, data: Quadratics, steps: int) -> Stage:
    orders, weights = zip(*_orders(tuple(data.counts.tolist()), _sizes(chain, n)[:steps]), strict=True)
    return Stage(np.array(weights), np.array(orders, dtype=np.int64), steps)


def in_rounds(steps: int, length: int, stage: Callable[[int], Stage]) -> tuple[Stage, ...]:
    """Rounds that are independent and alike, and what is left of one."""
    whole, rest = divmod(steps, length)
    return (*((stage(length),) * whole if whole else ()), *((stage(rest),) if rest else ()))


def stages_of(chain: specs.NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    """The stages of a run of `n` records, all patterns of batches listed."""
    from scipy import stats  # noqa: PLC0415  (slow to load, and few runs come here)

    options: list[tuple[Vector, float]] = []
    match chain.batch.scheme:
        case specs.Scheme.FULL:
            return (Stage(np.ones(1), data.counts[None, None], chain.steps),)
        case specs.Scheme.CYCLIC:
            cuts = np.arange(chain.divisor(n), n, chain.divisor(n))
            counts = np.stack([data.counted(batch) for batch in np.split(data.kinds, cuts)])
            return (Stage(np.ones(1), counts[None], chain.steps),)
        case specs.Scheme.SHUFFLE_ONCE:
            return (_one_pass(chain, n, data, chain.steps),)
        case specs.Scheme.RESHUFFLED:
            return in_rounds(chain.steps, len(_sizes(chain, n)), partial(_one_pass, chain, n, data))
        case specs.Scheme.WITH_REPLACEMENT:
            size = chain.divisor(n)
            law = stats.multinomial(size, data.counts / data.counts.sum())
            vectors = [v for v in itertools.product(range(size + 1), repeat=len(data.counts)) if sum(v) == size]
            options = [(vector, float(law.pmf(vector))) for vector in vectors]
        case specs.Scheme.WITHOUT_REPLACEMENT:
            options = list(draws(tuple(data.counts.tolist()), chain.divisor(n)))
        case specs.Scheme.POISSON:
            if (size := math.prod((data.counts + 1).tolist())) > MOST_PATTERNS:
                raise too_many(size)
            laws = [stats.binom.pmf(np.arange(count + 1), count, chain.rate(n)) for count in data.counts]
            vectors = itertools.product(*(range(len(law)) for law in laws))
            every = [(v, math.prod(float(law[k]) for law, k in zip(laws, v, strict=True))) for v in vectors]
            options = [(vector, weight) for vector, weight in every if weight > 0]
        case scheme:
            raise InputError(f"The law of a chain with {scheme.value} batches is not known. Use the attack method.")
    return alike_steps(options, chain.steps)


def alike_steps(options: Sequence[tuple[Vector, float]], steps: int) -> tuple[Stage, ...]:
    """Steps that are independent and alike, each with these batches and their probabilities."""
    counts = np.array([[vector] for vector, _ in options], dtype=np.int64)
    return (Stage(np.array([weight for _, weight in options]), counts, 1),) * steps


def too_many(total: int | str) -> InputError:
    """The refusal of so many patterns."""
    return InputError(
        f"Expected at most {MOST_PATTERNS} patterns of batches, got {total}; use fewer steps or kinds, or the moments."
    )


class ChainRun:
    """A chain on quadratics, ready to be followed step by step."""

    def __init__(self, spec: specs.Spec, data: Quadratics) -> None:
        """Read a spec; projection and clipping are refused because the law would no longer be known."""
        chain = instance_of("spec.algorithm", spec.algorithm, specs.NoisyGradient)
        if chain.projection is not None or chain.clipping is not None:
            raise InputError("With projection or clipping the law of the chain is not known.")
        if spec.dim != data.dim:
            raise InputError(f"Expected data with problem.dim = {spec.dim} parameters, got {data.dim}.")
        self.chain, self.data, self.divisor = chain, data, chain.divisor(spec.n)
        self.step_sizes, self.noise_scales = (
            schedule.values(chain.steps) for schedule in (chain.step_size, chain.noise.scale)
        )
        self.start_scale = chain.start.scale if isinstance(chain.start, specs.GaussianStart) else 0.0
        values = chain.start.values if isinstance(chain.start, specs.PointStart) else None
        self.start_mean = np.zeros(data.dim) if values is None else np.array(values)

    @property
    def start(self) -> tuple[Array, Array, Array]:
        """The weights, means and covariances of the start: one component."""
        return np.ones(1), self.start_mean[None], self.start_scale**2 * np.eye(self.data.dim)[None]

    def stages(self, n: int) -> tuple[Stage, ...]:
        """All patterns of batches, at most 100,000."""
        if self.data.n != n and self.chain.batch.scheme not in OWN_PLACES:
            scheme = self.chain.batch.scheme.value
            raise InputError(f"Expected {n} records, as the spec declares, for {scheme} batches, got {self.data.n}.")
        stages = stages_of(self.chain, n, self.data)
        log_total = sum(math.log(len(stage.weights)) for stage in stages)
        if log_total > math.log(MOST_PATTERNS) + 1e-9:
            raise too_many(f"about 10^{log_total / math.log(10):.1f}")
        return stages

    def maps(self, stage: Stage, position: int, step: int) -> tuple[Array, Array]:
        """Matrix and offset of step number `step`, the stage's `position`-th, one for each alternative."""
        curvature, pull = self.data.drift(stage.counts[:, position % stage.counts.shape[1]], self.divisor)
        size = self.step_sizes[step]
        return np.eye(self.data.dim) - size * curvature, size * pull


def chain_law(
    spec: specs.Spec, data: Quadratics, stages: tuple[Stage, ...] | None = None
) -> GaussianLaw | GaussianMixtureLaw:
    """The law of what the spec's view shows, on these data.

    | view | law |
    | --- | --- |
    | last-iterate | the last iterate |
    | all-iterates | the kept iterates, stacked in time |
    | average | the mean of the kept iterates plus the released Gaussian noise |

    A fixed order gives a Gaussian; a random one a mixture with one component per pattern of batches (at most 100,000),
    which `stages` list, unless they are those of the spec's scheme. Several chains are stacked.
    """
    run = ChainRun(spec, data)
    if not isinstance(run.chain.noise, specs.GaussianNoise):
        raise InputError("This law needs Gaussian noise. Use stable_chain_law for stable noise.")
    stages = run.stages(spec.n) if stages is None else stages
    kept = frozenset(run.chain.kept_iterates(spec.view))
    constant = run.chain.step_size.constant is not None and run.chain.noise.scale.constant is not None
    if kept == {run.chain.steps} and constant and spec.view != View.AVERAGE:
        weights, mean, covariance = _last(run, stages)
    else:
        weights, mean, covariance = _recorded(run, stages, kept, spec.view)
    if spec.view == View.AVERAGE:
        average = spec.average
        if average is None or average.noise.kind != specs.AverageNoiseKind.GAUSSIAN or average.dim != mean.shape[1]:
            raise InputError("Expected an average of the iterates themselves, released with Gaussian noise.")
        covariance = covariance / len(kept) ** 2 + average.noise.scale**2 * np.eye(mean.shape[1])
        mean = mean / len(kept)
    if len(weights) > 1 and run.chain.chains > 1:
        raise InputError("With records in random order this law needs a single chain.")
    if len(weights) == 1:
        return GaussianLaw(mean[0], covariance[0]).copies(run.chain.chains)
    return GaussianMixtureLaw(weights, mean, covariance)


def _last(run: ChainRun, stages: tuple[Stage, ...]) -> tuple[Array, Array, Array]:
    """Constant schedules: each stage is one composed map, whole periods by repeated squaring."""
    weights, mean, covariance = run.start
    noise = run.noise_scales[0] ** 2 * np.eye(run.data.dim)
    composed = {stage: _composed(run, stage, noise) for stage in set(stages)}
    for stage in stages:
        weights = np.outer(weights, stage.weights).reshape(-1)
        mean, covariance = composed[stage].push(mean[:, None], covariance[:, None])
        mean = mean.reshape(-1, mean.shape[-1])
        covariance = covariance.reshape(-1, *covariance.shape[-2:])
    return weights, mean, covariance


def _composed(run: ChainRun, stage: Stage, noise: Array) -> AffineStep:
    period = stage.counts.shape[1]
    steps = [AffineStep(*run.maps(stage, k, 0), noise) for k in range(min(period, stage.steps))]
    whole, rest = divmod(stage.steps, period)
    unmoved = AffineStep.identity(run.data.dim)
    result = reduce(AffineStep.then, steps, unmoved).repeated(whole) if whole else unmoved
    return result.then(reduce(AffineStep.then, steps[:rest], unmoved))


def _recorded(run: ChainRun, stages: tuple[Stage, ...], kept: frozenset[int], view: View) -> tuple[Array, Array, Array]:
    """Step by step; the state is what was recorded so far (kept iterates, or their sum) followed by the iterate."""
    (weights, mean, covariance), dim, step = run.start, run.data.dim, 0
    if view == View.AVERAGE:
        mean, covariance = _linear(np.eye(2 * dim)[:, dim:], mean, covariance)
    for stage in stages:
        before, alternatives = len(weights), len(stage.weights)
        weights = np.outer(weights, stage.weights).reshape(-1)
        mean, covariance = np.repeat(mean, alternatives, axis=0), np.repeat(covariance, alternatives, axis=0)
        for position in range(stage.steps):
            matrix, offset = run.maps(stage, position, step)
            wide = np.tile(np.eye(mean.shape[1]), (len(mean), 1, 1))
            wide[:, -dim:, -dim:] = np.tile(matrix, (before, 1, 1))
            mean, covariance = _linear(wide, mean, covariance)
            mean[:, -dim:] += np.tile(offset, (before, 1))
            iterate = range(mean.shape[1] - dim, mean.shape[1])
            covariance[:, iterate, iterate] += run.noise_scales[step] ** 2
            step += 1
            if step in kept:
                record = np.eye(mean.shape[1])
                if view == View.AVERAGE:  # (sum, iterate) -> (sum + iterate, iterate)
                    record[:dim, dim:] = np.eye(dim)
                else:  # (recorded, iterate) -> (recorded, iterate, iterate)
                    record = np.concatenate([record, record[-dim:]])
                mean, covariance = _linear(record, mean, covariance)
    return weights, mean[:, :-dim], covariance[:, :-dim, :-dim]


def _linear(matrix: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    return (matrix @ mean[..., None])[..., 0], matrix @ covariance @ np.swapaxes(matrix, -1, -2)


def stable_chain_law(spec: specs.Spec, data: Quadratics) -> StableLaw1D | LineMixture:
    """The law of the last iterate: a stable law for a fixed order, a mixture of them for a random one.

    One step maps location to a location + o and scale^alpha to |a|^alpha scale^alpha + tau^alpha.
    """
    run = ChainRun(spec, data)
    noise = run.chain.noise
    alone = data.dim == 1 and spec.view == View.LAST_ITERATE and run.chain.chains == 1
    if not (isinstance(noise, specs.StableNoise) and alone):
        raise InputError("Expected the last iterate of one chain with stable noise and one parameter.")
    if run.start_scale > 0 and noise.alpha < 2:
        raise InputError("Expected a point start: a Gaussian start plus stable noise is not a stable law.")
    weights = np.ones(1)
    # N(0, s^2) is the stable law of index 2 and scale s / sqrt(2).
    location, power = run.start_mean.copy(), np.array([(run.start_scale / np.sqrt(2)) ** noise.alpha])
    step = 0
    for stage in run.stages(spec.n):
        before = len(weights)
        weights = np.outer(weights, stage.weights).reshape(-1)
        location, power = np.repeat(location, len(stage.weights)), np.repeat(power, len(stage.weights))
        for position in range(stage.steps):
            matrix, offset = run.maps(stage, position, step)
            factor = np.tile(matrix[:, 0, 0], before)
            location = factor * location + np.tile(offset[:, 0], before)
            power = np.abs(factor) ** noise.alpha * power + run.noise_scales[step] ** noise.alpha
            step += 1
    scale = power ** (1 / noise.alpha)
    if len(weights) == 1:
        return StableLaw1D(noise.alpha, float(location[0]), float(scale[0]))
    return LineMixture(StableFamily(noise.alpha), weights, location, scale)
