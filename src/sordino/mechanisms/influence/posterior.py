"""The posterior of the coefficients given everything that was released, and what its widths are made of.

For families whose mean gradient is nearly straight in the coefficients the posterior is a mixture of normal laws, one
for each common scale of effects. For curved ones it is drawn by importance sampling around the Gaussian approximation.
Where noise leaves slopes of targets that are numbers open, they are drawn too (`slopes`). All are post-processing, with
public random numbers: a posterior is a function of the plan and the released sums.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array, weighted_quantiles
from sordino.core.validate import OPEN_UNIT, Interval, number
from sordino.mechanisms.influence.evidence import Evidence, Local, squares_in
from sordino.mechanisms.influence.plan import Plan
from sordino.mechanisms.influence.readings import public_numbers
from sordino.mechanisms.influence.release import Followed, Released
from sordino.mechanisms.influence.slopes import LEAST_OPEN, MOST_COEFFICIENTS, over_slopes
from sordino.mechanisms.posterior.coefficients import PRIOR_DOMINATED

DRAWS = 2000
# Tails of proposals in importance sampling are those of a t law.
_DEGREES, _WIDER = 7.0, 1.15
# Degrees of freedom of what noise leaves open, the factor that goes with them, and the share of a variance from which
# on they hold in full; and the share that sampling and privacy have to make up for that, since what the prior holds has
# the prior's law, with the power by which tails fade below it. Found on drawn tables (`bench/coverage.py`, 399 cells):
# with normal draws, 50, 90 and 95 % intervals were too wide by factors of 1 + .44 s, 1 + .18 s and 1 + .07 s, s being
# the share that is open. A power of 2 left 50 % intervals of three classes too narrow where the prior makes up half; 3
# was tried on 940 tables of two such cells, and 4 judged on 4,000 others of each.
_TAILS, _FULL, _OWN, _FADE = (8.0, 0.838, 1.0), 0.25, 0.6, 4
# The same where slopes are drawn, with the power of the stretch. A correlation that noise hides is either small or
# large, and drawn slopes have one law between the two: where a pair is correlated .8 and the scatter does not show it,
# its coefficients are held by 83 % of 95 % intervals and all others by 95 to 98 %, so errors have longer tails than the
# draws. The factor keeps 50 % intervals as they would be without tails. Found on 60 to 120 tables of seven cells; a
# power of .25 left 95 % intervals of correlated columns at 92.5 (3,000 tables), and .65 brought them to 94 (2,400) with
# scores that were 1 to 2 % larger. Drawing correlations from their two laws themselves was tried: errors grew by 4 %
# and nothing was held more often.
_DRAWN_TAILS = (5.0, 0.935, 0.5)
# All draws are spread by this much around their mean, on purpose. Cells of the grid lie around the nominal level, and
# an interval that holds less often than it says does more harm than one that holds more often: this moves all of them
# up, by .6, .5 and .3 points at 50, 90 and 95 %, and costs 1.5 % of every width. Not where units have several records:
# shares that noise hides are read as more than those of unlike records, and such cells lie above by themselves.
MARGIN = 1.015


@dataclass(frozen=True, eq=False)
class Posterior:
    """Weighted draws of encoded coefficients, intercept first (outputs innermost), and shares of their variances.

    Attributes:
        plan: what was planned.
        draws: (draws, coefficients) in encoded units; targets that are numbers in their own units.
        weights: of the draws, adding up to 1.
        parts: (3, coefficients, coefficients): what sampling, privacy and the prior give to the covariance of the
            Gaussian approximation, in the same units.
        scale: of errors of targets that are numbers, in their own units; 0 elsewhere.
        scale_error: the relative error of that.
        dispersion: of counts, as it was read; 0 elsewhere.
    """

    plan: Plan
    draws: Array
    weights: Array
    parts: Array
    scale: float = 0.0
    scale_error: float = 0.0
    dispersion: float = 0.0

    @cached_property
    def _shares(self) -> Array:
        found = np.diagonal(self.parts, axis1=1, axis2=2)
        return found / found.sum(axis=0)

    @property
    def sampling(self) -> Array:
        """For each coefficient the share of its posterior variance that is sampling error."""
        return self._shares[0]

    @property
    def privacy(self) -> Array:
        """The share that is noise, and what noise leaves open about the rows."""
        return self._shares[1]

    @property
    def prior(self) -> Array:
        """The share that the prior holds; the three add up to 1."""
        return self._shares[2]

    @cached_property
    def mean(self) -> Array:
        """Of every coefficient."""
        return self.weights @ self.draws

    @cached_property
    def covariance(self) -> Array:
        """Of all coefficients."""
        away = self.draws - self.mean
        return (away * self.weights[:, None]).T @ away

    @property
    def deviation(self) -> Array:
        """Standard errors: the posterior's standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def prior_dominated(self) -> NDArray[np.bool_]:
        """Coefficients that say more about the declared size of effects than about the table."""
        return self.prior >= PRIOR_DOMINATED

    @property
    def widened(self) -> Array:
        """By what factor privacy widens each interval: 1.12 reads "12 % wider"."""
        return np.sqrt((self.sampling + self.privacy) / np.maximum(self.sampling, 1e-12))

    def interval(self, level: float) -> Array:
        """Central intervals of every coefficient, (coefficients, 2)."""
        number("level", level, OPEN_UNIT)
        return weighted_quantiles(self.draws, self.weights, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])

    def in_table_units(self) -> tuple[Array, Array]:
        """Draws of the coefficients in the table's units, intercept first, and their weights."""
        matrix, constant = self.plan.declaration.to_table(self.plan.outputs)
        return self.draws @ matrix.T + constant, self.weights


