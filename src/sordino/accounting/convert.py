"""Converting and composing guarantees: the only place where they are multiplied or added.

Every conversion weakens. Of a dominating pair, Rényi divergences are taken given that its loss is finite.

P = (1 - f) P0 + f P1 with P1 on infinite losses. Q holds the mass s on finite ones; with g = max(s, 1 - f) it is at
least (1 - f) times the (sub-)probability Q / g there. So D(P0 || Q / g), composed, bounds everything but the failure f.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from sordino.core import gaussian, validate
from sordino.core import guarantee as claims
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.gaussian import up, weighted_sum_up
from sordino.core.loss.atomic_pairs import BoundedRangePair, ExplicitPair, ResponsePair, pair_from_curve
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair, Request, Side
from sordino.core.validate import InputError

_RESOLUTION = 100.0
_LONGEST = 2.0**17
_TAIL = 1e-40
_ROUNDING = 1e-12


def pair_renyi(pair: Pair, orders: Array) -> tuple[Array, float]:
    """Upper bounds on D_order, one per order, and the probability outside which they hold."""
    if isinstance(pair, GaussianPair):
        return orders * (pair.mu * pair.mu / 2) * (1 + _ROUNDING), 0.0
    if isinstance(pair, ResponsePair | ExplicitPair):
        atoms = pair.atoms()
        losses, masses, infinite, error = atoms.losses, atoms.masses, pair.infinite, 0.0
    else:
        # Those of a grid law above the pair; what that law misses (its `error`) counts as failure.
        losses, masses = pair.sketch()
        mean = float(masses @ losses) / float(masses.sum())
        deviation = math.sqrt(float(masses @ (losses - mean) ** 2) / float(masses.sum()))
        spacing = max(deviation / _RESOLUTION, float(np.ptp(losses)) / _LONGEST, 1e-9)
        if pair.lattice is not None:
            spacing = pair.lattice / math.ceil(pair.lattice / spacing)
        law = pair.on_grid(Request(Side.UPPER, 0.0, _RESOLUTION, _TAIL), spacing)
        losses, masses = law.losses + law.shift, law.masses * math.exp(law.log_scale)
        infinite, error = law.infinite, law.error
    positive = masses > 0
    losses, masses = losses[positive], masses[positive]
    if infinite >= 1.0 or len(masses) == 0:
        return np.zeros(len(orders)), 1.0
    finite = math.log1p(-infinite)
    below = float((masses * np.exp(-losses)).sum()) * (1 + _ROUNDING)
    # Losses beyond 700 leave nothing that a float could hold.
    support = max(finite, math.log(min(1.0, below))) if below > 0 else finite
    logs, values = np.log(masses), np.empty(len(orders))
    for i, order in enumerate(orders):
        exponents = logs + (order - 1) * losses
        peak = float(exponents.max())
        log_moment = peak + math.log(float(np.exp(exponents - peak).sum()))
        value = (log_moment - order * finite) / (order - 1) + support
        values[i] = value + _ROUNDING * (abs(log_moment) / (order - 1) + float(np.abs(losses).max()) + 1 / (order - 1))
    return np.maximum(values, 0.0), infinite + error


CURVE = np.concatenate([[0.0], np.geomspace(1e-4, 80.0, 400)])
_RANGE_POINTS = 161  # of the curve of a bounded range, which is smooth


def to_loss_distribution(guarantee: claims.Guarantee) -> claims.LossDistribution:
    """The same `guarantee`, of any kind, as a loss distribution, through a dominating pair.

    Returns: a `LossDistribution` that is at least as large. Raises: `InputError` for a kind without such a pair.

    >>> from sordino.accounting import PureDP, to_loss_distribution
    >>> to_loss_distribution(PureDP(1.0)).epsilon(1e-6) <= 1.0 + 1e-9
    True
    """
    match guarantee:
        case claims.LossDistribution():
            return guarantee
        case claims.GaussianDP(mu=0.0) | claims.BoundedRange(width=0.0):
            return claims.LossDistribution(())
        case claims.GaussianDP(mu=mu):
            pair = GaussianPair(mu)
        case claims.PureDP() | claims.ApproxDP() | claims.TotalVariation():
            pair = ResponsePair(*guarantee.point)
        case claims.BoundedRange(width=width, draws=1):
            pair = BoundedRangePair(width)
        case claims.BoundedRange():
            epsilons = np.linspace(0.0, min(guarantee.largest_loss, CURVE[-1]), _RANGE_POINTS)
            pair = pair_from_curve(epsilons, guarantee.deltas(epsilons))
        case _:
            pair = pair_from_curve(CURVE, guarantee.deltas(CURVE))
    return claims.LossDistribution(((pair, 1),))


def to_renyi(guarantee: claims.Guarantee) -> claims.RenyiDP:
    """The same `guarantee` as a Rényi curve on the common grid of orders.

    Returns: a `RenyiDP` that is at least as large. Raises: `InputError` for a kind without a Rényi curve.

    >>> from sordino.accounting import GaussianDP, to_renyi
    >>> curve = to_renyi(GaussianDP(1.0))
    >>> round(curve.values[curve.orders.index(2.0)], 6)
    1.0
    """
    if isinstance(guarantee, claims.RenyiDP):
        return guarantee
    if isinstance(guarantee, claims.GaussianDP):
        return claims.RenyiDP(claims.ORDERS, tuple(up(order * guarantee.mu**2 / 2, 4) for order in claims.ORDERS))
    if isinstance(guarantee, claims.BoundedRange):
        return guarantee.renyi()
    if not isinstance(guarantee, claims.PureDP | claims.ApproxDP | claims.TotalVariation | claims.LossDistribution):
        raise InputError(f"Expected a guarantee with a Rényi curve, got {type(guarantee).__name__}.")
    orders = np.asarray(claims.ORDERS)
    values, failures = [], []
    for reverse in (False, True):
        total, log_none = np.zeros(len(orders)), 0.0
        for pair, count in to_loss_distribution(guarantee).factors:
            divergences, failure = pair_renyi(pair.reversed() if reverse else pair, orders)
            total += count * divergences
            log_none += count * (math.log1p(-failure) if failure < 1 else -math.inf)
        values.append(total)
        failures.append(-math.expm1(log_none))
    failure = min(1.0, up(max(failures) * (1 + 1e-15), 4) if max(failures) else 0.0)
    return claims.RenyiDP(claims.ORDERS, tuple((np.maximum(*values) * (1 + 1e-12)).tolist()), failure)


def bounded_renyi(guarantee: claims.LossDistribution) -> claims.RenyiDP | None:
    """A Rényi curve without the failure of `to_renyi`, from the largest loss of every pair; None where one has none."""
    orders, total = np.asarray(claims.ORDERS), np.zeros(len(claims.ORDERS))
    for pair, count in guarantee.factors:
        both = (pair, pair.reversed())
        largest = max(one.largest_loss for one in both)
        if math.isinf(largest) or any(one.infinite > 0 for one in both):
            return None
        total += count * pair_renyi(ResponsePair(up(largest, 4), 0.0), orders)[0]
    return claims.RenyiDP(claims.ORDERS, tuple((total * (1 + 1e-12)).tolist()))


def group_of(guarantee: claims.Guarantee, size: int) -> claims.Guarantee:
    """The guarantee for a group of records that change together, such as those of one unit; rounded up.

    (epsilon, delta) becomes (k epsilon, (1 + e^epsilon + ... + e^((k - 1) epsilon)) delta), by going from the one table
    to the other record by record, with equal shares of epsilon (Dong, Roth & Su 2022, Theorem 2.14).
    """
    size = validate.whole_number("the size of a group", size)
    match guarantee:
        case _ if size == 1:
            return guarantee
        case claims.GaussianDP(mu=mu):
            return claims.GaussianDP(_times(mu, size))
        case claims.PureDP(value=epsilon):
            return claims.PureDP(_times(epsilon, size))
        case claims.TotalVariation(value=delta):
            return claims.TotalVariation(min(1.0, _times(delta, size)))
        case claims.BoundedRange(width=width, draws=draws):
            return claims.BoundedRange(_times(width, size), draws)
        case claims.ApproxDP(epsilon_value=epsilon, delta_value=delta):
            total = _times(epsilon, size)
            if total > 700:
                return claims.ApproxDP(total, float(math.ceil(delta)))
            grown = delta * float(_geometric(np.array([epsilon]), size)[0])
            return claims.ApproxDP(total, min(1.0, up(grown * (1 + 1e-12))) if delta else 0.0)
        case claims.LossDistribution(factors=factors):
            mus = [(pair.mu, count) for pair, count in factors if isinstance(pair, GaussianPair)]
            if len(mus) == len(factors):
                return group_of(claims.GaussianDP(gaussian.composed(mus)), size)
    each = CURVE[CURVE[-1] / 2 >= CURVE] if size == 2 else CURVE / size
    deltas = guarantee.deltas(each) * _geometric(each, size) * (1 + 1e-12)
    return claims.LossDistribution(((pair_from_curve(size * each, np.minimum(1.0, deltas)), 1),))


def _geometric(epsilons: Array, size: int) -> Array:
    """1 + e^epsilon + ... + e^((size - 1) epsilon)."""
    steps = np.where(epsilons > 0, epsilons, 1.0)
    return np.where(epsilons > 0, np.expm1(size * steps) / np.expm1(steps), float(size))


def _times(value: float, size: int) -> float:
    """A product rounded up, exact where it is."""
    product = value * size
    return product if size & (size - 1) == 0 else up(product) if product else 0.0


def subsample(guarantee: claims.Guarantee, rate: float, relation: Relation) -> claims.Guarantee:
    """The add-remove guarantee of a mechanism that first keeps each record by a secret coin of chance `rate`.

    delta'(log(1 + q (e^epsilon - 1))) <= q delta(epsilon) (Balle, Barthe & Gaboardi 2018, Theorem 8). **Proof.** Let A
    be the output's law without the record and B its law given that the record was drawn. The outputs follow A and
    (1 - q) A + q B, and delta bounds both orders of (A, B). One order is an equality. For the other put x = e^epsilon
    and E = 1 + q (x - 1). The hockey stick is a delta(log(E q / a)) with a = 1 - E (1 - q) <= q, and E q >= a x, since
    E (q + x (1 - q)) - x = q (1 - q) (1 - x)^2 >= 0. Under replace-one nothing bounds (A, B), so that is refused.

    `guarantee` is that of the mechanism on all records, `relation` that of this guarantee.

    Returns: the guarantee of the sampled mechanism, under add-remove. Raises: `InputError` for a `rate` outside of
    (0, 1], or a guarantee that is not under add-remove.

    >>> from sordino.accounting import PureDP, subsample
    >>> round(subsample(PureDP(1.0), 0.01, "add-remove").epsilon(1e-9), 6)
    0.017037
    """
    _check_add_remove(relation)
    rate = validate.number("rate", rate, validate.SHARE)

    def amplified(epsilon: float) -> float:
        return up(math.log1p(rate * math.expm1(epsilon)) if epsilon < 700 else epsilon, 8)

    match guarantee:
        case claims.PureDP(value=epsilon):
            return claims.PureDP(amplified(epsilon))
        case claims.ApproxDP(epsilon_value=epsilon, delta_value=delta):
            return claims.ApproxDP(amplified(epsilon), up(rate * delta))
        case claims.TotalVariation(value=delta):
            return claims.TotalVariation(up(rate * delta))
    epsilons = np.array([0.0, *map(amplified, CURVE[1:])])
    deltas = np.minimum(1.0, rate * guarantee.deltas(CURVE) * (1 + 1e-15))
    return claims.LossDistribution(((pair_from_curve(epsilons, deltas), 1),))


def replace_one_from_add_remove(guarantee: claims.Guarantee, relation: Relation) -> claims.Guarantee:
    """A replace-one guarantee from an add-remove `guarantee`: removing a record and adding another is a group of two.

    The converse does not hold and is refused; `relation` is that of the guarantee given.

    Returns: the guarantee under replace-one. Raises: `InputError` for a guarantee that is not under add-remove.

    >>> from sordino.accounting import GaussianDP, replace_one_from_add_remove
    >>> replace_one_from_add_remove(GaussianDP(1.0), "add-remove")
    GaussianDP(mu=2.0)
    """
    _check_add_remove(relation)
    return group_of(guarantee, 2)


def _check_add_remove(relation: Relation) -> None:
    if Relation(relation) is not Relation.ADD_REMOVE:
        raise InputError(
            f"This guarantee is under {relation}. Only add-remove guarantees apply to datasets of different size."
        )


# Composition. Theorems return one-use guarantees; a list, a count and a mixture of them are composed here and nowhere
# else, so no branch can forget to multiply.

NOTHING = claims.GaussianDP(0.0)


def compose(uses: Iterable[tuple[claims.Guarantee, int]]) -> claims.Guarantee:
    """The guarantee of running every mechanism, each as often as its count says.

    Gaussians stay Gaussian (Dong, Roth & Su 2022, Corollary 3.3), Rényi curves add (Mironov 2017, Proposition 1), and
    everything else goes through dominating pairs (Zhu, Dong & Wang 2022, Theorem 10). One Rényi curve in the list takes
    the others along: a Rényi curve has no dominating pair as tight as itself. `uses` are guarantees, each with a count.

    Returns: the guarantee of all of them together. Raises: `InputError` for a count that is no whole number.

    >>> from sordino.accounting import GaussianDP, compose
    >>> round(compose([(GaussianDP(3.0), 1), (GaussianDP(4.0), 1)]).mu, 6)
    5.0
    """
    listed = [(guarantee, validate.whole_number("count", count)) for guarantee, count in uses]
    if not listed:
        return NOTHING
    if len(listed) == 1 and listed[0][1] == 1:
        return listed[0][0]
    mus = [(guarantee.mu, count) for guarantee, count in listed if isinstance(guarantee, claims.GaussianDP)]
    if len(mus) == len(listed):
        return claims.GaussianDP(gaussian.composed(mus))
    if any(isinstance(guarantee, claims.RenyiDP) for guarantee, _ in listed):
        curves = [(to_renyi(guarantee), count) for guarantee, count in listed]
        common = [order for order in curves[0][0].orders if all(order in curve.orders for curve, _ in curves)]
        orders = tuple(common) or claims.ORDERS[:1]
        values = tuple(weighted_sum_up((curve.at(order), count) for curve, count in curves) for order in orders)
        failure = min(1.0, weighted_sum_up((curve.failure, count) for curve, count in curves))
        return claims.RenyiDP(orders, values, failure)
    factors = [(to_loss_distribution(guarantee).factors, count) for guarantee, count in listed]
    return claims.LossDistribution(tuple((pair, times * count) for pairs, count in factors for pair, times in pairs))


def failing(guarantee: claims.Guarantee, failure: float) -> claims.Guarantee:
    """The guarantee of a run that is covered but for an event of this probability."""
    return compose([(guarantee, 1), (claims.TotalVariation(failure), 1)]) if failure else guarantee


def repeat(guarantee: claims.Guarantee, count: int) -> claims.Guarantee:
    """The same mechanism, of this `guarantee`, `count` times, independently, on the same data.

    Returns: the guarantee of all of them. Raises: `InputError` for a count that is no whole number above 0.

    >>> from sordino.accounting import GaussianDP, repeat
    >>> round(repeat(GaussianDP(1.0), 4).mu, 6)
    2.0
    """
    if isinstance(guarantee, claims.BoundedRange):
        # The same law every time: its draws share one interval. Different laws (`compose`) need not.
        return claims.BoundedRange(guarantee.width, guarantee.draws * validate.whole_number("count", count))
    return compose([(guarantee, count)])


def mix(weights: Sequence[float], guarantees: Sequence[claims.Guarantee]) -> claims.Guarantee:
    """A mechanism that draws a component independently of the data and reveals which: delta is the average.

    `weights` are the probabilities of the components, `guarantees` those of each.

    Returns: the guarantee of the mixture. Raises: `InputError` for weights that are no probabilities, one each.

    >>> from sordino.accounting import TotalVariation, mix
    >>> mix([0.5, 0.5], [TotalVariation(0.1), TotalVariation(0.3)]).delta(0.0) <= 0.2 + 1e-12
    True
    """
    if len(guarantees) == 1:
        return guarantees[0]
    mus = tuple(guarantee.mu for guarantee in guarantees if isinstance(guarantee, claims.GaussianDP))
    if len(mus) == len(guarantees) and max(mus, default=0.0) > 0:
        return claims.LossDistribution(((GaussianMixturePair(tuple(weights), mus), 1),))
    components = tuple(to_loss_distribution(guarantee).factors for guarantee in guarantees)
    return claims.LossDistribution(((MixturePair(tuple(weights), components), 1),))
