"""The seed is written into the program, so that the noise is the same every time and can be subtracted."""

from dataclasses import dataclass

import numpy as np

from sordino.auditing.attack.audit import audit_by_attack
from sordino.auditing.attack.chains import (
    ChainFit,
    constant_pull_model,
    exposed_position,
    extremal_rows,
    extremal_scores,
)
from sordino.auditing.attack.experiment import Claim
from tests.auditing.broken.registry import Case, attacked, case, chain, claimed, options

SPEC = chain()


@dataclass(frozen=True)
class SeedWrittenIn:
    fit: ChainFit

    def __call__(self, data, seeds, /):
        return np.repeat(self.fit(data, np.array([7], np.uint64)), len(seeds), axis=0)


def attack(asked):
    pair, model = extremal_rows(SPEC, exposed_position(SPEC)), constant_pull_model(SPEC)
    return audit_by_attack(
        SeedWrittenIn(ChainFit(SPEC, model)),
        pair.first,
        pair.second,
        extremal_scores(SPEC, pair, model.weight_decay),
        Claim(SPEC.relation, SPEC.view),
        asked,
        "extremal quadratic, one seed for all models",
    )


@case("seed reused")
def seed_reused():
    asked = options(1e-5, 1000)
    return Case(claimed(SPEC, 1e-5), lambda: attack(asked), lambda: attacked(SPEC, asked))
