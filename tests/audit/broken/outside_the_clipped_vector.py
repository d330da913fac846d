"""Hyperparameters travel with the clipped natural parameters, under the same noise, but are not clipped with them."""

from dataclasses import dataclass

import numpy as np

from papers.heller_fetaya.network_audit import LogisticScore
from papers.round_words import stated_spec
from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.experiment import Claim
from tests.audit.broken.registry import Case, case, claimed, options

CLIP, MULTIPLIER, RECORDS = 1.0, 4.0, 50
SPEC = stated_spec(
    {
        "algorithm": {
            "kind": "message-passing",
            "records": RECORDS,
            "steps": 1,
            "sampling": "full",
            "batch": RECORDS,
            "clip": CLIP,
            "noise_multiplier": MULTIPLIER,
            "damping": RECORDS,
        },
        "relation": "replace-one",
        "view": "posterior-parameters",
    }
)


@dataclass(frozen=True)
class OneRound:
    """Sum of clipped sites (two natural parameters, one hyperparameter) plus noise of 2 C sigma."""

    all_clipped: bool

    def __call__(self, sites, seeds, /):
        clipped = sites if self.all_clipped else sites[:, :2]
        length = np.linalg.norm(clipped, axis=1, keepdims=True)
        kept = sites.copy()
        kept[:, : clipped.shape[1]] = clipped * np.minimum(1.0, CLIP / length)
        noise = np.random.default_rng(seeds).standard_normal((len(seeds), 3))
        return kept.sum(axis=0) + 2 * CLIP * MULTIPLIER * noise


def attack(all_clipped, asked):
    sites = np.random.default_rng(0).normal(size=(RECORDS, 3))
    other = sites.copy()
    sites[0], other[0] = [0.5, 0.5, 8.0], [-0.5, -0.5, -8.0]
    claim = Claim(SPEC.relation, SPEC.view)
    evidence = "one site with a large hyperparameter"
    return audit_by_attack(OneRound(all_clipped), sites, other, (LogisticScore(),), claim, asked, evidence)


@case("hyperparameters outside the clipped vector")
def outside_the_clipped_vector():
    asked = options(0.05, 4000)
    return Case(claimed(SPEC, 0.05), lambda: attack(False, asked), lambda: attack(True, asked))
