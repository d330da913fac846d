"""What running safely costs: secure and exact noise, checkpoints; a part of `make bench-full`.

    python bench/operations.py

Every target is a ratio of two medians measured in turns in this one run, as in bench/chains.py.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import area
import jax
import numpy as np
from chains import CLIPPED, MODEL, OPTIONS, rows_of
from targets import Target, as_dicts

from sordino.core.spec import Batch, Problem, Scheme
from sordino.mechanisms import (
    Checkpoint,
    Purpose,
    Randomness,
    SecureRandomness,
    SeededRandomness,
    noisy_sgd,
    run,
)
from sordino.mechanisms.regression.ridge import clipped_gradients, residuals
from sordino.mechanisms.statistics.second_moments import StatisticsStack
from sordino.noise.gaussian import ExactGaussians
from sordino.noise.integer_sums import PRODUCT_EXPONENT


def in_turns(ways: dict[str, Callable[[], Any]], repetitions: int = 7) -> dict[str, float]:
    """Median wall time of each way, after one call that compiles; in turns, so that a busy moment hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for repetition in range(repetitions + 1):
        for name, way in ways.items():
            begin = time.perf_counter()
            jax.block_until_ready(way())
            if repetition:
                taken[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in taken.items()}


def secure_noise() -> tuple[dict[str, float], list[Target]]:
    """Whole chains where noise weighs most (as the stable-noise line of bench/chains.py), and noise alone."""
    n, d, steps = 2_000, 50, 8192
    X, y = rows_of(n, d)
    problem = Problem(n=n, dim=d)
    spec = noisy_sgd(problem, step_size=0.1, noise_scale=0.01, steps=steps, batch=Batch(Scheme.CYCLIC, 16), **OPTIONS)

    def chain(source: Callable[[], Randomness]) -> Callable[[], Any]:
        return lambda: run(spec, MODEL, X, y, source()).iterates

    def noise(source: Callable[[], Randomness], shape: tuple[int, int]) -> Callable[[], Any]:
        return lambda: source().gaussians(Purpose.NOISE, 0, 256, shape, np.float32)

    def seeded() -> Randomness:
        return SeededRandomness(0)

    taken = in_turns(
        {
            "chain, seeded": chain(seeded),
            "chain, secure": chain(SecureRandomness),
            "noise of 1 chain, seeded": noise(seeded, (1, 50)),
            "noise of 1 chain, secure": noise(SecureRandomness, (1, 50)),
            "noise of 64 chains, seeded": noise(seeded, (64, 100)),
            "noise of 64 chains, secure": noise(SecureRandomness, (64, 100)),
        }
    )
    ratio = {name: taken[f"{name}, secure"] / taken[f"{name}, seeded"] for name in ("chain", "noise of 64 chains")}
    targets = [
        Target("secure noise over seeded noise, whole chain", ratio["chain"], 4.0, False),
        Target("secure noise over seeded noise, noise alone", ratio["noise of 64 chains"], 4.0, False),
    ]
    return taken, targets


def exact_noise() -> tuple[dict[str, float], list[Target]]:
    """Noise and sums without rounding against plain ones: what a covered floating-point line costs in time."""
    n, d, draws = 50_000, 50, 100_000
    X, y = rows_of(n, d)
    X, y = np.asarray(X, np.float64) / np.sqrt(d), np.asarray(y, np.float64)
    theta, generator = np.full(d, 0.1), np.random.default_rng(0)
    gradients = clipped_gradients(MODEL, X, y, 1.0)

    def plain_gradient() -> Any:
        found = residuals(MODEL, X @ theta[:, None], y)
        return X.T @ (found * np.minimum(1.0, 1.0 / np.linalg.norm(found, axis=1))[:, None])

    taken = in_turns(
        {
            "gaussians, plain": lambda: generator.standard_normal(draws),
            "gaussians, exact": lambda: ExactGaussians(generator, draws).rounded(
                slice(None), np.zeros(draws), np.ones(draws)
            ),
            "sums of products, plain": lambda: X.T @ X,
            "sums of products, exact": lambda: StatisticsStack().products(X, y).total(1.0, PRODUCT_EXPONENT),
            "gradient, plain": plain_gradient,
            "gradient, exact": lambda: gradients.products(theta).total(1.0, gradients.exponent),
        },
        5,
    )
    figures = taken | {"microseconds an exact gaussian": 1e6 * taken["gaussians, exact"] / draws}
    return figures, [
        Target(f"{name}, exact over plain", taken[f"{name}, exact"] / taken[f"{name}, plain"], None, False)
        for name in ("sums of products", "gradient")
    ]


def checkpoints() -> tuple[dict[str, float], list[Target]]:
    """A run of about ten seconds of work that is written down every second, against one that is not."""
    n, d = 20_000, 100
    X, y = rows_of(n, d)
    common: dict[str, Any] = {"step_size": 0.1, "noise_scale": 0.01, "clipping": CLIPPED, "chains": 8}
    spec = noisy_sgd(Problem(n=n, dim=d), steps=4096, batch=Batch(Scheme.POISSON, 256), **common, **OPTIONS)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(Path(folder) / "run.checkpoint", every=1.0)
        taken = in_turns(
            {
                "plain": lambda: run(spec, MODEL, X, y, SeededRandomness(0)).iterates,
                "kept": lambda: run(spec, MODEL, X, y, SeededRandomness(0), checkpoint=checkpoint).iterates,
            },
            5,
        )
    return taken, [
        Target("a run written down every second over a plain run", taken["kept"] / taken["plain"], 1.2, False)
    ]


def measure(full: bool) -> area.Measured:  # noqa: ARG001
    figures: dict[str, Any] = {}
    targets: list[Target] = []
    for part in (secure_noise, exact_noise, checkpoints):
        figures[part.__name__], reached = part()
        targets += reached
    return area.Measured([], figures | {"targets": as_dicts(targets)}, {})


if __name__ == "__main__":
    area.main("operations", measure, __doc__)
