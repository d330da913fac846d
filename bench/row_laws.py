"""Laws of what the reference of `augmentation.py` draws: columns, targets given scores, and coefficients.

The law of columns. What the engine does not know, the reference does not know either: the place and spread of every
number, the share of every 0/1 column and all correlations are drawn, with the engine's own priors for them. Numbers
have a declared shape (uniform, normal, skewed) and a normal copula. `known` fixes the law at given values: a reader who
knows more than the engine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special
from sordino.algorithm.influence import Plan
from sordino.algorithm.influence.effects import EFFECT_SCALES, EFFECT_WEIGHTS

# Priors of the law of columns, as in `readings`: variance of places, log spreads, shares, and correlations.
PLACE, SPREAD, SHARE = math.sqrt(0.15), (math.log(0.33), 0.6), (0.53, 1.59)
CORRELATIONS = ((0.8, 0.1), (0.2, 0.45))
# The share of each that lies between -1 and 1 counts.
_LIKELY = [weight * (2.0 * special.ndtr(1.0 / spread) - 1.0) for weight, spread in CORRELATIONS]


def beyond(correlation: float) -> float:
    """How likely it is before anything is seen that a pair's correlation has at least this size."""
    each = (
        2.0 * weight * (special.ndtr(1.0 / spread) - special.ndtr(correlation / spread))
        for weight, spread in CORRELATIONS
    )
    return float(sum(each) / sum(_LIKELY))


# Of the log of the deviation of errors, over half the range of the target.
ERROR = (math.log(0.1), 0.6)
_GRID = np.linspace(-6.0, 6.0, 2401)


def _standard(values: np.ndarray) -> np.ndarray:
    weights = np.exp(-0.5 * _GRID**2)
    weights /= weights.sum()
    mean = weights @ values
    return (values - mean) / math.sqrt(weights @ (values - mean) ** 2)


# Quantiles of other shapes than normal and uniform, of mean 0 and variance 1, over those of a normal law.
SHAPES = {
    "skewed": _standard(special.betaincinv(2.0, 8.0, special.ndtr(_GRID))),
}


