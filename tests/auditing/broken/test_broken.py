"""Every broken mechanism is caught by an audit; its correct version is not accused.

Seeds are fixed. A correct version would be accused by at most 1 in 100 seeds: audits hold with confidence 99 %.
"""

import importlib
import pkgutil
from pathlib import Path

import pytest

from sordino.auditing.lower_bound import VerdictKind, verdict
from tests.auditing.broken import registry

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if not _module.name.startswith("test_"):
        importlib.import_module(f"tests.auditing.broken.{_module.name}")

EXPECTED = {
    "noise 2x too small",
    "no clipping",
    "seed reused",
    "divisor by realised Poisson size",
    "permuted passes accounted as subsampling",
    "add-remove claimed for cyclic batches",
    "last-iterate claim on a run that keeps its path",
    "several draws certified as one",
    "hyperparameters outside the clipped vector",
    "step and noise with different gamma",
}


def test_no_case_has_vanished():
    assert set(registry.CASES) == EXPECTED


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_broken_mechanism_is_caught(name):
    made = registry.CASES[name]()
    found = verdict(made.claim, made.broken())
    assert found.kind is VerdictKind.VIOLATED, found.evidence
    assert made.claim.theorem in found.evidence


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_correct_version_is_not_accused(name):
    made = registry.CASES[name]()
    found = verdict(made.correct_claim or made.claim, made.correct())
    assert found.kind in {VerdictKind.CONSISTENT, VerdictKind.INCONCLUSIVE}, found.evidence
