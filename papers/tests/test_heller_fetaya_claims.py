"""The claims of Heller and Fetaya's appendices: which hold as printed, and that a wrong one would be seen."""

from dataclasses import replace

import pytest

from papers.framework.inventory import inventory
from papers.framework.item import VerdictKind
from papers.framework.renyi import renyi
from papers.heller_fetaya.chain_claims import CHAIN, EDGE, PROBLEMS, Problem
from papers.heller_fetaya.claims import every_claim, judge
from papers.heller_fetaya.statements import POSTERIOR, TIGHT, Neighbours, Statement, divergence, equal, room
from sordino.models.exact import GaussianLaw

FAILING = {f"Claim D.{number}" for number in (5, 10, 17, 18, 20, 25, 26)} | {"Lemma A.1"}


@pytest.fixture(scope="module")
def found():
    return {one.place: one for one in every_claim(quick=True)}


def test_eight_statements_fail_as_printed_and_hold_as_corrected(found):
    assert len(found) == 44
    assert {place for place, one in found.items() if not one.holds} == FAILING
    assert all(found[place].corrected >= 0 for place in FAILING)


def test_the_inventory_says_what_was_found(found):
    words = {entry.place: entry.verdict for entry in inventory() if "heller-fetaya-claims" in entry.items}
    assert set(words) == set(found)
    for place, one in found.items():
        assert (words[place] is VerdictKind.SAME) == one.holds, place


def test_every_statement_is_evaluated_often():
    assert all(judge(statement, PROBLEMS[:10]).cases >= 3 for statement in CHAIN)


@pytest.mark.parametrize(
    ("case", "exact", "claimed"), list(zip(TIGHT[:3], (2406.9, 8146.7, 23360.8), (2018.7, 5086.1, 6129.4), strict=True))
)
def test_lemma_a1_and_claim_d26_fail_where_their_printed_condition_holds(case, exact, claimed):
    assert case.applies
    assert not case.mixes
    assert divergence(case) == pytest.approx(exact, abs=0.05)
    assert sum(case.terms) == pytest.approx(claimed, abs=0.05)
    assert case.shifted > case.terms[2]


def test_claim_d17_fails_at_a_small_prior_precision():
    claim = next(one for one in CHAIN if one.place == "Claim D.17")
    assert EDGE.later
    assert 5 < EDGE.turn < 5.001
    assert list(claim.printed(EDGE)) == [pytest.approx(-0.052, abs=0.001)]
    assert list(claim.corrected(EDGE)) == []


def test_a_claim_with_a_wrong_constant_is_seen():
    """The drift of Lemma A.4 taken twice, and an order of two where the chain has another: both must fail."""

    def doubled(p: Problem):
        bound = p.lam ** (p.n - 1) * p.level * p.lam ** (p.n - 1) * (p.hat**2 - p.lam**2)
        yield room(p.law(2, None)[0] - p.law(2, 1)[0], 2 * bound)

    assert judge(Statement("doubled", doubled), PROBLEMS).failing > 0
    assert equal(1.0, 1.0 + 1e-6) < 0 < room(1.0, 1.0 - 1e-6)


def test_the_divergence_of_two_posteriors_is_that_of_two_gaussians():
    case = Neighbours(30, 2.0, 1.0, 20.0, 0.1, 1.5, 1.0, 2.0, (1.0, 1.0, 2.0, -1.0, 1.0, 1.0))
    laws = [GaussianLaw([float(mean)], [[1 / float(precision)]]) for precision, mean in (case.first, case.second)]
    assert divergence(case) == pytest.approx(renyi(*laws, 1.5), rel=1e-9)
    # The lemma's bound is above it, and would not be if it were a tenth.
    lemma = next(one for one in POSTERIOR if one.place == "Lemma A.1")
    assert all(margin > 0 for margin in lemma.printed(case))
    assert divergence(replace(case, order=3.0)) > sum(replace(case, order=3.0).terms) / 100
