"""Every size at which the code changes its way, with runs on both sides of it whose truth is known.

`THRESHOLDS` is the table: the constant, what it counts, and runs at most and more than that large; sizes are computed
from the constant as it is, so that the runs follow when it changes. `not_sizes` lists the constants of 16 and more that
limit no size of a run, with a reason; `test_thresholds` finds any constant that is in neither.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sordino.accounting.bounds.segments import places_in_passes
from sordino.core.spec import Spec
from tests.soundness import long_runs as runs
from tests.soundness.instances.posteriors import two_values
from tests.soundness.registry import Instance

Draw = Callable[[], Instance]
Size = Callable[[Spec], float]


@dataclass(frozen=True)
class Threshold:
    """A constant ("module under sordino:NAME"), what it limits, that size of a run, and runs on both sides of it.

    All of `theorems` are asked, and at least one must answer, but beyond a size that is `refused`. `plus` names
    constants that are added to this one; `slow` ones take seconds.
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
# fmt: off
THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("accounting.bounds.segments:LONGEST_RUN", "steps of a released average that are listed", steps,
              ("average.coupling", "mcmc.average"), averages(LONG), averages(LONG + 1)),
    Threshold("accounting.bounds.segments:_LARGEST_EXPONENT", "powers of e by which a long average's chain grows",
              decay, ("average.coupling",), (long_growth(250.0),), (long_growth(800.0),), refused=True),
    Threshold("accounting.scope:LONGEST_SCHEDULE", "steps of a varying schedule", steps, ("composition.gaussian",),
              (lambda: runs.all_iterates(SCHEDULE, FALLING),), (lambda: runs.all_iterates(SCHEDULE + 1, FALLING),),
              refused=True),
    Threshold("accounting.scope:MOST_RATIOS", "different ratios of move to noise among the steps", steps,
              ("composition.subsampled-without-replacement",),
              (lambda: runs.sampled_iterates(128, 1, 20, 0.4, varying=True),),
              (lambda: runs.sampled_iterates(129, 1, 20, 0.4, varying=True),), slow=True),
    Threshold("accounting.chain_assumptions:_MOST_CURVES",
              "different ratios among steps that are composed as Rényi curves", steps, ("composition.renyi",),
              (lambda: runs.sampled_iterates(32, 1, 20, 0.6, varying=True),),
              (lambda: runs.sampled_iterates(33, 1, 20, 0.6, varying=True),)),
    Threshold("accounting.bounds.heavy_tail:_SINGLE_STEPS", "steps of the moment recursion that are taken one by one",
              lambda spec: steps(spec) - 1, ("heavy-tail.coupling",), (heavy(257, 0.9, 1.6), heavy(257, 0.0, 1.3),
              heavy(257, -1.01, 1.5), *growing(257)), (heavy(258, 0.9, 1.6), heavy(258, 0.0, 1.3),
              heavy(258, -1.01, 1.5), *growing(258))),
    Threshold("accounting.bounds.heavy_tail:_LARGEST_EXPONENT", "powers of e by which a coupled chain grows", decay,
              ("heavy-tail.coupling",), (heavy(1000, -1.5, 1.5),), (heavy(2000, -1.5, 1.5),)),
    Threshold("accounting.bounds.heavy_tail:_LARGE_DIMENSION", "parameters of a chain with stable noise",
              lambda spec: float(spec.dim), ("heavy-tail.coupling",), (heavy(20, 0.9, 1.6, 10_000),),
              (heavy(20, 0.9, 1.6, 10_001),)),
    Threshold("accounting.theorems.hidden_state:_MOST_POSITIONS", "batches of a pass in an order drawn once", period,
              ("hidden-state.shuffle-once",), (lambda: runs.shuffled_once(4096, 2048, 0.1, 6.0),),
              (lambda: runs.shuffled_once(4098, 2049, 0.1, 6.0), lambda: runs.shuffled_once(4500, 3000, 0.1, 6.0))),
    Threshold("accounting.theorems.hidden_state:_SINGLE_STEPS",
              "steps of the recursion over batches drawn anew that are taken one by one", lambda spec: steps(spec) - 1,
              ("hidden-state.subsampled",), (lambda: runs.drawn_anew(2049, 19, 20, 0.999999, 0.04),),
              (lambda: runs.drawn_anew(9000, 19, 20, 0.999999, 0.02),)),
    Threshold("accounting.theorems.hidden_state:_LARGEST_EXPONENT", "powers of e, twice, that a pass forgets",
              lambda spec: 2 * period(spec) * abs(math.log(contraction(spec))), ("hidden-state.fixed",),
              (lambda: runs.cyclic_batches(800, 400, 0.5, 1.0),), (lambda: runs.cyclic_batches(1200, 600, 0.5, 1.0),)),
    Threshold("accounting.theorems.transfer:_LARGEST_EXPONENT", "powers of e that a Langevin chain forgets", decay,
              ("mcmc.transfer-langevin",), (transferred(60_000),), (transferred(80_000),)),
    Threshold("accounting.bounds.solver:LONGEST_WINDOW", "steps with two moduli", steps,
              ("shifted.drift-bounded-smooth",), (two_lines(10_000, 0.99999),), (two_lines(10_001),
              two_lines(40_000, 0.99999))),
    Threshold("accounting.bounds.solver:_EXHAUSTIVE", "changes between two moduli that are all tried", steps,
              ("shifted.drift-bounded-smooth",), (two_lines(24),), (two_lines(25), two_lines(200))),
    Threshold("accounting.bounds.solver:EXHAUSTIVE", "windows that are all tried", steps,
              ("shifted.projected", "shifted.projected-nonconvex"),
              (projected(runs.full_batches, 512, 0.99, 0.1, radius=60.0),
              projected(runs.full_batches, 512, 0.99, 0.1, radius=60.0, **{"algorithm.step_size": FALLING})),
              (projected(runs.full_batches, 513, 0.99, 0.1, radius=60.0),
              projected(runs.full_batches, 700, 0.99, 0.1, radius=60.0, **{"algorithm.step_size": FALLING}),
              projected(runs.cyclic_batches, 600, 4, -1.001, 0.1, radius=2000.0))),
    Threshold("accounting.bounds.closed_forms:_MOST_SEGMENTS", "passes of a window that starts at the diameter",
              lambda spec: steps(spec) / period(spec), ("shifted.projected",),
              (projected(runs.cyclic_batches, 200_000, 2, 1.0, 0.01),),
              (projected(runs.cyclic_batches, 200_002, 2, 1.0, 0.01),)),
    Threshold("accounting.bounds.closed_forms:_LONGEST_DECAY", "powers of e over a window that starts at the diameter",
              decay, ("shifted.projected",), (projected(runs.cyclic_batches, 1100, 3, 0.9, 0.5),
              projected(runs.cyclic_batches, 1100, 2, -1.05, 0.5)), (projected(runs.cyclic_batches, 1300, 3, 0.9, 0.5),
              projected(runs.cyclic_batches, 2600, 2, -1.05, 0.5))),
    Threshold("accounting.bounds.closed_forms:_FARTHEST", "noises across the set a chain is projected on",
              lambda spec: 2 * spec.to_dict()["algorithm"]["projection"]["radius"], ("shifted.projected",),
              (projected(runs.full_batches, 30, 0.9, 0.5, radius=1e99),
              projected(runs.cyclic_batches, 30, 3, 0.9, 0.5)),
              (projected(runs.full_batches, 30, 0.9, 0.5, radius=1e101),
              projected(runs.cyclic_batches, 30, 3, 0.9, 0.5, radius=1e101))),
    Threshold("accounting.bounds.solver:_FARTHEST", "noises across the set a chain with varying steps is projected on",
              lambda spec: 2 * spec.to_dict()["algorithm"]["projection"]["radius"], ("shifted.projected",),
              (projected(runs.full_batches, 30, 0.9, 0.5, radius=1e98, **{"algorithm.step_size": FALLING}),),
              (projected(runs.full_batches, 30, 0.9, 0.5, radius=1e102, **{"algorithm.step_size": FALLING}),)),
    Threshold("accounting.bounds.segments:_EXACT_MUS", "shifts of different size in an order drawn once", period,
              ("shifted.shuffle-once",), (lambda: runs.shuffled_once(128, 64, 0.95, 2.0),),
              (lambda: runs.shuffled_once(160, 80, 0.95, 2.0), lambda: runs.shuffled_once(161, 80, -1.01, 1.0)),
              plus=("_SHARED_MUS",)),
    Threshold("accounting.theorems.shifted:_ONE_BY_ONE", "places in an order drawn once that are distinguished",
              period, ("shifted.shuffle-once",), (lambda: runs.shuffled_once(2000, 1000, 0.999, 2.0),),
              (lambda: runs.shuffled_once(2400, 1200, 0.999, 2.0),
              lambda: runs.shuffled_once(1900, 1200, 0.999, 2.0))),
    Threshold("accounting.bounds.closed_forms:_MOST_WORK", "segments outside whole cycles, times positions", kept_work,
              ("composition.kept",), (kept(3990),), (kept(4010),)),
    Threshold("accounting.theorems.shifted:_MOST_POSITIONS",
              "positions of a record in a pass of a chain whose iterates are kept", period, ("composition.kept",),
              (lambda: runs.kept_iterates(120_000, 100_000, 0.9, 0.5, 59_999, 60_000),),
              (lambda: runs.kept_iterates(120_000, 100_001, 0.9, 0.5, 59_999, 60_000),), refused=True),
    Threshold("accounting.theorems.shifted:_MOST_WORK",
              "positions times steps of a varying schedule whose iterates are kept", positions_work,
              ("composition.kept",),
              (lambda: runs.kept_iterates(400, 50, 0.9, 0.5, 9, 30, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.kept_iterates(5000, 5000, 0.9, 0.5, 9, 300, **{"algorithm.step_size": FALLING}),),
              refused=True),
    Threshold("accounting.bounds.solver:_WIDEST", "powers of e between the scales of a path", decay, ("shifted.full",),
              (lambda: runs.full_batches(400, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.full_batches(600, 0.5, 0.5, **{"algorithm.step_size": FALLING}),
              lambda: runs.full_batches(4000, -1.1, 5.0, **{"algorithm.step_size": FALLING}))),
    Threshold("accounting.bounds.closed_forms:_FORGOTTEN_LOG_WEIGHT",
              "powers of e after which passes are carried along", decay, ("shifted.cyclic",),
              (lambda: runs.cyclic_batches(200, 4, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.cyclic_batches(402, 4, 0.5, 0.5, **{"algorithm.step_size": FALLING}),
              lambda: runs.cyclic_batches(2000, 4, -1.1, 0.5, **{"algorithm.step_size": FALLING}))),
    Threshold("accounting.bounds.closed_forms:_SMALLEST_LOG_RATIO", "powers of e below which a ratio is rounded up",
              decay, ("shifted.cyclic",),
              (lambda: runs.cyclic_batches(300, 100, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.cyclic_batches(1400, 700, 0.5, 0.5, **{"algorithm.step_size": FALLING}),)),
    Threshold("accounting.bounds.solver:_SMALLEST_LOG_RATIO",
              "powers of e below which a segment's ratio is rounded up", decay, ("composition.kept",),
              (lambda: runs.kept_iterates(400, 300, 0.5, 0.5, 399, 1, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.kept_iterates(1400, 700, 0.5, 0.5, 1399, 1, **{"algorithm.step_size": FALLING}),)),
    Threshold("accounting.bounds.solver:_ROWS", "paths that are pooled in lockstep", period, ("shifted.cyclic",),
              (lambda: runs.cyclic_batches(65_000, 32_500, 0.9999, 1.0, **{"algorithm.step_size": FALLING}),),
              (lambda: runs.cyclic_batches(80_001, 40_000, 0.9999, 1.0, **{"algorithm.step_size": FALLING}),)),
    Threshold("accounting.bounds.renyi:LARGEST_RATIO", "noises that a sampled step moves",
              lambda spec: ratio(spec) / 2, ("composition.renyi",), (lambda: runs.one_poisson_step(15.0, 0.01),),
              (lambda: runs.one_poisson_step(17.0, 0.01),)),
    Threshold("core.loss.discretise:LARGEST_LOSS", "losses that a float can exponentiate",
              lambda spec: ratio(spec) / 2 * (ratio(spec) / 4 + 8), ("composition.subsampled-poisson",),
              (lambda: runs.one_poisson_step(20.0, 0.01),), (lambda: runs.one_poisson_step(45.0, 0.01),
              lambda: runs.one_poisson_step(45.0, 1e-9))),
    Threshold("core.loss.pair:_REACH", "losses below the centre that a float can exponentiate",
              lambda spec: ratio(spec) ** 2 / 4, ("composition.subsampled-poisson",),
              (lambda: runs.one_poisson_step(20.0, 0.9),), (lambda: runs.one_poisson_step(60.0, 0.9),)),
    Threshold("core.loss.evaluate:_LONG", "steps of a composition that starts on the usual grid", steps, SAMPLED,
              (lambda: runs.sampled_iterates(20_000, 1, 20, 0.1),), (lambda: runs.sampled_iterates(20_001, 1, 20, 0.1),
              lambda: runs.sampled_iterates(100_000, 1, 1000, 0.5))),
    Threshold("core.loss.evaluate:_STAGE_UNITS", "steps that are composed on one grid", steps, SAMPLED,
              (lambda: runs.sampled_iterates(256, 1, 20, 0.5),), (lambda: runs.sampled_iterates(257, 1, 20, 0.5),
              lambda: runs.sampled_iterates(3000, 1, 20, 0.2))),
    Threshold("accounting.scope:LARGEST_RATIO", "noises that a step moves", ratio,
              ("composition.gaussian", "shifted.full"), (lambda: runs.full_batches(3, 0.5, 1e8),),
              (lambda: runs.full_batches(3, 0.5, 1e10),), refused=True),
    Threshold("accounting.theorems.langevin:_LARGEST",
              "units of noise, step or curvature that a product of six of them can hold",
              lambda spec: spec.to_dict()["algorithm"]["noise"]["scale"], ("langevin.last-iterate",),
              (lambda: runs.full_batches(3, 0.5, 1e-39),), (lambda: runs.full_batches(3, 0.5, 1e-41),), refused=True),
    Threshold("accounting.theorems.transfer:_FARTHEST", "noises between the start and the minimiser",
              lambda spec: spec.algorithm.start.values[0] / spec.algorithm.noise.scale.constant,
              ("mcmc.transfer-langevin",), (transferred(80_000, 1e290),), (transferred(80_000, 1e305),)),
    Threshold("accounting.theorems.composites:_MOST_EXCHANGES",
              "compositions that are tried while parts change their theorems", parts, ("composition.adaptive",),
              (lambda: runs.composite([10.0 + place for place in range(3)]),),
              (lambda: runs.composite([10.0 + place for place in range(40)]),)),
    Threshold("core.spec.document:MOST_PARTS", "parts of a composite", parts, ("composition.adaptive",),
              (lambda: runs.composite([50.0, 60.0] * 500),), (), refused=True),
    Threshold("core.guarantee:_MOST_DRAWS", "draws whose two-point laws are summed",
              lambda spec: spec.to_dict()["algorithm"]["draws"], ("posterior.bounded-range",),
              (lambda: two_values(0.02, 0.5, 9000), lambda: two_values(0.3, 0.7, 2)),
              (lambda: two_values(0.02, 0.5, 10_001),), slow=True),
    Threshold("accounting.bounds.revealed:MOST_PATTERNS", "patterns of a record's uses that are listed", patterns,
              REVEALED, (lambda: runs.drawn_anew(17, 1, 4, 0.8, 1.0), lambda: runs.reshuffled(50, 10, 0.9, 1.0)),
              (lambda: runs.drawn_anew(20, 1, 4, 0.8, 1.0), lambda: runs.drawn_anew(60, 1, 10, 1.0, 1.0),
              lambda: runs.reshuffled(70, 10, 0.9, 1.0), lambda: runs.reshuffled(74, 10, 1.0, 1.0))),
    Threshold("accounting.bounds.revealed:_MOST_LISTED_PASSES", "passes whose places are listed",
              lambda spec: steps(spec) / period(spec), REVEALED, (lambda: runs.reshuffled(38, 2, 0.9, 1.0),),
              (lambda: runs.reshuffled(44, 2, 0.9, 1.0), lambda: runs.reshuffled(45, 2, 1.0, 1.0))),
    Threshold("accounting.bounds.revealed:_POSITIONS", "places of the last pass that are distinguished", period,
              REVEALED, (lambda: runs.reshuffled(400, 40, 0.98, 1.0),), (lambda: runs.reshuffled(600, 60, 0.98, 1.0),
              lambda: runs.reshuffled(630, 60, 0.99, 1.0))),
    Threshold("accounting.bounds.revealed:_SINGLE", "steps before the window whose pushes are chosen one by one",
              lambda spec: steps(spec) - constant("accounting.bounds.revealed:_WINDOW"), REVEALED,
              (lambda: runs.drawn_anew(30, 1, 5, 0.9, 1.0),), (lambda: runs.drawn_anew(120, 1, 5, 0.95, 1.0),
              lambda: runs.drawn_anew(2000, 1, 100, 0.999, 1.0))),
    Threshold("accounting.bounds.window:_FEW_STEPS", "steps before the window that are added one by one", steps,
              WINDOWED, (lambda: runs.drawn_anew(30, 1, 2, 0.9, 0.5),
              lambda: runs.poisson_drawn(30, 0.4, 3, 0.9, 2.0)), (lambda: runs.drawn_anew(400, 1, 2, 0.9999, 0.1),
              lambda: runs.poisson_drawn(400, 0.3, 5, 0.9999, 0.5),
              lambda: runs.poisson_drawn(300, 0.05, 40, 0.98, 2.0))),
    Threshold("accounting.bounds.window:_FEW_USES", "uses before the window that are added one by one",
              lambda spec: steps(spec) / period(spec), WINDOWED, (lambda: runs.drawn_anew(100, 1, 10, 0.98, 0.5),),
              (lambda: runs.drawn_anew(2000, 1, 10, 0.9999, 0.2),)),
    Threshold("accounting.bounds.window:_MOST_SINGLE", "steps before the window that are added one by one at any rate",
              steps, WINDOWED, (lambda: runs.drawn_anew(3000, 1, 1000, 0.999, 1.0),),
              (lambda: runs.drawn_anew(9000, 1, 1000, 0.99999, 1.0),), slow=True),
    Threshold("accounting.bounds.segments:_MOST_STAGES",
              "passes whose places are distinguished in a chain with affine steps",
              lambda spec: steps(spec) / period(spec), ("shifted.affine",),
              (lambda: runs.reshuffled(3000, 2, 0.9999, 1.0),), (lambda: runs.reshuffled(4400, 2, 0.9999, 1.0),)),
    Threshold("accounting.theorems.shifted:_MOST_PLACES", "places of a reshuffled pass at which iterates are kept",
              lambda spec: places_in_passes(spec.algorithm.kept_iterates(spec.view), round(period(spec))),
              ("composition.kept-random", "shifted.affine"), (lambda: runs.cut_passes(2000, 101, 75),),
              (lambda: runs.cut_passes(15_001, 101, 150),), refused=True, slow=True),
)
# fmt: on
