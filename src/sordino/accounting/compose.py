"""Composition: the only place where guarantees are multiplied or added.

Theorems return one-use guarantees; a list, a count and a mixture of them are composed here and nowhere else, so no
branch can forget to multiply.
"""

from collections.abc import Iterable, Sequence

from sordino.accounting.convert import to_loss_distribution, to_renyi
from sordino.core import gaussian, validate
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.gaussian_mixture_pair import GaussianMixturePair
from sordino.core.loss.mixture_pair import MixturePair
from sordino.core.loss.pair import Pair
from sordino.core.rounding import weighted_sum_up

NOTHING = GaussianDP(0.0)


def compose(uses: Iterable[tuple[Guarantee, int]]) -> Guarantee:
    """The guarantee of running every mechanism, each as often as its count says.

    Gaussians stay Gaussian (Dong, Roth & Su 2022, Corollary 3.3), Rényi curves add (Mironov 2017, Proposition 1), and
    everything else goes through dominating pairs (Zhu, Dong & Wang 2022, Theorem 10). One Rényi curve in the list takes
    the others along: a Rényi curve has no dominating pair as tight as itself.
    """
    listed = [(guarantee, validate.whole_number("count", count)) for guarantee, count in uses]
    if not listed:
        return NOTHING
    if len(listed) == 1 and listed[0][1] == 1:
        return listed[0][0]
    if all(isinstance(guarantee, GaussianDP) for guarantee, _ in listed):
        mus = [(guarantee.mu, count) for guarantee, count in listed if isinstance(guarantee, GaussianDP)]
        return GaussianDP(gaussian.composed(mus))
    if any(isinstance(guarantee, RenyiDP) for guarantee, _ in listed):
        return _renyi([(to_renyi(guarantee), count) for guarantee, count in listed])
    return LossDistribution(
        tuple(
            (pair, times * count)
            for guarantee, count in listed
            for pair, times in to_loss_distribution(guarantee).factors
        )
    )


def repeat(guarantee: Guarantee, count: int) -> Guarantee:
    """The same mechanism `count` times, independently, on the same data."""
    return compose([(guarantee, count)])


def pairs(uses: Iterable[tuple[Pair, int]]) -> LossDistribution:
    """The composition of mechanisms given by dominating pairs."""
    return LossDistribution(tuple(uses))


def mix(weights: Sequence[float], guarantees: Sequence[Guarantee]) -> Guarantee:
    """A mechanism that draws a component independently of the data and reveals which: delta is the average."""
    if len(guarantees) == 1:
        return guarantees[0]
    mus = tuple(guarantee.mu for guarantee in guarantees if isinstance(guarantee, GaussianDP))
    if len(mus) == len(guarantees) and max(mus, default=0.0) > 0:
        return LossDistribution(((GaussianMixturePair(tuple(weights), mus), 1),))
    components = tuple(to_loss_distribution(guarantee).factors for guarantee in guarantees)
    return LossDistribution(((MixturePair(tuple(weights), components), 1),))


def _renyi(uses: list[tuple[RenyiDP, int]]) -> RenyiDP:
    common = [order for order in uses[0][0].orders if all(order in curve.orders for curve, _ in uses)]
    orders = tuple(common) or ORDERS[:1]
    values = tuple(weighted_sum_up((curve.at(order), count) for curve, count in uses) for order in orders)
    failure = weighted_sum_up((curve.failure, count) for curve, count in uses)
    return RenyiDP(orders, values, min(1.0, failure))
