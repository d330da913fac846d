"""What tests ask of exactly known laws beside what audits ask: densities, draws, moments, and data to run chains on."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from sordino.core.arrays import Array
from sordino.core.gaussian import Bracket, down, narrow
from sordino.core.spec import Spec
from sordino.core.validate import OPEN_UNIT, number
from sordino.models.exact import (
    ConjugateRegression,
    ExactLaw,
    GaussianLaw,
    GaussianMixtureLaw,
    LineMixture,
    Quadratics,
    hockey_stick,
)
from sordino.models.exact.chain_law import ChainRun
from sordino.models.exact.gaussian_law import cholesky
from sordino.models.exact.line import StableFamily, central, log_sum
from tests.models.exact.batches import stages_of


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
