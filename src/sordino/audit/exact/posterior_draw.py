"""Exact audits of posterior draws: pairs of posteriors that the stated domain allows."""

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from sordino.audit.exact.finding import Finding
from sordino.audit.exact.gaussian_shift import GaussianShift
from sordino.audit.exact.law_pair import LawPair
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.spec import BoundedPotential, LinearRegression, PosteriorSample, Spec, StronglyLogConcave
from sordino.core.validate import instance_of
from sordino.model.exact import ConjugateRegression, GaussianLaw

_MOST_PAIRS = 3


def posterior_findings(spec: Spec) -> Iterator[Finding]:
    """Gaussian posteriors at the edge of what the potential allows."""
    run: PosteriorSample = instance_of("spec.algorithm", spec.algorithm, PosteriorSample)
    potential = run.potential
    if isinstance(potential, StronglyLogConcave):
        yield _shifted(potential, run.draws)
    elif isinstance(potential, LinearRegression):
        yield from _regression(potential, spec, run.draws)
    else:
        instance_of("potential", potential, BoundedPotential)
        raise InputError(
            "Expected a strongly log-concave or regression posterior for an exact audit, got a bounded one."
        )


def _shifted(potential: StronglyLogConcave, draws: int) -> Finding:
    """N(a, 1/m) against N(0, 1/m) with |a| = lipschitz / m: the potentials differ by a linear function."""
    mu = potential.lipschitz.value / math.sqrt(potential.strong_convexity.value) * math.sqrt(draws)
    return Finding(GaussianShift(mu * (1 - 1e-14)), "Gaussian posteriors whose potentials differ by a linear function")


def _regression(potential: LinearRegression, spec: Spec, draws: int) -> Iterator[Finding]:
    """All records at one corner of the domain, the odd one at another; posteriors ranked by divergence.

    Coordinates are centred at slope c: subtracting c x from every target moves both means by nearly the same amount,
    and what is left of the difference, alpha c over the precision, is added exactly.
    """
    if spec.relation is not Relation.REPLACE_ONE:
        raise InputError("Expected relation replace-one for an exact audit of a regression posterior, got add-remove.")
    spread = math.exp(potential.gamma1 * math.log(spec.n)) * (1 - 1e-14)
    lowest = max(-spread, -potential.c)
    corners = [(x, slope) for x in (potential.x_low, potential.x_high) for slope in (lowest, spread)]
    found = []
    for common in corners:
        for one, other in combinations(corners, 2):
            pair = LawPair(*(_posterior(potential, spec.n, common, odd).copies(draws) for odd in (one, other)))
            found.append((pair.renyi(2.0), common, one, other, pair))
    found.sort(key=lambda item: -item[0])
    for _, common, one, other, pair in found[:_MOST_PAIRS]:
        told = ", ".join(f"({x:g}, c{slope:+.4g})" for x, slope in (common, one, other))
        yield Finding(pair, f"regression posteriors; (x, y/x) of the common records and of the two odd ones: {told}")


def _posterior(
    potential: LinearRegression, n: int, common: tuple[float, float], odd: tuple[float, float]
) -> GaussianLaw:
    """The posterior of theta - c."""
    x = np.array([common[0], odd[0]])
    slopes = np.array([common[1], odd[1]])
    centred = ConjugateRegression(potential.alpha, potential.beta).posterior(x[:, None], x * slopes, [n - 1.0, 1.0])
    return GaussianLaw(centred.mean - potential.alpha * potential.c * centred.covariance[0], centred.covariance)
