"""Changes of a run that break each condition a machine checks, by the condition's name.

Several theorems may give their conditions the same name, which then has a change for each. A function reads the run.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from sordino.accounting.scope import LONGEST_SCHEDULE
from sordino.core.spec import NoisyGradient, Spec
from tests.conformance.examples import certificates_in, changed, private

Change = dict[str, Any] | Callable[[Spec], dict[str, Any]]


def steep(spec: Spec) -> dict[str, Any]:
    """So smooth, and no smoother, that steps expand."""
    step = spec.algorithm.step_size.constant if isinstance(spec.algorithm, NoisyGradient) else None
    return {"problem.smoothness": 4 / (step or 1.0)}


def rough(spec: Spec) -> dict[str, Any]:
    """The same for the regulariser."""
    regulariser, step = spec.problem and spec.problem.regulariser, steep(spec)["problem.smoothness"] / 4
    a = max(regulariser.strong_convexity.value, 1e-3) if regulariser else 1.0
    return {"problem.regulariser": {"strong_convexity": a, "smoothness": max(a, 2 * math.sqrt(2 * a * step))}}


def as_convex_as_its_regulariser(spec: Spec) -> dict[str, Any]:
    """No step stretches more than the regulariser's part of it."""
    regulariser = spec.to_dict().get("problem", {}).get("regulariser", {})
    curved = {f"problem.{name}": value for name, value in regulariser.items()}
    return {**curved, "problem.unclipped_smoothness": None, "algorithm.clipping": None}


def decaying(initial: float, offset: float, power: float) -> dict[str, Any]:
    return {"kind": "polynomial", "initial": initial, "offset": offset, "power": power}


_TOO_LONG, _BALL = LONGEST_SCHEDULE + 1, {"kind": "ball", "radius": 1.0}
_SINGLE, _ONE_PLACE = {"scheme": "single"}, {"scheme": "balls-in-bins", "separation": 1}
_CONCAVE = {"kind": "strongly-log-concave", "lipschitz": 1.0, "strong_convexity": 1.0}
_BOUNDED = {"kind": "bounded", "lipschitz": 1.0, "diameter": 1.0}
_PERTURBED = {"kind": "perturbed", "distance": 1e-3, "dim": 1, "noise": {"kind": "gaussian", "scale": 1.0}}
_REJECTED = {"kind": "rejection", "trials": 100, "dim": 1, "smoothness": 2.0}
_ROWS = {"value": 0.1, "evidence": "estimated", "reason": "computed from rows", "reads_private_data": True}
_FAR_SHIFT = {"kind": "random-shift", "shifts": [1.0], "weights": [1.0], "scale": 1e-4}
_UNBOUNDED = ("problem.gradient_bound", "algorithm.clipping")
_UNCERTIFIED = dict.fromkeys(("problem.gradient_sensitivity", *_UNBOUNDED))
_SHUFFLED_TOO_OFTEN = {"algorithm.batch.scheme": "shuffle-once", "algorithm.steps": 10**6, "algorithm.keep": None}
_MANY_POSITIONS = {"algorithm.batch": {"scheme": "cyclic", "size": 1}, "algorithm.steps": 200_000}
_MANY_POSITIONS |= {"algorithm.step_size": decaying(0.001, 100.0, 0.1), "relation": "replace-one"}
_MANY_POSITIONS |= {"algorithm.noise": {"kind": "gaussian", "scale": 0.01}}
_MANY_PLACES = {"problem.n": 101, "algorithm.batch": {"scheme": "reshuffled", "size": 1}, "relation": "replace-one"}
_MANY_PLACES |= {"algorithm.steps": 15_001, "algorithm.keep": {"burn_in": 0, "thin": 150}}
_LARGE_TREE = {"algorithm.steps": 5000, "algorithm.strategy": {"kind": "tree"}}
_LARGE_TREE |= {"algorithm.participation": {"scheme": "epochs", "separation": 100}}

