"""Many processes, one budget; and processes that are killed at the worst moment."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sordino.ledger import Ledger

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the scenes fork processes")

SCRIPT = Path(__file__).with_name("processes.py")


def played(scene: str, ledger: Ledger, release):
    bound, spec = release
    sent = json.dumps({"bound": bound.to_dict(), "spec": spec.to_dict()})
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), scene, str(ledger.path)]
    done = subprocess.run(
        command, input=sent, capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("kind", ["renyi", "gaussian"])
def test_of_sixteen_processes_exactly_the_affordable_ones_succeed(path, kind, gaussian_release):
    ledger = Ledger.open(path, "clinic", "replace-one", 1.0, 1e-5, filter_kind=kind)
    affordable = 5
    # Squared mus add in both filters; five and a half of these fit.
    mu = ledger.balance().largest_mu / (affordable + 0.5) ** 0.5
    codes = played("race", ledger, gaussian_release(mu))
    assert sorted(codes) == [0] * affordable + [3] * (16 - affordable)
    assert [entry.sequence for entry in ledger.entries()] == list(range(1, affordable + 1))
    assert ledger.balance().spent_epsilon <= 1.0
    assert ledger.balance().largest_mu < mu


def test_a_process_killed_between_debit_and_work_has_spent(ledger, gaussian_release):
    assert played("killed_after_debit", ledger, gaussian_release(0.1)) == -signal.SIGKILL
    assert ledger.balance().releases == 1
    assert ledger.verify().sound


def test_a_process_killed_within_the_transaction_has_not_spent_and_harms_nothing(ledger, gaussian_release):
    ledger.debit(*gaussian_release(0.1))
    assert played("killed_in_transaction", ledger, gaussian_release(0.1)) == -signal.SIGKILL
    assert ledger.balance().releases == 1
    assert ledger.debit(*gaussian_release(0.1)).sequence == 2


def test_processes_killed_at_random_moments_never_hide_a_spend(path, gaussian_release):
    ledger = Ledger.open(path, "clinic", "replace-one", 50.0, 1e-5, filter_kind="gaussian")
    seen = played("killed_at_random", ledger, gaussian_release(0.001))
    for confirmed, recorded in seen:
        # Each killed process may have recorded one debit that it could not confirm any more; never the reverse.
        assert confirmed <= recorded <= confirmed + len(seen)
    assert seen[-1][0] > 0
    assert len(ledger.entries()) == seen[-1][1]
    assert ledger.debit(*gaussian_release(0.001)).sequence == seen[-1][1] + 1


def test_a_process_that_runs_out_of_space_is_told_and_loses_nothing(ledger, gaussian_release):
    ledger.debit(*gaussian_release(0.001))
    assert played("out_of_space", ledger, gaussian_release(0.001)) == 0
    assert ledger.balance().releases == len(ledger.entries()) >= 1
    ledger.debit(*gaussian_release(0.001))
