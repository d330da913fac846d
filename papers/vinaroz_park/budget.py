"""Budgets, residual noise and scores of the regression tables."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from papers.round_words import rounds
from papers.vinaroz_park.sets import Fold
from sordino.accounting.convert import compose
from sordino.accounting.evaluate import tightest
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu
from sordino.core.spec import ConstantSchedule, Scheme, Spec
from sordino.core.validate import InputError

# One (epsilon, delta) shared between releases: noise for a share of it, and the certificate of them all together.

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


# The noise variance of a fitted regression, released: one noised sum of squared residuals, each cut to a bound.

Array = NDArray[np.float64]
SHARE = 0.02
# In scaled units, where targets lie in [-sqrt(3), sqrt(3)].
BOUND = 1.5
_LEAST = 1e-3


def residual_spec(budget: Budget, records: int) -> Spec:
    """One full round; a record contributes its cut square minus half the bound, so at most half the bound."""
    algorithm = rounds(
        "message-passing",
        budget.relation,
        records=records,
        steps=1,
        sampling=Scheme.FULL,
        clip=0.5 * BOUND,
        noise_multiplier=ConstantSchedule(budget.multiplier(SHARE, 1)),
        damping=ConstantSchedule(float(records)),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def released_variance(
    budget: Budget, predict: Callable[[Array], Array], X: Array, y: Array, generator: np.random.Generator
) -> float:
    """The noised mean of the cut squared residuals; the number of records is public."""
    squares = np.minimum((y - predict(X)) ** 2, BOUND)
    sensitivity = BOUND if budget.relation.value == "replace-one" else 0.5 * BOUND
    noise = budget.multiplier(SHARE, 1) * sensitivity
    total = float(np.sum(squares - 0.5 * BOUND)) + noise * float(generator.standard_normal())
    return max(total / len(X) + 0.5 * BOUND, _LEAST) if math.isfinite(total) else BOUND


# How good a predictive law is on test records: error, log-likelihood and coverage, in the units of the data.


@dataclass(frozen=True)
class Scores:
    """Test scores; the coverages are of central intervals that should hold 50 and 90 per cent."""

    rmse: float
    log_likelihood: float
    half: float
    ninety: float


def scored(fold: Fold, mean: Array, variance: Array) -> Scores:
    """The scores of Gaussian predictions given in scaled units."""
    gap, deviation = np.abs(fold.test_y - mean), np.sqrt(variance)
    density = -0.5 * (gap / deviation) ** 2 - np.log(deviation * fold.unit) - 0.5 * math.log(2.0 * math.pi)
    inside = [float(np.mean(gap <= special.ndtri(0.5 + level / 2.0) * deviation)) for level in (0.5, 0.9)]
    return Scores(fold.unit * float(np.sqrt(np.mean(gap**2))), float(np.mean(density)), *inside)
