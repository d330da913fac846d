"""The plan of a fit: which sums are released, how the budget is shared, and what widths to expect. It reads no row.

Every released sum is a Gaussian mechanism whose noise is `multiplier` times its sensitivity, so mechanism j is
1/multiplier_j-GDP whatever was released before, and all of them together are mu-GDP with mu^2 the sum of the squares
(Dong, Roth & Su 2022, Corollary 3.3): bounds, points and scales of later sums may depend on earlier answers.

Shares of mu^2 depend on q = n mu / p, the budget for each coefficient. The tables were found by simulation on drawn
tables; they are choices, and no privacy rests on them.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import composed, largest_mu, up
from sordino.core.validate import COUNT, OPEN_UNIT, POSITIVE, instance_of, number, refuse, whole_number
from sordino.mechanisms.influence.declaration import Declaration
from sordino.mechanisms.influence.families import At, Family, family_of
from sordino.mechanisms.influence.sums import centre_bounds, factor

# Beyond so many coefficients a matrix is too many numbers, and columns are whitened one by one. Correlated columns are
# then read as if they were not, so the number is as large as time allows.
MOST_IN_MATRIX = 160
# And beyond so many, three rounds are enough: a posterior takes the third power of rounds times coefficients.
_FEWER_ROUNDS = 200
SCALE_BINS, LOCATION_BINS, RESIDUAL_BINS, COUNT_BINS = 12, 16, 9, 16
# How alike the records of a unit are is read from histograms of units' gradients, one for each coefficient: their noise
# does not grow with the bound of a gradient, as a meat's does, so that a small share is enough.
LIKENESS_BINS, LIKENESS = 20, 0.03
# A hair that covers the rounding of products of multipliers and sensitivities.
HAIR = 1.0 + 2.0**-48
# Add-remove noise is a factor sqrt(2) to 2 less, so a budget does what a larger one does under replace-one.
_ADD_REMOVE_WORTH = 1.7


class Shares(NamedTuple):
    """Shares of mu^2, and the constants that go with them.

    Attributes:
        centre: of the sum of rows.
        scales: of the histograms of columns.
        scatter: of the matrix of second moments.
        location: of histograms of the target and, each round, of residuals.
        gradients: of each round.
        curvature: of the matrix of slopes at the last point.
        meat: of the matrix of squared gradients there.
        tau: weights are 1 up to this many root coefficients of length.
        clip: of residuals, in scales.
        cap: of scores.
        likeness: of histograms of units' gradients there, where units have several records.
    """

    centre: float
    scales: float
    scatter: float
    location: float
    gradients: tuple[float, ...]
    curvature: float
    meat: float
    tau: float
    clip: float = 1.345
    cap: float = 3.0
    likeness: float = 0.0

    def normed(self) -> "Shares":
        """The same with shares that add up to 1."""
        total = math.fsum([*(getattr(self, name) for name in _SINGLE), *self.gradients])
        parts = {name: getattr(self, name) / total for name in _SINGLE}
        return self._replace(gradients=tuple(one / total for one in self.gradients), **parts)


_SINGLE = ("centre", "scales", "scatter", "location", "curvature", "meat", "likeness")
# The least q of every row; a plan takes the last row whose q it reaches.
BUDGETS: dict[str, tuple[tuple[float, Shares], ...]] = {
    "numbers": (
        (0.0, Shares(0.17, 0.03, 0.14, 0.06, (0.13, 0.47), 0.0, 0.0, 1.15, clip=0.9)),
        (18.0, Shares(0.08, 0.02, 0.16, 0.04, (0.065, 0.06, 0.09, 0.40), 0.105, 0.01, 1.1, clip=0.95)),
        (40.0, Shares(0.08, 0.015, 0.11, 0.02, (0.055, 0.04, 0.075, 0.46), 0.15, 0.015, 1.15, clip=1.15)),
        (130.0, Shares(0.05, 0.01, 0.10, 0.02, (0.06, 0.06, 0.08, 0.49), 0.12, 0.03, 1.5, clip=1.25)),
        (190.0, Shares(0.05, 0.01, 0.10, 0.02, (0.06, 0.06, 0.08, 0.49), 0.12, 0.03, 1.4, clip=1.6)),
        (400.0, Shares(0.05, 0.01, 0.10, 0.03, (0.05, 0.05, 0.08, 0.48), 0.10, 0.06, 1.9, clip=1.9)),
    ),
    "classes": (
        (0.0, Shares(0.10, 0.03, 0.19, 0.0, (0.55,), 0.13, 0.0, 1.08, cap=2.0)),
        (30.0, Shares(0.09, 0.02, 0.06, 0.0, (0.065, 0.065, 0.10, 0.42), 0.18, 0.0, 1.08, cap=2.5)),
        (70.0, Shares(0.08, 0.02, 0.07, 0.0, (0.06, 0.07, 0.09, 0.45), 0.15, 0.0, 1.1, cap=3.0)),
        (150.0, Shares(0.08, 0.02, 0.07, 0.0, (0.06, 0.07, 0.09, 0.45), 0.15, 0.0, 1.2, cap=4.0)),
        (300.0, Shares(0.04, 0.02, 0.10, 0.0, (0.03, 0.05, 0.06, 0.08, 0.50), 0.10, 0.01, 1.4, cap=6.0)),
        (1000.0, Shares(0.04, 0.02, 0.10, 0.0, (0.03, 0.04, 0.05, 0.07, 0.12, 0.43), 0.10, 0.02, 1.8, cap=8.0)),
    ),
    "counts": (
        (0.0, Shares(0.12, 0.03, 0.15, 0.06, (0.15, 0.38), 0.10, 0.0, 1.1, clip=1.6, cap=2.0)),
        (30.0, Shares(0.08, 0.02, 0.08, 0.03, (0.065, 0.065, 0.10, 0.40), 0.15, 0.01, 1.1, clip=1.6, cap=2.5)),
        (130.0, Shares(0.05, 0.02, 0.08, 0.02, (0.05, 0.06, 0.08, 0.46), 0.14, 0.02, 1.3, clip=1.8, cap=3.0)),
        (400.0, Shares(0.04, 0.01, 0.09, 0.02, (0.04, 0.05, 0.08, 0.48), 0.12, 0.04, 1.7, clip=2.5, cap=4.0)),
        # Counts whose tails are not those of the law bias what is cut; where noise is cheap, little is cut.
        (1000.0, Shares(0.04, 0.01, 0.09, 0.02, (0.04, 0.05, 0.08, 0.48), 0.12, 0.04, 1.7, clip=3.5, cap=4.0)),
        (4000.0, Shares(0.04, 0.01, 0.09, 0.02, (0.04, 0.05, 0.08, 0.48), 0.12, 0.04, 1.7, clip=5.0, cap=4.0)),
    ),
}


@dataclass(frozen=True)
class Mechanism:
    """One Gaussian mechanism of a plan: the noise is `multiplier` times a sensitivity that is known when it is asked.

    Attributes:
        name: what is summed.
        shape: "vector", "psd", "histogram" or "centre": how the sensitivity follows from the bound, see `sums`.
        numbers: how many numbers are released.
        multiplier: the noise over the sensitivity.
        bound: the bound on one unit's contribution, or None where it follows from an earlier answer.
    """

    name: str
    shape: str
    numbers: int
    multiplier: float
    bound: float | None


@dataclass(frozen=True)
class Plan:
    """A described fit: public numbers only.

    Attributes:
        family: the family's name.
        declaration: columns, target and effects.
        records: how many units there are; public under replace-one, a guess under add-remove.
        relation: which tables are neighbours.
        epsilon: the guarantee, with `delta`.
        delta: see `epsilon`.
        shares: how mu^2 is spent.
        covariance: "sandwich" or "model".
    """

    family: str
    declaration: Declaration
    records: int
    relation: Relation
    epsilon: float
    delta: float
    shares: Shares
    covariance: str = "sandwich"

    @cached_property
    def kind(self) -> Family:
        """The family itself."""
        return family_of(self.family)

    @property
    def outputs(self) -> int:
        """Scores of a record."""
        return self.kind.outputs(self.declaration)

    @property
    def coefficients(self) -> int:
        """Columns and intercept, for every score."""
        return (1 + self.declaration.columns) * self.outputs

    @cached_property
    def mu(self) -> float:
        """The privacy parameter that the guarantee allows."""
        return _largest_mu(self.epsilon, self.delta)

    @property
    def tau(self) -> float:
        """The length up to which rows have weight 1."""
        return self.shares.tau * math.sqrt(1 + self.declaration.columns)

    @property
    def rho(self) -> float:
        """The length to which standardised rows are shortened in the scatter."""
        return 1.15 * math.sqrt(self.declaration.columns)

    @property
    def in_matrix(self) -> bool:
        """Whether matrices are released, or only their diagonals."""
        return self.coefficients <= MOST_IN_MATRIX

    @property
    def at_start(self) -> At:
        """What is public about the first round before anything was read."""
        return At(clip=self.shares.clip, cap=self.shares.cap, first=self.kind.reads == "nothing")

    def multiplier(self, share: float) -> float:
        """The noise multiplier of a mechanism with this share of mu^2, a hair above what it has to be."""
        return up(1.0 / (self.mu * math.sqrt(share)) * (1.0 + 1e-12))

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Everything that is released, in order."""
        shares, declaration, size = self.shares, self.declaration, self.coefficients
        columns, numbers = declaration.columns, len(declaration.numbers)
        centre = centre_bounds(declaration, self.relation)
        found: list[tuple[str, str, int, float, float | None]] = [("centre", "centre", columns, shares.centre, centre)]
        if numbers:
            found.append(("scales", "histogram", numbers * SCALE_BINS, shares.scales, math.sqrt(numbers)))
        entries = columns * (columns + 1) // 2 if self.in_matrix else columns
        found.append(("scatter", "psd", entries, shares.scatter, self.rho**2))
        reads, rounds = self.kind.reads, len(shares.gradients)
        if reads == "location":
            found.append(("location", "histogram", LOCATION_BINS, shares.location / rounds, 1.0))
        elif reads in ("counts", "rate"):
            parts = rounds if reads == "counts" else 1
            found.append(("counts", "histogram", COUNT_BINS, shares.location / parts, 1.0))
        for k, share in enumerate(shares.gradients):
            if reads in ("location", "counts") and k:
                found.append((f"residuals {k + 1}", "histogram", RESIDUAL_BINS, shares.location / rounds, 1.0))
            bound = self.tau * self.kind.bound(declaration, self.at_start) if not k and self.at_start.first else None
            found.append((f"gradients {k + 1}", "vector", size, share, bound))
        of_matrix = size * (size + 1) // 2
        if shares.curvature:
            found.append(("curvature", "psd", of_matrix, shares.curvature, None))
        if shares.meat:
            found.append(("meat", "psd", of_matrix, shares.meat, None))
        if shares.likeness:
            found.append(("likeness", "histogram", size * LIKENESS_BINS, shares.likeness, math.sqrt(size)))
        return tuple(
            Mechanism(name, shape, entries, self.multiplier(share), bound)
            for name, shape, entries, share, bound in found
        )

    @property
    def numbers(self) -> int:
        """How many numbers are released in all."""
        return sum(one.numbers for one in self.mechanisms)

    @property
    def spent(self) -> float:
        """mu of everything together, rounded up: at most `mu`."""
        return composed([(up(1.0 / one.multiplier), 1) for one in self.mechanisms])

    def sensitivity(self, mechanism: Mechanism, bound: float | None = None) -> float:
        """How far one unit moves a sum whose contributions are bounded."""
        given = mechanism.bound if bound is None else bound
        assert given is not None
        return given * factor(mechanism.shape, self.relation)

    @property
    def key(self) -> str:
        """A name of everything that the mechanism depends on: plans with one key are alike."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:24]


def plan(
    family: str,
    declaration: Declaration,
    records: int,
    relation: Relation,
    epsilon: float,
    delta: float,
    *,
    covariance: str = "sandwich",
    shares: Shares | None = None,
) -> Plan:
    """Plan a fit from public numbers.

    Args:
        family: a name in `FAMILIES`.
        declaration: what is public about the table.
        records: how many units (rows, or people) there are; under add-remove a public guess.
        relation: which tables are neighbours; there is no default.
        epsilon: of the whole fit.
        delta: of the whole fit.
        covariance: "sandwich" or "model", for the sampling part of intervals.
        shares: how the budget is shared; by default from the tables of the family.

    Returns:
        A plan whose mechanisms together are (epsilon, delta) private.
    """
    kind = family_of(family)
    instance_of("declaration", declaration, Declaration)
    instance_of("relation", relation, Relation)
    kind.check(declaration)
    if covariance not in ("sandwich", "model"):
        raise refuse("covariance", "to be 'sandwich' or 'model'", covariance)
    made = Plan(
        family,
        declaration,
        whole_number("records", records, COUNT),
        relation,
        number("epsilon", epsilon, POSITIVE),
        number("delta", delta, OPEN_UNIT),
        Shares(1.0, 0.0, 0.0, 0.0, (1.0,), 0.0, 0.0, 1.0),
        covariance,
    )
    return replace(made, shares=(_shares(made) if shares is None else shares).normed())


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    return largest_mu(epsilon, delta)


def _shares(made: Plan) -> Shares:
    worth = made.mu * (1.0 if made.relation is Relation.REPLACE_ONE else _ADD_REMOVE_WORTH)
    q = made.records * worth / made.coefficients
    rows = BUDGETS[made.kind.budget]
    chosen = [shares for least, shares in rows if q >= least][-1]
    chosen = chosen._replace(clip=min(chosen.clip, made.kind.most_clip))
    if made.kind.reads == "nothing":
        chosen = chosen._replace(location=0.0)
    if made.declaration.grouped:
        chosen = chosen._replace(likeness=LIKENESS)
    if not len(made.declaration.numbers):
        chosen = chosen._replace(scales=0.0)
    if not made.in_matrix:
        chosen = chosen._replace(curvature=0.0, meat=0.0, scatter=0.05)
        if made.coefficients > _FEWER_ROUNDS:
            *early, last = chosen.gradients
            chosen = chosen._replace(
                gradients=(math.fsum(early) / 2.0,) * 2 + (last,) if len(early) > 2 else chosen.gradients
            )
    return chosen


class Expected(NamedTuple):
    """Standard deviations to expect of each encoded coefficient, intercept first, from the plan alone."""

    sampling: Array
    privacy: Array
    prior: float

    @property
    def together(self) -> Array:
        """Sampling and privacy."""
        return np.sqrt(self.sampling**2 + self.privacy**2)

    @property
    def posterior(self) -> Array:
        """What is left when the prior is taken into account."""
        return 1.0 / np.sqrt(1.0 / self.together**2 + 1.0 / self.prior**2)

    @property
    def refused(self) -> bool:
        """Whether a coefficient of a well-spread column would be known to no better than half the prior's deviation.

        Widths here are those of typical columns; columns that use their declared range do better, so two thirds of
        it are taken off before a fit is refused.
        """
        return bool(_WELL_SPREAD * np.median(self.together[1:]) > 0.5 * self.prior)


# What is taken for granted where nothing is declared: the spread of a number over half its range, a share of ones, how
# far correlated columns widen intervals, and scores of records.
TYPICAL_SPREAD, TYPICAL_SHARE, TYPICAL_RESIDUAL = 0.27, 0.15, 0.1
TYPICAL_DISPERSION = 0.5
_CORRELATED, _TYPICAL_SCORE = 1.25, 1.5
# Poor budgets leave slopes open, which widens intervals by about this over q.
_OPEN = 10.0
_WELL_SPREAD = 0.36


def expected(made: Plan) -> Expected:
    """Widths from the plan alone, for columns of typical spread; what `sordino plan` shows.

    With n units, slope h and second moment v of psi (both averaged over scores of typical size), a whitened coefficient
    has sampling variance v / (n h^2) and *privacy* standard deviation (1 + 10 / q) D / (n h mu_g), where D is the
    sensitivity of a gradient, mu_g the root of the shares of all gradients times mu, and q = n mu / p. A column of
    standard deviation s, correlated with others as columns typically are, multiplies both by 1.25 / s.
    """
    declaration, kind, shares = made.declaration, made.kind, made.shares
    spread = np.full(declaration.columns, TYPICAL_SPREAD)
    for places in declaration.sets:
        share = TYPICAL_SHARE if len(places) == 1 else 1.0 / (len(places) + 1.0)
        spread[places] = math.sqrt(share * (1.0 - share))
    at = made.at_start._replace(scale=_typical_scale(made), dispersion=_typical_dispersion(made), first=False)
    size = 0.0 if kind.reads != "nothing" else _TYPICAL_SCORE
    scores = size * special.ndtri((np.arange(15) + 0.5) / 15)[:, None] * np.ones(made.outputs) / math.sqrt(made.outputs)
    exposure = np.full((len(scores), 1), kind.typical_rate(declaration))
    law = kind.law(scores, kind.prepared(scores, exposure, at), exposure, at)
    slope, variance = (float(np.mean([np.diag(one) for one in found])) for found in (law.derivative, law.variance))
    variance /= max(1, len(declaration.time_bins))
    # Rows of weight 1, if they are normal; the others count half.
    kept = float(special.gammainc((1 + declaration.columns) / 2.0, made.tau**2 / 2.0))
    slope *= 0.5 * (1.0 + kept)
    bound = made.tau * kind.bound(declaration, at) * factor("vector", made.relation)
    q = made.records * made.mu / made.coefficients
    privacy = bound / (made.records * slope * made.mu * math.sqrt(sum(shares.gradients))) * (1.0 + _OPEN / q)
    sampling = math.sqrt(variance / made.records) / slope
    # The intercept is at the middle of the declared ranges, away from where rows are.
    distance = math.sqrt(1.0 + float(np.sum((0.3 * _CORRELATED / spread[declaration.numbers]) ** 2)))
    width = np.concatenate([[distance], _CORRELATED / spread])
    half, scale = kind.units(declaration)[0], kind.effect_scale(declaration)
    sides = [half * np.repeat(one * width, made.outputs) for one in (sampling, privacy)]
    return Expected(sides[0], sides[1], half * scale)


def _typical_scale(made: Plan) -> float:
    return TYPICAL_RESIDUAL if made.kind.reads == "location" else 1.0


def _typical_dispersion(made: Plan) -> float:
    """Counts that are said to vary more than a Poisson law are taken to have half again its variance at mean 1."""
    return TYPICAL_DISPERSION if made.family == "negative-binomial" else 0.0


def as_dict(made: Plan) -> dict[str, Any]:
    """The plan for a certificate: every mechanism with its multiplier, and what they add up to."""
    return {
        "family": made.family,
        "records": made.records,
        "relation": made.relation.value,
        "epsilon": made.epsilon,
        "delta": made.delta,
        "mu": made.spent,
        "unit": made.declaration.counted,
        "mechanisms": [
            {"name": one.name, "shape": one.shape, "numbers": one.numbers, "multiplier": one.multiplier}
            for one in made.mechanisms
        ],
    }
