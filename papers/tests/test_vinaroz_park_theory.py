"""What Vinaroz & Park prove, beside what holds."""

import pytest

from papers.framework.item import NotProved, Options, VerdictKind, item_named
from papers.tests.rows_of import columns, table


@pytest.fixture(scope="module")
def outcome():
    return item_named("vinaroz-park-theory").run(Options(quick=True, data_dir=None, seed=0))


def test_the_corrected_divergence_is_the_definition_and_the_printed_one_is_not(outcome):
    found = columns(outcome, "clipped")
    assert found["corrected formula"] == pytest.approx(found["by the definition"], abs=1e-12)
    assert all(
        printed > exact for printed, exact in zip(found["as printed"][:5], found["by the definition"][:5], strict=True)
    )


def test_the_mean_divergence_is_above_the_theorem(outcome):
    found = columns(outcome, "accuracy")
    for mean, error, claimed in zip(
        found["mean KL, simulated"], found["standard error"], found["Theorem 4.1's right side"], strict=True
    ):
        assert mean - 5 * error > claimed


def test_permuted_passes_cost_far_more_than_claimed(outcome):
    sensitivity, passes = table(outcome, "privacy").rows
    assert sensitivity[2].value == pytest.approx(2.0)
    assert isinstance(passes[1], NotProved)
    assert passes[2].value > 50 * passes[1].value
    assert outcome.verdict.kind is VerdictKind.REFUTED
