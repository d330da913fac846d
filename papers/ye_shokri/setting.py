"""The setting of the privacy-dynamics items: the appendix leaves Figure 1's open, so this choice is ours."""

import numpy as np

from papers.framework.item import Cell
from sordino.core.spec import Spec

DELTA = 1e-5
AT_DELTA = "epsilon at delta 1e-5"
STEP_SIZE, SIGMA, SENSITIVITY, CURVATURE, SMOOTHNESS = 0.02, 0.02, 4.0, 1.0, 4.0
RECORDS, BATCH = 1000, 100
BATCHES = RECORDS // BATCH
# The paper's noise N(0, 2 eta sigma^2) as one scale.
NOISE = (2 * STEP_SIZE) ** 0.5 * SIGMA
CONTRACTION = 1 - STEP_SIZE * CURVATURE
RATIO = STEP_SIZE * SENSITIVITY / (BATCH * NOISE)

PARAMETERS: tuple[tuple[str, Cell], ...] = (
    ("step size eta", STEP_SIZE),
    ("sigma, noise N(0, 2 eta sigma^2)", SIGMA),
    ("gradient sensitivity S_g", SENSITIVITY),
    ("strong convexity lambda", CURVATURE),
    ("smoothness beta", SMOOTHNESS),
    ("contraction of a step", CONTRACTION),
    ("movement of a step over its noise, kappa", RATIO),
    ("relation", "replace-one"),
    ("view", "last-iterate"),
    ("delta", DELTA),
)


def run_of(scheme: str, steps: int) -> Spec:
    """The chain with this scheme; a full batch has b = n = 100, so that one use of the record weighs the same."""
    full = scheme == "full"
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": steps,
                "step_size": STEP_SIZE,
                "noise": {"kind": "gaussian", "scale": NOISE},
                "batch": {"scheme": scheme, "size": None if full else BATCH},
            },
            "problem": {
                "n": BATCH if full else RECORDS,
                "dim": 1,
                "gradient_sensitivity": SENSITIVITY,
                "strong_convexity": CURVATURE,
                "smoothness": SMOOTHNESS,
            },
            "relation": "replace-one",
            "view": "last-iterate",
            "delta": DELTA,
        }
    )


def spaced(last: int, points: int) -> tuple[int, ...]:
    """Whole numbers from 1 to `last`, evenly spaced in their logarithm."""
    return tuple(sorted({round(float(value)) for value in np.geomspace(1, last, points)}))
