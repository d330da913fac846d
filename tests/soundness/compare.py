"""Every registered theorem against the truth of one instance."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sordino.accounting.evaluate import Theorem, evaluate, theorems
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP, Guarantee, RenyiDP
from tests.soundness.registry import Instance

EPSILONS = (0.0, 0.3, 1.0, 3.0)
DELTAS = (1e-6, 1e-2)
RENYI_ORDERS = (1.1, 2.0, 4.0, 16.0, 64.0, 512.0)
# Relative error of the exact values, and an absolute one for Rényi divergences near 0, which are logarithms near 1.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


@dataclass(frozen=True)
class Comparison:
    """One reported number beside the largest exact value among the neighbours, and where that was found."""

    theorem: str
    quantity: str
    bound: float
    exact: float
    neighbours: str

    @property
    def violated(self) -> bool:
        """Whether the reported number is below the truth."""
        return not self.bound >= self.exact * (1 - _RELATIVE) - _ABSOLUTE * self.quantity.startswith("renyi")

    def __str__(self) -> str:
        return (
            f"{self.theorem} reports {self.quantity} = {self.bound!r}, and the truth is {self.exact!r} "
            f"({self.neighbours})"
        )


def bounds(instance: Instance, among: Iterable[Theorem] | None = None) -> list[Bound]:
    """What the theorems that apply say."""
    asked = theorems() if among is None else among
    answers = [evaluate(theorem, instance.spec) for theorem in asked]
    return [answer for answer in answers if isinstance(answer, Bound)]


def compare(instance: Instance, among: Iterable[Theorem] | None = None) -> list[Comparison]:
    """Delta at several epsilons (0 is the total variation), epsilon at several deltas, Rényi at several orders."""
    return [comparison for bound in bounds(instance, among) for comparison in _of(bound, instance)]


def violations(instance: Instance, among: Iterable[Theorem] | None = None) -> list[Comparison]:
    """The reported numbers that are below the truth."""
    return [comparison for comparison in compare(instance, among) if comparison.violated]


def _of(bound: Bound, instance: Instance) -> Iterator[Comparison]:
    guarantee = bound.guarantee
    for epsilon in EPSILONS:
        exact, where = _largest(instance, "delta", epsilon)
        yield Comparison(bound.theorem, f"delta({epsilon:g})", guarantee.delta(epsilon), exact, where)
    for delta in DELTAS:
        epsilon = guarantee.epsilon(delta)
        if math.isfinite(epsilon):
            # The pair (epsilon, delta) is what is reported; it is right when delta is large enough for that epsilon.
            exact, where = _largest(instance, "delta", epsilon)
            yield Comparison(bound.theorem, f"delta at its own epsilon({delta:g}) = {epsilon:g}", delta, exact, where)
    for order in RENYI_ORDERS:
        value = _renyi(guarantee, order)
        if value is not None:
            exact, where = _largest(instance, "renyi", order)
            yield Comparison(bound.theorem, f"renyi({order:g})", value, exact, where)


def epsilons(instance: Instance, delta: float, among: Iterable[Theorem] | None = None) -> list[Comparison]:
    """The epsilons reported at a delta beside the exact one, which is searched for: dearer than `compare`."""
    found = [bound for bound in bounds(instance, among) if math.isfinite(bound.guarantee.epsilon(delta))]
    exact = exact_epsilon(instance, delta) if found else 0.0
    quantity = f"epsilon({delta:g})"
    return [Comparison(bound.theorem, quantity, bound.guarantee.epsilon(delta), exact, "any") for bound in found]


def exact_epsilon(instance: Instance, delta: float) -> float:
    """The largest epsilon found at which the exact delta is still above, by bisection; 0 where it never is."""

    def above(epsilon: float) -> bool:
        return _largest(instance, "delta", epsilon)[0] > delta

    low, high = 0.0, 1.0
    if not above(low):
        return 0.0
    while above(high) and high < 500:
        low, high = high, 2 * high
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) else (low, middle)
    return low


def _largest(instance: Instance, measure: str, at: float) -> tuple[float, str]:
    """The largest exact value among the neighbours."""
    return max((getattr(pair.truth, measure)(at), pair.label) for pair in instance.neighbours)


def _renyi(guarantee: Guarantee, order: float) -> float | None:
    """The Rényi divergence a guarantee states, if it states one without a failure probability."""
    if isinstance(guarantee, GaussianDP):
        return order * guarantee.mu**2 / 2 * (1 + 1e-15)
    if isinstance(guarantee, RenyiDP) and guarantee.failure == 0.0 and order in guarantee.orders:
        return guarantee.at(order)
    return None
