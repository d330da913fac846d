"""Exact audits of single mechanisms against outcomes that are listed one by one, or binned finely.

Binning is post-processing, so a binned law never leaks more than the truth: an exact audit above it by more than the
bins explain would be a false alarm, one below it gives something away.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from sordino.auditing.lower_bound import AuditOptions
from sordino.auditing.methods.exact import exact
from sordino.core.spec import Spec

DELTA = 1e-3


def epsilon(first, second):
    """The smallest epsilon with hockey-stick divergence DELTA, in the worse direction, of two listed laws."""

    def gap(value):
        ways = (np.maximum(a - math.exp(value) * b, 0.0).sum() for a, b in ((first, second), (second, first)))
        return max(ways) - DELTA

    return 0.0 if gap(0.0) <= 0 else float(brentq(gap, 0.0, 60.0, xtol=1e-10))


def audited(algorithm, relation, view="all-iterates"):
    spec = Spec.from_dict({"algorithm": algorithm, "relation": relation, "view": view, "delta": DELTA})
    return exact(spec, AuditOptions(delta=DELTA)).epsilon


def binned(law):
    """Probabilities of 40,000 bins, from the cumulative distribution."""
    return np.diff(law(np.linspace(-60.0, 60.0, 40_001)))


@pytest.mark.parametrize("separation", [1, 2, 4])
def test_a_matrix_mechanism_by_every_pattern_of_steps(separation):
    rows = [[1.0], [0.5, 1.0], [0.2, 0.4, 1.0], [0.1, 0.1, 0.3, 1.0]]
    strategy = np.array([row + [0.0] * (4 - len(row)) for row in rows])
    moved = max(
        np.linalg.norm(strategy[:, pattern] @ np.array(signs))
        for pattern in ([*range(start, 4, separation)] for start in range(separation))
        for signs in itertools.product([-1.0, 1.0], repeat=len(pattern))
    )
    mu = 2 * moved / 3.0
    algorithm = {
        "kind": "matrix-mechanism",
        "steps": 4,
        "strategy": {"kind": "dense", "rows": rows},
        "contribution": 1.0,
        "noise_multiplier": 3.0,
        "participation": {"scheme": "epochs", "separation": separation},
    }
    brute = epsilon(binned(stats.norm.cdf), binned(lambda x: stats.norm.cdf(x - mu)))
    assert audited(algorithm, "replace-one") == pytest.approx(brute, rel=5e-3)
