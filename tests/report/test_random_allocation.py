"""A run whose records are allocated at random: the kernel runs it, a theorem certifies it, an audit meets it."""

import runpy
from pathlib import Path

import numpy as np

from sordino.ledger.release import read_release
from tests.report.example_releases import DELTA

SCRIPT = Path(__file__).parents[2] / "examples" / "random_allocation_report.py"


def test_run_certificate_and_audit_are_in_one_report(tmp_path, quick):
    bound, lower = runpy.run_path(str(SCRIPT))["make"](tmp_path)
    assert bound.theorem == "composition.random-allocation"
    upper = bound.guarantee.epsilon(DELTA)
    assert 0.99 * upper <= lower.epsilon <= upper
    draws = read_release(tmp_path / "release").arrays["draws"]
    assert draws.shape[-1] == 3
    assert np.isfinite(draws).all()
    assert np.std(draws) > 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "composition.random-allocation" in text
    assert f"{lower.epsilon:.3g}"[:4] in text
    assert "drawn for it alone" in text
