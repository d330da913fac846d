"""Rényi divergence of a Poisson-sampled Gaussian: mpmath quadrature and dp-accounting's series."""

import mpmath as mp
import pytest

from sordino.accounting.bounds.renyi import poisson_renyi
from sordino.core.bound import Relation

CASES = [(1.01, 0.01, 1.0), (1.5, 1e-7, 1.0), (2.0, 0.01, 1.0), (2.5, 0.5, 0.3), (7.3, 1e-3, 2.0)]
CASES += [(32.0, 1e-6, 1.0), (32.0, 0.01, 0.7), (64.0, 0.2, 0.05), (256.0, 0.01, 1.0)]


def quadrature(order, rate, mu, replace):
    """D_order by adaptive quadrature of the difference from 1, which keeps relative accuracy for tiny rates."""
    a, q, m = mp.mpf(order), mp.mpf(rate), mp.mpf(mu)

    def p(z):
        return 1 + q * mp.expm1(m * z - m * m / 2)

    def excess(z):
        ratio = a * mp.log(p(z)) + ((1 - a) * mp.log(p(-z)) if replace else 0)
        return mp.npdf(z) * mp.expm1(ratio)

    end = float(a * m) + 14
    points = [mp.mpf(x) for x in (-end if replace else -14, -6, -2, 0, 2, 6, *sorted({12, end / 2, end}))]
    with mp.workdps(35):
        return mp.log1p(mp.quad(excess, sorted(set(points)))) / (a - 1)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("relation", "case"),
    [*((Relation.ADD_REMOVE, case) for case in CASES), *((Relation.REPLACE_ONE, case) for case in CASES[:7])],
)
def test_it_is_the_exact_value_rounded_up(relation, case):
    order = case[0]
    exact, ours = quadrature(*case, replace=relation is Relation.REPLACE_ONE), poisson_renyi(*case, relation)
    # The value is a sum near 1 less 1, known to an absolute 1e-18.
    assert exact <= ours <= exact * (1 + mp.mpf("1e-8")) + 3e-18 / (order - 1)
