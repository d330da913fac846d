"""Tables, contrasts and joint tests from weighted draws of coefficients.

An estimate is the posterior's mean, its standard error the posterior's standard deviation, an interval the central
share of the draws. The p-value is twice the share of draws on the other side of 0, or that of z where these are few.
The prior pulls both towards no effect: with V the posterior covariance and L the precision of the data, the estimate
varies by V L V, which is at most V.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.results import PRIOR_DOMINATED, figure, p_words, percent
from sordino.core.validate import ANY_REAL, InputError, number, printable, refuse
from sordino.mechanisms.posterior.coefficients import tails, weighted_quantiles

INTERCEPT = "intercept"
LEVEL = 0.95
SHARES = ("sampling", "privacy", "prior")  # the parts of a variance
_MOST_NAMES = 12  # names that a message lists before it stops
# So many draws of equal weight have to lie in a tail for its share to be read off them. Ends of 95 % intervals are read
# off three times as many where a posterior has 600.
_SEEN_IN_TAIL = 5.0


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Weighted draws of coefficients in the table's units: `draws` has shape (draws, coefficients).

    `parts` of the covariance are sampling, privacy and prior, known up to a factor: (3, coefficients, coefficients).
    `ratio` is what exp(coefficient) is called, and `steps` has, by coefficient, a round number of units that a figure
    shows the effect of; 1 if not there.
    """

    names: tuple[str, ...]
    draws: Array
    weights: Array
    parts: Array | None = None
    ratio: str = ""
    family: str = ""
    steps: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draws, weights = np.asarray(self.draws, np.float64), np.asarray(self.weights, np.float64)
        if draws.ndim != 2 or draws.shape[1] != len(self.names) or weights.shape != draws.shape[:1]:
            raise refuse("draws, weights and names", "to belong together", (draws.shape, weights.shape))
        object.__setattr__(self, "draws", draws)
        object.__setattr__(self, "weights", weights / weights.sum())

    @cached_property
    def mean(self) -> Array:
        return self.weights @ self.draws

    @cached_property
    def covariance(self) -> Array:
        away = self.draws - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            return (away * self.weights[:, None]).T @ away

    def vector(self, contrast: Mapping[str, float] | str) -> Array:
        """The weights of a sum of coefficients: a name for one of them, or numbers by name."""
        given = {contrast: 1.0} if isinstance(contrast, str) else contrast
        if not isinstance(given, Mapping) or not given:
            raise refuse("a contrast", 'to be a name, or numbers by name such as {"age": 1, "dose": -1}', contrast)
        found = np.zeros(len(self.names))
        for name, weight in given.items():
            found[place_of(name, self.names)] += number(f"the weight of {name!r}", weight, ANY_REAL)
        if not found.any():
            raise refuse("a contrast", "to have a weight other than 0", contrast)
        return found

    def shares(self, vector: Array) -> tuple[float, float, float] | None:
        """The parts of the variance of a sum of coefficients: sampling, privacy and prior."""
        found = np.array([max(vector @ part @ vector, 0.0) for part in (() if self.parts is None else self.parts)])
        whole = float(np.sum(found))
        if not 0.0 < whole < math.inf:
            return None
        sampling, privacy, prior = (found / whole).tolist()
        return sampling, privacy, prior


def place_of(name: str, names: Sequence[str]) -> int:
    """The place of a coefficient among so many names."""
    if name not in names:
        known = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        raise refuse("a coefficient", f"to be one of {known}", name)
    return names.index(name)


