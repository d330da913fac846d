"""The posterior of a regression: weighted draws of its coefficients, and what their widths are made of.

Coefficients are in encoded units, intercept first, outputs innermost; `in_table_units` has the same in the units of the
table. Everything is computed from numbers that a release stores, so a folder answers as the fit did.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.arrays import Array
from sordino.core.results import PRIOR_DOMINATED
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, InputError, number, one_of, own_arrays, refuse, whole_number
from sordino.mechanisms.posterior.laws import Posterior, Prediction, Values, checked_level

# What a score is, for every family: the mean of the target, log odds against the first class, or the log of a rate.
LINKS = {
    **dict.fromkeys(("linear", "robust"), "identity"),
    **dict.fromkeys(("logistic", "multinomial"), "logit"),
    **dict.fromkeys(("poisson", "negative-binomial", "cox"), "log"),
}
# The key of a release's settings under which all that is not an array is stored.
COEFFICIENTS = "coefficients"
ARRAYS = frozenset({"draws", "weights", "parts", "to_table", "places"})
_NUMBERS = ("residual_scale", "residual_error", "dispersion")
# Scores beyond this are no rates of anything.
_LARGEST_SCORE = 50.0


def weighted_quantiles(draws: Array, weights: Array, levels: Sequence[float]) -> Array:
    """Quantiles of weighted draws, (columns, levels); as numpy's for equal weights, up to the gap of two draws."""
    order = np.argsort(draws, axis=0)
    values = np.take_along_axis(draws, order, axis=0)
    reached = np.cumsum(weights[order], axis=0) - 0.5 * weights[order]
    return np.array([np.interp(levels, reached[:, j], values[:, j]) for j in range(draws.shape[1])])


def tails(level: float) -> list[float]:
    """The shares of draws below the lower and below the upper end of a central interval."""
    number("level", level, OPEN_UNIT)
    return [0.5 - 0.5 * level, 0.5 + 0.5 * level]


