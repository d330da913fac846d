"""Noisy gradient chains of the grid: scheme x relation x view x problem x projection x noise x steps x rate."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

from sordino.core.spec import Spec
from sordino.reproduce.grid.described import Described, PeerSteps

RECORDS, DIM, STEP_SIZE, RADIUS = 1000, 10, 0.1, 0.005
SENSITIVITY, BOUND, DECAY = 2.0, 1.0, 0.2
# Scheme and relation, the mechanism a peer would name, and whether one use moves by the bound or the sensitivity.
SCHEMES = (
    ("full", "replace-one", "gaussian", SENSITIVITY),
    ("full", "add-remove", "gaussian", BOUND),
    ("cyclic", "replace-one", "gaussian", SENSITIVITY),
    ("shuffle-once", "replace-one", "gaussian", SENSITIVITY),
    ("reshuffled", "replace-one", "gaussian", SENSITIVITY),
    ("without-replacement", "replace-one", "without-replacement", SENSITIVITY),
    ("poisson", "replace-one", "poisson-replace-one", BOUND),
    ("poisson", "add-remove", "poisson-add-remove", BOUND),
)
VIEWS = ("last-iterate", "all-iterates")
RATES = (0.1, 0.02)
# What one use of the record moves, over the noise of the step.
RATIOS = {"strong": 0.1, "weak": 0.5}
STEPS = (40, 1000)
PROJECTIONS: dict[str, dict[str, Any] | None] = {"none": None, "ball": {"kind": "ball", "radius": RADIUS}}
_CLIPPED = {"gradient_sensitivity": SENSITIVITY, "gradient_bound": BOUND}
_WEIGHT_DECAY = {"strong_convexity": DECAY, "smoothness": DECAY}
# The problem section and the clipping of each kind of problem.
PROBLEMS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "strongly convex": ({**_CLIPPED, "strong_convexity": DECAY, "smoothness": 1.0 + DECAY}, None),
    "convex": ({**_CLIPPED, "strong_convexity": 0.0, "smoothness": 1.0}, None),
    "residuals clipped": (
        {**_CLIPPED, "strong_convexity": DECAY, "smoothness": 1.0 + DECAY, "regulariser": _WEIGHT_DECAY},
        {"kind": "residual", "bound": BOUND},
    ),
    "norm-clipped softmax": (
        {**_CLIPPED, "unclipped_smoothness": 0.5, "regulariser": _WEIGHT_DECAY, "drift_bound": BOUND},
        {"kind": "norm", "bound": BOUND, "classes": 10},
    ),
    "norm-clipped network": (
        {**_CLIPPED, "regulariser": _WEIGHT_DECAY, "drift_bound": BOUND},
        {"kind": "norm", "bound": BOUND},
    ),
}


def chains() -> Iterator[Described]:
    """Every chain of the product; the second rate only for sampled or cut batches of strongly convex problems."""
    for scheme, view, problem, projection, noise, steps, rate in product(
        SCHEMES, VIEWS, PROBLEMS, PROJECTIONS, RATIOS, STEPS, RATES
    ):
        full = scheme[0] == "full"
        if rate != RATES[0] and (full or problem != "strongly convex"):
            continue
        yield _chain(scheme, view, problem, projection, noise, steps, 1.0 if full else rate)


def _chain(
    scheme: tuple[str, str, str, float], view: str, problem: str, projection: str, noise: str, steps: int, rate: float
) -> Described:
    name, relation, mechanism, moved = scheme
    batch, ratio = round(rate * RECORDS), RATIOS[noise]
    section, clipping = PROBLEMS[problem]
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": STEP_SIZE,
                "noise": {"kind": "gaussian", "scale": STEP_SIZE * moved / (batch * ratio)},
                "batch": {"scheme": name, "size": None if name == "full" else batch},
                "clipping": clipping,
                "projection": PROJECTIONS[projection],
            },
            "problem": {"n": RECORDS, "dim": DIM, **section},
            "relation": relation,
            "view": view,
        }
    )
    passes = mechanism == "gaussian"
    peer = PeerSteps(mechanism, ratio, 1.0 if passes else rate, math.ceil(steps * rate - 1e-9) if passes else steps)
    return Described("chain", name, problem, projection, f"{noise} (ratio {ratio:g})", steps, rate, spec, peer)
