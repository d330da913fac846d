"""`one-run`: many canaries, coins that decide them, and one run of the described chain.

Known Gaussian noise where what is released is linear in the records, guesses of coins everywhere else.

A coin decides each group of canaries. Given the coins, group i has the score s_i = a + D_i c_i + sigma xi_i with
c_i = 1 for heads and 0 for tails (or 1/2 and -1/2), independent standard normal xi_i, and one baseline a for all. Then

    mean of heads - mean of tails ~ N(D, sigma^2 (1/h + 1/t)),   D at most the largest D_i,

and D_i is at most the number of canaries in the group times the largest shift of one of them, because shifts add up.
Two bounds on mu, the largest shift over sigma, share the failure probability, so that the larger one may be reported:

- *sigma as described*, which takes four fifths: a normal quantile, which takes the noise at its word;
- *sigma unknown*, one fifth: Student's statistic is noncentral t. It believes no description: noise that was left out,
  or is much too small, makes it large. Scores in which no canary has a part ("blanks") show the noise as well.

What this needs, beyond guesses of coins: the score is a fixed linear function of answers to which Gaussian noise was
added, canaries that are out leave no trace in it, baselines are equal or known, shifts of a group's canaries add up,
and who takes part in which step is fixed. With hidden batches epsilon does not follow from mu.

The worst-case quadratic of a chain is such a case: every gradient is a constant, so with Gaussian noise, no projection
and a fixed order of the records each released coordinate is normal, its mean linear in the pulls. Groups pull along an
axis each, so that their scores have independent noise, and axes that are left over show the noise alone.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.auditing.exact.extremal_chain import ExtremalAxis, Influence
from sordino.auditing.experiment import About, ChainFit, Releases, chain_of, need_feasible
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.methods.one_run_guesses import MOST_CANARIES, RUN, Coins, one_run_guesses
from sordino.auditing.quadratic import ConstantPull, extremal_decay, extremal_gap, shown_axes
from sordino.core import gaussian
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.spec import AverageNoiseKind, PointStart, Scheme, Spec
from sordino.core.validate import ANY_REAL, COUNT, OPEN_UNIT, Declared, InputError, number, refuse, whole_number
from sordino.data.neighbours import Dataset


def one_run(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound from a single run, by the tightest method that holds: known Gaussian noise, else guesses."""
    chain_of(spec)
    if reason := why_not_linear(spec):
        return one_run_guesses(spec, options, reason)
    planted = GroupedCanaries(spec)
    need_feasible(planted.spec, 1)
    generator = np.random.default_rng(np.random.SeedSequence(options.seed))
    heads = np.zeros(planted.groups, bool)
    heads[generator.permutation(planted.groups)[: (planted.groups + 1) // 2]] = True
    release = planted.fit(planted.flipped(heads), generator.integers(0, 2**63, 1).astype(np.uint64))
    known = KnownGaussian(
        "the worst-case quadratic is linear in its records, their order is fixed, and axes differ in nothing else",
        group=planted.size,
        # Two groups need no baseline: a chain that is off by a constant leaks nothing by it.
        baseline=0.0 if planted.groups == 1 else None,
        mirrored=spec.relation is Relation.REPLACE_ONE,
    )
    scores, blanks = np.split(planted.scores(release), [planted.groups])
    evidence = (
        f"{RUN}, on the worst-case quadratic of the spec's constants, with {planted.groups} group"
        f"{'' if planted.groups == 1 else 's'} of {planted.size} canaries that pull along an axis each, forward or "
        f"{'backward' if known.mirrored else 'not at all'} by a coin"
    )
    bound = bound_from_scores(scores, heads, known, spec, options, evidence, blanks)
    if bound.epsilon > 0.0:
        return bound
    why = (
        f". Nothing was found: one canary is described to shift the release by {planted.shift:.2g} standard "
        f"deviations, too little for so few of them at {100 * options.confidence:g} %; many models (attack) or the "
        "known law (exact) can find more."
    )
    return replace(bound, evidence=bound.evidence + why)


_AS_DESCRIBED = 0.8  # the share of the failure probability for the bound that takes the noise at its word
_ROUNDING = 1e-9
_SINGLE = 2e-6  # by how much a score may be off, relative to the largest: runs are computed in single precision
_CELLS = 1024


@dataclass(frozen=True)
class KnownGaussian(Declared):
    """The promise that scores are what this audit needs, and the `reason`, in one sentence.

    One coin decides a `group` of canaries. `baseline` is every score without canaries, None where it is only known to
    be equal. Where `mirrored`, tails shift the other way (replace-one), else not at all.
    """

    reason: str
    group: Annotated[int, COUNT] = 1
    baseline: Annotated[float | None, ANY_REAL] = None
    mirrored: bool = False

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise refuse("reason", "to say why the noise of the scores is known and Gaussian", self.reason)
        super().__post_init__()


def mu_lower(
    scores: NDArray[np.floating],
    heads: Coins,
    known: KnownGaussian,
    confidence: float,
    blanks: NDArray[np.floating] | None = None,
) -> float:
    """Lower bound on a canary's shift in deviations of a score, rounded down; `blanks` are scores without a canary."""
    scores, heads = np.asarray(scores, np.float64), np.asarray(heads, bool)
    if scores.ndim != 1 or scores.shape != heads.shape or not np.isfinite(scores).all() or not len(scores):
        raise InputError(f"Expected one finite score for each of {heads.shape} coins, got shape {scores.shape}.")
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)
    gap, spread, squares, freedom = _contrast(scores, heads, known)
    noise = np.zeros(0) if blanks is None else np.asarray(blanks, float)
    if len(noise) > 1:
        squares, freedom = squares + float(np.square(noise - noise.mean()).sum()), freedom + len(noise) - 1
    # The number a standard normal exceeds with this probability, rounded up.
    normal = float(-special.ndtri(failure * _AS_DESCRIBED if freedom else failure)) * (1 + _ROUNDING)
    best = max(0.0, gap - spread * normal)
    if freedom and gap > 0.0:
        deviation = math.sqrt(squares / freedom)
        ratio = math.inf if deviation == 0.0 else gap / (deviation * spread)
        best = spread * noncentrality_lower(ratio, freedom, failure * (1 - _AS_DESCRIBED), best / spread)
    best -= _SINGLE * float(np.abs(scores).max())
    return max(0.0, best * (1 - _ROUNDING) / known.group)


def _contrast(scores: NDArray[np.float64], heads: Coins, known: KnownGaussian) -> tuple[float, float, float, int]:
    """The estimated shift of a group, its deviation in those of a score, residual squares, and their number."""
    sides = heads - 0.5 if known.mirrored else heads.astype(float)
    moved = scores - (scores.mean() if known.baseline is None else known.baseline)
    if known.baseline is None:
        sides = sides - sides.mean()
    weight = float(sides @ sides)
    if weight == 0.0 and known.baseline is None:
        raise InputError("Without a known baseline the coins need both heads and tails.")
    if weight == 0.0:
        return 0.0, 1.0, 0.0, 0
    gap = float(sides @ moved) / weight
    left = moved - gap * sides
    return gap, 1 / math.sqrt(weight), float(left @ left), len(scores) - (2 if known.baseline is None else 1)


def noncentrality_lower(ratio: float, freedom: int, failure: float, least: float = 0.0) -> float:
    """The largest noncentrality under which Student's statistic reaches `ratio` with at most this probability.

    `least` is answered where that is smaller. P(T >= t) is the mean of Phi(noncentrality - t sqrt(q / freedom)) over
    quantiles q of chi squared. It falls along them, so the sum over cells taken at their lower ends is an upper bound,
    and the answer is on the safe side.
    """
    if math.isinf(ratio):
        return math.inf
    lower, widths = _chi_cells(whole_number("freedom", freedom))

    def allowed(noncentrality: float) -> bool:
        return float(widths @ special.ndtr(noncentrality - ratio * lower)) * (1 + _ROUNDING) > failure

    if allowed(least):
        return least
    return gaussian.narrow(allowed, least, ratio * float(lower[-1]) + 10.0, near=0.0, halvings=60)[0]


@cache
def _chi_cells(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """sqrt(chi squared / freedom) at the lower ends of cells of probability, finer towards 0, and what they hold."""
    edges = np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    return np.sqrt(2 * special.gammaincinv(freedom / 2, edges[:-1]) / freedom) * (1 - _ROUNDING), np.diff(edges)


def bound_from_scores(
    scores: NDArray[np.floating],
    heads: Coins,
    known: KnownGaussian,
    claim: About,
    options: AuditOptions,
    evidence: str,
    blanks: NDArray[np.floating] | None = None,
) -> LowerBound:
    """The lower bound of one run whose scores, one for each coin, are what `known` promises."""
    mu = mu_lower(scores, heads, known, options.confidence, blanks)
    counts = (
        ("models", 1),
        ("canaries", len(scores) * known.group),
        ("coins", len(scores)),
        ("heads", int(np.asarray(heads).sum())),
        ("scores without a canary", 0 if blanks is None else len(blanks)),
    )
    words = f"{evidence}; difference of mean scores under known Gaussian noise: {known.reason}"
    return options.bound(claim, "one-run", gaussian.epsilon_lower(mu, options.delta), words, counts=counts)


# Two groups, as large as they can be: their difference is all that is estimated, and the other axes show the noise.
_GROUPS = 2


def why_not_linear(spec: Spec) -> str:
    """What keeps the scores of a chain's canaries from being a known Gaussian, or nothing."""
    chain = chain_of(spec)
    if spec.instance is not None:
        return "gradients of an instance depend on the parameters"
    if chain.projection is not None:
        return "a projection is not linear"
    if chain.batch.scheme not in {Scheme.FULL, Scheme.CYCLIC}:
        return "its batches are hidden"
    if chain.batch.scheme is Scheme.CYCLIC and spec.relation is Relation.ADD_REMOVE:
        return "a record that is left out moves all others to other batches"
    if not ExtremalAxis(spec).is_gaussian:
        return "its noise is not Gaussian"
    if spec.average is not None and spec.average.noise.kind is not AverageNoiseKind.GAUSSIAN:
        return "the noise on the average is not Gaussian"
    return ""


class GroupedCanaries:
    """`groups` of `size` canaries, along an axis each, at `positions`, in the steps that the release remembers best.

    `pull` is the gradient of one, as long as constants allow, `shift` its effect in deviations of a score. `weights` of
    the released numbers give noise of variance 1; `through` is how much of the number before is in the next.
    """

    def __init__(self, spec: Spec) -> None:
        """As many canaries as fit; the chain has to be one that `why_not_linear` says nothing against."""
        self.spec = spec = shown_axes(spec)
        gap, _ = extremal_gap(spec)
        self.pull = gap / 2 if spec.relation is Relation.REPLACE_ONE else gap
        chain = chain_of(spec)
        # What runs releases the average of the parameters themselves.
        shown = spec if spec.average is None else spec.with_values({"average.lipschitz": 1.0})
        influence = Influence(shown, ExtremalAxis(spec))
        self.through, numbers, steps = influence.carry, len(influence.spread), len(influence.left)
        period = 1 if chain.batch.scheme is Scheme.FULL else chain.batches_per_epoch(spec.n)
        keys = influence.blocks * period + np.arange(steps) % period
        ratios = np.bincount(keys, influence.left, numbers * period).reshape(numbers, period)
        lengths = np.sqrt(np.square(ratios).sum(axis=0))
        place = int(np.argmax(lengths))  # the batch whose records show most
        if lengths[place] == 0.0:
            raise InputError("No record leaves a trace in what is released, so no canary can be planted.")
        self.weights = ratios[:, place] / (lengths[place] * influence.spread)
        self.shift = float(lengths[place]) * math.sqrt(chain.chains)
        size = chain.divisor(spec.n)
        standing = np.arange(place * size, min((place + 1) * size, spec.n))[:MOST_CANARIES]
        self.groups = min(_GROUPS, spec.dim, len(standing))
        self.size = len(standing) // self.groups
        drift = None if spec.problem is None else spec.problem.drift_bound
        if drift is not None:  # the mean pull of all groups together is a drift, too
            self.size = min(self.size, math.floor(drift.value * size / (self.pull * math.sqrt(self.groups))))
        if self.size < 1:
            raise InputError("The drift bound leaves no room for a canary along each axis.")
        self.positions = standing[: self.groups * self.size]
        self.fit = ChainFit(spec, ConstantPull(weight_decay=extremal_decay(spec)))

    def flipped(self, heads: Coins) -> Dataset:
        """The table that the coins decide: a group pulls forward, or backward, or under add-remove is not there."""
        rows = np.zeros((self.spec.n, self.spec.dim))
        group = np.repeat(np.arange(self.groups), self.size)
        side = np.where(np.asarray(heads, bool)[group], self.pull, -self.pull)
        rows[self.positions, group] = side
        if self.spec.relation is Relation.ADD_REMOVE:
            rows = np.delete(rows, self.positions[side < 0], axis=0)
        return Dataset(rows, np.zeros(len(rows)))

    def scores(self, release: Releases) -> Array:
        """One number for each axis, those of the groups first: normal with variance 1, and mean 0 without canaries."""
        chain = chain_of(self.spec)
        shown = np.asarray(release, float).reshape(chain.chains, len(self.weights), self.spec.dim)
        values = chain.start.values if isinstance(chain.start, PointStart) else None
        start = np.zeros(self.spec.dim) if values is None else np.asarray(values, float)
        before = np.concatenate([np.broadcast_to(start, (chain.chains, 1, self.spec.dim)), shown[:, :-1]], axis=1)
        return (self.weights @ (shown - self.through[:, None] * before)).sum(axis=0) / math.sqrt(chain.chains)