@dataclass(frozen=True, eq=False)
class CoefficientPosterior(Posterior):
    """Weighted draws of the coefficients of a regression.

    Attributes:
        family: linear, robust, logistic, multinomial, poisson, negative-binomial or cox; see `LINKS`.
        columns: names of the encoded columns that have coefficients, the intercept first. The first level of a
            category is the reference and has none.
        outputs: for several classes, the words of all classes but the first, which they are compared with; else one
            empty word.
        places: for each of `columns`, its place among the encoded columns of the schema.
        draws: (draws, coefficients), outputs innermost.
        weights: of the draws, adding up to 1.
        parts: (3, coefficients, coefficients): covariances from sampling, privacy and prior; their sum is the
            Gaussian approximation to the posterior's.
        to_table: (3, columns): a slope in table units is `to_table[0]` times the encoded one; the intercept is
            `to_table[0, 0]` times the encoded one, plus `to_table[1]` times the encoded slopes, plus `to_table[2, 0]`.
        residual_scale: the standard deviation of new targets around their mean, for linear and robust; else 0.
        residual_error: the relative error of that.
        dispersion: of counts, whose variance is mean + dispersion * mean^2; else 0.
        plan: public numbers of the plan: mechanisms with multipliers, records, epsilon, delta and mu.
        units: "encoded", or "table" where draws, parts and the residual scale are in the units of the table.
    """

    family: str
    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    places: NDArray[np.int64]
    draws: Values
    weights: Values
    parts: Values
    to_table: Values
    residual_scale: float = 0.0
    residual_error: float = 0.0
    dispersion: float = 0.0
    plan: Mapping[str, Any] | None = None
    units: str = "encoded"

    def __post_init__(self) -> None:
        one_of("family", self.family, LINKS)
        for name in sorted(ARRAYS):
            kind = np.int64 if name == "places" else np.float64
            object.__setattr__(self, name, np.array(getattr(self, name), kind))
        own_arrays(self)
        columns, dim = len(self.columns), len(self.columns) * len(self.outputs)
        if self.draws.ndim != 2 or self.draws.shape[1] != dim or not self.draws.size:
            raise refuse("draws", f"to be rows of {dim} coefficients", f"shape {self.draws.shape}")
        wanted = {"places": (columns,), "weights": self.draws.shape[:1], "parts": (3, dim, dim)}
        for name, shape in (wanted | {"to_table": (3, columns)}).items():
            if getattr(self, name).shape != shape:
                raise refuse(name, f"to have shape {shape}", f"shape {getattr(self, name).shape}")
        if not all(np.isfinite(getattr(self, name)).all() for name in ARRAYS):
            raise refuse("draws, weights and parts", "to be finite numbers", "others")
        if (self.weights < 0.0).any() or not math.isclose(float(self.weights.sum()), 1.0, rel_tol=1e-6):
            raise refuse("weights", "to be at least 0 and to add up to 1", "others")
        if (self.places < 0).any() or (len(self.outputs) > 1 and self.family != "multinomial"):
            raise refuse("places and outputs", "to be those of a fit", "others")
        for name in _NUMBERS:
            number(name, getattr(self, name), NON_NEGATIVE)

    @property
    def link(self) -> str:
        """What a score is: identity, logit or log."""
        return LINKS[self.family]

    @property
    def names(self) -> tuple[str, ...]:
        """The column of each coefficient, and its class if there are several."""
        return tuple(f"{column} [{word}]" if word else column for column in self.columns for word in self.outputs)

    @property
    def dim(self) -> int:
        return self.draws.shape[1]

    @property
    def mean(self) -> Values:
        return self._moments[0]

    @property
    def covariance(self) -> Values:
        return self._moments[1]

    @cached_property
    def _moments(self) -> tuple[Values, Values]:
        mean = self.weights @ self.draws
        away = self.draws - mean
        return mean, (away * self.weights[:, None]).T @ away

    @property
    def variance(self) -> Values:
        return np.diagonal(self.covariance).copy()

    @property
    def deviation(self) -> Values:
        """Standard errors: the posterior's standard deviations."""
        return np.sqrt(self.variance)

    @cached_property
    def shares(self) -> Values:
        """(3, coefficients): shares of each variance that are sampling, privacy and prior; they add up to 1."""
        found = np.maximum(np.diagonal(self.parts, axis1=1, axis2=2), 0.0)
        return found / np.maximum(found.sum(axis=0), 1e-300)

    @property
    def prior_dominated(self) -> NDArray[np.bool_]:
        """Coefficients that say more about the declared size of effects than about the table."""
        return self.shares[2] >= PRIOR_DOMINATED

    def interval(self, level: float) -> tuple[Values, Values]:
        tail = 0.5 * (1.0 - checked_level(level))
        low, high = weighted_quantiles(np.asarray(self.draws), np.asarray(self.weights), [tail, 1.0 - tail]).T
        return low, high

    def in_table_units(self) -> "CoefficientPosterior":
        """The same with draws, parts and residual scale in the units of the table; itself if it is so already."""
        if self.units == "table":
            return self
        of_columns = np.diag(self.to_table[0])
        of_columns[0, 1:] = self.to_table[1, 1:]
        matrix = np.kron(of_columns, np.eye(len(self.outputs)))
        constant = np.repeat(self.to_table[2], len(self.outputs))
        # A slope of 1 for the intercept: what the target is multiplied by.
        scale = float(self.to_table[0, 0]) if self.link == "identity" else 1.0
        draws, parts = self.draws @ matrix.T + constant, matrix @ self.parts @ matrix.T
        return replace(self, draws=draws, parts=parts, residual_scale=self.residual_scale * scale, units="table")

    def sample(self, generator: np.random.Generator, draws: int) -> Values:
        """Draw again from the draws, by their weights: evenly spaced places on the heap of weights, shuffled."""
        count = whole_number("draws", draws)
        places = (np.arange(count) + generator.random()) / count
        chosen = np.searchsorted(np.cumsum(self.weights), places, side="left")
        return self.draws[generator.permutation(np.minimum(chosen, len(self.draws) - 1))]

    def rows(self, features: ArrayLike) -> Values:
        """The columns of encoded rows that have coefficients."""
        X = np.asarray(features, np.float64)
        if X.ndim != 2 or X.shape[1] <= int(self.places.max()):
            raise refuse("features", "to be rows like those the posterior was fitted to", f"shape {X.shape}")
        return X[:, self.places]

    def scores(self, thetas: ArrayLike, features: ArrayLike) -> Values:
        """Scores of encoded rows, (draws, rows, outputs); of several classes all, the first with score 0."""
        weights = np.asarray(thetas, np.float64).reshape(-1, len(self.columns), len(self.outputs))
        found = np.einsum("nd,kdo->kno", self.rows(features), weights, optimize=True)
        if self.family != "multinomial":
            return found
        return np.concatenate([np.zeros((*found.shape[:2], 1)), found], axis=2)

    def predict(self, features: ArrayLike) -> Prediction:
        """Mean and variance of encoded targets that are numbers."""
        if self.link != "identity":
            raise refuse("predict", "to be asked of targets that are numbers", self.family)
        X = self.rows(features)
        spread = np.einsum("ij,jk,ik->i", X, self.covariance, X, optimize=True)
        return Prediction(X @ self.mean, spread + self.residual_variance)

    @property
    def residual_variance(self) -> float:
        """The mean square of errors: of a log-normal law, as the scale is known up to a factor."""
        return self.residual_scale**2 * math.exp(2.0 * min(self.residual_error, 1.0) ** 2)

    def counts(self, scores: Any, exposure: Any = 1.0, weights: Any = None) -> Prediction:
        """Mean and variance of counts over weighted draws of scores, shape (draws, rows)."""
        weighed = self.weights if weights is None else np.asarray(weights)
        means = exposure * np.exp(np.minimum(scores, _LARGEST_SCORE))
        mean = weighed @ means
        within = weighed @ (means + self.dispersion * means**2)
        return Prediction(mean, within + weighed @ (means - mean) ** 2)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a release stores, beside `settings`; always in encoded units."""
        if self.units != "encoded":
            raise refuse("the posterior", "to be in encoded units to be stored", self.units)
        return {name: np.asarray(getattr(self, name)) for name in sorted(ARRAYS)}

    @property
    def settings(self) -> dict[str, Any]:
        """The rest of it, for a release's settings."""
        plan = None if self.plan is None else dict(self.plan)
        words = {"family": self.family, "columns": list(self.columns), "outputs": list(self.outputs)}
        return {COEFFICIENTS: {**words, **{name: getattr(self, name) for name in _NUMBERS}, "plan": plan}}


def from_stored(arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> CoefficientPosterior:
    """The posterior of a release's arrays and settings; a file may say anything, so both are looked at."""
    stated, where = settings.get(COEFFICIENTS), f"settings.{COEFFICIENTS}"
    if not isinstance(stated, Mapping):
        raise InputError("settings.coefficients of the release is missing, so its draws have no names.")
    given: dict[str, Any] = {name: arrays[name] for name in ARRAYS}
    for name in ("columns", "outputs"):
        words = stated.get(name)
        if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) for word in words):
            raise refuse(f"{where}.{name}", "to be a list of words", words)
        given[name] = tuple(words)
    plan = stated.get("plan")
    if plan is not None and not isinstance(plan, Mapping):
        raise refuse(f"{where}.plan", "to be an object", plan)
    family = one_of(f"{where}.family", stated.get("family"), LINKS)
    given |= {name: number(f"{where}.{name}", stated.get(name), NON_NEGATIVE) for name in _NUMBERS}
    return CoefficientPosterior(family, **given, plan=plan)
