"""Certified brackets of epsilon and delta contain the truth: closed forms, binomials, exact finite laws."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.loss import evaluate as brackets
from sordino.core.loss import normal_pairs as normal
from sordino.core.loss.atomic_pairs import ExplicitPair, LaplacePair, ResponsePair
from sordino.core.loss.convolve import coarsen
from sordino.core.loss.evaluate import delta_bracket, delta_curve, epsilon_bracket
from sordino.core.loss.pair import GridLaw, Side
from tests.core.loss import exact as known

WIDTH = 1e-3


def check_epsilon(factors, delta, exact_delta, narrow=True):
    bracket = epsilon_bracket(factors, delta, WIDTH)
    assert bracket.low == 0 or exact_delta(mp.mpf(bracket.low)) >= delta
    assert math.isinf(bracket.high) or exact_delta(mp.mpf(bracket.high)) <= delta
    if narrow:
        assert bracket.relative_width <= WIDTH


def check_delta(factors, epsilon, exact):
    bracket = delta_bracket(factors, epsilon, 1e-2)
    assert bracket.low <= exact <= bracket.high
    assert delta_curve(factors, np.array([epsilon, 2 * epsilon + 1]))[0] >= exact
    return bracket


@pytest.mark.every(4)
@pytest.mark.parametrize(("mu", "count"), [(0.5, 4), (1e-3, 1), (0.02, 2500), (1.0, 1), (3.0, 1), (0.1, 10_000)])
def test_gaussians(mu, count):
    factors, total = ((normal.GaussianPair(mu), count),), mu * math.sqrt(count)
    for delta in (1e-12, 1e-5, 0.05):
        check_epsilon(factors, delta, lambda epsilon: known.gaussian_delta(total, epsilon))
    for epsilon in (0.0, 0.3 * total, total, 8.0 * total):
        assert check_delta(factors, epsilon, known.gaussian_delta(total, epsilon)).relative_width <= 0.02


@pytest.mark.every(2)
@pytest.mark.parametrize("delta0", [0.0, 1e-6])
@pytest.mark.parametrize(("epsilon0", "count"), [(1e-3, 500), (0.1, 60), (0.5, 7), (1.0, 1), (3.0, 20), (30.0, 2)])
def test_randomised_response(epsilon0, delta0, count):
    factors = ((ResponsePair(epsilon0, delta0), count),)
    for delta in (1e-9, 1e-4, 0.03):
        check_epsilon(factors, delta, lambda e: known.response_delta(epsilon0, delta0, count, e), narrow=delta > 1e-3)
    for share in (0.0, 0.1, 0.5, 0.97):
        epsilon = share * count * epsilon0
        check_delta(factors, epsilon, known.response_delta(epsilon0, delta0, count, epsilon))


def test_infinite_loss_more_likely_than_delta_has_no_epsilon():
    bracket = epsilon_bracket(((ResponsePair(1.0, 1e-4), 3),), 1e-4, WIDTH)
    assert bracket.low == bracket.high == math.inf


@pytest.mark.parametrize(
    ("pair", "epsilon", "exact"),
    [
        (ResponsePair(700.0, 0.0), 650.0, 1.0),
        (ResponsePair(1e4, 0.0), 9e3, 1.0),
        (LaplacePair(1500.0), 1000.0, float(known.laplace_delta(1500.0, 1000.0))),
        (ExplicitPair((-900.0, 0.0, 800.0), (0.0, 0.5, 0.5), 0.0), 700.0, 0.5),
    ],
)
def test_losses_beyond_the_grid_count_as_infinite_above_and_as_its_end_below(pair, epsilon, exact):
    bracket = delta_bracket(((pair, 1),), epsilon, 1e-2)
    assert bracket.low <= exact <= bracket.high + 1e-15


ONE_USE = [
    (
        normal.PoissonRemovePair,
        lambda q, mu, e: max(known.poisson_remove_delta(q, mu, e), known.poisson_add_delta(q, mu, e)),
    ),
    (
        normal.PoissonAddPair,
        lambda q, mu, e: max(known.poisson_remove_delta(q, mu, e), known.poisson_add_delta(q, mu, e)),
    ),
    (normal.PoissonReplacePair, known.poisson_replace_delta),
    (normal.WithoutReplacementPair, known.poisson_remove_delta),
    (lambda _, epsilon0: LaplacePair(epsilon0), lambda _, epsilon0, e: known.laplace_delta(epsilon0, e)),
]


@pytest.mark.every(3)
@pytest.mark.parametrize(("kind", "exact"), ONE_USE)
@pytest.mark.parametrize(("rate", "mu"), [(1e-4, 0.5), (0.01, 1.0), (0.3, 2.0), (0.9, 0.2), (1e-3, 4.0), (0.5, 6.0)])
def test_one_use(kind, exact, rate, mu):
    factors = ((kind(rate, mu), 1),)
    for epsilon in (0.0, 1e-5, 0.01, 0.3, 1.0, 4.0, 12.0):
        check_delta(factors, epsilon, exact(rate, mu, epsilon))
    for delta in (1e-8, 1e-5):
        check_epsilon(factors, delta, lambda epsilon: exact(rate, mu, epsilon), narrow=False)


@st.composite
def explicit_pairs(draw):
    """A finite law that a pair can have: P-masses on losses, Q-masses at most 1."""
    losses = sorted(set(draw(st.lists(st.floats(-3, 5).map(lambda x: round(x, 3)), min_size=1, max_size=7))))
    weights = draw(st.lists(st.floats(1e-6, 1.0), min_size=len(losses), max_size=len(losses)))
    infinite = draw(st.sampled_from([0.0, 1e-7, 0.01]))
    total = sum(weights)
    return ExplicitPair(tuple(losses), tuple(w / total * (1 - infinite) for w in weights), infinite)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(pairs=st.lists(explicit_pairs(), min_size=1, max_size=3), share=st.floats(0, 1))
def test_finite_laws_composed(pairs, share):
    losses, masses = known.convolved([(pair.losses, pair.masses) for pair in pairs])
    infinite = 1 - mp.fprod(1 - mp.mpf(pair.infinite_mass) for pair in pairs)
    factors = tuple((pair, 1) for pair in pairs)
    epsilon = share * max(float(losses[-1]), 0.1)
    exact = known.hockey_stick(losses, masses, epsilon, infinite)
    bracket = delta_bracket(factors, epsilon, 1e-2)
    slack = mp.mpf("1e-15")  # masses that add to 1 only up to rounding
    assert bracket.low - slack <= exact <= bracket.high + slack
    if exact > 0:
        delta = float(min(exact, mp.mpf("0.999")))
        epsilons = epsilon_bracket(factors, delta, WIDTH)
        assert epsilons.low == 0 or known.hockey_stick(losses, masses, epsilons.low, infinite) >= delta * (1 - 1e-12)
        assert math.isinf(epsilons.high) or known.hockey_stick(losses, masses, epsilons.high, infinite) <= delta * (
            1 + 1e-12
        )


def test_one_use_of_a_listed_law_is_no_end_of_several():
    """The mean of e^-L exceeds 1 in the first law, so it is that of no pair, and adding it takes from the other."""
    first = ExplicitPair((-1.0, 0.0, 1.0, 2.0), (0.25, 0.25, 0.25, 0.25), 0.0)
    other = ExplicitPair((1.0,), (1.0,), 0.0)
    losses, masses = known.convolved([(pair.losses, pair.masses) for pair in (first, other)])
    delta = float(known.hockey_stick(losses, masses, 0.0, 0))
    assert epsilon_bracket(((other, 1),), delta, WIDTH).low > 0.05
    assert epsilon_bracket(((first, 1), (other, 1)), delta, WIDTH).low == 0.0


def test_a_law_far_from_zero_stays_on_the_grid():
    """A sure loss near 200: the grid is long from 0, short from where the law is."""
    bracket = epsilon_bracket(((ExplicitPair((199.0, 199.0 + 1e-6), (0.5, 0.5), 0.0), 2),), 1e-5, WIDTH)
    assert 398.0 - 2e-5 <= bracket.high <= 398.001
    assert bracket.low <= 398.0 + 2e-6
    strong = epsilon_bracket(((normal.GaussianPair(20.0), 1),), 1e-5, WIDTH)
    assert strong.low == 0 or known.gaussian_delta(20.0, strong.low) >= 1e-5
    assert known.gaussian_delta(20.0, min(strong.high, 1e6)) <= 1e-5


def test_a_narrow_law_with_a_far_atom_is_not_lost_when_tilted():
    """Tilting by the far atom's weight underflows all the mass there is; the upper bound must not become 0."""
    pair = ExplicitPair((-1e-3, 1e-3, 80.0), (0.4995, 0.5005, 0.0), 0.0)
    exact = response = 0.5005 * -math.expm1(-1e-3)
    bracket = delta_bracket(((pair, 1),), 0.0, 1e-2)
    assert bracket.low <= response * (1 + 1e-12)
    assert bracket.high >= exact * (1 - 1e-12)


