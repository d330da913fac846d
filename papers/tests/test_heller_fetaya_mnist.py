"""The network audit of Heller & Fetaya: small at once, and the recorded run on MNIST attacked again."""

import math
from functools import cache

import pytest

from papers.framework.item import Options, item_named
from papers.heller_fetaya.mnist import sentence
from papers.heller_fetaya.mnist_experiment import RECORDED, experiments, load_pilot
from papers.heller_fetaya.mnist_setting import (
    CLIPPED,
    PLAIN,
    PLAIN_NEAR,
    PLAIN_TANH,
    Variant,
    load_recorded,
    papers_accounting,
)
from papers.heller_fetaya.network_audit import NeuralFindings
from sordino.auditing.lower_bound import VerdictKind


@cache
def findings_of(variant: Variant) -> NeuralFindings:
    return load_recorded(RECORDED, variant).findings(variant)


@cache
def by_epoch(variant: Variant) -> list[float]:
    """What the paper's attack shows of each epoch."""
    return [bound.epsilon for bound in findings_of(variant).bounds("probabilities", joint=False)]


@pytest.mark.slow
def test_small_plain_models_are_told_apart_without_error_and_clipped_ones_stay_below_their_certificate() -> None:
    found = experiments(Options(True, None, 0))
    plain, clipped = found["plain"], found["clipped"]
    last = plain.findings.epochs[-1].epoch
    assert plain.findings.lower_bound(last, "probabilities", joint=False).epsilon == plain.findings.cap
    assert plain.certified == ()
    assert len(clipped.certified) == len(clipped.findings.epochs)
    assert VerdictKind.VIOLATED not in clipped.verdicts()
    assert VerdictKind.NOT_COMPARABLE not in clipped.verdicts()


def test_the_recorded_plain_run_comes_near_the_cap_and_stays_there() -> None:
    findings = findings_of(PLAIN)
    assert len(findings.epochs) == PLAIN.epochs
    assert findings.cap == pytest.approx(4.418, abs=1e-3)  # 250 models counted on either side
    of_paper = by_epoch(PLAIN)
    assert max(of_paper[:3]) == 0.0
    assert min(of_paper[14:]) > 4.0
    assert max(bound.epsilon for bound in findings.bounds("log-odds", joint=False)) > 4.41
    # The errors that the run itself printed when the last epoch was over.
    last = findings.epochs[-1].counts("probabilities")
    assert (last.false_positives, last.false_negatives) == (0, 50)
    whole = findings.over_all()
    assert whole.epsilon == pytest.approx(3.507, abs=1e-3)
    assert whole.confidence == pytest.approx(1 - 0.1 / (3 * 25))
    assert 0.98 < findings.epochs[-1].accuracy < 0.99


def test_the_canary_of_the_recorded_plain_run_won_both_rounds_of_trial() -> None:
    first, second = load_pilot(RECORDED, "plain")
    canary = load_recorded(RECORDED, PLAIN).canary
    assert (len(first), len(second)) == tuple(each.candidates for each in PLAIN.choice.pilot)
    assert (second[0].row, second[0].label) == (canary.row, canary.label)
    assert second[0].length == pytest.approx(canary.length, abs=1e-3)
    assert all(found[0].score == max(each.score for each in found) for found in (first, second))
    assert {(each.row, each.length) for each in second} == {(each.row, each.length) for each in first[:4]}
    assert load_pilot(RECORDED, "clipped") == ()


def test_the_recorded_run_with_tangents_leaks_more_as_epochs_pass() -> None:
    findings = findings_of(PLAIN_TANH)
    bounds = by_epoch(PLAIN_TANH)
    assert max(bounds[:6]) == 0.0
    assert min(bounds[8:]) > 0.2
    last = findings.epochs[-1].counts("probabilities")
    assert (last.false_positives, last.false_negatives) == (42, 124)
    whole = findings.over_all()
    assert 1.3 < whole.epsilon < 1.4
    assert whole.confidence == pytest.approx(1 - 0.1 / (3 * 19))


def test_the_recorded_rectified_run_at_the_fooling_push_lies_between_the_other_two() -> None:
    recorded = load_recorded(RECORDED, PLAIN_NEAR)
    findings = findings_of(PLAIN_NEAR)
    # The errors that the run itself printed when its last epoch was over.
    last = findings.epochs[-1].counts("probabilities")
    assert (len(findings.epochs), last.false_positives, last.false_negatives) == (22, 31, 90)
    near, tanh, far = (max(by_epoch(one)) for one in (PLAIN_NEAR, PLAIN_TANH, PLAIN))
    assert near == pytest.approx(1.410, abs=1e-3)
    assert tanh < near < far
    # No further than fools every model, and the record's own label is kept.
    assert recorded.canary.length < 2.0


def test_the_recorded_clipped_run_shows_nothing() -> None:
    findings = findings_of(CLIPPED)
    assert all(bound.epsilon == 0.0 for attack in findings.attacks for bound in findings.bounds(attack, joint=False))
    assert max(each.accuracy for each in findings.epochs) == pytest.approx(0.879, abs=1e-3)
    assert findings.cap == pytest.approx(3.493, abs=1e-3)


def test_the_upper_curve_of_figure_three_is_that_of_the_papers_own_accounting() -> None:
    """Opacus's orders, batches drawn afresh: about .19 to .21 over the epochs, against dp-accounting."""
    events = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    plan, records = CLIPPED.setting(1).plan, 60_000
    for epochs in (1, 31):
        accountant = rdp.RdpAccountant(list(range(2, 64)))
        step = events.PoissonSampledDpEvent(4 / records, events.GaussianDpEvent(plan.noise_scale / 2e-4))
        accountant.compose(events.SelfComposedDpEvent(step, 15_000 * epochs))
        expected = min(
            value + math.log(1e5) / (order - 1) for order, value in zip(range(2, 64), accountant._rdp, strict=True)
        )
        assert papers_accounting(plan, records, epochs) == pytest.approx(expected, rel=1e-6)
    assert [round(papers_accounting(plan, records, epochs), 3) for epochs in (1, 31)] == [0.186, 0.209]


def test_figure_two_begins_with_the_papers_attack_on_the_nearest_settings() -> None:
    recorded = {one.variant.name: one for one in experiments(Options(False, None, 0)).values()}
    words = sentence(recorded)
    assert words.index("shows 0.753 at most") < words.index("reaches 4.214")
    assert "As in the paper" not in words
    assert recorded["plain-tanh"].canary.length == pytest.approx(1.6)


@pytest.mark.slow
def test_the_item_in_full_certifies_every_epoch_of_the_clipped_chain() -> None:
    outcome = item_named("heller-fetaya-mnist").run(Options(False, None, 0))
    table = next(table for table in outcome.tables if table.name == "clipped")
    assert len(table.rows) == 31
    assert [table.rows[0][-1].value, table.rows[-1][-1].value] == pytest.approx([0.8606, 43.86], rel=1e-3)
