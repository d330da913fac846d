"""Exact posterior draws: the bounds of strongly log-concave and bounded posteriors against integrals on a grid."""

import numpy as np
import pytest

from sordino.accounting.convert import compose, repeat, to_loss_distribution, to_renyi
from sordino.accounting.evaluate import Theorem
from sordino.accounting.theorems.posterior import strongly_log_concave
from sordino.core.guarantee import BoundedRange, Guarantee
from sordino.models.exact import GaussianLaw, hockey_stick
from tests.accounting.described import described, guarantee

EPSILONS = (0.0, 0.1, 0.5, 1.0, 3.0)


def draw(theorem: Theorem, draws: int = 1, **potential: object) -> Guarantee:
    spec = described("posterior-sample", "replace-one", "one-sample", potential=potential, draws=draws)
    return guarantee(theorem, spec)


@pytest.mark.parametrize("dim", [1, 3])
def test_shifted_gaussian_posteriors_attain_the_bound(dim):
    rng = np.random.default_rng(dim)
    for precision in (0.3, 4.0, 100.0):
        shift = rng.normal(size=dim)
        first, second = (GaussianLaw(centre, np.eye(dim) / precision) for centre in (0 * shift, shift))
        lipschitz = precision * float(np.linalg.norm(shift))
        found = draw(strongly_log_concave, kind="strongly-log-concave", lipschitz=lipschitz, strong_convexity=precision)
        for epsilon in EPSILONS:
            exact = hockey_stick(first, second, epsilon)
            assert exact.low <= found.delta(epsilon)
            assert found.delta(epsilon) == pytest.approx(exact.high, rel=1e-9, abs=1e-300)


def test_a_bounded_range_as_a_pair_and_as_a_curve_is_no_smaller():
    for found in (BoundedRange(0.5), BoundedRange(0.5, 20), BoundedRange(2.0, 3)):
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            assert found.delta(epsilon) <= to_loss_distribution(found).delta(epsilon)
            assert found.delta(epsilon) <= to_renyi(found).delta(epsilon)
        # Different laws share no interval: composed they cost more than draws from one.
        assert compose([(found, 2)]).epsilon(1e-5) > repeat(found, 2).epsilon(1e-5)
