"""The privacy filter of a ledger: Gaussian composition where every release has a Gaussian above it, else Rényi curves.

Delta is divided once, when the first release is debited, by the kind of that release:

- it has a dominating Gaussian: most of delta is for ledgers whose releases all have one (`gaussian_delta`, by squared
  mus, exactly), a little for those that another kind joins later (`late_delta`, by Rényi curves), the reserve for
  failures;
- it has none: all but the reserve is for Rényi curves (`loss_delta`);
- it fits neither way, and alone it is (epsilon, delta)-private: it takes the whole budget, and nothing fits afterwards.

Statement. Everything released is (epsilon, delta)-differentially private, under fully adaptive choice.

Proof. The third case is a single release, chosen in view of nothing. The second is the filter of `order_shares`. In the
first, let g be the sum of squared mus, infinite once a release without a Gaussian has come, R the Rényi sums and
F the failures; the ledger ends in G = {g <= mu^2}, or outside of it with e(R) <= epsilon at `late_delta`. Without
failure (one event for both ways of counting: what the curve leaves out contains what the Gaussian leaves out), with L
the privacy loss and h = (1 - exp(epsilon - L))_+,

    P(S) - exp(epsilon) Q(S) <= E[h; G] + E[h; not G] + F.

Stop just before leaving G. No run returns to G, because g never falls: what was released until then is mu-Gaussian DP,
so E h is at most `gaussian_delta` there, and on G that is where the ledger ended. Outside of G the proof of
`order_shares` holds with its sum over orders restricted to this event: at most `late_delta`. The three parts add up to
at most delta. With all of delta for both ways, late choice between them would exceed it; an adversary that does so is
in tests/ledger/test_filter.py.

Squared mus add: if every release, given the past, is mu_i-Gaussian DP and the sum of the mu_i^2 is at most mu^2
whatever happens, everything released is mu-Gaussian DP (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). A
mu_i-GDP release is a randomised function of one draw of N(0, 1) or N(mu_i, 1) (Blackwell; Dong, Roth & Su 2022, Theorem
2.10), that is, of the increment over a time mu_i^2 of a Brownian motion with drift 0 or 1. The next mu is chosen in
view of the past, so the increments may be cut from one path, one after the other; by the strong Markov property they
have the right law. They end before time mu^2, so the whole transcript is a randomised function of the path up to time
mu^2, of which the end point is sufficient (Girsanov): N(0, mu^2) or N(mu^2, mu^2).

Failures add: a release whose dominating pair may have an infinite loss is a mixture. Given the past, P_i = (1 - f_i)
P0_i + f_i P1_i and Q_i >= (1 - f_i) Q0_i, with the divergences of P0_i from Q0_i bounded (as in the approximate zCDP
filter of Whitehouse et al. 2023). The chance, under P, that any release fails is at most the largest possible sum of
the f_i, F. Without failure the transcript has a density below that of the product of the P0_i, and Q has one above that
of the product of the Q0_i with the same factors (1 - f_i). The parts of delta are fixed at opening: were F allowed to
grow where the loss happens to be small, the two would be averaged under different laws and could add up to twice delta.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, isinf, isnan
from typing import Any, ClassVar, NamedTuple, Self

from sordino.core import gaussian, validate
from sordino.core import guarantee as claims
from sordino.core.bound import Citation
from sordino.core.gaussian import down, least_true, up, weighted_sum_up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.loss.atomic_pairs import LaplacePair, ResponsePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair
from sordino.core.validate import NON_NEGATIVE, OPEN_UNIT, POSITIVE, PROBABILITY, InputError, number
from sordino.ledger.budget import Budget
from sordino.ledger.order_shares import OrderShares, renyi_on


class FailingGaussian(NamedTuple):
    """mu-Gaussian DP outside an event of probability at most `failure`."""

    mu: float
    failure: float = 0.0


def dominating_gaussian(guarantee: Guarantee) -> FailingGaussian | None:
    """The smallest known Gaussian that dominates a guarantee; None where none does."""
    # An epsilon-DP release is dominated by randomised response, whose trade-off curve is two straight lines that meet
    # at b = 1/(1 + e^epsilon) on the diagonal. A Gaussian trade-off curve is convex, starts at (0, 1) and is
    # symmetric, so it lies below both lines as soon as it is at most b at b: as soon as its total variation,
    # 2 Phi(mu/2) - 1, is at least tanh(epsilon / 2). An (epsilon, delta) release fails with probability delta and is
    # epsilon-DP otherwise (Kairouz, Oh & Viswanath 2017, Theorem 3.2).
    match guarantee:
        case GaussianDP():
            return FailingGaussian(guarantee.mu)
        case claims.PureDP():
            return _of_response(guarantee.value, 0.0)
        case claims.ApproxDP():
            return _of_response(guarantee.epsilon_value, guarantee.delta_value)
        case claims.TotalVariation():
            return _of_response(0.0, guarantee.value)
        case claims.BoundedRange():
            return _composed([(_of_response(guarantee.width, 0.0), guarantee.draws)])
        case claims.LossDistribution():
            return _composed([(_of_pair(pair), count) for pair, count in guarantee.factors])
    return None


def _composed(parts: Sequence[tuple[FailingGaussian | None, int]]) -> FailingGaussian | None:
    known = [(part, count) for part, count in parts if part is not None]
    if len(known) < len(parts):
        return None
    failure = weighted_sum_up((part.failure, count) for part, count in known)
    return FailingGaussian(gaussian.composed([(part.mu, count) for part, count in known]), min(1.0, failure))


def _of_pair(pair: Pair) -> FailingGaussian | None:
    match pair:
        case GaussianPair():
            return FailingGaussian(pair.mu)
        case ResponsePair():
            return _of_response(pair.epsilon, pair.delta)
        case LaplacePair():
            return _of_response(pair.epsilon, 0.0)
    largest = max(pair.largest_loss, pair.reversed().largest_loss)
    pure = math.isfinite(largest) and pair.infinite == pair.reversed().infinite == 0.0
    return _of_response(largest, 0.0) if pure else None


def _of_response(epsilon: float, delta: float) -> FailingGaussian | None:
    variation = up(math.tanh(epsilon / 2), 4) if epsilon else 0.0
    if variation >= 1 - 1e-12:  # epsilon of 25 and more: no Gaussian that anything affords
        return None
    return FailingGaussian(least_true(lambda mu: float(gaussian.delta_range(mu, 0.0)[0]) >= variation, 0.0, 1.0), delta)


@dataclass(frozen=True)
class Charge:
    """What a release costs in the filter's own currency: amounts, each of which adds, and an additive failure.

    Attributes:
        amounts: a squared mu, infinite where no Gaussian dominates, and Rényi values at the filter's orders.
        failure: the probability outside which the amounts hold.
        alone: epsilon of this release at the budget's whole delta; infinite for the total of several.
        plan: only of totals: how the first release decided that delta is divided.
    """

    amounts: tuple[float, ...]
    failure: float
    alone: float = inf
    plan: str = ""

    def __post_init__(self) -> None:
        numbers = (*self.amounts, self.failure, self.alone)
        if any(isnan(amount) or amount < 0 for amount in numbers) or isinf(self.failure):
            raise InputError("Expected every amount of a charge to be at least 0, and its failure to be finite.")

    @property
    def is_nothing(self) -> bool:
        return not any(self.amounts) and not self.failure

    def to_dict(self) -> dict[str, object]:
        """JSON form; an infinite amount is null."""
        amounts = [None if isinf(amount) else amount for amount in self.amounts]
        alone = None if isinf(self.alone) else self.alone
        return {"amounts": amounts, "failure": self.failure, "alone": alone, "plan": self.plan}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Charge":
        stated, failure = (*data["amounts"], data["alone"]), number("failure", data["failure"], NON_NEGATIVE)
        *amounts, alone = (inf if value is None else number("amount", value, NON_NEGATIVE) for value in stated)
        return cls(tuple(amounts), failure, alone, validate.instance_of("plan", data["plan"], str))


@lru_cache(maxsize=1024)
def epsilon_alone(guarantee: Guarantee, delta: float) -> float:
    """Epsilon of one release by itself; kept, because a bisection takes longer than all the rest of a debit."""
    return guarantee.epsilon(delta)


LATE = 0.1  # share of the loss part of delta for ledgers that begin with Gaussians and continue with something else
GAUSSIAN, RENYI = "gaussian", "renyi"
_PARTS = dict.fromkeys(("gaussian_delta", "late_delta", "loss_delta", "failure_delta"), PROBABILITY)
_RANGES = {"epsilon": POSITIVE, "delta": OPEN_UNIT, "mu": POSITIVE, **_PARTS}
_largest_mu = lru_cache(maxsize=64)(gaussian.largest_mu)


@dataclass(frozen=True)
class PrivacyFilter:
    """Accepts while squared mus or Rényi curves stay within their part of delta, or one release within all of it."""

    citation: ClassVar[Citation] = Citation("smith2022fully", "the filter for Gaussian DP; Rényi curves beside it")
    epsilon: float
    delta: float
    gaussian_delta: float
    late_delta: float
    loss_delta: float
    failure_delta: float
    mu: float
    shares: OrderShares

    def __post_init__(self) -> None:
        parts = (self.gaussian_delta, self.late_delta, self.failure_delta)
        for whole in (parts, (self.loss_delta, self.failure_delta)):
            if sum(map(Fraction, whole)) > Fraction(self.delta):
                raise InputError("The parts of delta add up to more than delta.")

    @classmethod
    def opened(cls, budget: Budget) -> Self:
        loss, failure = budget.loss_delta, budget.failure_delta
        while Fraction(loss) + Fraction(failure) > Fraction(budget.delta):
            loss = down(loss)
        of_gaussians = loss * (1 - LATE)
        late = down(loss - of_gaussians, 2)
        mu = gaussian.largest_mu(budget.epsilon, of_gaussians)
        shares = OrderShares.centred(budget.epsilon, loss)
        return cls(budget.epsilon, budget.delta, of_gaussians, late, loss, failure, mu, shares)

    def to_dict(self) -> dict[str, object]:
        numbers = {name: getattr(self, name) for name in _RANGES}
        return {**numbers, "orders": list(self.shares.orders), "shares": list(self.shares.shares)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        if data.keys() != {*_RANGES, "orders", "shares"}:
            raise InputError("The stored filter has unknown or missing numbers.")
        values = {name: number(name, data[name], allowed) for name, allowed in _RANGES.items()}
        return cls(**values, shares=OrderShares(tuple(data["orders"]), tuple(data["shares"])))

    def charge(self, guarantee: Guarantee) -> Charge:
        values, failure = renyi_on(guarantee, self.shares.orders)
        above, alone = dominating_gaussian(guarantee), epsilon_alone(guarantee, self.delta)
        # A release of exactly the budget is not lost by the last digit of a bisection.
        if self.epsilon < alone <= self.epsilon * (1 + 1e-9) and guarantee.delta(self.epsilon) <= self.delta:
            alone = self.epsilon
        square, failing = (inf, 0.0) if above is None else (above.mu * above.mu, above.failure)
        if above is not None and math.isfinite(square) and Fraction(square) < Fraction(above.mu) ** 2:
            square = up(square)
        return Charge((square, *values), max(failing, failure), alone)

    def total(self, charges: Iterable[Charge]) -> Charge:
        """The sum of charges, exact and rounded up once; the first decides the plan, and may be alone."""
        listed = [charge for charge in charges if not charge.is_nothing]
        width = 1 + len(self.shares.orders)
        if any(len(charge.amounts) != width for charge in listed):
            raise InputError(f"Expected every charge to have {width} amounts.")
        if not listed:
            return Charge((0.0,) * width, 0.0)
        first = listed[0]
        amounts = tuple(map(_sum_up, zip(*(charge.amounts for charge in listed), strict=True)))
        failure = _sum_up(tuple(charge.failure for charge in listed))
        plan = first.plan or (RENYI if isinf(first.amounts[0]) else GAUSSIAN)
        return Charge(amounts, failure, first.alone if len(listed) == 1 else inf, plan)

    def fits(self, total: Charge) -> bool:
        """Whether releases that cost this much together stay within the budget."""
        return total.is_nothing or self._composes(total) or total.alone <= self.epsilon

    def _composes(self, total: Charge) -> bool:
        """Whether the releases fit by composition, so that others may follow."""
        within = total.failure <= self.failure_delta
        return within and (self._gaussian_room(total) >= 0 or self._renyi(total) <= self.epsilon)

    def _gaussian_room(self, total: Charge) -> Fraction | float:
        """The squared mu that is left of Gaussians' own, exactly; it may be negative."""
        square = total.amounts[0]
        return -inf if isinf(square) else Fraction(self.mu) ** 2 - Fraction(square)

    def _renyi_delta(self, plan: str) -> float:
        return self.late_delta if plan == GAUSSIAN else self.loss_delta

    def _renyi(self, total: Charge) -> float:
        return self.shares.epsilon(total.amounts[1:], self._renyi_delta(total.plan))

    def spent(self, total: Charge) -> float:
        """Epsilon, at the loss part of the budget's delta, of a ledger stopped at this level; rounded up."""
        if total.is_nothing:
            return 0.0
        square = total.amounts[0]
        root = math.sqrt(square)
        root = up(root) if math.isfinite(root) and Fraction(root) ** 2 < Fraction(square) else root
        of_gaussians = inf if isinf(square) else gaussian.epsilon_upper(root, self.gaussian_delta)
        epsilon = min(of_gaussians, self._renyi(total), total.alone)
        return min(epsilon, self.epsilon) if self.fits(total) else epsilon

    def odometer(self, total: Charge) -> float:
        """Epsilon that holds at whatever moment one chooses to stop and look; rounded up, never below `spent`."""
        if not self._composes(total) and total.alone <= self.epsilon:
            return total.alone
        return max(self.spent(total), self.shares.epsilon(total.amounts[1:], self.loss_delta))

    def room(self, total: Charge) -> float:
        """The squared mu of the largest Gaussian release that still fits, to a few roundings."""
        if total.is_nothing:
            return _largest_mu(self.epsilon, self.delta) ** 2
        by_order = self.shares.room(total.amounts[1:], self.epsilon, self._renyi_delta(total.plan))
        return max(by_order, float(self._gaussian_room(total))) if total.plan == GAUSSIAN else by_order

    def spent_square(self, total: Charge) -> float | None:
        """The sum of squared mus, where it and `room` make up the budget; None where another count decides."""
        of_gaussians = total.plan == GAUSSIAN and self.room(total) == float(self._gaussian_room(total))
        return total.amounts[0] if of_gaussians else None

    def largest_mu(self, total: Charge) -> float:
        mu, step = math.sqrt(max(0.0, self.room(total))), 1e-15  # rounding may have made it a little too large
        while mu > 0 and not self.fits(self.total([total, self.charge(GaussianDP(mu))])):
            mu, step = (mu * (1 - step), 4 * step) if step < 1 else (0.0, step)
        return mu

    def used(self, total: Charge) -> float:
        """The share of the budget that is gone: of loss or of failure, whichever is larger; above 1 if over."""
        whole = self.room(self.total([]))
        loss = 1 - max(0.0, self.room(total)) / whole if whole > 0 else 1.0
        if not total.failure:
            return loss
        return max(loss, total.failure / self.failure_delta if self.failure_delta else inf)


def _sum_up(amounts: Sequence[float]) -> float:
    """The exact sum, rounded up once."""
    if isinf(sum(amounts)):
        return inf
    total = math.fsum(amounts)
    return up(total) if math.fsum((*amounts, -total)) > 0 else total
