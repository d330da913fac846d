"""Brackets of loss distributions against enclosures by ball arithmetic: neither end may contradict the other's."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from flint import arb

from sordino.core.guarantee import LossDistribution
from sordino.core.loss import atomic_pairs as atomic
from sordino.core.loss.allocation import AllocationPair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, PoissonReplacePair, WithoutReplacementPair
from sordino.core.loss.pair import Pair
from tests.core.loss import enclosed_pairs as enclosed
from tests.core.loss.enclosure import Law, Line, below


@dataclass(frozen=True)
class Value:
    """A composition, its pair in the package, and in balls with the spacing of a lattice."""

    name: str
    pair: Pair
    uses: int
    line: Line | Law
    spacing: arb | None = None
    width: float = 0.01  # the enclosure is at least so narrow
    delta: float = 1e-5

    def enclosure(self) -> tuple[float, float]:
        if isinstance(self.line, Law):
            return enclosed.lattice_epsilons(self.line, self.uses, self.delta)
        assert self.spacing is not None
        return self.line.epsilons(self.uses, self.delta, self.spacing)

    def bracket(self) -> tuple[float, float]:
        bracket = LossDistribution(((self.pair, self.uses),)).epsilon_bracket(self.delta, 1e-3)
        return bracket.low, bracket.high


def _categories(truth: float, count: int) -> atomic.ExplicitPair:
    loss = float((arb(truth) * (count - 1) / (1 - arb(truth))).log().mid())
    other = (1 - truth) / (count - 1)
    return atomic.ExplicitPair((-loss, 0.0, loss), (other, 1 - truth - other, truth), 0.0)


# fmt: off
FAST = [
    Value("Gaussian, mu .5", GaussianPair(0.5), 4, enclosed.gaussian(0.5), arb("0.01"), 1e-3),
    Value("Gaussian, mu 1, delta 1e-9", GaussianPair(1.0), 2, enclosed.gaussian(1.0), arb("0.02"), 1e-3, 1e-9),
    Value("Laplace, epsilon .5", atomic.LaplacePair(0.5), 20, enclosed.laplace(0.5), arb(0.5) / 50, 1e-3),
    Value("Laplace, epsilon .1", atomic.LaplacePair(0.1), 400, enclosed.laplace(0.1), arb(0.1) / 16, 3e-3),
    Value("bounded range .5", atomic.BoundedRangePair(0.5), 20, enclosed.bounded_range(0.5), arb(0.5) / 200, 2e-3),
    Value("Poisson-sampled Laplace, rate .1, epsilon 1", atomic.PoissonLaplacePair(0.1, 1.0), 100,
          enclosed.sampled_laplace(0.1, 1.0), (1 + arb(0.1) * (arb(1).exp() - 1)).log() / 400, 5e-3),
    Value("Poisson, rate .1", PoissonRemovePair(0.1, 1.0), 100, enclosed.poisson_removed(0.1, 1.0), arb("0.01"), 3e-3),
    Value("without replacement, rate .1", WithoutReplacementPair(0.1, 1.0), 100,
          enclosed.without_replacement(0.1, 1.0), arb("0.01")),
    Value("randomised response, epsilon .3", atomic.ResponsePair(0.3, 0.0), 50, enclosed.response(0.3), width=1e-9),
    Value("four categories", _categories(0.4, 4), 20, enclosed.categories(0.4, 4), width=1e-9),
    Value("discrete Laplace", atomic.DiscreteLaplacePair(0.2, 3), 30, enclosed.discrete_laplace(0.2, 3), width=1e-9),
    Value("discrete Gaussian", atomic.DiscreteGaussianPair(3.0, 1), 20, enclosed.discrete_gaussian(3.0, 1), width=1e-9),
    Value("discrete Gaussian, move 2", atomic.DiscreteGaussianPair(4.0, 2), 9,
          enclosed.discrete_gaussian(4.0, 2), width=1e-9),
]
_GOLDEN = enclosed.poisson_removed(0.01, 1.0)
GOLDEN = Value("golden Poisson, rate .01", PoissonRemovePair(0.01, 1.0), 1000, _GOLDEN, arb("0.001"), 3e-3)
SLOW = [
    Value("golden Poisson, replace-one", PoissonReplacePair(0.01, 1.0), 1000,
          enclosed.poisson_replaced(0.01, 1.0), arb("0.001"), 1e-3),
    Value("golden Poisson, finer", PoissonRemovePair(0.01, 1.0), 1000, _GOLDEN, arb("0.0003"), 4e-4),
    Value("without replacement, rate .01, 1000 steps", WithoutReplacementPair(0.01, 1.0), 1000,
          enclosed.without_replacement(0.01, 1.0), arb("0.001"), 0.03),
    Value("discrete Gaussian, 1000 uses", atomic.DiscreteGaussianPair(30.0, 1), 1000,
          enclosed.discrete_gaussian(30.0, 1)),
]
# fmt: on
VALUES = [*FAST, GOLDEN, *SLOW]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "value",
    [*FAST, *(pytest.param(value, marks=pytest.mark.slow) for value in (GOLDEN, *SLOW))],
    ids=lambda value: value.name,
)
def test_brackets_and_enclosures_meet(value: Value) -> None:
    (low, high), (least, most) = value.bracket(), value.enclosure()
    assert most <= least * (1 + value.width), "the enclosure is too wide to say anything"
    assert high >= least, "our upper end is below a rigorous lower end"
    assert low <= most, "our lower end is above a rigorous upper end"
    assert low >= least * (1 - 2e-3)
    assert high <= most * (1 + 2e-3)


@pytest.mark.slow
def test_the_golden_values_are_what_is_printed() -> None:
    """1.8282 for removal; the reverse is smaller, so it is the value of both; .1610 is delta at epsilon 0."""
    least, most = GOLDEN.enclosure()
    assert least <= 1.8282 <= most
    added = enclosed.poisson_added(0.01, 1.0).above(arb("0.002")).power(1000).curve()
    assert added.epsilon(1e-5, True) < least
    low, high = enclosed.poisson_removed(0.01, 1.0).deltas(1000, 0.0, "0.002")
    assert low <= arb("0.1611")
    assert high >= arb("0.1609")
    assert high - low < arb("0.002")


@pytest.mark.parametrize(("total", "mu"), [(2, 0.8), (7, 0.5)])
def test_one_seen_step_of_a_round_has_a_closed_form(total: int, mu: float) -> None:
    """R = 1 + (X - 1) / t with one lognormal X: both hockey sticks are normal probabilities."""
    pair, size, share = AllocationPair(total, 1, mu), arb(mu), arb(1) / total
    for epsilon in (0.05, 0.3):
        y = arb(epsilon).exp()
        # R > y where X > 1 + t (y - 1); E (R - y)+ = E_P - y E_Q over that set.
        x = 1 + total * (y - 1)
        z = x.log() / size + size / 2
        removed = share * below(size - z) + (1 - share) * below(-z) - y * below(-z)
        x = 1 + total * (1 / y - 1)
        added = arb(0)
        if x > 0:
            z = x.log() / size + size / 2
            added = below(z) - y * (share * below(z - size) + (1 - share) * below(z))
        truth = removed.max(added)
        found = LossDistribution(((pair, 1),)).delta_bracket(epsilon)
        assert arb(found.high) >= truth
        assert arb(found.low) <= truth
        assert arb(found.high) <= truth * arb("1.02")


def test_an_enclosure_that_is_made_smaller_is_caught() -> None:
    """The comparison can fail: uses left out, or a rate that is too small, contradict the bracket."""
    low, _ = FAST[6].bracket()
    for line, uses in ((enclosed.poisson_removed(0.1, 1.0), 95), (enclosed.poisson_removed(0.095, 1.0), 100)):
        assert line.above(arb("0.02")).power(uses).curve().epsilon(1e-5, True) < low


def test_the_page_of_exact_values_lists_them_all() -> None:
    text = (Path(__file__).parents[3] / "bench/pages/exact-values.md").read_text(encoding="utf-8")
    for value in VALUES:
        assert f"| {value.name} | {value.uses} | {value.delta:g} |" in text
