"""Langevin chains whose data part is bounded and whose regulariser contracts: linear drifts, exactly; others on a line.

One record among few moves the whole drift, so that the bounds through its size are pushed as hard as they can be.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import Scheme, Spec
from sordino.models.exact import LineMixture, Quadratics, chain_law
from tests.soundness import pieces
from tests.soundness.cells import CellTruth
from tests.soundness.interval import NARROWEST, law_on_interval
from tests.soundness.pieces import chance, log_uniform
from tests.soundness.registry import Instance, Neighbours, instance
from tests.soundness.truth import truth_between

Array = NDArray[np.float64]
Gradient = Callable[[Array], Array]
_RADIUS = 1.0
_SAFE = 1 + 1e-13


def _linear(rng: np.random.Generator, scheme: Scheme) -> Instance:
    """Records pull by constants of length v, one way or the other."""
    n, dim, steps = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 60))
    size = n if scheme is Scheme.FULL else 1
    v, decay = log_uniform(rng, 0.01, 100), float(rng.uniform(0.05, 2.0))
    step = float(rng.uniform(0.02, 1.9)) / decay
    scale = 2 * step * v / log_uniform(rng, 0.05, 3.0)
    step_sizes, scales = pieces.schedules(rng, (step, scale), steps)
    regulariser = {"strong_convexity": decay, "smoothness": decay}
    problem = {"n": n, "dim": dim, "unclipped_smoothness": 0.0, "regulariser": regulariser}
    batch, start = {"scheme": scheme.value, "size": size}, pieces.start(rng, dim, scale)
    spec = pieces.chain_spec(problem, steps=steps, step_size=step_sizes, scale=scales, batch=batch, start=start)
    axis = pieces.direction(rng, dim)
    neighbours = []
    for others in (1.0, 0.0, -1.0):
        pulls = v * np.outer([1.0] + [others] * (n - 1), axis)
        changed = pulls.copy()
        changed[0] = -pulls[0]
        laws = [chain_law(spec, Quadratics(np.zeros((n, dim, dim)), p, np.arange(n), decay)) for p in (pulls, changed)]
        neighbours.append(Neighbours(f"others pull {others:g}", truth_between(*laws)))
    # A clip that is never reached: everything follows from it and the regulariser.
    clipping = {"kind": "norm", "bound": v * _SAFE}
    return Instance(spec.with_values({"algorithm.clipping": clipping}), tuple(neighbours))


def _waves(rng: np.random.Generator, v: float, rate: float) -> list[Gradient]:
    shifts = rng.uniform(0, 2 * math.pi, 2)
    return [
        partial(lambda theta, shift: v * np.sin(rate * theta + shift), shift=shift) for shift in (*shifts, 0, math.pi)
    ]


def _wells(rng: np.random.Generator, v: float, rate: float) -> list[Gradient]:
    centres = rng.uniform(-0.5, 0.5, 2)
    return [
        partial(lambda theta, sign, centre: sign * v * np.tanh(rate * (theta - centre)), sign=sign, centre=centre)
        for sign, centre in ((1, centres[0]), (-1, centres[1]), (1, 0.3), (-1, 0.3))
    ]


def _bumps(rng: np.random.Generator, v: float, rate: float) -> list[Gradient]:
    """Two wells with a hill between them: v sqrt(2e) u exp(-u^2), u = rate (theta - centre) / sqrt(2e)."""
    top = math.sqrt(2 * math.e)
    centres = rng.uniform(-0.5, 0.5, 2)

    def bump(theta: Array, sign: float, centre: float) -> Array:
        u = rate / top * (theta - centre)
        return sign * v * top * u * np.exp(-u * u)

    return [partial(bump, sign=s, centre=c) for s, c in ((-1, centres[0]), (1, centres[1]), (-1, 0.0), (1, 0.0))]


_SHAPES = {"waves": _waves, "wells": _wells, "bumps": _bumps}


def _non_convex(rng: np.random.Generator, shape: str) -> Instance:
    """A chain on an interval whose records have gradients of at most v and slope at most v * rate, of either sign."""
    n, steps = int(rng.integers(1, 4)), int(rng.integers(1, 16))
    v, rate, decay = log_uniform(rng, 0.1, 3.0), float(rng.uniform(0.5, 5.0)), float(rng.uniform(0.1, 2.0))
    step = float(rng.uniform(0.05, 1.0)) / (decay + 0.3 * v * rate)
    scale = max(2 * step * v / log_uniform(rng, 0.1, 3.0), NARROWEST * 2 * _RADIUS)
    problem: dict[str, Any] = {"n": n, "dim": 1, "gradient_bound": v, "gradient_sensitivity": 2 * v}
    problem["regulariser"] = {"strong_convexity": decay, "smoothness": decay}
    problem["smoothness"] = (v * rate + decay) * _SAFE if chance(rng, 0.7) else None
    (sizes,) = pieces.schedules(rng, (step,), steps)
    start = {"kind": "point", "values": [float(rng.uniform(-1, 1)) * _RADIUS]}
    ball = {"kind": "ball", "radius": _RADIUS}
    spec = pieces.chain_spec(problem, steps=steps, step_size=sizes, scale=scale, projection=ball, start=start)
    first, second, third, fourth = _SHAPES[shape](rng, v, rate)
    up, down = (partial(np.full_like, fill_value=pull) for pull in (v, -v))
    pairs = {"random": (first, second), "opposite": (third, fourth), "linear": (up, down)}
    neighbours = []
    for label, pair in pairs.items():
        laws = [_law(spec, [record, *[first] * (n - 1)], decay) for record in pair]
        neighbours.append(Neighbours(label, CellTruth.on_line(*laws, (-_RADIUS, _RADIUS))))
    return Instance(spec, tuple(neighbours))


def _law(spec: Spec, gradients: list[Gradient], decay: float) -> LineMixture:
    chain: Any = spec.algorithm
    sizes, scales = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)

    def moved(size: float) -> Gradient:
        return lambda theta: theta - size * (sum(g(theta) for g in gradients) / len(gradients) + decay * theta)

    return law_on_interval([moved(size) for size in sizes], list(scales), _RADIUS, chain.start.values[0])


for _scheme in (Scheme.FULL, Scheme.CYCLIC):
    instance(f"langevin-linear-{_scheme}")(partial(_linear, scheme=_scheme))
for _shape in _SHAPES:
    instance(f"langevin-{_shape}")(partial(_non_convex, shape=_shape))
