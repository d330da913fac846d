"""Search for violations of a model's certificates: random starts, then gradient ascent on what is certified.

The searcher knows nothing about the model but its loss and its domain: it moves theta, one or two rows inside the
row-norm ball, and a direction, and picks targets from a list. All is computed in double precision from the update
as the kernel runs it (`batch_gradient` with the clipping in question).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.accounting.shifts.contraction import clipped_modulus
from sordino.core.bound import Certificate
from sordino.core.spec import Ball, Clipping, ClippingKind
from sordino.models import Domain, Model, clip_by_norm

TOLERANCE = 1e-9
EXPANSION_TOLERANCE = 1e-7
Point = dict[str, Array]


@dataclass(frozen=True)
class Adversary:
    """A search over theta (any length, or inside a ball), rows of the domain and the listed targets."""

    model: Model
    domain: Domain
    targets: tuple[float, ...]
    clipping: Clipping | None = None
    ball: Ball | None = None
    starts: int = 96
    steps: int = 250
    rate: float = 0.1
    seed: int = 0

    def gradient_bound(self) -> float:
        """The longest gradient found."""
        return self._largest(lambda p: _length(self._gradient(p)))

    def gradient_sensitivity(self) -> float:
        """The largest distance found of two examples' gradients at one theta."""
        return self._largest(lambda p: _length(self._gradient(p) - self._gradient(p, "2")))

    def at_zero(self) -> float:
        """The longest gradient found at theta = 0."""
        return self._largest(lambda p: _length(self._gradient(p | {"theta": jnp.zeros_like(p["theta"])})))

    def growth(self, slope: float) -> float:
        """The largest excess found of two gradients' distance over slope |theta|."""
        return self._largest(
            lambda p: _length(self._gradient(p) - self._gradient(p, "2")) - slope * _length(p["theta"])
        )

    def smoothness(self, penalty: bool = True) -> float:
        """The largest curvature found of the loss of one example, gradients unclipped, with or without the penalty."""
        return self._largest(lambda p: self._curvature(p, penalty))

    def strong_convexity(self) -> float:
        """The smallest curvature found of the unclipped loss with its penalty."""
        return -self._largest(lambda p: -self._curvature(p, penalty=True))

    def expansions(self, etas: tuple[float, ...]) -> list[float]:
        """For each step size, the largest factor found by which a step moves two near or distant parameters apart."""
        near, far = self._best(self._stretch, etas), self._best(self._chord, etas)
        return [float(value) for value in np.maximum(near, far)]

    def _gradient(self, p: Point, which: str = "1") -> Array:
        row, target = p["x" + which][None, :], p["y" + which][None]
        return self.model.batch_gradient(p["theta"], row, target, jnp.ones(1), self.clipping)

    def _curvature(self, p: Point, penalty: bool) -> Array:
        def slope(theta: Array) -> Array:
            gradient = self.model.gradient(theta, self._row(p["x1"]), p["y1"])
            return gradient + self.model.penalty_gradient(theta) if penalty else gradient

        return jnp.vdot(p["v"], jax.jvp(slope, (p["theta"],), (p["v"],))[1])

    def _row(self, x: Array) -> Array:
        rows_clipped = self.clipping is not None and self.clipping.kind == ClippingKind.FEATURE
        return clip_by_norm(x, self.clipping.bound) if rows_clipped else x

    def _step(self, p: Point, theta: Array) -> Array:
        return theta - p["eta"] * (self._gradient(p | {"theta": theta}) + self.model.penalty_gradient(theta))

    def _stretch(self, p: Point) -> Array:
        return _length(jax.jvp(partial(self._step, p), (p["theta"],), (p["v"],))[1])

    def _chord(self, p: Point) -> Array:
        # Never shorter than a thousandth of theta, so that rounding does not pose as expansion.
        apart = p["gap"] * (1.0 + _length(p["theta"]))
        step = partial(self._step, p)
        return _length(step(p["theta"] + apart * p["v"]) - step(p["theta"])) / apart

    def _largest(self, objective: Callable[[Point], Array]) -> float:
        return float(self._best(objective, (0.0,))[0])

    def _best(self, objective: Callable[[Point], Array], etas: tuple[float, ...]) -> np.ndarray:
        """The largest objective found for each step size."""
        with jax.enable_x64(True):
            free, fixed = self._draw(etas)
            best = _ascend(
                lambda moved, held: objective(self._decode(moved) | held), free, fixed, self.steps, self.rate
            )
            return np.asarray(best).reshape(len(etas), self.starts).max(axis=1)

    def _draw(self, etas: tuple[float, ...]) -> tuple[Point, Point]:
        rng = np.random.default_rng(self.seed)
        features, dim, count = self.domain.features, self.model.dim(self.domain.features), self.starts * len(etas)
        shapes = {"theta": (dim,), "v": (dim,), "x1": (features,), "x2": (features,)}
        free = {name: rng.standard_normal((count, *shape)) for name, shape in shapes.items()}
        free |= {"length": rng.uniform(-4.0, 4.0, count), "gap": rng.uniform(-5.0, 5.0, count)}
        free |= {name: rng.uniform(-2.0, 4.0, count) for name in ("size1", "size2")}
        held = {name: rng.choice(np.array(self.targets), count) for name in ("y1", "y2")}
        return _arrays(free), _arrays(held | {"eta": np.repeat(np.array(etas), self.starts)})

    def _decode(self, free: Point) -> Point:
        R = self.domain.row_norm.value
        if self.ball is None:
            length = jnp.exp(free["length"])
        else:
            length = self.ball.radius * jax.nn.sigmoid(free["length"])
        return {
            "theta": length * _unit(free["theta"]),
            "v": _unit(free["v"]),
            "x1": R * jax.nn.sigmoid(free["size1"]) * _unit(free["x1"]),
            "x2": R * jax.nn.sigmoid(free["size2"]) * _unit(free["x2"]),
            "gap": 1e-3 + jnp.exp(jnp.minimum(free["gap"], 5.0)),
        }


