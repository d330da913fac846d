"""Draws of coefficients over what noise leaves open about slopes, for targets that are numbers.

A coefficient is a gradient over a slope, so an error of the slope is a factor and no summand. Where two columns are
nearly collinear and noise hides it, the slope of their difference is a third of what was read: the estimate is a third
of the effect, and an error that is added in proportion to the estimate is too small by as much. So slopes are drawn:

    S_k = S^(1/2) exp(E_k - m) S^(1/2),   S the mean slope, E_k symmetric with the variances of D over S,

which are positive whatever noise says, and have about the mean S (m is half the mean of E_k^2). Given one of them the
posterior is a mixture of normal laws over common scales of effects, and slopes weigh by how likely they make the
released gradients. How far slopes are open is itself a guess, so the E_k have tails. Where the mean gradient of cut
residuals bends, draws are weighed by the ratio of what they are worth to what its tangent says.
"""

import numpy as np

from sordino.core.arrays import Array
from sordino.mechanisms.influence.evidence import Evidence, Local
from sordino.mechanisms.influence.whitening import positive_mean, root, turned_variances

# How many slopes are drawn, in pairs of opposite sign.
SLOPES = 48
# Degrees of freedom of how far slopes are open, and the factors that go with them: about the same spread of the bulk
# where a quarter of the columns or more are 0/1, whose shares are read with errors that are no small part of them; less
# where all columns are numbers, whose spreads are read from many bins and from the scatter.
_DEGREES, _FACTOR, _OF_NUMBERS, _ENOUGH = 5.0, 0.8, 0.65, 0.25
# A slope in an axis is at least this share of the mean slope, and a drawn one is within these powers of e of it.
_LEAST, _GROWN = 0.01, (-6.0, 3.0)
# No draw weighs more than so many.
_HEAVIEST = 20.0
# Below this mean share of variances nothing is drawn, nor above so many coefficients: it takes their third power.
LEAST_OPEN, MOST_COEFFICIENTS = 0.04, 40


def over_slopes(
    evidence: Evidence, theta: Array, covariance: Array, generator: np.random.Generator, draws: int, *, bends: bool
) -> tuple[Array, Array]:
    """So many draws of whitened coefficients and their weights, around a Gaussian approximation."""
    rounds, size = evidence.rounds, evidence.size
    local, opened = evidence.local_given_slopes(theta, covariance)
    declaration = evidence.plan.declaration
    flags = 1.0 - len(declaration.numbers) / declaration.columns
    factor = _OF_NUMBERS + (_FACTOR - _OF_NUMBERS) * min(1.0, flags / _ENOUGH)
    moved = _moved(local.slopes[-size:], opened.variances, opened.factor**0.5 * opened.left, generator, factor)
    whiten: Array = np.asarray(np.linalg.inv(np.linalg.cholesky(local.sampling + local.privacy)), np.float64)
    # Gradients less what each slope says of the points where they were asked, and the slopes themselves.
    points = np.concatenate([(theta - one.point) @ moved for one in rounds], axis=-1)
    slopes = whiten @ (local.slopes + np.tile(moved, (1, len(rounds), 1)))
    right = (local.residuals - points) @ whiten.T + slopes @ theta
    known, pulled = slopes.swapaxes(1, 2) @ slopes, np.einsum("kij,ki->kj", slopes, right)
    middles, roots, logs = [], [], []
    for scale, weight in evidence.prior.scales:
        precision, pull = evidence.prior.precision(1.0 / scale**2)
        spread = np.linalg.inv(known + precision)
        middle = np.einsum("kij,kj->ki", spread, pulled + pull)
        half = 0.5 * np.sum((pulled + pull) * middle, axis=1) + 0.5 * np.linalg.slogdet(spread)[1]
        half -= len(evidence.prior.slopes) * np.log(scale)
        logs.append(evidence.prior.temper * half + np.log(weight) - 0.5 * np.sum(right**2, axis=1))
        middles.append(middle)
        roots.append(np.linalg.cholesky((spread + spread.swapaxes(1, 2)) / 2.0))
    flat = np.concatenate(logs)
    weights = np.exp(flat - flat.max())
    chosen = np.sort(generator.choice(len(flat), draws, p=weights / weights.sum()))
    normal = generator.standard_normal((draws, size))
    found = np.concatenate(middles)[chosen] + np.einsum("dij,dj->di", np.concatenate(roots)[chosen], normal)
    if not bends:
        return found, np.full(draws, 1.0 / draws)
    return found, _bent(evidence, theta, local, moved[chosen % len(moved)], whiten, found)


def _moved(
    slope: Array, variances: Array, common: Array, generator: np.random.Generator, factor: float = _FACTOR
) -> Array:
    """Drawn slopes less the one that was read, (slopes, size, size); every drawn slope is positive.

    Their mean is the slope that was read, but for axes in which it is not clearly above 0, such as those of columns
    that are nearly collinear: there it is the mean of what was read given that it is positive. Without that a draw now
    and then had a slope near 0 or below, and the coefficients that go with it.
    """
    size, half = len(slope), SLOPES // 2
    upper = np.triu(generator.standard_normal((half, size, size)))
    entries = np.sqrt(variances) * (upper + np.triu(upper, 1).swapaxes(1, 2))
    entries = entries + common * generator.standard_normal((half, 1, 1))
    entries *= factor * np.sqrt(_DEGREES / generator.chisquare(_DEGREES, (half, 1, 1)))
    values, axes = np.linalg.eigh((slope + slope.T) / 2.0)
    errors = np.sqrt(np.diag(turned_variances(variances, axes)) + np.diag(axes.T @ common @ axes) ** 2)
    read = np.maximum(positive_mean(values, np.maximum(errors, 1e-12)), _LEAST * float(np.mean(np.diag(slope))))
    own = root((axes * read) @ axes.T)
    inverse = np.linalg.inv(own)
    relative = inverse @ np.concatenate([entries, -entries]) @ inverse
    values, vectors = np.linalg.eigh(relative - 0.5 * np.mean(relative @ relative, axis=0))
    grown = (vectors * np.exp(np.clip(values, *_GROWN))[:, None, :]) @ vectors.swapaxes(1, 2)
    return np.asarray(own @ grown @ own - slope, np.float64)


def _bent(evidence: Evidence, theta: Array, local: Local, moved: Array, whiten: Array, draws: Array) -> Array:
    """Weights of draws: the likelihood of the gradients with mean gradients as they are, over that of tangents."""
    size, exact, straight = evidence.size, [], []
    for place, one in enumerate(evidence.rounds):
        part = slice(place * size, (place + 1) * size)
        away = draws - one.point
        turned = np.einsum("dij,dj->di", moved, away)
        exact.append(one.gradient - evidence.some_means(draws, one, theta) - away @ local.opened - turned)
        # `local.residuals` are at theta: what the drawn slopes take off there is in `turned` already.
        straight.append(local.residuals[part] - (draws - theta) @ local.slopes[part].T - turned)
    lengths = [np.sum((np.concatenate(one, axis=1) @ whiten.T) ** 2, axis=1) for one in (exact, straight)]
    logs = 0.5 * (lengths[1] - lengths[0])
    weights = np.exp(logs - logs.max())
    weights = np.minimum(weights / weights.sum(), _HEAVIEST / len(weights))
    return np.asarray(weights / weights.sum(), np.float64)