def posterior(plan: Plan, released: Released, *, widening: float = 1.0) -> Posterior:
    """Read a release.

    Args:
        plan: the plan of the release.
        released: the noised sums.
        widening: a factor by which draws are spread around their mean, see `calibrate.widening`.

    Returns:
        The posterior of the encoded coefficients.
    """
    known = released.followed
    if known is None or known.plan is not plan:
        known = Followed(plan)
        known.follow(released)
    evidence = known.evidence
    theta, covariance = evidence.centre()
    local = evidence.local(theta, covariance)
    parts, left_open = _parts(evidence, theta, covariance, local)
    generator = public_numbers(3)
    bends = _bends(evidence, covariance)
    slopes_open = plan.kind.reads == "location" and plan.coefficients <= MOST_COEFFICIENTS
    slopes_open = slopes_open and float(np.mean(left_open)) > LEAST_OPEN
    if slopes_open:
        draws, weights = over_slopes(evidence, theta, covariance, generator, DRAWS, bends=bends)
    else:
        drawn = _sampled if plan.in_matrix and (plan.kind.curved or bends) else _mixed
        draws, weights = drawn(evidence, theta, covariance, local, generator)
    half, middle = plan.kind.units(plan.declaration)
    encoded = half * (draws @ evidence.to_encoded.T)
    encoded[:, : plan.outputs] += middle
    mean = weights @ encoded
    # Slopes that are drawn bring their own tails, nearly.
    tails, share = (_DRAWN_TAILS, np.ones(len(mean))) if slopes_open else (_TAILS, np.minimum(left_open / _FULL, 1.0))
    margin = 1.0 if plan.declaration.grouped else MARGIN
    away = margin * _with_tails(encoded - mean, weights, tails, share, generator)
    if widening != 1.0:
        away = number("widening", widening, Interval(1.0)) * away
    encoded = mean + away
    scale, error = known.residual_scale if plan.kind.reads == "location" else (0.0, 0.0)
    dispersion = known.at.dispersion if plan.kind.reads == "counts" else 0.0
    return Posterior(plan, encoded, weights, half**2 * parts, half * scale, error, dispersion)


def _with_tails(
    away: Array, weights: Array, tails: tuple[float, float, float], share: Array, generator: np.random.Generator
) -> Array:
    """Draws less their mean, with the tails of a t law as far as noise left slopes open.

    The slope that noise is divided by is known up to a factor itself, so errors are a mixture of narrow and wide laws:
    more of them are small, and a few are larger, than a normal law of the same variance has.
    """
    degrees, factor, power = tails
    stretch = factor * np.sqrt(degrees / generator.chisquare(degrees, len(away))) ** power
    found = away * stretch[:, None] ** share
    return found - weights @ found


def _parts(evidence: Evidence, theta: Array, covariance: Array, local: Local) -> tuple[Array, Array]:
    """Covariances from sampling, privacy and prior, of encoded coefficients; and what noise leaves open of variances.

    With slopes J, residual covariance C and prior precision P, the posterior covariance is V = (J'C^-1 J + P)^-1. Write
    G = V J'C^-1. Then V = G C G' + V P V, and C is the sum of a sampling and a privacy part: three parts, all positive.
    Privacy is the noise of the gradients and the rest, which is what all noise leaves open about slopes.
    """
    slopes, known = local.slopes, np.linalg.solve(local.sampling + local.privacy, local.slopes)
    precision = evidence.prior.precision(evidence.prior.inverse_square(theta, covariance))[0]
    total = np.linalg.inv(known.T @ slopes + precision)
    gain, encode = total @ known.T, evidence.to_encoded
    found = (gain @ local.sampling @ gain.T, gain @ local.privacy @ gain.T, total @ precision @ total)
    parts = np.array([encode @ matrix @ encode.T for matrix in found])
    variances = np.diagonal(parts, axis1=1, axis2=2)
    noises = np.repeat([one.noise**2 for one in evidence.rounds], evidence.size)
    noise, whole = (encode @ gain) ** 2 @ noises, variances.sum(axis=0)
    # What the prior holds has the prior's law.
    kept = np.minimum((1.0 - variances[2] / whole) / _OWN, 1.0) ** _FADE
    return parts, kept * np.maximum(variances[1] - noise, 0.0) / whole


