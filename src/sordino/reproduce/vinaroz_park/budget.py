"""One (epsilon, delta) shared between releases: noise for a share of it, and the certificate of them all together."""

import math
from dataclasses import dataclass

from sordino.accounting.compose import compose
from sordino.accounting.evaluate import tightest
from sordino.core.errors import InputError
from sordino.core.gaussian import largest_mu
from sordino.core.relation import Relation
from sordino.core.spec import Spec

DELTA = 1e-5
# Noise multipliers are rounded when a spec is written, so the aim is a hair below the target.
_AIM = 0.9999


@dataclass(frozen=True)
class Budget:
    """A target epsilon at delta 1e-5 under a relation; Gaussian mechanisms share the square of its mu."""

    epsilon: float
    relation: Relation

    @property
    def mu(self) -> float:
        """What all releases together have."""
        return largest_mu(_AIM * self.epsilon, DELTA)

    def multiplier(self, share: float, rounds: int) -> float:
        """Noise over sensitivity for each of so many full-batch rounds that use this share of the budget together."""
        return math.sqrt(rounds / share) / self.mu


def certified(specs: tuple[Spec, ...]) -> float:
    """The epsilon, at delta 1e-5, that the registry certifies for all releases together."""
    bounds = [tightest(spec, DELTA) for spec in specs]
    missing = [spec for spec, bound in zip(specs, bounds, strict=True) if bound is None]
    if missing:
        raise InputError(f"Expected every release to be covered by a theorem, got none for {missing[0].algorithm}.")
    return compose([(bound.guarantee, 1) for bound in bounds if bound is not None]).epsilon(DELTA)
