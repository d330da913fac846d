"""Statements evaluated as printed and as corrected, and those about the posterior and about Algorithm 1.

An identity has the margin minus its relative error, an inequality the room it leaves, relative to its larger side:
below zero it fails.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

Case = TypeVar("Case")

# Two sides that are equal differ by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Statement(Generic[Case]):
    """A numbered statement: the margins of one case as printed, and as corrected where the printed one fails."""

    place: str
    printed: Callable[[Case], Iterable[float]]
    corrected: Callable[[Case], Iterable[float]] | None = None
    change: str = ""


def equal(left: float, right: float, size: float | None = None) -> float:
    """The margin of an identity: 0, or minus its error relative to the larger side or to `size`."""
    error = abs(left - right) / (max(abs(left), abs(right)) if size is None else size)
    return 0.0 if error < _ROUNDING else -error


def room(larger: float, smaller: float, size: float | None = None) -> float:
    """The margin of `larger >= smaller`, relative to the larger side or to `size`; 0 where they are equal."""
    left = (larger - smaller) / (max(abs(larger), abs(smaller)) if size is None else size)
    return 0.0 if abs(left) < _ROUNDING else left


# The posterior: D and its neighbour differ in the last record; everything rational, so that nothing cancels.


@dataclass(frozen=True)
class Neighbours:
    """n - 1 records at one end of the features and of the slopes, and a last record that is exchanged."""

    n: int
    alpha: float
    beta: float
    c: float
    gamma1: float
    order: float
    x_low: float
    x_high: float
    corner: tuple[float, float, float, float, float, float]

    def _posterior(self, x: float, slope: float) -> tuple[Fraction, Fraction]:
        """Precision and mean with this last record."""
        others, spread = self.corner[0], Fraction(float(self.n) ** self.gamma1)
        rest = Fraction(others) ** 2 * (self.n - 1)
        leaning = Fraction(self.c) + Fraction(self.corner[1]) * spread
        last = Fraction(x) ** 2
        precision = Fraction(self.alpha) + (rest + last) * Fraction(self.beta)
        pull = rest * leaning + last * (Fraction(self.c) + Fraction(slope) * spread)
        return precision, Fraction(self.beta) * pull / precision

    @property
    def first(self) -> tuple[Fraction, Fraction]:
        """Precision and mean of the posterior on D."""
        return self._posterior(self.corner[2], self.corner[3])

    @property
    def second(self) -> tuple[Fraction, Fraction]:
        """Precision and mean of the posterior on its neighbour."""
        return self._posterior(self.corner[4], self.corner[5])

    @property
    def mixed(self) -> Fraction:
        """(sigma^2)*_nu of (20): nu sigma-hat^2 + (1 - nu) sigma^2."""
        order = Fraction(self.order)
        return order / self.second[0] + (1 - order) / self.first[0]

    @property
    def shifted(self) -> float:
        """nu (mu - mu-hat)^2 / (2 (sigma^2)*)."""
        return float(Fraction(self.order) / 2 * (self.first[1] - self.second[1]) ** 2 / self.mixed)

    @property
    def applies(self) -> bool:
        """The condition of Lemma A.1."""
        ratio = (self.x_high / self.x_low) ** 2 * self.order
        return self.n > max(1 + 10 * ratio / self.beta, 1 + ratio)

    @property
    def mixes(self) -> bool:
        """The condition that the dropped beta of (58) leaves out: (sigma^2)* is at least .9 sigma^2 then."""
        return self.n >= 10 * self.order * (self.x_high**2 / self.x_low**2 - 1)

    @property
    def terms(self) -> tuple[float, float, float]:
        """The three terms of Lemma A.1 that D.24, D.25 and D.26 bound."""
        high, low, n = self.x_high**2, self.x_low**2, self.n
        grown, wide = self.alpha + high * self.beta, self.c + n**self.gamma1
        shift = 20 * self.order * self.beta * high**2 / (9 * n ** (1 - 2 * self.gamma1) * low)
        shift += 20 * self.order * high**2 * grown / (9 * low**2) * wide / n ** (2 - self.gamma1)
        shift += 5 * self.order * high**2 * grown**2 / (9 * low**3 * self.beta) * wide**2 / n**3
        middle = (self.order - 1) * self.order * high / (2 * ((n - 1) * low - self.order * high))
        return high / (2 * (n - 1) * low), middle, shift


def _d22(case: Neighbours) -> Iterator[float]:
    if case.applies:
        yield room(float(case.first[0]) / 10, case.order * (case.corner[4] ** 2 - case.corner[2] ** 2))


def _d23(case: Neighbours) -> Iterator[float]:
    if case.applies:
        yield float(case.mixed * case.first[0])


def _d24(case: Neighbours) -> Iterator[float]:
    if case.applies:
        yield room(case.terms[0], 0.5 * math.log(case.second[0] / case.first[0]), 1.0)


def _d25(case: Neighbours, printed: bool) -> Iterator[float]:
    """As printed the right side has a second factor one half; its proof, and Lemma A.1, do not."""
    if case.applies:
        left = 0.5 * (case.order - 1) * -math.log(case.mixed * case.second[0])
        yield room(case.terms[1] / (2 if printed else 1), left, 1.0)


def _d26(case: Neighbours, printed: bool) -> Iterator[float]:
    if case.applies and (printed or case.mixes):
        yield room(case.terms[2], case.shifted)


def _lemma_a1(case: Neighbours, printed: bool) -> Iterator[float]:
    if case.applies and (printed or case.mixes):
        yield room(sum(case.terms), divergence(case))


def divergence(case: Neighbours) -> float:
    """The Rényi divergence of the two posteriors at the order."""
    precision, other = case.first[0], case.second[0]
    middle = -math.log(case.mixed * other) / (2 * (case.order - 1))
    return 0.5 * math.log(precision / other) + middle + case.shifted


_ENDS = tuple(itertools.product((1.0, 2.0), (-1.0, 1.0)))
_CORNERS = tuple((*a, *b, *c) for a in ((1.0, 1.0), (2.0, -1.0)) for b in _ENDS for c in _ENDS if b != c)
NEIGHBOURS = tuple(
    Neighbours(n, 2.0, beta, float(n) ** 1.1, 0.1, order, 1.0, 2.0, corner)
    for n in (10, 30, 300, 10_000)
    for beta in (1.0, 100.0)
    for order in (1.2, 2.0, 5.0)
    for corner in _CORNERS
)
# Small c and large orders: nothing but (sigma^2)* decides, and the printed condition lets it be x_l^2/x_h^2 of sigma^2.
TIGHT = tuple(
    Neighbours(n, 1.0, 100.0, 1.01 * n**0.1, 0.1, order, 1.0, high, (1.0, -1.0, 1.0, -1.0, high, 1.0))
    for n, order, high in (
        *((23, 5.0, 2.0), (203, 50.0, 2.0), (190, 20.0, 3.0)),
        *((200, 5.0, 2.0), (2000, 50.0, 2.0), (2000, 20.0, 3.0)),
    )
)
NEIGHBOURS += TIGHT


def least_records(case: Neighbours, epsilon: float, delta: float, power: float | None) -> tuple[float, int]:
    """Order and number of records of Claim D.27, by iteration for c as it is; of D.28 where c is this power of n."""
    order = 1 + 2 * math.log(1 / delta) / epsilon
    high, low, gamma = case.x_high**2, case.x_low**2, case.gamma1
    grown = case.alpha + high * case.beta
    first = (
        1 + high / low * 8 / epsilon,
        1 + order * high / low * (1 + 8 * (order - 1) / epsilon),
        (16 * order * case.beta * high**2 / (0.9 * epsilon * low)) ** (1 / (1 - 2 * gamma)),
    )
    second = 16 * order / epsilon * high**2 * grown / (0.9 * low**2)
    third = 4 * order / epsilon * high**2 * grown**2 / (0.9 * low**3 * case.beta)
    also = (1 + 10 * high / low * order / case.beta, 1 + order * high / low)
    if power is not None:
        wide = 1 + also[0] ** (gamma - power)
        entries = (
            *first,
            (second * wide) ** (1 / (2 - gamma - power)),
            (third * wide**2) ** (1 / (3 - 2 * power)),
            *also,
        )
        return order, math.ceil(max(entries))
    n = math.ceil(max(*first, *also))
    for _ in range(200):
        wide = case.c + n**gamma
        more = math.ceil(max(*first, *also, (second * wide) ** (1 / (2 - gamma)), third ** (1 / 3) * wide ** (2 / 3)))
        if more <= n:
            break
        n = more
    return order, n


def _records(case: Neighbours, power: float | None) -> Iterator[float]:
    """With so many records the divergence and the cost of converting it are within epsilon."""
    if case.n > 10 or case.order != 2.0:
        return
    for epsilon, delta in ((0.5, 1e-3), (2.0, 1e-5)):
        order, n = least_records(case, epsilon, delta, power)
        c = case.c if power is None else float(n) ** power
        shape = (case.alpha, case.beta, c, case.gamma1, order, case.x_low, case.x_high, case.corner)
        enough = Neighbours(n, *shape)
        yield room(epsilon, divergence(enough) + math.log(1 / delta) / (order - 1)) if enough.mixed > 0 else -1.0


_MIXES = "also n >= 10 nu (x_h^2 - x_l^2) / x_l^2"
POSTERIOR: tuple[Statement[Neighbours], ...] = (
    Statement("Claim D.22", _d22),
    Statement("Claim D.23", _d23),
    Statement("Claim D.24", _d24),
    Statement("Claim D.25", lambda c: _d25(c, True), lambda c: _d25(c, False), "without the second factor one half"),
    Statement("Claim D.26", lambda c: _d26(c, True), lambda c: _d26(c, False), _MIXES),
    Statement("Lemma A.1", lambda c: _lemma_a1(c, True), lambda c: _lemma_a1(c, False), _MIXES),
    Statement("Claim D.27", lambda c: _records(c, None)),
    Statement("Claim D.28", lambda c: _records(c, 1.1)),
)


# Algorithm 1: what Laplace noise does to counts and slopes, exactly.


def _laplace(value: float, epsilon: float) -> float:
    return 0.5 * math.exp(epsilon * value) if value < 0 else 1 - 0.5 * math.exp(-epsilon * value)


_BUDGETS = tuple(itertools.product((0.2, 1.0), (1e-5, 0.05), (1.15, 1.25)))


def _c2(_: None) -> Iterator[float]:
    for epsilon, delta, power in _BUDGETS:
        lowered = math.log(1 / (2 * delta)) / epsilon
        for n in (1 + max(2 ** (10 * power), 4 * lowered), 1e6):
            kept = _laplace(lowered, epsilon) - _laplace(n ** ((power - 0.1) / power) - n + lowered, epsilon)
            yield room(kept, 1 - 2 * delta, 1.0)


def _c4(_: None) -> Iterator[float]:
    for epsilon, delta, power in _BUDGETS:
        lowered, rho = math.log(1 / (2 * delta)) / epsilon, power - 0.8
        for n in (1 + max(2 ** (9 + 10 * rho), 4 * lowered), 1e6):
            kept = 1 - _laplace(n ** (power / (0.9 + rho)) - n + lowered, epsilon)
            yield room(kept, 1 - delta, 1.0)


def _c10(_: None) -> Iterator[float]:
    for epsilon, delta, _power_of in _BUDGETS:
        yield equal(_laplace(math.log(1 / (2 * delta)) / epsilon, epsilon), 1 - delta)


def _c11(_: None) -> Iterator[float]:
    """Slopes between 0 and B, features at either end: every pair of sets that differ in one record."""
    low, high, most = 0.5, 1.0, 10.0
    corners = tuple(itertools.product((low, high), (0.0, most)))

    def slope(rows: tuple[tuple[float, float], ...]) -> float:
        return sum(x * x * s for x, s in rows) / sum(x * x for x, _ in rows)

    for size in (2, 3, 4):
        scale = most * (2 * (size - 1) * high**2 * low**2 + high**4) / (size * (size - 1) * low**4)
        for rows in itertools.combinations_with_replacement(corners, size - 1):
            found = [slope((*rows, last)) for last in corners] + [slope(rows)]
            yield room(scale, max(found) - min(found))


ALGORITHM: tuple[Statement[None], ...] = (
    Statement("Claim C.2", _c2),
    Statement("Corollary C.3", _c2),
    Statement("Claim C.4", _c4),
    Statement("Claim C.10", _c10),
    Statement("Claim C.11", _c11),
)