def _mixed(
    evidence: Evidence, theta: Array, covariance: Array, local: Local, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Draws of the mixture over common scales of effects, the mean gradient taken as straight around its centre."""
    del covariance
    weighted = np.linalg.solve(local.sampling + local.privacy, local.slopes)
    known = weighted.T @ local.slopes
    right = weighted.T @ (local.residuals + local.slopes @ theta)
    laws, logs = [], []
    for scale, weight in evidence.prior.scales:
        precision, pull = evidence.prior.precision(1.0 / scale**2)
        spread = np.linalg.inv(known + precision)
        middle = spread @ (right + pull)
        half = 0.5 * (right + pull) @ middle + 0.5 * np.linalg.slogdet(spread)[1]
        half -= len(evidence.prior.slopes) * np.log(scale)
        logs.append(evidence.prior.temper * half + np.log(weight))
        laws.append((middle, np.linalg.cholesky((spread + spread.T) / 2.0)))
    weights = np.exp(np.array(logs) - max(logs))
    counts = np.maximum(np.rint(DRAWS * weights / weights.sum()).astype(int), 0)
    counts[np.argmax(counts)] += DRAWS - counts.sum()  # as many as ever, whatever was answered
    normal = generator.standard_normal((max(int(counts.sum()), 2) // 2 + 1, evidence.size))
    normal = np.concatenate([normal, -normal])[generator.permutation(2 * len(normal))]
    draws, first = [], 0
    for (middle, root), count in zip(laws, counts, strict=True):
        draws.append(middle + normal[first : first + count] @ root.T)
        first += count
    found = np.concatenate(draws)
    return found, np.full(len(found), 1.0 / len(found))


def _sampled(
    evidence: Evidence, theta: Array, covariance: Array, local: Local, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Importance sampling with a t law around the current mean, in a few rounds."""
    size = evidence.size
    draws, weights = theta[None], np.ones(1)
    for step in range(3):
        count = DRAWS if step == 2 else DRAWS // 3 // 2 * 2
        local = evidence.local(theta, covariance) if step else local
        whiten = np.linalg.cholesky(local.sampling + local.privacy)
        root = np.linalg.cholesky(covariance * _WIDER + 1e-14 * np.eye(size))
        half = generator.standard_normal((count // 2, size))
        normal = np.concatenate([half, -half])
        stretch = np.sqrt(_DEGREES / generator.chisquare(_DEGREES, len(normal)))
        draws = theta + (normal * stretch[:, None]) @ root.T
        lengths = np.sum(normal**2, axis=1) * stretch**2
        away = np.linalg.solve(whiten, _residuals(evidence, draws, local.opened, theta).T)
        logs = evidence.prior.log(draws) - 0.5 * np.sum(away**2, axis=0)
        logs += 0.5 * (_DEGREES + size) * np.log1p(lengths / _DEGREES)
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        capped = np.minimum(weights, 10.0 / len(weights))
        capped /= capped.sum()
        theta = capped @ draws
        moved = draws - theta
        trust = min(1.0, 1.0 / float(np.sum(capped**2)) / (8.0 * size))
        covariance = trust * (moved * capped[:, None]).T @ moved + (1.0 - trust) * covariance
    return draws, weights


def _residuals(evidence: Evidence, draws: Array, opened: Array, middle: Array) -> Array:
    """Residuals of draws; mean gradients of a curved family differ between rounds by a constant, so one is enough."""
    found, last = [], evidence.rounds[-1]
    shared = evidence.some_means(draws, last, middle) if evidence.family.curved else None
    for one in evidence.rounds:
        if shared is None:
            mean = evidence.some_means(draws, one, middle)
        else:
            mean = shared + (evidence.mean(last.point, one) - evidence.mean(last.point, last))
        found.append(one.gradient - mean - (draws - one.point) @ opened)
    return np.concatenate(found, axis=-1)


def _bends(evidence: Evidence, covariance: Array) -> bool:
    """Whether scores are open by so much that the mean of a residual that is cut is not straight in them.

    That is a matter of the rows whose scores are most open, such as those of a rare category: where all rows are alike,
    as columns that fill their bounds make them, scores may be open by more on average.
    """
    if evidence.family.reads != "location":
        return False
    open_scores = np.sqrt(squares_in(covariance, evidence.rows))
    at = evidence.rounds[-1].at
    return float(np.quantile(open_scores, _FARTHEST)) > _STRAIGHT * at.clip * at.scale


# Mean gradients of cut residuals are straight while scores of all but a few rows are known to this share of the cut.
_FARTHEST, _STRAIGHT = 0.98, 0.55
