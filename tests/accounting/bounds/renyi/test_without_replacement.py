"""Rényi divergence of sampling without replacement: dp-accounting's bound, and above the dominating pair."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from sordino.accounting.bounds.renyi import without_replacement_renyi
from sordino.core.loss.normal_pairs import WithoutReplacementPair
from sordino.core.loss.pair import Request, Side

CASES = [(0.01, 1.0), (0.1, 0.5), (1e-3, 2.0), (0.5, 0.2)]


def theirs(order, rate, mu):
    """dp-accounting's bound. Its multiplier is relative to the relation's own sensitivity."""
    accountant = rdp.RdpAccountant([order], NeighboringRelation.REPLACE_ONE)
    event = dp_event.SampledWithoutReplacementDpEvent(1000, round(rate * 1000), dp_event.GaussianDpEvent(1 / mu))
    return float(accountant.compose(event)._rdp[0])


def divergence_below(order, rate, mu):
    """Divergence of a law below the dominating pair: a lower bound on what any valid accountant may answer."""
    law = WithoutReplacementPair(rate, mu).on_grid(Request(Side.LOWER, 0.0, 50.0, 1e-30), min(0.01, rate * mu / 50))
    moment = math.fsum(law.masses * np.exp((order - 1) * law.losses)) * math.exp(law.log_scale)
    return math.log(moment) / (order - 1) * (1 - 1e-9)


@pytest.mark.every(5)
@pytest.mark.parametrize("order", [2.0, 2.5, 3.0, 8.0, 32.0, 64.0])
@pytest.mark.parametrize(("rate", "mu"), CASES)
def test_lies_above_the_bound_of_dp_accounting(order, rate, mu):
    """It sharpens the terms of order three and more for Gaussians; the first one, and any that it cannot, agree."""
    ours, other = without_replacement_renyi(order, rate, mu), theirs(order, rate, mu)
    assert ours >= min(other, order * mu * mu / 2) * (1 - 1e-9)
    assert ours <= other * 3
    if order == 2.0 or mu >= 1.0:
        assert ours == pytest.approx(other, rel=1e-6)


@pytest.mark.every(3)
@pytest.mark.parametrize("order", [1.05, 1.5, 2.0, 4.5, 16.0])
@pytest.mark.parametrize(("rate", "mu"), CASES)
def test_both_lie_above_the_dominating_pair(order, rate, mu):
    least = divergence_below(order, rate, mu)
    assert without_replacement_renyi(order, rate, mu) >= least
    assert theirs(order, rate, mu) >= least
