"""Uses kept apart: reference values, the number of uses, both relations against enumerated uses, and refusals."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from sordino.accounting.evaluate import evaluate, theorem_named
from sordino.auditing.exact.extremal_chain import extremal_findings
from sordino.auditing.exact.leak import renewals
from sordino.core.bound import Bound
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import Spec, read_spec
from sordino.core.validate import InputError
from tests.conformance.examples import FOLDER

DRAWN, COUNTED = "composition.min-separation", "composition.separated-uses"


def example(changes: dict[str, Any] | None = None) -> Spec:
    return read_spec(FOLDER / "min-separation.json").with_values(changes or {})


def epsilon(name: str, spec: Spec) -> float:
    answer = evaluate(theorem_named(name), spec)
    assert isinstance(answer, Bound)
    return answer.guarantee.epsilon(1e-5)


def poisson(spec: Spec, rate: float) -> float:
    batch = {"scheme": "poisson", "size": 100, "rate": rate}
    return epsilon("composition.subsampled-poisson", spec.with_values({"algorithm.batch": batch}))


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_it_costs_what_poisson_batches_at_the_rate_of_free_records_do(relation: str) -> None:
    """Of 10,000 records 100 a step, 50 steps apart: a free one is drawn with probability .01 / .51."""
    spec = example({"relation": relation})
    assert epsilon(DRAWN, spec) == pytest.approx(poisson(spec, 0.01 / 0.51), rel=1e-9)
    alone = spec.with_values({"algorithm.batch.separation": 1})
    assert epsilon(DRAWN, alone) == pytest.approx(poisson(spec, 0.01), rel=1e-9)


def test_the_number_of_uses_is_counted() -> None:
    """101 steps, 50 apart: three uses at most; the worst steps of a schedule count."""
    spec = example({"algorithm.steps": 101})
    assert epsilon(COUNTED, spec) == pytest.approx(GaussianDP(math.sqrt(3)).epsilon(1e-5), rel=1e-9)
    scale = {"kind": "list", "values": [0.02] * 50 + [0.01] + [0.02] * 50}
    assert epsilon(COUNTED, spec.with_values({"algorithm.noise.scale": scale})) == pytest.approx(
        GaussianDP(math.sqrt(1.5)).epsilon(1e-5), rel=1e-9
    )
    both = spec.with_values({"relation": "replace-one"})
    assert epsilon(COUNTED, both) == pytest.approx(GaussianDP(2 * math.sqrt(3)).epsilon(1e-5), rel=1e-9)


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
    spec = example({"relation": relation, "algorithm.steps": 2000, "algorithm.noise.scale": 0.02})
    lower = max(finding.leak.epsilon(1e-5) for finding in extremal_findings(spec))
    upper = epsilon(DRAWN, spec)
    assert 0.4 * upper < lower <= upper


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"algorithm.batch.separation": 101}, "at most 100 = floor(problem.n 10000 / size 100), got 101"),
        ({"algorithm.batch": {"scheme": "poisson", "size": 100, "separation": 2}}, "absent for poisson batches, got 2"),
        ({"algorithm.batch.uses": 2}, "absent for min-separation batches, got 2"),
    ],
)
def test_contradictions_show_both_sides(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        example(change)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