def test_gaussian_and_response_together():
    """delta = sum over the response of its probability times the Gaussian curve shifted by its loss."""
    yes = 1 / (1 + mp.exp(-1))

    def exact(epsilon):
        return sum(mass * known.gaussian_delta(0.7, epsilon - loss) for loss, mass in ((1, yes), (-1, 1 - yes)))

    factors = ((normal.GaussianPair(0.7), 1), (ResponsePair(1.0, 0.0), 1))
    for epsilon in (0.0, 0.6, 2.0):
        check_delta(factors, epsilon, exact(epsilon))
    for delta in (1e-8, 1e-3):
        check_epsilon(factors, delta, exact)


@pytest.mark.parametrize(
    ("pair", "largest"),
    [
        (ResponsePair(0.7, 1e-9), 0.7),
        (LaplacePair(0.3), 0.3),
        (ExplicitPair((-0.5, 0.2, 0.4), (0.3, 0.3, 0.4), 0.0), 0.4),
        (normal.PoissonAddPair(0.01, 3.0), -math.log1p(-0.01)),
        (normal.PoissonRemovePair(0.01, 3.0), math.inf),
    ],
)
def test_epsilon_never_exceeds_the_sum_of_the_largest_losses(pair, largest):
    assert pair.largest_loss == pytest.approx(largest, rel=1e-12)
    assert pair.largest_loss >= largest * (1 - 1e-15)
    for count in (1, 40):
        assert brackets._epsilon(((pair, count),), 1e-6, WIDTH).high <= count * pair.largest_loss * (1 + 1e-12)


