"""The problem of Figure 1: its caption, and the slope that the caption leaves out."""

import math
from dataclasses import replace

from sordino.accounting.evaluate import explain
from sordino.audit.exact.interim import interim_leak
from sordino.core.spec import Spec
from sordino.model.exact import InterimRegression

RECORDS, DELTA = 17_864_389, 1e-3
ALPHA, BETA, GAMMA1, X_HIGH, X_LOW = 2.0, 1.0, 0.1, 1.8, 0.9
# The largest power for which the construction of Theorem IV.1 certifies (0.5, 0.001) at this n.
GAMMA2 = 1.1455777897
PAPER_LEAK, PAPER_EPOCH, PAPER_POSTERIOR = 38.0, 48, 0.5

FULL_STEP = InterimRegression(
    n=RECORDS, c=RECORDS**GAMMA2, prior_precision=ALPHA, noise_precision=BETA, x=X_HIGH, step_factor=1.0
)
HALF_STEP = replace(FULL_STEP, step_factor=0.5)


def posterior_epsilon() -> float:
    """The certified epsilon of one exact posterior draw at delta 0.001 (Lemma A.1, the order optimised)."""
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "posterior-sample",
                "potential": {
                    "kind": "linear-regression",
                    "alpha": ALPHA,
                    "beta": BETA,
                    "gamma1": GAMMA1,
                    "x_low": X_LOW,
                    "x_high": X_HIGH,
                    "c": FULL_STEP.c,
                },
            },
            "problem": {"n": RECORDS},
            "relation": "replace-one",
            "view": "one-sample",
        }
    )
    return explain(spec, DELTA).epsilon


def slope_power_of_the_paper() -> float:
    """The power of n for which the Chernoff bound of the paper's text peaks at the 38 that its figure shows."""
    low, high = 1.0, GAMMA2
    for _ in range(30):
        middle = (low + high) / 2
        problem = replace(HALF_STEP, c=math.exp(middle * math.log(RECORDS)))
        peak = interim_leak(problem, 50, DELTA).chernoff
        low, high = (middle, high) if peak < PAPER_LEAK else (low, middle)
    return (low + high) / 2
