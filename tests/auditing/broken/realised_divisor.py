"""A Poisson batch's sum is divided by how many records it happens to hold, not by the public constant.

theory.md section 0: n = 100, q = 0.1, b = 10, multiplier 1, one step: delta at epsilon = 1 is 2.0e-2, claimed 2.1e-4.
"""

from dataclasses import dataclass

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.chains import FirstAxis
from sordino.auditing.attack.experiment import Claim
from tests.auditing.broken.registry import Case, case, chain, claimed, options

SPEC = chain(
    **{
        "algorithm.steps": 1,
        "algorithm.step_size": 1.0,
        "algorithm.noise.scale": 0.1,
        "algorithm.batch": {"scheme": "poisson", "size": 10},
        "problem.n": 100,
        "problem.strong_convexity": None,
        "problem.smoothness": None,
        "relation": "add-remove",
        "view": "all-iterates",
    }
)


@dataclass(frozen=True)
class PoissonStep:
    """One noisy step on gradients in [-1, 1], many at once."""

    realised: bool

    def __call__(self, gradients, seeds, /):
        rng = np.random.default_rng(seeds)
        chosen = rng.random((len(seeds), len(gradients))) < 0.1
        divisor = np.maximum(chosen.sum(axis=1), 1) if self.realised else 10
        return (-(chosen @ gradients) / divisor + 0.1 * rng.standard_normal(len(seeds)))[:, None]


def attack(realised, asked):
    # All others pull one way and the record in question the other: whoever divides by the batch's size hides the
    # others and magnifies it.
    others = np.ones(99)
    fit = PoissonStep(realised)
    claim = Claim(SPEC.relation, SPEC.view)
    return audit_by_attack(fit, others, np.append(others, -1.0), (Up(1),), claim, asked, "99 records against one")


class Up(FirstAxis):
    def learn(self, first, second):
        return lambda releases: releases[:, 0]


@case("divisor by realised Poisson size")
def realised_divisor():
    asked = options(0.002, 40_000)
    return Case(claimed(SPEC, 0.002), lambda: attack(True, asked), lambda: attack(False, asked))
