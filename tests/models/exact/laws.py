"""What tests ask of exactly known laws beside what audits ask: densities, draws, moments, and data to run chains on."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket, down, narrow
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import OPEN_UNIT, number
from sordino.models.exact import (
    ConjugateRegression,
    ExactLaw,
    GaussianLaw,
    GaussianMixtureLaw,
    LineMixture,
    Quadratics,
    chain_law,
    hockey_stick,
)
from sordino.models.exact.chain_law import MOST_PATTERNS, ChainRun, Stage, Vector, alike_steps, in_rounds, too_many
from sordino.models.exact.chain_law import stages_of as known_stages
from sordino.models.exact.gaussian_law import cholesky
from sordino.models.exact.line import StableFamily, central, log_sum


def mixture_of(law: GaussianLaw) -> GaussianMixtureLaw:
    """A Gaussian law as a mixture of one."""
    return GaussianMixtureLaw(np.ones(1), law.mean[None], law.covariance[None])


def component(law: GaussianMixtureLaw, index: int) -> GaussianLaw:
    return GaussianLaw(law.means[index], law.covariances[index])


def moments(law: GaussianLaw | GaussianMixtureLaw) -> tuple[Array, Array]:
    """Mean and covariance."""
    if isinstance(law, GaussianLaw):
        return law.mean, law.covariance
    mean = law.weights @ law.means
    spread = law.means - mean
    within = np.einsum("j,jab->ab", law.weights, law.covariances)
    return mean, within + np.einsum("j,ja,jb->ab", law.weights, spread, spread)


def log_density(law: ExactLaw, points: ArrayLike) -> Array:
    """Log density at points of shape (..., dim), or (...) for a law that is known on the line alone."""
    if isinstance(law, GaussianMixtureLaw):
        used = np.flatnonzero(law.weights)
        logs = [log_density(component(law, j), points) + math.log(law.weights[j]) for j in used]
        return log_sum(np.stack(logs, axis=-1))
    if not isinstance(law, GaussianLaw):
        return law.line().log_density(points)
    factor = cholesky(law.covariance)
    centred = np.asarray(points, float) - law.mean
    white = linalg.solve_triangular(factor, centred.reshape(-1, law.dim).T, lower=True)
    log_scale = np.log(np.diag(factor)).sum() + 0.5 * law.dim * math.log(2 * math.pi)
    return (-0.5 * np.sum(white * white, axis=0) - log_scale).reshape(centred.shape[:-1])


def density(law: ExactLaw, points: ArrayLike) -> Array:
    return np.exp(log_density(law, points))


def sample(law: ExactLaw, generator: np.random.Generator, size: int) -> Array:
    """Independent draws, one a row for laws of several dimensions."""
    if isinstance(law, GaussianLaw):
        return law.sample(generator, size)
    if isinstance(law, GaussianMixtureLaw):
        counts = generator.multinomial(size, law.weights)
        parts = [component(law, j).sample(generator, int(counts[j])) for j in np.flatnonzero(counts)]
        return generator.permutation(np.concatenate(parts), axis=0)
    line = law.line()
    chosen = generator.choice(len(line.weights), size=size, p=line.weights)
    return line.locations[chosen] + line.scales[chosen] * _standard(line, generator, size)


def _standard(line: LineMixture, generator: np.random.Generator, size: int) -> Array:
    """Draws of the standard law; of a stable one by the method of Chambers, Mallows and Stuck (1976)."""
    if not isinstance(line.family, StableFamily):
        return generator.standard_normal(size)
    alpha = line.family.alpha
    if alpha == 2.0:
        return math.sqrt(2) * generator.standard_normal(size)
    angle = generator.uniform(-math.pi / 2, math.pi / 2, size)
    wait = generator.standard_exponential(size)
    first = np.sin(alpha * angle) / np.cos(angle) ** (1 / alpha)
    return first * (np.cos((1 - alpha) * angle) / wait) ** ((1 - alpha) / alpha)


def ridge(features: ArrayLike, target: ArrayLike, weight_decay: float = 0.0) -> Quadratics:
    """The losses (x.theta - y)^2 / 2 of a table."""
    x, y = np.asarray(features, float), np.asarray(target, float)
    return Quadratics.from_records(x[:, :, None] * x[:, None, :], x * y[:, None], weight_decay)


def passes(n: int, size: int, permutations: Sequence[ArrayLike], steps: int) -> list[NDArray[np.int64]]:
    """The batches of passes over permuted records: one repeats (shuffle-once), several take turns."""
    cuts = range(size, n, size)
    epochs = [np.split(np.asarray(order, dtype=np.int64), cuts) for order in permutations]
    return list(itertools.islice((batch for epoch in itertools.cycle(epochs) for batch in epoch), steps))


def chain_moments(spec: Spec, data: Quadratics) -> tuple[Array, Array]:
    """Mean and covariance of the last iterate of a chain, stage by stage, whatever the number of patterns.

    In coordinates (theta, 1) a step is a matrix. Stages are independent, so the second moment after a stage is the mean
    over its alternatives.
    """
    run, step = ChainRun(spec, data), 0
    start, noise = np.append(run.start_mean, 1.0), np.diag([*np.ones(data.dim), 0.0])
    second = np.outer(start, start) + run.start_scale**2 * noise
    for stage in stages_of(run.chain, spec.n, data):
        each = second[None]
        for position in range(stage.steps):
            matrix, offset = run.maps(stage, position, step)
            above = np.concatenate([matrix, offset[:, :, None]], axis=2)
            maps = np.concatenate([above, np.tile(np.eye(data.dim + 1)[-1:], (len(matrix), 1, 1))], axis=1)
            each = maps @ each @ np.swapaxes(maps, 1, 2) + run.noise_scales[step] ** 2 * noise
            step += 1
        second = np.einsum("j,jab->ab", stage.weights, each)
    mean = second[:-1, -1]
    return mean, second[:-1, :-1] - np.outer(mean, mean)


def predictive(model: ConjugateRegression, posterior: GaussianLaw, features: ArrayLike) -> GaussianLaw:
    """The joint law of new targets at these rows: parameter uncertainty plus observation noise."""
    x = np.asarray(features, float)
    return GaussianLaw(x @ posterior.mean, x @ posterior.covariance @ x.T + np.eye(len(x)) / model.noise_precision)


_LARGEST_EPSILON = 1e5


def epsilon_at(first: ExactLaw, second: ExactLaw, delta: float) -> Bracket:
    """Bracket of the smallest epsilon >= 0 at which both directions of the hockey-stick divergence are <= delta."""
    delta = number("delta", delta, OPEN_UNIT)

    def low(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).low, hockey_stick(second, first, epsilon).low)

    def high(epsilon: float) -> float:
        return max(hockey_stick(first, second, epsilon).high, hockey_stick(second, first, epsilon).high)

    least = _crossing(low, delta)[0]
    return Bracket(least, max(least, _crossing(high, delta)[1]))


def _crossing(delta_of: Callable[[float], float], delta: float) -> tuple[float, float]:
    """The last epsilon found above delta and the first one found at or below it, close together."""
    if delta_of(0.0) <= delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 2 * high
        if high > _LARGEST_EPSILON:
            return low, math.inf
    low, high = narrow(lambda epsilon: not delta_of(epsilon) > delta, low, high, 1e-12)
    return down(low), high


def total_variation(first: ExactLaw, second: ExactLaw) -> Bracket:
    """The hockey-stick divergence at epsilon = 0."""
    return hockey_stick(first, second, 0.0)


def shift_total_variation(alpha: float, shift: float, scale: float) -> Bracket:
    """TV between a stable law and its shift, 2 F_alpha(|shift| / (2 scale)) - 1, exact in any dimension.

    The best test is a half-space, and every projection is the one-dimensional law.
    """
    value = float(central(alpha, abs(shift) / (2 * scale)))
    return Bracket(value * (1 - 1e-12), min(1.0, value * (1 + 1e-12)))


def fixed(data: Quadratics, batches: Sequence[ArrayLike]) -> tuple[Stage, ...]:
    """The records of each step, as they are given."""
    counts = [data.counted(data.kinds[np.asarray(batch, dtype=np.int64)]) for batch in batches]
    return (Stage(np.ones(1), np.stack(counts)[None], len(counts)),)


def law_of(spec: Spec, data: Quadratics, batches: Sequence[ArrayLike] | None = None):
    """The law of a chain of any scheme, or with these batches."""
    own = spec.algorithm.batch.scheme in _OWN and batches is None
    return chain_law(spec, data, stages_of(spec.algorithm, spec.n, data) if own else batches and fixed(data, batches))


_OWN = (Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION, Scheme.TRUNCATED_POISSON)


def stages_of(chain: NoisyGradient, n: int, data: Quadratics) -> tuple[Stage, ...]:
    """All patterns of batches of any scheme, also of those that only tests follow."""
    length = chain.batches_per_epoch(n)
    match chain.batch.scheme:
        case Scheme.RANDOM_ALLOCATION:
            return in_rounds(chain.steps, length, partial(_allocated, chain, length, data))
        case Scheme.MIN_SEPARATION:
            return (_apart(chain, n, data),)
        case Scheme.TRUNCATED_POISSON:
            return alike_steps(_truncated(chain, n, data), chain.steps)
    return known_stages(chain, n, data)


def _truncated(chain: NoisyGradient, n: int, data: Quadratics) -> list[tuple[Vector, float]]:
    """All subsets of the records, of which the first `cap` count."""
    if 2**data.n > MOST_PATTERNS:
        raise too_many(f"2^{data.n}")
    rate, found = chain.rate(n), defaultdict[Vector, float](float)
    for chosen in itertools.product((0, 1), repeat=data.n):
        vector = tuple(data.counted(data.kinds[np.flatnonzero(chosen)[: chain.batch.most]]).tolist())
        found[vector] += rate ** sum(chosen) * (1 - rate) ** (data.n - sum(chosen))
    return [(vector, weight) for vector, weight in found.items() if weight > 0]


def _allocated(chain: NoisyGradient, length: int, data: Quadratics, steps: int) -> Stage:
    """All ways to give every record its steps of a round, of which the first `steps` are made."""
    ways = list(itertools.combinations(range(length), chain.batch.uses or 1))
    own = Counter(tuple(int(step in places) for step in range(steps)) for places in ways)
    return _joint({uses: count / len(ways) for uses, count in own.items()}, data, steps)


def _apart(chain: NoisyGradient, n: int, data: Quadratics) -> Stage:
    """All ways in which every record is drawn while it is free, from waits that steps made before would leave."""
    length, chance = chain.batch.apart(n), chain.batch.chance(n)
    share = chance / (1 + (length - 1) * chance)
    own = defaultdict[Vector, float](float)
    for blocked in range(length):
        waits = [((), blocked, share if blocked else 1 - (length - 1) * share)]
        for _ in range(chain.steps):
            waits = [
                ((*uses, used), length - 1 if used else max(0, wait - 1), weight * factor)
                for uses, wait, weight in waits
                for used, factor in (((0, 1.0),) if wait else ((0, 1 - chance), (1, chance)))
                if weight * factor > 0
            ]
        for uses, _, weight in waits:
            own[uses] += weight
    return _joint(own, data, chain.steps)


def _joint(own: Mapping[Vector, float], data: Quadratics, steps: int) -> Stage:
    """All steps together, where every record has uses of its own, step by step, with these probabilities."""
    if len(own) ** data.n > MOST_PATTERNS:
        raise too_many(f"{len(own)} ^ {data.n}")
    found = defaultdict[bytes, float](float)
    for chosen in itertools.product(own.items(), repeat=data.n):
        counts = np.zeros((steps, len(data.counts)), dtype=np.int64)
        for kind, (uses, _) in zip(data.kinds, chosen, strict=True):
            counts[:, kind] += uses
        found[counts.tobytes()] += math.prod(weight for _, weight in chosen)
    tables = [np.frombuffer(key, dtype=np.int64).reshape(steps, -1) for key in found]
    return Stage(np.array(list(found.values())), np.stack(tables), steps)
