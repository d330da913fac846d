"""Propose-Test-Sample with a draw by SGLD: the variant that is not private."""

from dataclasses import replace

import numpy as np
import pytest

from papers.heller_fetaya.propose_test_sgld import propose_test_sgld_not_private
from sordino.algorithm import SeededRandomness
from sordino.core.bound import Relation, View
from sordino.core.spec import ProposeTestSample, Sampler, Spec
from sordino.core.validate import InputError

RUN = ProposeTestSample(2.0, 0.01, 0.9, 1.8, 2.0, 1.0, 0.2, 1.05, 0.19, Sampler.EXACT)
RECORDS = 200_000


def spec(run: ProposeTestSample = RUN) -> Spec:
    return Spec(algorithm=run, relation=Relation.REPLACE_ONE, view=View.ONE_SAMPLE)


def test_a_spec_with_the_exact_sampler_is_not_run_by_sgld():
    with pytest.raises(InputError, match="not private"):
        propose_test_sgld_not_private(spec(), [1.0], [1.5], 3, SeededRandomness(0))


def test_the_variant_settles_at_the_posterior_but_not_before():
    """On equal ratios the iterate's mean moves from the prior's 0 to the common slope over some tens of epochs."""
    x = np.linspace(0.9, 1.8, RECORDS)
    variant = spec(replace(RUN, sampler=Sampler.SGLD))
    early, late = (
        [propose_test_sgld_not_private(variant, x, 3.0 * x, epochs, SeededRandomness(seed)).slope for seed in range(6)]
        for epochs in (2, 400)
    )
    assert any(value is not None for value in late)
    assert all(value is None or abs(value - 3.0) < 0.05 for value in late)
    assert all(value is None or value < 2.9 for value in early)
