"""A size at which the code changes its way, how runs are measured against it, and runs of any size."""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sordino.core.spec import Spec
from tests.soundness import long_runs as runs
from tests.soundness.registry import Instance

Draw = Callable[[], Instance]
Size = Callable[[Spec], float]


@dataclass(frozen=True)
class Threshold:
    """One constant.

    Attributes:
        constant: module under `sordino` and name, such as "accounting.bounds.segments:LONGEST_RUN".
        counts: what it limits, in words.
        size: that, of a run.
        theorems: those whose way changes; all of them are asked, and at least one must answer.
        near: runs of at most that size.
        far: larger ones.
        refused: whether the theorems say nothing beyond.
        plus: constants that are added to this one.
        slow: whether its runs take seconds.
    """

    constant: str
    counts: str
    size: Size
    theorems: tuple[str, ...]
    near: tuple[Draw, ...]
    far: tuple[Draw, ...]
    refused: bool = False
    plus: tuple[str, ...] = field(default=())
    slow: bool = False

    @property
    def value(self) -> float:
        """The constant as it is now; those that are negative logarithms count by their size."""
        module, _, name = self.constant.partition(":")
        found = importlib.import_module(f"sordino.{module}")
        total = sum(getattr(found, part) for part in (name, *self.plus)) if self.plus else getattr(found, name)
        return abs(total[0] if isinstance(total, tuple) else total)


def constant(name: str) -> Any:
    """The value of "module:NAME" as it is now."""
    module, _, part = name.partition(":")
    return getattr(importlib.import_module(f"sordino.{module}"), part)


def steps(spec: Spec) -> float:
    return float(spec.to_dict()["algorithm"]["steps"])


def period(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    return float(algorithm.batches_per_epoch(spec.n))


def contraction(spec: Spec) -> float:
    problem: Any = spec.problem
    return max(abs(1 - problem.strong_convexity.value), abs(1 - problem.smoothness.value))


def decay(spec: Spec) -> float:
    """By how many powers of e the first step's move fades, or grows."""
    return steps(spec) * abs(math.log(contraction(spec)))


def ratio(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    return 2.0 / algorithm.divisor(spec.n) / algorithm.noise.scale.constant


LONG = int(constant("accounting.bounds.segments:LONGEST_RUN"))
SCHEDULE = int(constant("accounting.scope:LONGEST_SCHEDULE"))
# A step size that falls slowly from 1, so that steps are listed instead of solved in closed form.
FALLING = {"kind": "polynomial", "initial": 1.0, "offset": 1000.0, "power": 0.01}


def averages(steps: int) -> tuple[Draw, ...]:
    """Contracting, not moving apart, and expanding, where uses two steps apart push the same way."""
    grown = 1 + 10 / steps
    return (
        lambda: runs.averaged(steps, 0.9999, 0.05, 2e3, burn_in=steps // 2),
        lambda: runs.averaged(steps, 0.9, 0.5, 1.0, period=3, scheme="cyclic", burn_in=11, thin=7),
        lambda: runs.averaged(steps, -grown, 0.01, 3e9, period=2, scheme="cyclic", burn_in=steps - 1),
        lambda: runs.averaged(steps, -grown, 2e4, 3e3, burn_in=steps - 1),
    )


def long_growth(exponent: float) -> Draw:
    """One kept iterate of a long chain that grows by e^exponent."""
    factor = -math.exp(exponent / (LONG + 1))
    release = 0.3 * math.exp(exponent) / (abs(factor) - 1) if exponent < 300 else 1e300
    return lambda: runs.averaged(LONG + 1, factor, 1e-3, release, period=2, scheme="cyclic", burn_in=LONG)


def heavy(steps: int, factor: float, alpha: float, dim: int = 1) -> Draw:
    return lambda: runs.stable_chain(steps, factor, alpha, dim)


def growing(steps: int) -> tuple[Draw, ...]:
    """Contracting, with a modulus of 1, and with one that expands as far as is certified."""
    return tuple(
        lambda decay=decay, steepest=steepest: runs.growing_difference(steps, decay, steepest, 1.5)
        for decay, steepest in ((0.1, 0.1), (0.0, 0.1), (0.0, 2.001))
    )


def projected(make: Callable[..., Instance], *sizes: Any, radius: float = 1e9, **changes: Any) -> Draw:
    """Projected on a ball so large that it is never left: the law is that without it."""
    ball = {"algorithm.projection": {"kind": "ball", "radius": radius}}
    return lambda: make(*sizes, **ball, **changes)


def two_lines(steps: int, factor: float = 0.9) -> Draw:
    """A data part that is bounded, and smooth with curvature of any sign as far as is certified."""
    changes = {"problem.strong_convexity": None, "problem.smoothness": 0.3, "problem.drift_bound": 1.0}
    return lambda: runs.full_batches(steps, factor, 0.05, **changes)


def transferred(steps: int, start: float = 1.0) -> Draw:
    changes = {
        "problem.gradient_growth": {"g0": 2.0, "g1": 0.0, "at_zero": 1.0},
        "algorithm.start": {"kind": "point", "values": [start]},
    }
    return lambda: runs.full_batches(steps, 0.99, 0.01, **changes)


def kept(segments: int) -> Draw:
    """A kept iterate every 7 steps of passes of 5000: the phases repeat after 5000 of them only."""
    return lambda: runs.kept_iterates(7 * segments + 7, 5000, 0.9, 0.5, 6, 7)


def kept_work(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    kept, period = algorithm.kept_iterates(spec.view), algorithm.batches_per_epoch(spec.n)
    cycle = period // math.gcd(kept.step, period)
    return float((len(kept) - 1) % cycle * period)


def positions_work(spec: Spec) -> float:
    return min(period(spec), steps(spec)) * steps(spec)


def patterns(spec: Spec) -> float:
    """Of fresh draws, a use or none at each step; of passes, a place in each."""
    if spec.to_dict()["algorithm"]["batch"]["scheme"] == "without-replacement":
        return 2.0 ** steps(spec)
    return period(spec) ** math.ceil(steps(spec) / period(spec))


def parts(spec: Spec) -> float:
    return float(len(spec.runs()))


WINDOWED = ("shifted.random-participation",)
REVEALED = ("shifted.revealed-batches",)
SAMPLED = ("composition.subsampled-without-replacement", "composition.renyi")