def violations(adversary: Adversary, certificates: Mapping[str, Certificate], etas: tuple[float, ...]) -> list[str]:
    """Every certificate that the search breaks, as sentences; an empty list if all survive."""
    held = {name: certificate.value for name, certificate in certificates.items()}
    searches: dict[str, Callable[[], float]] = {
        "gradient_bound": adversary.gradient_bound,
        "gradient_sensitivity": adversary.gradient_sensitivity,
        "gradient_growth.g0": lambda: adversary.growth(held["gradient_growth.g1"]),
        "gradient_growth.at_zero": adversary.at_zero,
        "unclipped_smoothness": lambda: adversary.smoothness(penalty=False),
        "smoothness": adversary.smoothness,
        "strong_convexity": lambda: -adversary.strong_convexity(),
    }
    found = {name: search() for name, search in searches.items() if name in held}
    found |= {"drift_bound": found["gradient_bound"]} if "drift_bound" in held else {}
    sign = {"strong_convexity": -1.0}
    claims = [(name, value, sign.get(name, 1.0) * held[name], TOLERANCE) for name, value in found.items()]
    moduli = {eta: modulus for eta in etas if (modulus := certified_modulus(held, eta)) is not None}
    if moduli:
        expansions = adversary.expansions(tuple(moduli))
        claims += [
            (f"one step with eta = {eta}", value, modulus, EXPANSION_TOLERANCE)
            for (eta, modulus), value in zip(moduli.items(), expansions, strict=True)
        ]
    return [
        f"{name}: found {value!r}, certified {bound!r}"
        for name, value, bound, tolerance in claims
        if value > bound + tolerance * max(1.0, abs(bound))
    ]


def certified_modulus(held: Mapping[str, float], eta: float) -> float | None:
    """The Lipschitz constant of one step that the certificates imply, if they imply one."""
    if "strong_convexity" in held and "smoothness" in held:
        return max(abs(1.0 - eta * held["strong_convexity"]), abs(1.0 - eta * held["smoothness"]))
    decay = held.get("regulariser.strong_convexity", 0.0)
    if "unclipped_smoothness" in held and eta * decay < 1.0:
        return clipped_modulus(eta, decay, held["unclipped_smoothness"])
    return None


def _ascend(objective: Callable[[Point, Point], Array], free: Point, held: Point, steps: int, rate: float) -> Array:
    """The largest objective met on the path of Adam's method, uphill, from each start."""
    value_and_slope = jax.vmap(jax.value_and_grad(objective))

    def step(state: tuple[Point, Point, Point, Array], k: Array) -> tuple[tuple[Point, Point, Point, Array], None]:
        free, first, second, best = state
        value, slope = value_and_slope(free, held)
        # A start may sit where the objective has no derivative; it then stays where it is.
        slope = jax.tree.map(lambda s: jnp.nan_to_num(s, nan=0.0, posinf=0.0, neginf=0.0), slope)
        first = jax.tree.map(lambda m, s: 0.9 * m + 0.1 * s, first, slope)
        second = jax.tree.map(lambda m, s: 0.99 * m + 0.01 * s * s, second, slope)
        scale = rate * jnp.sqrt(1.0 - 0.99 ** (k + 1.0)) / (1.0 - 0.9 ** (k + 1.0))
        free = jax.tree.map(lambda f, m, s: f + scale * m / (jnp.sqrt(s) + 1e-12), free, first, second)
        return (free, first, second, jnp.fmax(best, value)), None

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def run(free: Point) -> Array:
        zero = jax.tree.map(jnp.zeros_like, free)
        worst = jnp.full(next(iter(free.values())).shape[0], -math.inf)
        (free, _, _, best), _ = jax.lax.scan(step, (free, zero, zero, worst), jnp.arange(float(steps)))
        return jnp.fmax(best, jax.vmap(objective)(free, held))

    return run(free)


def _arrays(values: Mapping[str, np.ndarray]) -> Point:
    return {name: jnp.asarray(value) for name, value in values.items()}


def _length(vector: Array) -> Array:
    return jnp.sqrt(jnp.vdot(vector, vector))


def _unit(vector: Array) -> Array:
    return vector / _length(vector)
