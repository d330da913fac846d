"""A message-passing step of size gamma = N under the noise of gamma = 1: the noise is N times smaller than it says.

theory.md section 8: the pattern of the published table, and not private.
"""

from dataclasses import dataclass

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.experiment import Claim, LinearScore
from tests.auditing.broken.outside_the_clipped_vector import CLIP, MULTIPLIER, RECORDS, SPEC
from tests.auditing.broken.registry import Case, case, claimed, options


@dataclass(frozen=True)
class OneStep:
    """theta + (gamma / N) sum of clipped sites + noise of (2 gamma C / N) sigma, each with a gamma of its own."""

    step_gamma: float
    noise_gamma: float

    def __call__(self, sites, seeds, /):
        clipped = sites * np.minimum(1.0, CLIP / np.linalg.norm(sites, axis=1, keepdims=True))
        noise = np.random.default_rng(seeds).standard_normal((len(seeds), 3))
        scale = 2 * self.noise_gamma * CLIP * MULTIPLIER / RECORDS
        return self.step_gamma / RECORDS * clipped.sum(axis=0) + scale * noise


def attack(noise_gamma, asked):
    sites = np.random.default_rng(0).normal(size=(RECORDS, 3))
    other = sites.copy()
    sites[0], other[0] = [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]
    fit, claim = OneStep(RECORDS, noise_gamma), Claim(SPEC.relation, SPEC.view)
    return audit_by_attack(fit, sites, other, (LinearScore(),), claim, asked, "two opposite sites")


@case("step and noise with different gamma")
def step_and_noise_mismatch():
    asked = options(0.05, 2000)
    return Case(claimed(SPEC, 0.05), lambda: attack(1.0, asked), lambda: attack(RECORDS, asked))