@dataclass(frozen=True)
class Line:
    """One coefficient, or a sum of several, as a table shows it.

    `z` and `p_value` are None where intervals are not known to hold; `ratio` is exp of estimate and ends; `shares` of
    the variance are sampling, privacy and prior; `step` is a round number of units for figures.
    """

    name: str
    estimate: float
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    z: float | None = None
    p_value: float | None = None
    ratio: tuple[float, float, float] | None = None
    shares: tuple[float, float, float] | None = None
    step: float = 1.0
    level: float = LEVEL

    def __str__(self) -> str:
        said = f"{printable(self.name)}: {figure(self.estimate)}"
        if self.low is not None:
            said += f", {100.0 * self.level:g} % interval {figure(self.low)} to {figure(self.high)}"
        if self.z is not None:
            said += f", standard error {figure(self.standard_error)}, z {self.z:.2f}, "
            said += f"p {p_words(self.p_value, relation=True)}"
        return f"{said}; {self.words}" if self.words else said

    @property
    def widened(self) -> float | None:
        """By what share privacy widened the interval: 0.12 reads "12 %"."""
        if self.shares is None:
            return None
        sampling, privacy, _ = self.shares
        return math.sqrt((sampling + privacy) / sampling) - 1.0 if sampling > 1e-9 else math.inf

    @property
    def prior_dominated(self) -> bool:
        """Whether it says more about the declared size of effects than about the table."""
        return self.shares is not None and self.shares[2] >= PRIOR_DOMINATED

    @property
    def words(self) -> str:
        """What privacy and the prior did to it, in a sentence."""
        if self.prior_dominated:
            return "prior-dominated: it says more about the assumed effect size than about the table"
        if self.widened is None:
            return ""
        share = "more than 10 times" if self.widened > 10.0 else percent(self.widened)
        return f"privacy widened this interval by {share}"

    def as_dict(self) -> dict[str, object]:
        """For a machine: plain numbers, None for what is not known."""
        widened, ratio, shares = self.widened, self.ratio, self.shares
        return {
            "name": self.name,
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "interval": None if self.low is None else [self.low, self.high],
            "z": self.z,
            "p_value": self.p_value,
            "ratio": None if ratio is None else dict(zip(("estimate", "low", "high"), ratio, strict=True)),
            "shares": None if shares is None else dict(zip(SHARES, shares, strict=True)),
            "widened_by_privacy": None if widened is None or math.isinf(widened) else widened,
            "prior_dominated": self.prior_dominated,
        }


def lines(coefficients: Coefficients, level: float = LEVEL) -> tuple[Line, ...]:
    """One line for each coefficient."""
    ends = weighted_quantiles(coefficients.draws, coefficients.weights, tails(level))
    errors = np.sqrt(np.maximum(np.diag(coefficients.covariance), 0.0))
    sides = coefficients.weights @ (np.sign(coefficients.draws) + 1.0) / 2.0
    units = np.eye(len(coefficients.names))
    each = zip(coefficients.names, coefficients.mean, errors, ends, sides, units, strict=True)
    return tuple(_line(coefficients, level, *one) for one in each)


def contrast(coefficients: Coefficients, weights: Mapping[str, float] | str, level: float = LEVEL) -> Line:
    """A sum of coefficients, by name, such as {"age": 1, "dose": -1}."""
    vector = coefficients.vector(weights)
    drawn = coefficients.draws @ vector
    mean = float(coefficients.weights @ drawn)
    error = math.sqrt(float(coefficients.weights @ (drawn - mean) ** 2))
    (ends,) = weighted_quantiles(drawn[:, None], coefficients.weights, tails(level))
    above = float(coefficients.weights @ (np.sign(drawn) + 1.0) / 2.0)
    return _line(coefficients, level, in_words(weights), mean, error, ends, above, vector)


def _line(
    known: Coefficients, level: float, name: str, mean: float, error: float, ends: Array, above: float, vector: Array
) -> Line:
    """The line of a sum of coefficients, from its draws' mean, deviation, quantiles and share above 0."""
    mean, error, low, high = (float(one) for one in (mean, error, *ends))
    if not all(map(math.isfinite, (mean, error, low, high))):
        raise InputError("The mean or the spread of the draws is not finite. Look at the numbers of the release.")
    z = mean / error if error > 0.0 else 0.0
    middle, least, most = (math.exp(min(one, 700.0)) for one in (mean, low, high))
    ratio = (middle, least, most) if known.ratio else None
    # The share of draws on that side of 0 where fewer of them are.
    tail, seen = float(min(above, 1.0 - above)), _SEEN_IN_TAIL * float(known.weights @ known.weights)
    p_value = 2.0 * tail if tail >= seen else min(float(2.0 * special.ndtr(-abs(z))), 2.0 * seen)
    step = known.steps.get(name, 1.0)
    return Line(name, mean, error, low, high, z, p_value, ratio, known.shares(vector), step, level)