class ColumnLaw:
    """Rows of numbers and 0/1 columns: shapes, and parameters (places, log spreads, logits of shares, correlations).

    Correlations are those of the copula, one for each pair: row j of its triangular root is (a_j1, ..., 1), made as
    long as 1. a / sqrt(1 + a^2), the correlation of the pair where the row has no other, has the engine's prior.
    """

    def __init__(self, shapes: tuple[str, ...], known: np.ndarray | None = None) -> None:
        self.shapes, self.known, self.columns = shapes, known, len(shapes)
        self.numbers = np.array([i for i, one in enumerate(shapes) if one != "flag"], int)
        self.flags = np.array([i for i, one in enumerate(shapes) if one == "flag"], int)
        self.lower = np.tril_indices(self.columns, -1)
        sizes = [len(self.numbers), len(self.numbers), len(self.flags), len(self.lower[0])]
        ends = np.cumsum(sizes)
        self.places, self.spreads, self.shares, self.correlations = (
            slice(end - size, end) for size, end in zip(sizes, ends, strict=True)
        )
        self.size = int(ends[-1])

    def parameters(self, place: Any, spread: Any, share: Any, pairs: dict[tuple[int, int], float]) -> np.ndarray:
        """Parameters from plain numbers; `pairs` are correlations of the copula, each of a later and an earlier one."""
        lower = np.zeros((self.columns, self.columns))
        for (row, column), value in pairs.items():
            lower[row, column] = value / math.sqrt(1.0 - value**2)
        return np.concatenate([place, np.log(spread), special.logit(share), lower[self.lower]]).astype(float)

    def drawn(self, g: np.random.Generator, chains: int) -> np.ndarray:
        """From the prior, or as known."""
        if self.known is not None:
            return np.tile(self.known, (chains, 1))
        found = g.standard_normal((chains, self.size))
        found[:, self.places] *= PLACE
        found[:, self.spreads] = SPREAD[0] + SPREAD[1] * found[:, self.spreads]
        shares = np.clip(g.beta(*SHARE, (chains, len(self.flags))), 1e-9, 1 - 1e-9)
        found[:, self.shares] = special.logit(shares)
        shape = chains, len(self.lower[0])
        spread = np.where(g.random(shape) < _LIKELY[1] / sum(_LIKELY), CORRELATIONS[1][1], CORRELATIONS[0][1])
        within = special.ndtr(1.0 / spread)
        pairs = spread * special.ndtri(1.0 - within + (2.0 * within - 1.0) * g.random(shape))
        found[:, self.correlations] = pairs / np.sqrt(1.0 - pairs**2)
        return found

    def log_prior(self, law: np.ndarray) -> np.ndarray:
        """Of parameters (chains, size); shares have the Jacobian of their logits."""
        found = -0.5 * np.sum((law[:, self.places] / PLACE) ** 2, axis=1)
        found -= 0.5 * np.sum(((law[:, self.spreads] - SPREAD[0]) / SPREAD[1]) ** 2, axis=1)
        logits = law[:, self.shares]
        found += np.sum(-SHARE[0] * np.logaddexp(0, -logits) - SHARE[1] * np.logaddexp(0, logits), axis=1)
        lengths = 1.0 + law[:, self.correlations] ** 2
        squares = 1.0 - 1.0 / lengths
        each = [math.log(weight / spread) - 0.5 * squares / spread**2 for weight, spread in CORRELATIONS]
        return found + (np.logaddexp(*each) - 1.5 * np.log(lengths)).sum(axis=1)

    def rows(self, law: np.ndarray, base: np.ndarray) -> np.ndarray:
        """Encoded rows (chains, n, columns) from standard normal ones."""
        lower = np.zeros((len(law), self.columns, self.columns))
        lower[:, *self.lower] = law[:, self.correlations]
        lower[:, np.arange(self.columns), np.arange(self.columns)] = 1.0
        lower /= np.sqrt((lower**2).sum(axis=2, keepdims=True))
        found = base @ lower.transpose(0, 2, 1)
        for k, column in enumerate(self.numbers):
            shape, one = self.shapes[column], found[:, :, column]
            if shape == "uniform":
                one = math.sqrt(12.0) * (special.ndtr(one) - 0.5)
            elif shape != "normal":
                one = np.interp(one, _GRID, SHAPES[shape])
            place, spread = law[:, self.places][:, k], np.exp(law[:, self.spreads][:, k])
            found[:, :, column] = np.clip(place[:, None] + spread[:, None] * one, -1.0, 1.0)
        ends = special.ndtri(special.expit(law[:, self.shares]))
        found[:, :, self.flags] = found[:, :, self.flags] < ends[:, None]
        return found


