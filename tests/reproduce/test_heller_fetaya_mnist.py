"""The network audit of Heller & Fetaya: small at once, and the recorded run on MNIST attacked again."""

import pytest

from sordino.audit import VerdictKind
from sordino.reproduce import Options, item_named
from sordino.reproduce.heller_fetaya.mnist_experiment import RECORDED, experiments
from sordino.reproduce.heller_fetaya.mnist_recorded import load_recorded
from sordino.reproduce.heller_fetaya.mnist_setting import CLIPPED, PLAIN


def test_small_plain_models_are_told_apart_without_error_and_clipped_ones_stay_below_their_certificate() -> None:
    plain, clipped = experiments(Options(True, None, 0))
    last = plain.findings.epochs[-1].epoch
    assert plain.findings.lower_bound(last, "probabilities", joint=False).epsilon == plain.findings.cap
    assert plain.certified == ()
    assert len(clipped.certified) == len(clipped.findings.epochs)
    assert VerdictKind.VIOLATED not in clipped.verdicts()
    assert VerdictKind.NOT_COMPARABLE not in clipped.verdicts()


def test_the_recorded_plain_run_leaks_more_as_epochs_pass() -> None:
    findings = load_recorded(RECORDED, PLAIN).findings(PLAIN)
    assert findings.cap == pytest.approx(4.418, abs=1e-3)  # 250 models counted on either side
    bounds = [bound.epsilon for bound in findings.bounds("probabilities", joint=False)]
    assert max(bounds[:6]) == 0.0
    assert min(bounds[8:]) > 0.2
    # The errors that the run itself printed when the nineteenth epoch was over.
    last = findings.epochs[-1].counts("probabilities")
    assert (last.false_positives, last.false_negatives) == (42, 124)
    assert findings.over_all().epsilon > 1.3
    assert findings.over_all().confidence == pytest.approx(1 - 0.1 / (3 * 19))
    assert 0.98 < findings.epochs[-1].accuracy < 0.99


def test_the_recorded_clipped_run_shows_nothing() -> None:
    findings = load_recorded(RECORDED, CLIPPED).findings(CLIPPED)
    assert all(bound.epsilon == 0.0 for attack in findings.attacks for bound in findings.bounds(attack, joint=False))
    assert max(each.accuracy for each in findings.epochs) == pytest.approx(0.879, abs=1e-3)
    assert findings.cap == pytest.approx(3.493, abs=1e-3)


@pytest.mark.slow
def test_the_item_in_full_certifies_every_epoch_of_the_clipped_chain() -> None:
    outcome = item_named("heller-fetaya-mnist").run(Options(False, None, 0))
    table = next(table for table in outcome.tables if table.name == "clipped")
    assert len(table.rows) == 31
    assert [table.rows[0][-1].value, table.rows[-1][-1].value] == pytest.approx([4.866, 43.86], rel=1e-3)