class Wald(NamedTuple):
    """A joint test that sums of coefficients are all 0; `statistic` is chi-squared with so many `degrees`."""

    names: tuple[str, ...]
    statistic: float
    degrees: int
    p_value: float

    def __str__(self) -> str:
        names = ", ".join(map(printable, self.names))
        null = f"{names} is 0" if len(self.names) == 1 else f"{names} are all 0"
        on = f"{self.degrees} {'degree' if self.degrees == 1 else 'degrees'} of freedom"
        p_value = p_words(self.p_value, relation=True)
        return f"Test that {null}: chi-squared {self.statistic:.2f} on {on}, p {p_value}"

    def as_dict(self) -> dict[str, object]:
        tested = {"names": list(self.names), "statistic": self.statistic}
        return tested | {"degrees_of_freedom": self.degrees, "p_value": self.p_value}


def wald(coefficients: Coefficients, tested: Sequence[Mapping[str, float] | str]) -> Wald:
    """The joint test that coefficients, or sums of them as `contrast` takes them, are all 0."""
    if isinstance(tested, str | Mapping) or not tested:
        raise refuse("what is tested", 'to be a list of names or contrasts such as ["age", "dose"]', tested)
    rows = np.array([coefficients.vector(one) for one in tested])
    covariance = rows @ coefficients.covariance @ rows.T
    scale = np.sqrt(np.diag(covariance))
    if not (scale > 0.0).all() or np.linalg.matrix_rank(covariance / np.outer(scale, scale), tol=1e-9) < len(rows):
        raise InputError("One of these sums of coefficients follows from the others. Omit it.")
    away = rows @ coefficients.mean
    statistic = float(away @ np.linalg.solve(covariance, away))
    names = tuple(in_words(one) for one in tested)
    return Wald(names, statistic, len(rows), float(special.chdtrc(len(rows), statistic)))


def in_words(weights: Mapping[str, float] | str) -> str:
    """A sum of coefficients as it is written: "age - 2 dose"."""
    if isinstance(weights, str):
        return weights
    words = ""
    for name, weight in weights.items():
        size = "" if abs(weight) == 1.0 else f"{abs(weight):g} "
        sign = (" - " if weight < 0 else " + ") if words else ("-" if weight < 0 else "")
        words += f"{sign}{size}{name}"
    return words


def parsed_contrast(text: str) -> dict[str, float] | str:
    """A contrast from a command line: a name, or "age=1,dose=-1"."""
    if "=" not in text:
        return text
    found: dict[str, float] = {}
    for piece in text.split(","):
        name, _, weight = piece.rpartition("=")
        try:
            found[name.strip()] = float(weight)
        except ValueError:
            raise refuse("a contrast", 'to read like "age=1,dose=-1"', text) from None
    return found


def parsed_names(coefficients: Coefficients, text: str) -> list[str]:
    """Names from a command line, between commas; a name may hold a comma itself, so the longest that is known wins."""
    pieces = [piece.strip() for piece in text.split(",")]
    found = []
    while pieces:
        known = (end for end in range(len(pieces), 0, -1) if ",".join(pieces[:end]) in coefficients.names)
        last = next(known, 1)
        found.append(",".join(pieces[:last]))
        pieces = pieces[last:]
    return found


def round_step(size: float) -> float:
    """1, 2 or 5 times a power of ten, at most `size`.

    >>> [round_step(size) for size in (55.0, 30.0, 1.0, 0.3)]
    [50.0, 20.0, 1.0, 0.2]
    """
    power = 10.0 ** math.floor(math.log10(size) + 1e-12)
    return float(f"{max(part * power for part in (1, 2, 5) if part * power <= size * (1 + 1e-9)):.6g}")
