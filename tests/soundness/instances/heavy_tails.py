"""Chains with stable noise on ridge regression with one parameter: exact stable laws, and mixtures of them."""

import math
from typing import Any

import numpy as np

from sordino.core.spec import Spec
from sordino.models.exact import Quadratics, stable_chain_law
from tests.models.exact.laws import ridge
from tests.soundness.cells import CellTruth
from tests.soundness.pieces import chain_spec, chance, log_uniform
from tests.soundness.registry import Instance, Neighbours, instance


def _run(n: int, problem: dict[str, Any], **algorithm: Any) -> Spec:
    return chain_spec({"n": n, "dim": 1} | problem, **algorithm)


def _truths(spec: Spec, pairs: list[tuple[str, Quadratics, Quadratics]]) -> tuple[Neighbours, ...]:
    laws = [(label, *(stable_chain_law(spec, data).line() for data in pair)) for label, *pair in pairs]
    return tuple(Neighbours(label, CellTruth.on_line(first, second)) for label, first, second in laws)


def _ridge_pairs(
    rng: np.random.Generator, n: int, row: float, target: float, decay: float, positions: range
) -> list[tuple[str, Quadratics, Quadratics]]:
    """|x| <= row, |y| <= target: the corner that pulls hardest against its mirror image, and random records."""
    pairs = []
    for position in positions:
        for label in ("corners", "random"):
            x, y = rng.uniform(-row, row, (2, n)), rng.uniform(-target, target, (2, n))
            x[1], y[1] = x[0], y[0]
            if label == "corners":
                x[:], y[:] = row, target
            x[:, position], y[:, position] = row, (target, -target)
            first, second = (ridge(a[:, None], b, decay) for a, b in zip(x, y, strict=True))
            pairs.append((f"{label}, record {position} of {n}", first, second))
    return pairs


def _ridge(rng: np.random.Generator, scheme: str) -> Instance:
    full = scheme == "full"
    n = int(rng.integers(2, 8)) if full else 3
    steps = int(rng.integers(1, 30)) if full else int(rng.integers(1, 4))
    row, target, decay = (float(value) for value in rng.uniform((0.3, 0.1, 0.05), (1.5, 3.0, 1.0)))
    step = float(rng.uniform(0.05, 1.9)) / (row**2 + decay)
    size = n if full else 1
    growth = {"g0": 2 * row * target, "g1": row**2, "at_zero": row * target}
    problem = {"strong_convexity": decay, "smoothness": row**2 + decay, "gradient_growth": growth}
    noise: dict[str, Any] = {"kind": "stable", "alpha": 2.0 if chance(rng, 0.2) else float(rng.uniform(1.05, 1.99))}
    noise["scale"] = step / size * row * target * log_uniform(rng, 0.3, 30)
    start = {"kind": "point", "values": [float(rng.normal())]}
    batch = {"scheme": scheme, "size": size}
    spec = _run(n, problem, steps=steps, step_size=step, noise=noise, batch=batch, start=start)
    return Instance(spec, _truths(spec, _ridge_pairs(rng, n, row, target, decay, range(1 if full else n))))


@instance("stable-ergodic")
def _ergodic(rng: np.random.Generator) -> Instance:
    """A Gaussian chain on shifted parabolas, with the autoregression's own ergodicity constants and 2 to spare."""
    n, steps, curvature = int(rng.integers(30, 200)), int(rng.integers(1, 40)), float(rng.uniform(0.3, 2.0))
    step = float(rng.uniform(0.2, 0.9)) / curvature
    # M / n is about step * 2 * 0.8 / scale / n, so this keeps n above 3 (M + 1).
    scale = step * log_uniform(rng, 1.0, 10.0)
    kept = 1 - step * curvature
    rate = math.sqrt(kept)
    problem: dict[str, Any] = {"strong_convexity": curvature, "smoothness": curvature, "gradient_sensitivity": 2.0}
    problem["dissipativity"] = {"K1": curvature, "K2": 1.0, "m": curvature, "K": 0.0, "B": 1.0, "D": 2.0}
    problem["ergodicity"] = {"C": 2 * _ergodicity(kept, scale * math.sqrt(2), rate), "rho": rate}
    noise = {"kind": "stable", "alpha": 2.0, "scale": scale}
    spec = _run(n, problem, steps=steps, step_size=step, noise=noise, batch={"scheme": "full"})
    pulls = np.array([[1.0], [-1.0]])
    kinds = np.zeros((2, n), dtype=np.int64)
    kinds[1, 0] = 1
    first, second = (Quadratics(np.full((2, 1, 1), curvature), pulls, row) for row in kinds)
    return Instance(spec, _truths(spec, [("one-sided", first, second)]))


def _ergodicity(kept: float, noise: float, rate: float) -> float:
    """sup over starts and times, on a grid, of |P^k - pi|_V / (V rate^k) for x -> kept x + N(0, noise^2)."""
    spread = noise / math.sqrt(1 - kept**2)
    largest = 0.0
    for k in range(1, 40):
        deviation = spread * math.sqrt(1 - kept ** (2 * k))
        for start in np.linspace(0, 30 * spread, 31):
            reach = np.linspace(-12 * spread - start, 12 * spread + start, 4001)
            now = np.exp(-(((reach - kept**k * start) / deviation) ** 2) / 2) / (deviation * math.sqrt(2 * math.pi))
            late = np.exp(-((reach / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))
            norm = float(np.trapezoid((1 + np.abs(reach)) * np.abs(now - late), reach))
            largest = max(largest, norm / ((1 + start) * rate**k))
    return max(largest, 1 + spread)


def _pulled(rng: np.random.Generator, scheme: str) -> Instance:
    """Parabolas of one curvature with pulls of 1 or -1: bounded gradients, and weight decay apart from them."""
    full = scheme == "full"
    n, steps = (int(rng.integers(1, 6)), int(rng.integers(1, 12))) if full else (3, int(rng.integers(1, 5)))
    curvature, size = float(rng.uniform(0.05, 1.0)), n if full else 1
    step = float(rng.uniform(0.05, 1.0)) / curvature
    noise: dict[str, Any] = {"kind": "stable", "alpha": float(rng.uniform(1.02, 1.999))}
    noise["scale"] = step / size * log_uniform(rng, 0.3, 30)
    curved = {"strong_convexity": curvature, "smoothness": curvature}
    problem = {**curved, "gradient_sensitivity": 2.0, "drift_bound": 1.0, "regulariser": curved}
    spec = _run(n, problem, steps=steps, step_size=step, noise=noise, batch={"scheme": scheme, "size": size})
    pairs = []
    for position in range(1 if full else n):
        kinds = np.tile(rng.integers(0, 2, n), (2, 1))
        kinds[:, position] = 0, 1
        pulls = np.array([[1.0], [-1.0]])
        first, second = (Quadratics(np.full((2, 1, 1), curvature), pulls, row) for row in kinds)
        pairs.append((f"record {position} of {n}", first, second))
    return Instance(spec, _truths(spec, pairs))


for _scheme in ("full", "cyclic", "shuffle-once", "without-replacement"):
    instance(f"stable-ridge-{_scheme}")(lambda rng, scheme=_scheme: _ridge(rng, scheme))
for _scheme in ("full", "cyclic", "without-replacement"):
    instance(f"stable-pulled-{_scheme}")(lambda rng, scheme=_scheme: _pulled(rng, scheme))
