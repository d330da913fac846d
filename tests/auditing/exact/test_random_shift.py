"""Random orders: half-lines are never above the exact divergence of the mixtures, and as good."""

import numpy as np
import pytest

from sordino.auditing.exact.leak import RandomShiftLeak, ShiftDistribution
from sordino.auditing.methods.exact import findings
from sordino.models.exact import ExactLaw, LineMixture, chain_law, extremal_pair, hockey_stick
from sordino.models.exact.line import NORMAL
from tests.auditing.chains import chain

RNG = np.random.default_rng(5)


def mixture(law: ShiftDistribution, sign: float) -> LineMixture:
    return LineMixture(NORMAL, law.weights / law.weights.sum(), sign * law.values, np.ones(len(law.values)))


def assert_exact(found: float, first: ExactLaw, second: ExactLaw, delta: float, relative: float) -> None:
    """`found` is refuted by the exact divergence, and a little more would not be."""
    assert max(hockey_stick(first, second, found).high, hockey_stick(second, first, found).high) >= delta
    more = found * (1 + relative)
    assert max(hockey_stick(first, second, more).low, hockey_stick(second, first, more).low) <= delta


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("reach", [0.3, 2.0, 8.0])
def test_half_lines_attain_the_exact_divergence(mirrored, reach):
    values = np.sort(RNG.uniform(0, reach, 6))
    law = ShiftDistribution(values, RNG.dirichlet(np.ones(6)))
    leak = RandomShiftLeak(law, mirrored, 1e-12)
    first, second = mixture(law, 1.0), mixture(law, -1.0 if mirrored else 0.0)
    assert_exact(leak.epsilon(1e-4), first, second, 1e-4, 2e-5)
    delta = max(hockey_stick(first, second, 0.5).high, hockey_stick(second, first, 0.5).high)
    assert leak.delta(0.5) <= delta
    assert leak.delta(0.5) == pytest.approx(delta, rel=1e-4, abs=1e-8)


def test_rounding_many_values_onto_a_grid_only_lowers_the_bound():
    """Thousands of patterns written out against the same patterns on a grid: never above, and within three per cent."""
    stages = [(np.array([0.0, 0.4 * 0.9**k]), np.array([0.7, 0.3])) for k in range(13)]
    merged = ShiftDistribution.sum_of(stages).coarsened(2048)
    values, weights = np.zeros(1), np.ones(1)
    for step, chance in stages:
        values = (values[:, None] + step).reshape(-1)
        weights = (weights[:, None] * chance).reshape(-1)
    written = ShiftDistribution(values, weights)
    assert len(merged.values) == 2048 < len(values) == 2**13
    assert merged.weights.sum() == pytest.approx(1.0, abs=1e-12)
    exact, rounded = (RandomShiftLeak(law, True, 1e-12).epsilon(1e-5) for law in (written, merged))
    assert 0.97 * exact <= rounded <= exact
    assert RandomShiftLeak(merged.coarsened(512), True, 1e-12).epsilon(1e-5) <= rounded


PULLS = {"gradient_sensitivity": 1.0, "gradient_bound": 0.5, "strong_convexity": 0.5}


@pytest.mark.parametrize(
    ("scheme", "relation"),
    [(scheme, "replace-one") for scheme in ("shuffle-once", "reshuffled", "without-replacement", "poisson")]
    + [("poisson", "add-remove")],
)
def test_centred_neighbours_agree_with_the_enumerated_law(scheme, relation):
    described = chain(scheme, 2, steps=3 if scheme == "poisson" else 6, relation=relation, **PULLS)
    pair = extremal_pair(described, 0)
    laws = chain_law(described, pair.first), chain_law(described, pair.second)
    assert_exact(findings(described)[0].leak.epsilon(1e-3), *laws, 1e-3, 1e-3)


def test_other_records_that_join_the_second_neighbour_leak_more_or_less_but_are_looked_at():
    rest, joined = findings(chain("without-replacement", 2, steps=6, **PULLS))
    assert "at rest" in rest.neighbours
    assert "as the second neighbour's" in joined.neighbours
    assert joined.leak.epsilon(1e-3) > rest.leak.epsilon(1e-3)
