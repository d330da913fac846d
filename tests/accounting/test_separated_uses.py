"""Uses kept apart: reference values, the number of uses, both relations against enumerated uses, and refusals."""

import itertools
from typing import Any

import numpy as np
import pytest

from sordino.auditing.exact.extremal_chain import extremal_findings
from sordino.auditing.exact.leak import renewals
from sordino.core.spec import Spec
from tests.accounting.described import example, guarantee

DRAWN = "composition.min-separation"


def min_separation(changes: dict[str, Any] | None = None) -> Spec:
    return example("min-separation", changes)


def epsilon(name: str, spec: Spec) -> float:
    return guarantee(name, spec).epsilon(1e-5)


def poisson(spec: Spec, rate: float) -> float:
    batch = {"scheme": "poisson", "size": 100, "rate": rate}
    return epsilon("composition.subsampled-poisson", spec.with_values({"algorithm.batch": batch}))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_it_costs_what_poisson_batches_at_the_rate_of_free_records_do(relation: str) -> None:
    """Of 10,000 records 100 a step, 50 steps apart: a free one is drawn with probability .01 / .51."""
    spec = min_separation({"relation": relation})
    assert epsilon(DRAWN, spec) == pytest.approx(poisson(spec, 0.01 / 0.51), rel=1e-9)
    alone = spec.with_values({"algorithm.batch.separation": 1})
    assert epsilon(DRAWN, alone) == pytest.approx(poisson(spec, 0.01), rel=1e-9)


def test_uses_are_counted_as_they_are_drawn() -> None:
    """The exact number of uses of six steps against all patterns."""
    for apart, chance in itertools.product((1, 2, 3), (0.3, 1.0)):
        share = chance / (1 + (apart - 1) * chance)
        expected = np.zeros(7)
        for pattern in itertools.product((0, 1), repeat=6):
            for blocked in range(apart):
                weight, wait = share if blocked else 1 - (apart - 1) * share, blocked
                for used in pattern:
                    weight *= (0.0 if used else 1.0) if wait else (chance if used else 1 - chance)
                    wait = apart - 1 if used else max(0, wait - 1)
                expected[sum(pattern)] += weight
        found = renewals(6, apart, chance)
        assert found.weights == pytest.approx(expected[: len(found.weights)], abs=1e-7)
        assert found.weights @ found.values <= expected @ np.arange(7) + 1e-12


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_the_exact_lower_end_is_below(relation: str) -> None:
    """The sum of all steps alone shows two fifths of what is certified."""
    spec = min_separation({"relation": relation, "algorithm.steps": 2000, "algorithm.noise.scale": 0.02})
    lower = max(finding.leak.epsilon(1e-5) for finding in extremal_findings(spec))
    upper = epsilon(DRAWN, spec)
    assert 0.4 * upper < lower <= upper
