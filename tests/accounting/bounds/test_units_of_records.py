"""A step that a unit of several records joins: above the exact divergence, however many uses are told apart."""

import mpmath as mp
import pytest

from sordino.accounting.bounds.hidden_steps import _MOST_USES, unit_step
from sordino.accounting.evaluate import Bound, evaluate, for_group, theorem_named
from sordino.core.guarantee import LossDistribution
from tests.accounting.described import noised_sums

mp.mp.dps = 40


def exact_deltas(size: int, rate: float, ratio: float, epsilon: float) -> tuple[mp.mpf, mp.mpf]:
    """delta of the binomial mixture of N(j ratio, 1) against N(0, 1), and the other way round."""
    chances = [mp.binomial(size, j) * mp.mpf(rate) ** j * (1 - mp.mpf(rate)) ** (size - j) for j in range(size + 1)]

    def loss(z: mp.mpf) -> mp.mpf:
        return mp.log(mp.fsum(w * mp.exp(j * ratio * z - (j * ratio) ** 2 / 2) for j, w in enumerate(chances)))

    def crossing(level: float) -> mp.mpf:
        low, high = mp.mpf(-60), mp.mpf(60)
        if loss(low) >= level:
            return -mp.inf
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) < level else (low, middle)
        return high

    def below(x: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
        return mp.fsum(w * mp.ncdf(x - j * ratio) for j, w in enumerate(chances)), mp.ncdf(x)

    joined, left = below(crossing(epsilon)), below(crossing(-epsilon))
    return (1 - joined[0]) - mp.exp(epsilon) * (1 - joined[1]), left[1] - mp.exp(epsilon) * left[0]


@pytest.mark.parametrize(
    ("size", "rate", "ratio"), [(3, 0.2, 1.0), (_MOST_USES, 0.5, 0.2), (_MOST_USES + 1, 0.5, 0.2), (120, 0.6, 0.05)]
)
def test_units_on_both_sides_of_the_uses_told_apart(size: int, rate: float, ratio: float) -> None:
    found = LossDistribution(((unit_step(rate, ratio, size), 1),))
    for epsilon in (0.1, 1.0, 4.0):
        truth = max(exact_deltas(size, rate, ratio, epsilon))
        assert truth <= found.delta(epsilon)
        if size <= _MOST_USES:
            assert found.delta(epsilon) <= truth * (1 + mp.mpf("1e-3")) + mp.mpf("1e-9")
        assert found.delta(epsilon) <= 1.2 * truth + mp.mpf("1e-9")


@pytest.mark.parametrize(("size", "known"), [(4, 8.902), (8, 20.901)])
def test_units_with_poisson_batches_have_pairs_of_their_own(size: int, known: float) -> None:
    """Record by record 4 cost 11.83, and 8 had no bound."""
    spec = noised_sums(10_000, 1000, 1.0, {"scheme": "poisson", "size": 100}, delta=1e-5)
    bound = evaluate(theorem_named("composition.subsampled-poisson"), spec)
    assert isinstance(bound, Bound)
    assert for_group(bound, spec, size).epsilon(1e-5) <= known
