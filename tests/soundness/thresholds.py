"""Every size at which the code changes its way, with runs on both sides of it whose truth is known.

`THRESHOLDS` is the table: the constant, what it counts, and runs at most and more than that large; sizes are computed
from the constant as it is, so that the runs follow when it changes. `NOT_SIZES` lists the constants of 16 and more that
limit no size of a run, with a reason; `test_thresholds` finds any constant that is in neither.
"""

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sordino.accounting.participation.segments import places_in_passes
from sordino.core.spec import Spec
from tests.soundness import long_runs as runs
from tests.soundness.instances.posteriors import two_values
from tests.soundness.registry import Instance

Draw = Callable[[], Instance]
Size = Callable[[Spec], float]


@dataclass(frozen=True)
class Threshold:
    """One constant.

    Attributes:
        constant: module under `sordino` and name, such as "accounting.transfer:LONGEST_RUN".
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


def _steps(spec: Spec) -> float:
    return float(spec.to_dict()["algorithm"]["steps"])


def _period(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    return float(algorithm.batches_per_epoch(spec.n))


def _contraction(spec: Spec) -> float:
    problem: Any = spec.problem
    return max(abs(1 - problem.strong_convexity.value), abs(1 - problem.smoothness.value))


def _decay(spec: Spec) -> float:
    """By how many powers of e the first step's move fades, or grows."""
    return _steps(spec) * abs(math.log(_contraction(spec)))


