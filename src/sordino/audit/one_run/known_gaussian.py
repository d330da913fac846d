"""One run with known Gaussian noise: the difference of mean scores bounds what one canary shifts.

A coin decides each group of canaries. Given the coins, group i has the score s_i = a + D_i c_i + sigma xi_i with
c_i = 1 for heads and 0 for tails (or 1/2 and -1/2), independent standard normal xi_i, and one baseline a for all. Then

    mean of heads - mean of tails ~ N(D, sigma^2 (1/h + 1/t)),   D at most the largest D_i,

and D_i is at most the number of canaries in the group times the largest shift of one of them, because shifts add up.
Two bounds on mu, the largest shift over sigma, share the failure probability, so that the larger one may be reported:

- *sigma as described*, which takes four fifths: a normal quantile. It tests how far a canary moves the answers, and
  takes the noise at its word.
- *sigma unknown*, one fifth: the statistic of Student's t-test is noncentral t, with the noncentrality as the unknown.
  It believes no description; noise that was left out, or is much too small, makes it large. Scores in which no canary
  has a part ("blanks") tell the noise as well.

What this needs, beyond guesses of coins (`theorem`): the score is a fixed linear function of answers to which Gaussian
noise was added, canaries that are out leave no trace in it, baselines are equal or known (unequal ones give false
alarms: 30 % instead of 5 % where their spread is 3), shifts of a group's canaries add up, and who takes part in which
step is fixed. Batches that are hidden are out: there epsilon does not follow from mu.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.audit.attack.experiment import Claim
from sordino.audit.lower_bound import Examined, LowerBound
from sordino.audit.method import AuditOptions
from sordino.audit.one_run.guesses import Coins
from sordino.core import gaussian
from sordino.core.errors import InputError
from sordino.core.validate import COUNT, OPEN_UNIT, instance_of, number, refuse, whole_number

# The share of the failure probability for the bound that takes the noise at its word.
_AS_DESCRIBED = 0.8
_ROUNDING = 1e-9
# By how much a score may be off, relative to the largest: runs are computed in single precision.
_SINGLE = 2e-6
_CELLS = 1024
_HALVINGS = 60


@dataclass(frozen=True)
class KnownGaussian:
    """The promise that scores are what this audit needs, and why.

    Attributes:
        reason: one sentence that says why noise, baselines and additivity are as needed.
        group: how many canaries one coin decides; their shifts add up.
        baseline: what every score is without canaries, where it is known; None where it is only known to be equal.
        mirrored: whether tails shift the other way (replace-one) or not at all (add-remove).
    """

    reason: str
    group: int = 1
    baseline: float | None = None
    mirrored: bool = False

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise refuse("reason", "to say why the noise of the scores is known and Gaussian", self.reason)
        whole_number("group", self.group, COUNT)
        if self.baseline is not None:
            number("baseline", self.baseline)


def mu_lower(
    scores: NDArray[np.floating],
    heads: Coins,
    known: KnownGaussian,
    confidence: float,
    blanks: NDArray[np.floating] | None = None,
) -> float:
    """Lower bound on the shift that one canary makes, in standard deviations of the score, rounded down.

    `scores` are in units of the described noise: their standard deviation is 1 if the noise is what it is said to be.
    `blanks` are scores of the same noise and baseline that no canary has a part in.
    """
    scores, heads = np.asarray(scores, np.float64), np.asarray(heads, bool)
    if scores.ndim != 1 or scores.shape != heads.shape or not np.isfinite(scores).all() or not len(scores):
        raise InputError(f"Expected one finite score for each of {heads.shape} coins, got shape {scores.shape}.")
    instance_of("known", known, KnownGaussian)
    failure = 1.0 - number("confidence", confidence, OPEN_UNIT)
    gap, spread, squares, freedom = _contrast(scores.astype(np.float64), heads, known)
    noise = np.zeros(0) if blanks is None else np.asarray(blanks, float)
    if len(noise) > 1:
        squares, freedom = squares + float(np.square(noise - noise.mean()).sum()), freedom + len(noise) - 1
    described = gap - spread * _normal(failure * _AS_DESCRIBED if freedom else failure)
    best = max(0.0, described)
    if freedom and gap > 0.0:
        deviation = math.sqrt(squares / freedom)
        ratio = math.inf if deviation == 0.0 else gap / (deviation * spread)
        best = spread * noncentrality_lower(ratio, freedom, failure * (1 - _AS_DESCRIBED), best / spread)
    best -= _SINGLE * float(np.abs(scores).max())
    return max(0.0, best * (1 - _ROUNDING) / known.group)


def _contrast(scores: NDArray[np.float64], heads: Coins, known: KnownGaussian) -> tuple[float, float, float, int]:
    """The estimated shift of a group, its standard deviation in those of a score, residual squares, and their number.

    With a known baseline a single coin is enough; otherwise both sides of the coins have to be there.
    """
    ups, downs = scores[heads], scores[~heads]
    if len(ups) and len(downs):
        gap = float(ups.mean() - downs.mean())
        squares = float(np.square(ups - ups.mean()).sum() + np.square(downs - downs.mean()).sum())
        return gap, math.sqrt(1 / len(ups) + 1 / len(downs)), squares, len(scores) - 2
    if known.baseline is None:
        raise InputError("Expected heads and tails among the coins where the baseline is not known, got one of them.")
    # s - baseline is D c: half of D up or down, or all of it.
    weight = 0.5 if known.mirrored else 1.0
    if not known.mirrored and not len(ups):
        return 0.0, 1.0, 0.0, 0
    signed = (ups if len(ups) else -downs) - (known.baseline if len(ups) else -known.baseline)
    gap = float(signed.mean()) / weight
    squares = float(np.square(signed - signed.mean()).sum())
    return gap, 1 / (weight * math.sqrt(len(signed))), squares, len(signed) - 1


def noncentrality_lower(ratio: float, freedom: int, failure: float, least: float = 0.0) -> float:
    """The largest noncentrality under which Student's statistic reaches `ratio` with at most this probability.

    `least` is answered where that is smaller. P(T >= t) is the mean of Phi(noncentrality - t sqrt(q / freedom)) over
    quantiles q of chi squared. It falls along them, so the sum over cells taken at their lower ends is an upper bound,
    and the answer is on the safe side.
    """
    if math.isinf(ratio):
        return math.inf
    lower, widths = _chi_cells(whole_number("freedom", freedom, COUNT))

    def refuted(noncentrality: float) -> bool:
        return float(widths @ special.ndtr(noncentrality - ratio * lower)) * (1 + _ROUNDING) <= failure

    if not refuted(least):
        return least
    low, high = least, ratio * float(lower[-1]) + 10.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


@cache
def _chi_cells(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """sqrt(chi squared / freedom) at the lower ends of cells of probability, finer towards 0, and what they hold."""
    edges = np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    quantiles = 2 * special.gammaincinv(freedom / 2, edges[:-1])
    return np.sqrt(quantiles / freedom) * (1 - _ROUNDING), np.diff(edges)


def _normal(failure: float) -> float:
    """The number a standard normal exceeds with this probability, rounded up."""
    return float(-special.ndtri(failure)) * (1 + _ROUNDING)


def bound_from_scores(
    scores: NDArray[np.floating],
    heads: Coins,
    known: KnownGaussian,
    claim: Claim,
    options: AuditOptions,
    evidence: str,
    blanks: NDArray[np.floating] | None = None,
) -> LowerBound:
    """The lower bound of one run whose scores, one for each coin, have known Gaussian noise.

    It holds with `options.confidence` wherever what `known` promises is true.
    """
    mu = mu_lower(scores, heads, known, options.confidence, blanks)
    fresh = "drawn afresh from the operating system" if options.seed is None else f"drawn from the seed {options.seed}"
    return LowerBound(
        epsilon=math.inf if math.isinf(mu) else gaussian.epsilon_lower(mu, options.delta),
        delta=options.delta,
        relation=claim.relation,
        view=claim.view,
        method="one-run",
        confidence=options.confidence,
        counts=(
            ("models", 1),
            ("canaries", len(scores) * known.group),
            ("coins", len(scores)),
            ("heads", int(np.asarray(heads).sum())),
            ("scores without a canary", 0 if blanks is None else len(blanks)),
        ),
        cap=None,
        examined=Examined.RUN,
        seed_policy=f"Coins and run are {fresh} of the audit.",
        evidence=f"{evidence}; difference of mean scores under known Gaussian noise: {known.reason}",
    )
