"""The posterior of a fit: draws of coefficients, and what their widths are made of.

The likelihood is that of the mean gradient at the last point. Its mean is slopes times (coefficients - point); its
covariance is sampling (sandwich), noise, and what corrections leave open. Slopes that noise leaves open are drawn, so
that each draw agrees with the differences between gradients at all points (`secants`), and
coefficients given slopes and the prior's factors are normal; factors are drawn given coefficients (Gibbs). Random
numbers are public: a posterior is a function of the plan and the released sums.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.results import PRIOR_DOMINATED
from sordino.mechanisms.posterior.coefficients import tails, weighted_quantiles
from sordino.mechanisms.regression.learn import Learned, settled
from sordino.mechanisms.regression.noised import floored, inverse_of, roots_of_precisions
from sordino.mechanisms.regression.plan import Plan
from sordino.mechanisms.regression.prior import Effects, ModelRows
from sordino.mechanisms.regression.release import Released, learned

DRAWS = 2000
# Chains run side by side, each with slopes of its own; fewer where matrices are large, a limit of time.
_CHAINS, _MOST_ENTRIES = 200, 250_000
_BURN = 12  # turns before draws are kept: factors are nearly independent of where they began after a few
# The error of the last step along a straight line, relative to its length: half of that of earlier steps, since half of
# the way is corrected for.
_BEND_LAST = 0.25
# Drawn slopes are never below this share of what was read of them, in any direction: one that is known to no better
# than a factor of 4 is as good as unknown, and draws near 0 would make means of coefficients arbitrary.
_FLOOR = 0.25
_SEED = 20_361
# A last point that is further from the solution than this many posterior standard deviations has not converged. Where
# rounds have, a coefficient's distance is about 1, and that of a dozen together hardly above 1.5.
UNSETTLED = 1.5
_STRAIGHT = 0.1  # a step along which slopes change by less than this share is straight
OPEN_SLOPES = 0.3  # noise of slopes, as a share of them, from which on what is read of them is mostly their prior
# A coefficient's slope is hidden where its floor is not two standard deviations of what is open below it.
_HIDDEN = 0.5 * (1.0 - _FLOOR)
# Where along a coefficient the bend of the mean gradient is looked at, in standard deviations; and how far it must move
# on both sides, in the same, for data to bound the coefficient. Of two, one in forty coefficients that data say nothing
# of would seem bounded, all wrongly; where most of a table's are such, these would be most of those that are reported.
_PLACES = np.array([-4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
_BOUNDED = 3.0
# The least share of a coefficient's precision that is taken to come from data.
_LEAST_FROM_DATA = 1e-6
# Beyond these places gradients are taken to move by at least this share of what a straight line does.
_LEAST_BEND = 0.25


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of encoded coefficients, intercept first (outputs innermost), and shares of their variances."""

    plan: Plan
    draws: Array  # (draws, coefficients) in encoded units; targets that are numbers in their own units
    parts: Array  # (3, coefficients, coefficients): what sampling, privacy and the prior give to the covariance
    scale: float  # of errors of targets that are numbers, in their own units; 0 elsewhere
    scale_error: float  # relative
    dispersion: float  # of counts, as it was read; 0 elsewhere
    far: float  # from the last point to the root of its equation, in posterior standard deviations
    slopes_noise: float  # as a share of slopes

    @cached_property
    def shares(self) -> Array:
        """(3, coefficients): shares of each variance that are sampling, privacy and prior."""
        found = np.diagonal(self.parts, axis1=1, axis2=2)
        return found / np.maximum(found.sum(axis=0), 1e-300)

    @cached_property
    def mean(self) -> Array:
        return self.draws.mean(axis=0)

    @cached_property
    def deviation(self) -> Array:
        return self.draws.std(axis=0)

    @property
    def prior_dominated(self) -> NDArray[np.bool_]:
        """Coefficients that say more about the declared size of effects than about the table."""
        return self.shares[2] >= PRIOR_DOMINATED

    def interval(self, level: float) -> Array:
        """Central intervals of every coefficient, (coefficients, 2)."""
        return weighted_quantiles(self.draws, np.full(len(self.draws), 1.0 / len(self.draws)), tails(level))