class Normal:
    """Targets with normal errors, cut to their bounds; the last of the coefficients is the log of their deviation."""

    extra = 1

    def base(self, g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return g.standard_normal(shape)

    def targets(self, score: np.ndarray, base: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return score + np.exp(extra)[:, None] * base

    def log_prior(self, extra: np.ndarray) -> np.ndarray:
        return -0.5 * ((extra - ERROR[0]) / ERROR[1]) ** 2

    def drawn(self, g: np.random.Generator, chains: int) -> np.ndarray:
        return ERROR[0] + ERROR[1] * g.standard_normal(chains)

    def given_rows(self, g: np.random.Generator, state: "State", prior: "Prior") -> None:
        """The coefficients given rows and targets: a normal law, for a scale of effects that is drawn first."""
        design, y = state.design, state.y
        variance = np.exp(2.0 * state.extra)
        precision = design.transpose(0, 2, 1) @ design / variance[:, None, None]
        middle, diagonal = prior.given_scale(g, state.theta)
        index = np.arange(design.shape[2])
        precision[:, index, index] += diagonal
        right = np.einsum("cnp,cn->cp", design, y) / variance[:, None] + diagonal * middle
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, right[..., None])[..., 0]
        noise = np.linalg.solve(root.transpose(0, 2, 1), g.standard_normal((*right.shape, 1)))[..., 0]
        state.theta = mean + noise
        score = state.score
        squares, n = ((y - score) ** 2).sum(axis=1), y.shape[1]
        for _ in range(5):
            other = state.extra + 2.4 / math.sqrt(2.0 * n) * g.standard_normal(len(y))
            logs = [self.log_prior(one) - n * one - 0.5 * squares * np.exp(-2.0 * one) for one in (state.extra, other)]
            state.extra = np.where(np.log(g.random(len(y))) < logs[1] - logs[0], other, state.extra)
        state.errors = (y - score) * np.exp(-state.extra)[:, None]


class Classes:
    """Targets 0 and 1, by the logistic law; a row's error is an even number in (0, 1)."""

    extra = 0

    def base(self, g: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return g.random(shape)

    def targets(self, score: np.ndarray, base: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return (base < special.expit(score)).astype(float)

    def log_prior(self, extra: np.ndarray) -> np.ndarray:
        return np.zeros(len(extra))

    def drawn(self, g: np.random.Generator, chains: int) -> np.ndarray:
        return np.zeros(chains)

    def given_rows(self, g: np.random.Generator, state: "State", prior: "Prior") -> None:
        """Metropolis steps shaped by the curvature at score 0, which depends on rows alone; then errors anew."""
        design, y, theta = state.design, state.y, state.theta
        precision = 0.15 * design.transpose(0, 2, 1) @ design + np.diag(1.0 / prior.deviation**2)
        back = np.linalg.inv(np.linalg.cholesky(precision)).transpose(0, 2, 1)

        def log_density(one: np.ndarray) -> np.ndarray:
            scores = np.einsum("cnp,cp->cn", design, one)
            return (y * scores - np.logaddexp(0.0, scores)).sum(axis=1) + prior.log(one)

        now = log_density(theta)
        for _ in range(6):
            step = 2.2 / math.sqrt(theta.shape[1]) * g.standard_normal((*theta.shape, 1))
            other = theta + (back @ step)[..., 0]
            there = log_density(other)
            taken = np.log(g.random(len(now))) < there - now
            theta, now = np.where(taken[:, None], other, theta), np.where(taken, there, now)
        state.theta = theta
        share, even = special.expit(state.score), g.random(y.shape)
        state.errors = np.where(y > 0.5, even * share, share + even * (1.0 - share))


TARGETS: dict[str, Callable[[], Any]] = {"linear": Normal, "robust": Normal, "logistic": Classes}


class Prior:
    """The engine's prior of encoded coefficients: one normal for the intercept, a mixture of scales for the others."""

    def __init__(self, plan: Plan, intercept_mean: float = 0.0) -> None:
        self.scales = plan.kind.effect_scale(plan.declaration) * EFFECT_SCALES
        self.mean, self.intercept = intercept_mean, plan.kind.intercept_scale(plan.declaration)
        columns = plan.declaration.columns
        self.deviation = np.array([self.intercept, *[self.scales[2]] * columns])

    def _logs(self, theta: np.ndarray) -> np.ndarray:
        squares, count = (theta[:, 1:] ** 2).sum(axis=1)[:, None], theta.shape[1] - 1
        return np.log(EFFECT_WEIGHTS) - 0.5 * squares / self.scales**2 - count * np.log(self.scales)

    def log(self, theta: np.ndarray) -> np.ndarray:
        away = (theta[:, 0] - self.mean) / self.intercept
        return np.logaddexp.reduce(self._logs(theta), axis=1) - 0.5 * away**2

    def given_scale(self, g: np.random.Generator, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Prior means and precisions of all coefficients for a scale of effects drawn given the coefficients."""
        chosen = np.argmax(self._logs(theta) + g.gumbel(size=(len(theta), len(self.scales))), axis=1)
        precision = np.repeat(1.0 / self.scales[chosen, None] ** 2, theta.shape[1], axis=1)
        precision[:, 0] = 1.0 / self.intercept**2
        return np.array([self.mean] + [0.0] * (theta.shape[1] - 1)), precision

    def drawn(self, g: np.random.Generator, chains: int) -> np.ndarray:
        chosen = g.choice(len(self.scales), chains, p=EFFECT_WEIGHTS / EFFECT_WEIGHTS.sum())
        found = self.scales[chosen, None] * g.standard_normal((chains, len(self.deviation)))
        found[:, 0] = self.mean + self.intercept * g.standard_normal(chains)
        return found


@dataclass
class State:
    """Where all chains are."""

    theta: np.ndarray
    extra: np.ndarray
    law: np.ndarray
    base: np.ndarray
    errors: np.ndarray
    x: np.ndarray = field(default_factory=lambda: np.empty(0))
    y: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def design(self) -> np.ndarray:
        return np.concatenate([np.ones((*self.x.shape[:2], 1)), self.x], axis=2)

    @property
    def score(self) -> np.ndarray:
        return self.theta[:, :1] + np.einsum("cnp,cp->cn", self.x, self.theta[:, 1:])