def _ratio(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    return 2.0 / algorithm.divisor(spec.n) / algorithm.noise.scale.constant


LONG = int(constant("accounting.transfer:LONGEST_RUN"))
SCHEDULE = int(constant("accounting.noisy_steps:LONGEST_SCHEDULE"))
# A step size that falls slowly from 1, so that steps are listed instead of solved in closed form.
FALLING = {"kind": "polynomial", "initial": 1.0, "offset": 1000.0, "power": 0.01}


def _averages(steps: int) -> tuple[Draw, ...]:
    """Contracting, not moving apart, and expanding, where uses two steps apart push the same way."""
    grown = 1 + 10 / steps
    return (
        lambda: runs.averaged(steps, 0.9999, 0.05, 2e3, burn_in=steps // 2),
        lambda: runs.averaged(steps, 0.9, 0.5, 1.0, period=3, scheme="cyclic", burn_in=11, thin=7),
        lambda: runs.averaged(steps, -grown, 0.01, 3e9, period=2, scheme="cyclic", burn_in=steps - 1),
        lambda: runs.averaged(steps, -grown, 2e4, 3e3, burn_in=steps - 1),
    )


def _long_growth(exponent: float) -> Draw:
    """One kept iterate of a long chain that grows by e^exponent."""
    factor = -math.exp(exponent / (LONG + 1))
    release = 0.3 * math.exp(exponent) / (abs(factor) - 1) if exponent < 300 else 1e300
    return lambda: runs.averaged(LONG + 1, factor, 1e-3, release, period=2, scheme="cyclic", burn_in=LONG)


def _heavy(steps: int, factor: float, alpha: float, dim: int = 1) -> Draw:
    return lambda: runs.stable_chain(steps, factor, alpha, dim)


def _growing(steps: int) -> tuple[Draw, ...]:
    """Contracting, with a modulus of 1, and with one that expands as far as is certified."""
    return tuple(
        lambda decay=decay, steepest=steepest: runs.growing_difference(steps, decay, steepest, 1.5)
        for decay, steepest in ((0.1, 0.1), (0.0, 0.1), (0.0, 2.001))
    )


def _projected(make: Callable[..., Instance], *sizes: Any, radius: float = 1e9, **changes: Any) -> Draw:
    """Projected on a ball so large that it is never left: the law is that without it."""
    ball = {"algorithm.projection": {"kind": "ball", "radius": radius}}
    return lambda: make(*sizes, **ball, **changes)


def _two_lines(steps: int, factor: float = 0.9) -> Draw:
    """A data part that is bounded, and smooth with curvature of any sign as far as is certified."""
    changes = {"problem.strong_convexity": None, "problem.smoothness": 0.3, "problem.drift_bound": 1.0}
    return lambda: runs.full_batches(steps, factor, 0.05, **changes)


def _transferred(steps: int, start: float = 1.0) -> Draw:
    changes = {
        "problem.gradient_growth": {"g0": 2.0, "g1": 0.0, "at_zero": 1.0},
        "algorithm.start": {"kind": "point", "values": [start]},
    }
    return lambda: runs.full_batches(steps, 0.99, 0.01, **changes)


def _kept(segments: int) -> Draw:
    """A kept iterate every 7 steps of passes of 5000: the phases repeat after 5000 of them only."""
    return lambda: runs.kept_iterates(7 * segments + 7, 5000, 0.9, 0.5, 6, 7)


def _kept_work(spec: Spec) -> float:
    algorithm: Any = spec.algorithm
    kept, period = algorithm.kept_iterates(spec.view), algorithm.batches_per_epoch(spec.n)
    cycle = period // math.gcd(kept.step, period)
    return float((len(kept) - 1) % cycle * period)


def _positions_work(spec: Spec) -> float:
    return min(_period(spec), _steps(spec)) * _steps(spec)


def _patterns(spec: Spec) -> float:
    """Of fresh draws, a use or none at each step; of passes, a place in each."""
    if spec.to_dict()["algorithm"]["batch"]["scheme"] == "without-replacement":
        return 2.0 ** _steps(spec)
    return _period(spec) ** math.ceil(_steps(spec) / _period(spec))


def _parts(spec: Spec) -> float:
    return float(len(spec.runs()))


_WINDOWED = ("shifted.random-participation",)
_REVEALED = ("shifted.revealed-batches",)
_SAMPLED = ("composition.subsampled-without-replacement", "composition.renyi")

THRESHOLDS: tuple[Threshold, ...] = (
    Threshold(
        "accounting.transfer:LONGEST_RUN",
        "steps of a released average that are listed",
        _steps,
        ("average.coupling", "mcmc.average"),
        _averages(LONG),
        _averages(LONG + 1),
    ),
    Threshold(
        "accounting.transfer:_LARGEST_EXPONENT",
        "powers of e by which a long average's chain grows",
        _decay,
        ("average.coupling",),
        (_long_growth(250.0),),
        (_long_growth(800.0),),
        refused=True,
    ),
    Threshold(
        "accounting.noisy_steps:LONGEST_SCHEDULE",
        "steps of a varying schedule",
        _steps,
        ("composition.gaussian",),
        (lambda: runs.all_iterates(SCHEDULE, FALLING),),
        (lambda: runs.all_iterates(SCHEDULE + 1, FALLING),),
        refused=True,
    ),
    Threshold(
        "accounting.noisy_steps:MOST_RATIOS",
        "different ratios of move to noise among the steps",
        _steps,
        ("composition.subsampled-without-replacement",),
        (lambda: runs.sampled_iterates(128, 1, 20, 0.4, varying=True),),
        (lambda: runs.sampled_iterates(129, 1, 20, 0.4, varying=True),),
        slow=True,
    ),
    Threshold(
        "accounting.theorems.composition:_MOST_RATIOS",
        "different ratios among steps that are composed as Rényi curves",
        _steps,
        ("composition.renyi",),
        (lambda: runs.sampled_iterates(32, 1, 20, 0.6, varying=True),),
        (lambda: runs.sampled_iterates(33, 1, 20, 0.6, varying=True),),
    ),
    Threshold(
        "accounting.heavy_tail:_SINGLE_STEPS",
        "steps of the moment recursion that are taken one by one",
        lambda spec: _steps(spec) - 1,
        ("heavy-tail.coupling",),
        (_heavy(257, 0.9, 1.6), _heavy(257, 0.0, 1.3), _heavy(257, -1.01, 1.5), *_growing(257)),
        (_heavy(258, 0.9, 1.6), _heavy(258, 0.0, 1.3), _heavy(258, -1.01, 1.5), *_growing(258)),
    ),
    Threshold(
        "accounting.heavy_tail:_LARGEST_EXPONENT",
        "powers of e by which a coupled chain grows",
        _decay,
        ("heavy-tail.coupling",),
        (_heavy(1000, -1.5, 1.5),),
        (_heavy(2000, -1.5, 1.5),),
    ),
    Threshold(
        "accounting.heavy_tail:_LARGE_DIMENSION",
        "parameters of a chain with stable noise",
        lambda spec: float(spec.dim),
        ("heavy-tail.coupling",),
        (_heavy(20, 0.9, 1.6, 10_000),),
        (_heavy(20, 0.9, 1.6, 10_001),),
    ),
    Threshold(
        "accounting.hidden_state:_MOST_POSITIONS",
        "batches of a pass in an order drawn once",
        _period,
        ("hidden-state.shuffle-once",),
        (lambda: runs.shuffled_once(4096, 2048, 0.1, 6.0),),
        (lambda: runs.shuffled_once(4098, 2049, 0.1, 6.0), lambda: runs.shuffled_once(4500, 3000, 0.1, 6.0)),
    ),
    Threshold(
        "accounting.hidden_state:_SINGLE_STEPS",
        "steps of the recursion over batches drawn anew that are taken one by one",
        lambda spec: _steps(spec) - 1,
        ("hidden-state.subsampled",),
        (lambda: runs.drawn_anew(2049, 19, 20, 0.999999, 0.04),),
        (lambda: runs.drawn_anew(9000, 19, 20, 0.999999, 0.02),),
    ),
    Threshold(
        "accounting.hidden_state:_LARGEST_EXPONENT",
        "powers of e, twice, that a pass forgets",
        lambda spec: 2 * _period(spec) * abs(math.log(_contraction(spec))),
        ("hidden-state.fixed",),
        (lambda: runs.cyclic_batches(800, 400, 0.5, 1.0),),
        (lambda: runs.cyclic_batches(1200, 600, 0.5, 1.0),),
    ),
    Threshold(
        "accounting.langevin:_LARGEST_EXPONENT",
        "powers of e that a Langevin chain forgets",
        _decay,
        ("mcmc.transfer-langevin",),
        (_transferred(60_000),),
        (_transferred(80_000),),
    ),
    Threshold(
        "accounting.langevin:LONGEST_WINDOW",
        "steps with two moduli",
        _steps,
        ("shifted.drift-bounded-smooth",),
        (_two_lines(10_000, 0.99999),),
        (_two_lines(10_001), _two_lines(40_000, 0.99999)),
    ),
    Threshold(
        "accounting.langevin:_EXHAUSTIVE",
        "changes between two moduli that are all tried",
        _steps,
        ("shifted.drift-bounded-smooth",),
        (_two_lines(24),),
        (_two_lines(25), _two_lines(200)),
    ),
    Threshold(
        "accounting.shifts.solver:EXHAUSTIVE",
        "windows that are all tried",
        _steps,
        ("shifted.projected", "shifted.projected-nonconvex"),
        (
            _projected(runs.full_batches, 512, 0.99, 0.1, radius=60.0),
            _projected(runs.full_batches, 512, 0.99, 0.1, radius=60.0, **{"algorithm.step_size": FALLING}),
        ),
        (
            _projected(runs.full_batches, 513, 0.99, 0.1, radius=60.0),
            _projected(runs.full_batches, 700, 0.99, 0.1, radius=60.0, **{"algorithm.step_size": FALLING}),
            _projected(runs.cyclic_batches, 600, 4, -1.001, 0.1, radius=2000.0),
        ),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_MOST_SEGMENTS",
        "passes of a window that starts at the diameter",
        lambda spec: _steps(spec) / _period(spec),
        ("shifted.projected",),
        (_projected(runs.cyclic_batches, 200_000, 2, 1.0, 0.01),),
        (_projected(runs.cyclic_batches, 200_002, 2, 1.0, 0.01),),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_LONGEST_DECAY",
        "powers of e over a window that starts at the diameter",
        _decay,
        ("shifted.projected",),
        (_projected(runs.cyclic_batches, 1100, 3, 0.9, 0.5), _projected(runs.cyclic_batches, 1100, 2, -1.05, 0.5)),
        (_projected(runs.cyclic_batches, 1300, 3, 0.9, 0.5), _projected(runs.cyclic_batches, 2600, 2, -1.05, 0.5)),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_FARTHEST",
        "noises across the set a chain is projected on",
        lambda spec: 2 * spec.to_dict()["algorithm"]["projection"]["radius"],
        ("shifted.projected",),
        (_projected(runs.full_batches, 30, 0.9, 0.5, radius=1e99), _projected(runs.cyclic_batches, 30, 3, 0.9, 0.5)),
        (
            _projected(runs.full_batches, 30, 0.9, 0.5, radius=1e101),
            _projected(runs.cyclic_batches, 30, 3, 0.9, 0.5, radius=1e101),
        ),
    ),
    Threshold(
        "accounting.shifts.solver:_FARTHEST",
        "noises across the set a chain with varying steps is projected on",
        lambda spec: 2 * spec.to_dict()["algorithm"]["projection"]["radius"],
        ("shifted.projected",),
        (_projected(runs.full_batches, 30, 0.9, 0.5, radius=1e98, **{"algorithm.step_size": FALLING}),),
        (_projected(runs.full_batches, 30, 0.9, 0.5, radius=1e102, **{"algorithm.step_size": FALLING}),),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_EXACT",
        "shifts of different size in an order drawn once",
        _period,
        ("shifted.shuffle-once",),
        (lambda: runs.shuffled_once(128, 64, 0.95, 2.0),),
        (lambda: runs.shuffled_once(160, 80, 0.95, 2.0), lambda: runs.shuffled_once(161, 80, -1.01, 1.0)),
        plus=("_SHARED",),
    ),
    Threshold(
        "accounting.theorems.shifted:_ONE_BY_ONE",
        "places in an order drawn once that are told apart",
        _period,
        ("shifted.shuffle-once",),
        (lambda: runs.shuffled_once(2000, 1000, 0.999, 2.0),),
        (lambda: runs.shuffled_once(2400, 1200, 0.999, 2.0), lambda: runs.shuffled_once(1900, 1200, 0.999, 2.0)),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_MOST_WORK",
        "segments outside whole cycles, times positions",
        _kept_work,
        ("composition.kept",),
        (_kept(3990),),
        (_kept(4010),),
    ),
    Threshold(
        "accounting.theorems.composites:_MOST_POSITIONS",
        "positions of a record in a pass of a chain whose iterates are kept",
        _period,
        ("composition.kept",),
        (lambda: runs.kept_iterates(120_000, 100_000, 0.9, 0.5, 59_999, 60_000),),
        (lambda: runs.kept_iterates(120_000, 100_001, 0.9, 0.5, 59_999, 60_000),),
        refused=True,
    ),
    Threshold(
        "accounting.theorems.composites:_MOST_WORK",
        "positions times steps of a varying schedule whose iterates are kept",
        _positions_work,
        ("composition.kept",),
        (lambda: runs.kept_iterates(400, 50, 0.9, 0.5, 9, 30, **{"algorithm.step_size": FALLING}),),
        (lambda: runs.kept_iterates(5000, 5000, 0.9, 0.5, 9, 300, **{"algorithm.step_size": FALLING}),),
        refused=True,
    ),
    Threshold(
        "accounting.shifts.solver:_WIDEST",
        "powers of e between the scales of a path",
        _decay,
        ("shifted.full",),
        (lambda: runs.full_batches(400, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
        (
            lambda: runs.full_batches(600, 0.5, 0.5, **{"algorithm.step_size": FALLING}),
            lambda: runs.full_batches(4000, -1.1, 5.0, **{"algorithm.step_size": FALLING}),
        ),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_FORGOTTEN_LOG_WEIGHT",
        "powers of e after which passes are carried along",
        _decay,
        ("shifted.cyclic",),
        (lambda: runs.cyclic_batches(200, 4, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
        (
            lambda: runs.cyclic_batches(402, 4, 0.5, 0.5, **{"algorithm.step_size": FALLING}),
            lambda: runs.cyclic_batches(2000, 4, -1.1, 0.5, **{"algorithm.step_size": FALLING}),
        ),
    ),
    Threshold(
        "accounting.shifts.closed_forms:_SMALLEST_LOG_RATIO",
        "powers of e below which a ratio is rounded up",
        _decay,
        ("shifted.cyclic",),
        (lambda: runs.cyclic_batches(300, 100, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
        (lambda: runs.cyclic_batches(1400, 700, 0.5, 0.5, **{"algorithm.step_size": FALLING}),),
    ),
    Threshold(
        "accounting.shifts.solver:_SMALLEST_LOG_RATIO",
        "powers of e below which a segment's ratio is rounded up",
        _decay,
        ("composition.kept",),
        (lambda: runs.kept_iterates(400, 300, 0.5, 0.5, 399, 1, **{"algorithm.step_size": FALLING}),),
        (lambda: runs.kept_iterates(1400, 700, 0.5, 0.5, 1399, 1, **{"algorithm.step_size": FALLING}),),
    ),
    Threshold(
        "accounting.shifts.solver:_ROWS",
        "paths that are pooled in lockstep",
        _period,
        ("shifted.cyclic",),
        (lambda: runs.cyclic_batches(65_000, 32_500, 0.9999, 1.0, **{"algorithm.step_size": FALLING}),),
        (lambda: runs.cyclic_batches(80_001, 40_000, 0.9999, 1.0, **{"algorithm.step_size": FALLING}),),
    ),
    Threshold(
        "accounting.participation.revealed:MOST_PATTERNS",
        "patterns of a record's uses that are listed",
        _patterns,
        _REVEALED,
        (lambda: runs.drawn_anew(17, 1, 4, 0.8, 1.0), lambda: runs.reshuffled(50, 10, 0.9, 1.0)),
        (
            lambda: runs.drawn_anew(20, 1, 4, 0.8, 1.0),
            lambda: runs.drawn_anew(60, 1, 10, 1.0, 1.0),
            lambda: runs.reshuffled(70, 10, 0.9, 1.0),
            lambda: runs.reshuffled(74, 10, 1.0, 1.0),
        ),
    ),
    Threshold(
        "accounting.participation.revealed:_MOST_LISTED_PASSES",
        "passes whose places are listed",
        lambda spec: _steps(spec) / _period(spec),
        _REVEALED,
        (lambda: runs.reshuffled(38, 2, 0.9, 1.0),),
        (lambda: runs.reshuffled(44, 2, 0.9, 1.0), lambda: runs.reshuffled(45, 2, 1.0, 1.0)),
    ),
    Threshold(
        "accounting.participation.revealed:_POSITIONS",
        "places of the last pass that are told apart",
        _period,
        _REVEALED,
        (lambda: runs.reshuffled(400, 40, 0.98, 1.0),),
        (lambda: runs.reshuffled(600, 60, 0.98, 1.0), lambda: runs.reshuffled(630, 60, 0.99, 1.0)),
    ),
    Threshold(
        "accounting.participation.revealed:_SINGLE",
        "steps before the window whose pushes are chosen one by one",
        lambda spec: _steps(spec) - constant("accounting.participation.revealed:_WINDOW"),
        _REVEALED,
        (lambda: runs.drawn_anew(30, 1, 5, 0.9, 1.0),),
        (lambda: runs.drawn_anew(120, 1, 5, 0.95, 1.0), lambda: runs.drawn_anew(2000, 1, 100, 0.999, 1.0)),
    ),
    Threshold(
        "accounting.participation.window:_FEW_STEPS",
        "steps before the window that are added one by one",
        _steps,
        _WINDOWED,
        (lambda: runs.drawn_anew(30, 1, 2, 0.9, 0.5), lambda: runs.poisson_drawn(30, 0.4, 3, 0.9, 2.0)),
        (
            lambda: runs.drawn_anew(400, 1, 2, 0.9999, 0.1),
            lambda: runs.poisson_drawn(400, 0.3, 5, 0.9999, 0.5),
            lambda: runs.poisson_drawn(300, 0.05, 40, 0.98, 2.0),
        ),
    ),
    Threshold(
        "accounting.participation.window:_FEW_USES",
        "uses before the window that are added one by one",
        lambda spec: _steps(spec) / _period(spec),
        _WINDOWED,
        (lambda: runs.drawn_anew(100, 1, 10, 0.98, 0.5),),
        (lambda: runs.drawn_anew(2000, 1, 10, 0.9999, 0.2),),
    ),
    Threshold(
        "accounting.participation.window:_MOST_SINGLE",
        "steps before the window that are added one by one at any rate",
        _steps,
        _WINDOWED,
        (lambda: runs.drawn_anew(3000, 1, 1000, 0.999, 1.0),),
        (lambda: runs.drawn_anew(9000, 1, 1000, 0.99999, 1.0),),
        slow=True,
    ),
    Threshold(
        "accounting.renyi:LARGEST_RATIO",
        "noises that a sampled step moves",
        lambda spec: _ratio(spec) / 2,
        ("composition.renyi",),
        (lambda: runs.one_poisson_step(15.0, 0.01),),
        (lambda: runs.one_poisson_step(17.0, 0.01),),
    ),
    Threshold(
        "core.loss.discretise:LARGEST_LOSS",
        "losses that a float can exponentiate",
        lambda spec: _ratio(spec) / 2 * (_ratio(spec) / 4 + 8),
        ("composition.subsampled-poisson",),
        (lambda: runs.one_poisson_step(20.0, 0.01),),
        (lambda: runs.one_poisson_step(45.0, 0.01), lambda: runs.one_poisson_step(45.0, 1e-9)),
    ),
    Threshold(
        "core.loss.evaluate:_REACH",
        "losses below the centre that a float can exponentiate",
        lambda spec: _ratio(spec) ** 2 / 4,
        ("composition.subsampled-poisson",),
        (lambda: runs.one_poisson_step(20.0, 0.9),),
        (lambda: runs.one_poisson_step(60.0, 0.9),),
    ),
    Threshold(
        "core.loss.evaluate:_LONG",
        "steps of a composition that starts on the usual grid",
        _steps,
        _SAMPLED,
        (lambda: runs.sampled_iterates(20_000, 1, 20, 0.1),),
        (lambda: runs.sampled_iterates(20_001, 1, 20, 0.1), lambda: runs.sampled_iterates(100_000, 1, 1000, 0.5)),
    ),
    Threshold(
        "core.loss.evaluate:_STAGE_UNITS",
        "steps that are composed on one grid",
        _steps,
        _SAMPLED,
        (lambda: runs.sampled_iterates(256, 1, 20, 0.5),),
        (lambda: runs.sampled_iterates(257, 1, 20, 0.5), lambda: runs.sampled_iterates(3000, 1, 20, 0.2)),
    ),
    Threshold(
        "accounting.assumptions:LARGEST_RATIO",
        "noises that a step moves",
        _ratio,
        ("composition.gaussian", "shifted.full"),
        (lambda: runs.full_batches(3, 0.5, 1e8),),
        (lambda: runs.full_batches(3, 0.5, 1e10),),
        refused=True,
    ),
    Threshold(
        "accounting.theorems.langevin:_LARGEST",
        "units of noise, step or curvature that a product of six of them can hold",
        lambda spec: spec.to_dict()["algorithm"]["noise"]["scale"],
        ("langevin.last-iterate",),
        (lambda: runs.full_batches(3, 0.5, 1e-39),),
        (lambda: runs.full_batches(3, 0.5, 1e-41),),
        refused=True,
    ),
    Threshold(
        "accounting.theorems.transfer:_FARTHEST",
        "noises between the start and the minimiser",
        lambda spec: spec.to_dict()["algorithm"]["start"]["values"][0] / spec.to_dict()["algorithm"]["noise"]["scale"],
        ("mcmc.transfer-langevin",),
        (_transferred(80_000, 1e290),),
        (_transferred(80_000, 1e305),),
    ),
    Threshold(
        "accounting.theorems.composites:_MOST_EXCHANGES",
        "compositions that are tried while parts change their theorems",
        _parts,
        ("composition.adaptive",),
        (lambda: runs.composite([10.0 + place for place in range(3)]),),
        (lambda: runs.composite([10.0 + place for place in range(40)]),),
    ),
    Threshold(
        "core.spec.document:MOST_PARTS",
        "parts of a composite",
        _parts,
        ("composition.adaptive",),
        (lambda: runs.composite([50.0, 60.0] * 500),),
        (),
        refused=True,
    ),
    Threshold(
        "accounting.participation.segments:_MOST_STAGES",
        "passes whose places are told apart in a chain with affine steps",
        lambda spec: _steps(spec) / _period(spec),
        ("shifted.affine",),
        (lambda: runs.reshuffled(3000, 2, 0.9999, 1.0),),
        (lambda: runs.reshuffled(4400, 2, 0.9999, 1.0),),
    ),
    Threshold(
        "accounting.theorems.kept_draws:_MOST_PLACES",
        "places of a reshuffled pass at which iterates are kept",
        lambda spec: places_in_passes(spec.algorithm.kept_iterates(spec.view), round(_period(spec))),
        ("composition.kept-random", "shifted.affine"),
        (lambda: runs.cut_passes(2000, 101, 75),),
        (lambda: runs.cut_passes(15_001, 101, 150),),
        refused=True,
        slow=True,
    ),
    Threshold(
        "core.guarantee:_MOST_DRAWS",
        "draws whose two-point laws are summed",
        lambda spec: spec.to_dict()["algorithm"]["draws"],
        ("posterior.bounded-range",),
        (lambda: two_values(0.02, 0.5, 9000), lambda: two_values(0.3, 0.7, 2)),
        (lambda: two_values(0.02, 0.5, 10_001),),
        slow=True,
    ),
)

GRID = "points of a grid, or how finely it is looked at: a coarser one costs width, never validity"
SEARCH = "how long a search goes on: any point it ends at is valid"
SERIES = "terms or digits of a computation whose error is accounted for"
NOT_SIZES: dict[str, str] = {
    "core.spec.document:DEEPEST_NESTING": "of a file's text; a deeper one is refused",
    "core.spec.document:LARGEST_FILE": "of a file's text; a larger one is refused",
    "core.spec.document:LARGEST_INTEGER": "of a file's text; a larger one is refused",
    "accounting.calibrate:_REACH": SEARCH,
    "accounting.calibrate:_ROUNDS": SEARCH,
    "accounting.heavy_tail:_POWERS": GRID,
    "accounting.participation.clones:_CELLS": GRID,
    "accounting.participation.clones:_FEWEST": GRID,
    "accounting.participation.clones:_GROUPS": GRID,
    "accounting.participation.clones:_POINTS": GRID,
    "accounting.participation.segments:_CELLS": GRID,
    "accounting.participation.segments:_LOG_CUT": GRID,
    "accounting.theorems.kept_draws:_AFFINE_VALUES": GRID,
    "accounting.theorems.posterior_drawn:_LONGEST_LOSS": "of an exponent; a larger one is refused",
    "accounting.theorems.averages:_GAUSSIAN_VALUES": GRID,
    "accounting.theorems.averages:_LAPLACE_VALUES": GRID,
    "accounting.participation.window:_CELLS": GRID,
    "accounting.participation.window:_COARSE_CELLS": GRID,
    "accounting.participation.revealed:_CELLS": GRID,
    "accounting.participation.revealed:_COUNTS": GRID,
    "accounting.participation.revealed:_DISTANCES": GRID,
    "accounting.participation.revealed:_MOST_COSTS": GRID,
    "accounting.participation.revealed:_MOST_ENDINGS": GRID,
    "accounting.participation.revealed:_MOST_MUS": GRID,
    "accounting.participation.revealed:_RARE_FOLDINGS": GRID,
    "accounting.participation.revealed:_SMALLEST_LOG_RATIO": "met beside _MOST_LISTED_PASSES; rounds up",
    "accounting.participation.window:_ANSWER_VALUES": GRID,
    "accounting.participation.window:_SEARCH_VALUES": GRID,
    "accounting.convert:_LONGEST": GRID,
    "accounting.convert:_RANGE_POINTS": GRID,
    "accounting.convert:_RESOLUTION": GRID,
    "core.loss.two_point:_LARGEST_EXPONENT": "an exponent that a float can hold; beyond it a negative term is left out",
    "accounting.shifts.nonconvex:LONGEST_PLAN": GRID,
    "accounting.shifts.nonconvex:_MOST_FROM_THE_START": "longer runs are bounded from any law before; both are upper",
    "accounting.shifts.nonconvex:_MOST_QUIET": "fewer steps without the record leave a larger curve",
    "accounting.shifts.nonconvex:_MOST_USES": "fewer uses followed leave a larger curve",
    "accounting.shifts.nonconvex:_WINDOWS": GRID,
    "accounting.renyi:LARGEST_ORDER": "an order, not a size: the harness compares orders on both sides of it",
    "accounting.renyi:_REACH": SERIES,
    "accounting.participation.allocation_renyi:LARGEST_ORDER": "an order; compared on both sides of it",
    "accounting.participation.allocation_renyi:LARGEST_POWER": "an order less 1; compared on both sides of it",
    "accounting.participation.allocation_renyi:LARGEST_MU": "a ratio; a Gaussian use beyond, compared on both sides",
    "accounting.participation.allocation_renyi:_LEFT": GRID,
    "accounting.participation.allocation_renyi:_RIGHT": GRID,
    "accounting.participation.allocation_renyi:_DIGITS": SERIES,
    "accounting.participation.allocation_renyi:_MOST_DIGITS": SERIES,
    "accounting.participation.allocation_renyi:_OUTER": SERIES,
    "accounting.renyi:LARGEST_SUBSET_ORDER": "an order; compared on both sides of it",
    "accounting.shifts.closed_forms:_SHARED": "counted with _EXACT",
    "accounting.heavy_tail:_MOST_TERMS": SERIES,
    "accounting.theorems.posterior:_LARGEST_EPSILON": "an epsilon, refused beyond",
    "accounting.theorems.mechanisms:_LARGEST_EPSILON": "an epsilon, refused beyond",
    "accounting.theorems.mechanisms:_MOST_ATOMS": "listed whole numbers, refused beyond; see test_mechanisms",
    "accounting.participation.matrix:_MOST_CLASSES": "ways to sort places of which the best is taken; each holds alone",
    "accounting.participation.matrix:_MOST_DRAWN": "places of an audit by draws, refused beyond; no bound rests on it",
    "accounting.theorems.matrices:_HUGE": "an exponent that a float can hold; steers which places are told apart",
    "accounting.theorems.matrices:_MOST_PLACES": "places of a use, refused beyond; time, not validity",
    "accounting.theorems.sampled:_MOST_CURVES": GRID,
    "accounting.theorems.sampled:_MOST_TOLD": "uses that are told apart; more count as all, see test_counted_uses",
    "accounting.theorems.sampled:_LONGEST_ROUND": "steps of a round, refused beyond; time, not validity",
    "core.loss.allocation:_CELLS": GRID,
    "core.loss.allocation:_FEW": "two ways to raise a transform to a power; both sides in test_allocation",
    "core.loss.allocation:_MOST_CELLS": "cells of a grid, refused beyond",
    "core.loss.allocation:_MOST_POINTS": GRID,
    "core.loss.allocation:_MOST_REPLACED": "longer rounds count as a removal and an addition; both in test_allocation",
    "core.loss.allocation:_SKETCHED": GRID,
    "core.loss.allocation:_WIPED_OUT": SERIES,
    "core.loss.mixture_pairs:_MOST_USES": "uses that are told apart; more of them count as certain loss",
    "core.loss.atomic_pairs:_REACH": SERIES,
    "core.loss.mixture_pairs:_STEPS": SEARCH,
    "core.loss.evaluate:_DELTA_FINEST": GRID,
    "core.loss.evaluate:_FINEST_GRID": GRID,
    "core.loss.evaluate:_MISLED": GRID,
    "core.loss.evaluate:_START": GRID,
    "core.loss.convolve:LOG_OUTSIDE": SERIES,
    "core.loss.discretise:_LONGEST": GRID,
    "core.loss.evaluate:_COARSEST": GRID,
    "core.loss.evaluate:_MOST_POINTS": GRID,
    "core.loss.evaluate:_STAGE_FACTOR": GRID,
    "core.loss.evaluate:_WIDEST": GRID,
    "core.loss.mixture_pairs:_REACH": SERIES,
    "core.loss.convolve:_BLOCKS": GRID,
}
# Literals of 16 and more in comparisons, minima and maxima: exponents that a float can hold, and the like.
INLINE: dict[str, tuple[float, ...]] = {
    "accounting.convert": (40.0, 700),
    "accounting.dp_accounting_adapter": (2_000_000,),
    "accounting.heavy_tail": (30.0, 700.0),
    "accounting.hidden_state": (500.0, 600.0, 700.0),
    "accounting.participation.clones": (40.0,),
    "accounting.participation.segments": (96, 320),
    "accounting.participation.window": (160,),
    "accounting.participation.revealed": (64, 300.0),
    "accounting.renyi": (300.0, 500, 700),
    "accounting.shifts.closed_forms": (700,),
    "accounting.transfer": (1e3,),
    "core.gaussian": (1e5,),
    "core.loss.atomic_pairs": (700,),
    "core.loss.convolve": (700.0,),
    "core.loss.evaluate": (700.0,),
    "core.loss.discretise": (700.0,),
    "core.loss.normal_pairs": (30.0, 1e3, 1e8),
}