def posterior(plan: Plan, released: Released) -> Posterior:
    """The posterior of the encoded coefficients, read from a release."""
    known = released.learned or learned(plan, lambda _, one: released.sums[one.name])
    generator = np.random.default_rng([_SEED, plan.coefficients])
    effects, last, size = known.effects, known.last, plan.coefficients
    covariance = known.sampling + known.extra + last.noise * np.eye(size)
    inverse = inverse_of(covariance)
    middle, factors = settled(effects, last, inverse)
    chains = int(np.clip(_MOST_ENTRIES // size**2, 20, _CHAINS))
    noise = np.triu(generator.standard_normal((chains, size, size)))
    noise = noise + np.swapaxes(np.triu(noise, 1), 1, 2)
    drawn = last.secants.condition(last.read + noise * np.sqrt(last.open), generator)
    slopes = floored(drawn, last.slopes, _FLOOR)
    way, turned = last.rows.moved(last.at, middle)
    # The mean gradient at m, for slopes S at the point: g + S (away - way); and its slope there: S turned.
    gradients, turned_slopes = last.gradient + (slopes @ (last.away - way)), slopes @ turned
    weighed = np.swapaxes(turned_slopes, 1, 2) @ inverse
    pull = np.einsum("sij,sj->si", weighed, gradients + np.einsum("sij,j->si", turned_slopes, middle))
    draws = _gibbs(effects, weighed @ turned_slopes, pull, factors, generator).reshape(-1, size)
    whole, precision = last.slopes @ turned, effects.precision(factors)
    total = inverse_of(whole.T @ inverse @ whole + precision)
    half = plan.kind.half
    encode = np.kron(np.eye(1 + plan.declaration.columns), plan.kind.contrasts) @ known.to_encoded
    own = np.kron(effects.own_precision(factors), 1.0 / np.sum(plan.kind.contrasts**2, axis=1))
    encoded, unbounded, far = _encoded(plan, known, draws, total, encode, own, generator)
    gain = total @ whole.T @ inverse
    parts = (gain @ known.sampling @ gain.T, gain @ (covariance - known.sampling) @ gain.T, total @ precision @ total)
    # A coefficient is a sum over the gradient in one direction. Where noise hides the slope along it, or the mean of
    # the target hardly moves with it, its interval depends on what slopes are drawn to: all of it counts as prior.
    along = encode @ inverse_of(last.slopes)
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    seen = np.einsum("ij,sji->si", along, drawn @ along.T)
    hidden = seen.std(axis=0) > _HIDDEN * np.einsum("ij,jk,ik->i", along, last.slopes, along)
    hidden |= unbounded
    sampling, privacy, prior = (half**2 * encode @ one @ encode.T for one in parts)
    both = np.outer(~hidden, ~hidden)
    prior = prior + np.where(both, 0.0, sampling + privacy)
    sampling, privacy = np.where(both, sampling, 0.0), np.where(both, privacy, 0.0)
    encoded[:, : plan.outputs] += plan.kind.middle
    # Parts of the covariance at the read slopes and likely factors; draws of these add to each in proportion.
    wider = encoded.std(axis=0) / np.sqrt(np.diag(sampling + privacy + prior))
    return Posterior(
        plan,
        encoded,
        np.array([sampling, privacy, prior]) * np.outer(wider, wider),
        half * known.scale,
        known.scale_error,
        known.dispersion,
        far,
        last.slopes_noise,
    )


def _encoded(
    plan: Plan, known: Learned, draws: Array, total: Array, encode: Array, own: Array, generator: np.random.Generator
) -> tuple[Array, NDArray[np.bool_], float]:
    """Draws in encoded units, spread by what the last step leaves open; `_stretch`'s answer; and how far it went."""
    centre = draws.mean(axis=0)
    step = centre - known.last.at
    length = known.bend * float(np.linalg.norm(step))
    far = math.sqrt(max(float(step @ inverse_of(np.atleast_2d(np.cov(draws.T))) @ step), 0.0) / len(step))
    # A last point that is far from the solution has slopes of another place: draws are spread by as much. Not where
    # slopes hardly change on the way, nor where the last point alone corrects for what is cut and so moves on purpose.
    if plan.corrected or length < _STRAIGHT:
        far = min(far, UNSETTLED)
    found = centre + max(1.0, far / UNSETTLED) * (draws - centre)
    found = found + generator.standard_normal((len(found), 1)) * min(0.5, 0.5 * _BEND_LAST * length) * step
    if known.moved[1]:
        found[:, 0] += known.moved[0] + known.moved[1] * generator.standard_normal(len(found))
    encoded = plan.kind.half * (found @ encode.T)
    return encoded, _stretch(known.last.rows, centre, total, encode, own, encoded), far


def _stretch(rows: ModelRows, t: Array, total: Array, encode: Array, own: Array, encoded: Array) -> NDArray[np.bool_]:
    """Bend draws of coefficients in place as the mean gradient bends along them; which of them data do not bound.

    Draws are those of a straight line. Where few targets are expected the mean gradient flattens, and the value that
    explains it is further away than a straight line says. No draw comes nearer than it was. Data bound a coefficient
    where the gradient moves far enough on both sides in what data alone say of it: its posterior precision less that
    of its `own` prior.
    """
    unbounded = np.zeros(len(encode), np.bool_)
    if not rows.curve:
        return unbounded
    along = encode @ total
    variances = np.einsum("ij,ij->i", along, encode)
    by_data = np.sqrt(variances / np.maximum(1.0 - variances * own, _LEAST_FROM_DATA))
    for i, (direction, deviation) in enumerate(zip(along / variances[:, None], np.sqrt(variances), strict=True)):
        places = deviation * _PLACES
        seen = rows.bent(t, direction, places)
        ends = np.maximum(np.diff(seen)[[0, -1]] / np.diff(places)[[0, -1]], _LEAST_BEND)
        middle = float(np.median(encoded[:, i]))
        away = encoded[:, i] - middle
        found = np.interp(away, seen, places)
        found += np.minimum(away - seen[0], 0.0) / ends[0] + np.maximum(away - seen[-1], 0.0) / ends[1]
        encoded[:, i] = middle + np.sign(away) * np.maximum(np.abs(away), np.abs(found))
        low, _, high = rows.bent(t, direction, by_data[i] * _PLACES[[0, len(_PLACES) // 2, -1]])
        unbounded[i] = min(-low, high) < _BOUNDED * by_data[i]
    return unbounded


def _gibbs(effects: Effects, known: Array, pull: Array, factors: Array, generator: np.random.Generator) -> Array:
    """Draws, (turns, chains, coefficients): coefficients given factors, factors given coefficients."""
    chains, size = pull.shape
    factors, kept = np.repeat(factors[None], chains, axis=0), []
    for turn in range(_BURN + math.ceil(DRAWS / chains)):
        prior = effects.precision(factors)
        root, scale = roots_of_precisions(known + prior)
        right = np.einsum("sij,sj->si", root, (pull + effects.intercept * effects.middle) / scale)
        right = right + generator.standard_normal((chains, size))
        t = np.einsum("sji,sj->si", root, right) / scale
        factors = effects.drawn_factors(t, generator)
        if turn >= _BURN:
            kept.append(t)
    return np.array(kept)
