"""Mean and covariance of the last iterate on quadratics by recursion, whatever the number of patterns.

In homogeneous coordinates (theta, 1) a step is a random matrix, and the matrix of second moments obeys a linear
recursion. Independent batches need the first two inclusion probabilities only. A reshuffled pass needs the moments
for every state of what is left to draw; passes are independent, so the states are summed at the end of each.
"""

from collections.abc import Callable

import numpy as np

from sordino.core.arrays import Array
from sordino.core.bound import View
from sordino.core.spec import GaussianNoise, NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError
from sordino.models.exact.chain_law import MOST_PATTERNS, ChainRun, Vector, chain_law, check_size, draws
from sordino.models.exact.gaussian_law import GaussianLaw
from sordino.models.exact.quadratic import Quadratics
from tests.models.exact.laws import moments


def chain_moments(spec: Spec, data: Quadratics) -> tuple[Array, Array]:
    """Mean and covariance of the last iterate, exact for every scheme.

    Shuffle-once remembers its order for ever, so its moments are those of the enumerated mixture.
    """
    run = ChainRun.of(spec, data)
    check_size(run.chain, spec.n, data)
    if spec.view != View.LAST_ITERATE or not isinstance(run.chain.noise, GaussianNoise) or run.chain.chains != 1:
        raise InputError("Expected the last iterate of one chain with Gaussian noise.")
    return _MOMENTS.get(run.chain.batch.scheme, _enumerated)(run, spec)


def _enumerated(run: ChainRun, spec: Spec) -> tuple[Array, Array]:
    return moments(chain_law(spec, run.data))


def _independent(run: ChainRun, spec: Spec) -> tuple[Array, Array]:
    data = run.data
    single, pair = _inclusion(run.chain, spec.n)
    gradients = _homogeneous(data)
    counts = data.counts.astype(float)
    decay = _decay(data)
    mean = single * np.einsum("k,kab->ab", counts, gradients) / run.divisor + decay
    second = _start(run)
    for size, scale in zip(run.step_sizes, run.noise_scales, strict=True):
        # E (B X B') of the batch sum B: every record alone, and every pair of different records.
        alone = np.einsum("k,kab,bc,kdc->ad", counts, gradients, second, gradients)
        total = np.einsum("k,kab->ab", counts, gradients)
        squares = single * alone + pair * (total @ second @ total.T - alone)
        centre = np.eye(len(mean)) - size * mean
        spread = squares / run.divisor**2 - (mean - decay) @ second @ (mean - decay).T
        second = centre @ second @ centre.T + size**2 * spread
        second[:-1, :-1] += scale**2 * np.eye(data.dim)
    return _read(second)


def _reshuffled(run: ChainRun, _: Spec) -> tuple[Array, Array]:
    data = run.data
    gradients, decay = _homogeneous(data), _decay(data)
    counts = tuple(int(count) for count in data.counts)
    states: dict[Vector, Array] = {counts: _start(run)}
    mass: dict[Vector, float] = {counts: 1.0}
    for size, scale in zip(run.step_sizes, run.noise_scales, strict=True):
        following: dict[Vector, Array] = {}
        masses: dict[Vector, float] = {}
        for left, second in states.items():
            for batch, probability in draws(left, min(run.divisor, sum(left))):
                rest = tuple(a - b for a, b in zip(left, batch, strict=True))
                drift = np.einsum("k,kab->ab", np.array(batch, float), gradients) / run.divisor + decay
                matrix = np.eye(len(drift)) - size * drift
                moved = probability * matrix @ second @ matrix.T
                moved[:-1, :-1] += probability * mass[left] * scale**2 * np.eye(data.dim)
                following[rest] = following[rest] + moved if rest in following else moved
                masses[rest] = masses.get(rest, 0.0) + probability * mass[left]
        if len(following) > MOST_PATTERNS:
            raise InputError(f"Expected at most {MOST_PATTERNS} states of a pass, got {len(following)}.")
        done = not any(next(iter(following)))
        states = {counts: next(iter(following.values()))} if done else following
        mass = {counts: 1.0} if done else masses
    return _read(np.sum(list(states.values()), axis=0))


def _inclusion(chain: NoisyGradient, n: int) -> tuple[float, float]:
    """Probabilities that a batch holds a given record, and two given records."""
    rate, size = chain.rate(n), chain.divisor(n)
    if chain.batch.scheme == Scheme.POISSON:
        return rate, rate * rate
    return rate, rate * (size - 1) / (n - 1) if n > 1 else 0.0


def _homogeneous(data: Quadratics) -> Array:
    """Each kind's gradient as a matrix acting on (theta, 1)."""
    count, dim = data.pulls.shape
    matrices = np.zeros((count, dim + 1, dim + 1))
    matrices[:, :dim, :dim] = data.curvatures
    matrices[:, :dim, dim] = -data.pulls
    return matrices


def _decay(data: Quadratics) -> Array:
    return data.weight_decay * np.diag([*np.ones(data.dim), 0.0])


def _start(run: ChainRun) -> Array:
    homogeneous = np.append(run.start_mean, 1.0)
    second = np.outer(homogeneous, homogeneous)
    second[:-1, :-1] += run.start_scale**2 * np.eye(len(run.start_mean))
    return second


def _read(second: Array) -> tuple[Array, Array]:
    law = GaussianLaw(second[:-1, -1], second[:-1, :-1] - np.outer(second[:-1, -1], second[:-1, -1]))
    return law.mean, law.covariance


_MOMENTS: dict[Scheme, Callable[[ChainRun, Spec], tuple[Array, Array]]] = {
    Scheme.WITHOUT_REPLACEMENT: _independent,
    Scheme.POISSON: _independent,
    Scheme.RESHUFFLED: _reshuffled,
}