def test_infinite_losses_as_likely_as_delta_lift_the_cap():
    assert math.isinf(brackets._largest_loss(((ResponsePair(0.7, 1e-6), 3),), 2e-6))
    assert brackets._largest_loss(((ResponsePair(0.7, 1e-6), 3),), 1e-5) == pytest.approx(2.1)


@pytest.mark.parametrize(("rate", "count", "delta"), [(1e-9, 100, 1e-9), (1e-9, 10**4, 1e-9), (1e-6, 10**4, 1e-5)])
def test_tiny_rates_cost_next_to_nothing_and_never_less_than_one_use(rate, count, delta):
    """Sampled rarely, a mechanism is almost never used: epsilon stays below that of the release itself."""
    for kind in (normal.PoissonRemovePair, normal.WithoutReplacementPair):
        many = epsilon_bracket(((kind(rate, 0.5), count),), delta, WIDTH)
        one = epsilon_bracket(((kind(rate, 0.5), 1),), delta, WIDTH)
        released = epsilon_bracket(((normal.GaussianPair(0.5), 1),), delta, WIDTH)
        assert one.low <= many.high <= 0.01 * released.low


def test_a_law_on_one_point_stays_on_one_point_when_coarsened():
    """Points without mass at the ends are cut off: a window as long as they would only cost time and memory."""
    masses = np.zeros(4096)
    masses[3] = 1.0
    law = coarsen(GridLaw(1e-3, 0, masses, 0.5, 0.0, 0.0, 0.0, 0.0), 16, Side.LOWER)
    assert len(law.masses) <= 2
    assert law.masses.sum() == pytest.approx(1.0)