VIOLATIONS: dict[str, list[Change]] = {
    "atoms": [{"algorithm.noise.scale": 10_000.0}, {"algorithm.sensitivity": 10_000.0, "algorithm.noise.scale": 100.0}],
    "batch size": [{"algorithm.batch": {"scheme": "without-replacement", "size": 1}}],
    "bounded drift": [dict.fromkeys(("problem.drift_bound", *_UNBOUNDED)) | {"problem.gradient_sensitivity": 1.0}],
    "certified gradient_sensitivity": [_UNCERTIFIED],
    "chance": [{"algorithm.participation": _SINGLE}],
    "clipping": [{"algorithm.clipping": {"kind": "norm", "bound": 1e6, "classes": 3}}],
    "constant curvature": [{"problem.strong_convexity": 0.0, "problem.smoothness": 1e-3}],
    "constant gradients": [{"problem.unclipped_smoothness": None, "problem.smoothness": None}],
    "constant schedules": [{"algorithm.step_size": decaying(0.001, 100.0, 0.5)}],
    "contracting": [steep],
    "contraction": [{"problem.strong_convexity": None, "problem.unclipped_smoothness": None}],
    "dissipative": [{"problem.dissipativity.m": 0.0}],
    "draws": [{"algorithm.drawn": None}, {"algorithm.drawn": _PERTURBED}],
    "equal batches": [lambda spec: {"problem.n": spec.n + 1}],
    "every part": [{f"algorithm.parts.0.{key}": None for key in _UNCERTIFIED}],
    "exact draw": [{"algorithm.potential.lipschitz": 1e200}, {"algorithm.sampler": "sgld"}],
    "exact draws": [{"algorithm.drawn": _PERTURBED}],
    "forgetful steps": [{"algorithm.projection.radius": 1e6}],
    "gradient growth": [_UNCERTIFIED | {"problem.gradient_growth": None}],
    "hidden records": [{"algorithm.noise.scale": 1e-3}],
    "method": [{"algorithm.method": "permute-and-flip"}],
    "new orders": [_SHUFFLED_TOO_OFTEN],
    "no projection": [{"algorithm.projection": _BALL}],
    "noise": [
        {"algorithm.noise.scale": 1e-300},
        {"algorithm.noise_multiplier": 1e-300},
        {"algorithm.noise": {"kind": "gaussian", "scale": 1.0}},
        {"algorithm.noise": {"kind": "laplace", "scale": 1.0}},
        {"algorithm.noise": {"kind": "discrete-laplace", "scale": 1.0}, "algorithm.sensitivity": 1.0},
    ],
    "noise of the average": [{"average.noise.scale": 1e-300}],
    "not expanding": [steep],
    "one value": [{"algorithm.dim": 2}],
    "oscillation": [{"algorithm.potential": _CONCAVE, "algorithm.drawn": _REJECTED}],
    "places": [{"algorithm.participation": _SINGLE}, {"algorithm.participation": _ONE_PLACE}],
    "places in passes": [_MANY_PLACES],
    "positions": [_MANY_POSITIONS],
    "potential": [{"algorithm.potential": _CONCAVE}, {"algorithm.potential": _BOUNDED}],
    "projection": [{"algorithm.projection": None}],
    "public regulariser": [{"problem.regulariser": {"strong_convexity": _ROWS, "smoothness": _ROWS}}],
    "rate": [{"algorithm.participation": _SINGLE}, {"problem.strong_convexity": 1e-305}],
    "reach": [
        *({"algorithm.noise_multiplier": multiplier} for multiplier in (0.01, 1e-9, 1e-200)),
        *({"algorithm.sensitivity": sensitivity} for sensitivity in (1e6, 1e200)),
        *({f"algorithm.{name}": 1e200} for name in ("lipschitz", "potential.lipschitz")),
        *({f"algorithm.{name}": 1e-30} for name in ("noise.scale", "drawn.noise.scale", "scale")),
        {"algorithm.drawn.oscillation": 1e6},
        {"problem.regulariser": {"strong_convexity": 1e-50, "smoothness": 1e-50}},
    ],
    "real function": [{"average.dim": 2}],
    "records": [{"problem.dissipativity.D": 1e9, "algorithm.batch": {"scheme": "full"}}, {"problem.n": 2}],
    "regulariser": [{"problem.regulariser": None}],
    "sample": [{"algorithm.rate": None}],
    "sampled": [{"algorithm.batch.rate": 1.0}, lambda spec: {"algorithm.batch.size": spec.n}],
    "schedule length": [
        {"algorithm.steps": _TOO_LONG, "algorithm.step_size": decaying(0.1, 1.0, 0.5), "algorithm.keep": None},
        {"algorithm.rounds": _TOO_LONG, "algorithm.noise_multiplier": decaying(1.0, 1.0, 0.01)},
    ],
    "schedules of batches": [_MANY_POSITIONS | {"algorithm.steps": 10}],
    "sensitivity over noise": [
        dict.fromkeys(_UNBOUNDED) | {"problem.gradient_sensitivity": 1e300, "problem.drift_bound": 1.0}
    ],
    "size": [_LARGE_TREE],
    "smooth step": [{"problem.smoothness": None, "problem.unclipped_smoothness": None}],
    "stage epsilon": [{"algorithm.epsilon": 2e9}],
    "step size": [{"problem.dissipativity.K1": 1e3}, steep, rough],
    "strong convexity": [{"problem.strong_convexity": 0.0}],
    "trial": [{"algorithm.base": {"algorithm": _FAR_SHIFT}}, {"algorithm.trials": {"kind": "poisson", "mean": 3.0}}],
    "trials": [{"algorithm.drawn.trials": 1, "algorithm.drawn.dim": 400}],
    "two batches": [lambda spec: {"algorithm.batch.size": spec.n}],
    "two lines": [as_convex_as_its_regulariser],
}


def changes_of(name: str, spec: Spec) -> list[Change]:
    """Those of the table; a certified constant is left out, or is said to be computed from private rows."""
    word, _, path = name.partition(" ")
    if name in VIOLATIONS or word not in {"certified", "public"}:
        return VIOLATIONS.get(name, [])
    if word == "certified":
        gone = {f"problem.{path}": None}
        return [gone, gone | {"algorithm.clipping": None}]
    return [{at: private(one) for at, one in certificates_in(spec) if at.startswith(path)}]


def violating(name: str, spec: Spec) -> Iterator[Spec]:
    """Runs like this one that may break the condition; those that the reader refuses are left out."""
    for change in changes_of(name, spec):
        broken = changed(spec, change(spec) if callable(change) else change)
        if broken is not None:
            yield broken
