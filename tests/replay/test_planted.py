"""Mistakes planted in the code that fits: the audit of the release that it makes finds them, and none in sound code.

With a mistake in place a table is fitted and the release is audited by the same code, as its owner would. Measured
before the audit compared scales, calls, cells, words and keys: it found 1 of the first 14.
"""

import warnings

import pytest

from sordino.auditing.lower_bound import VerdictKind
from sordino.auditing.replay.examine import SECONDS
from sordino.estimators.replay import replay_release
from tests.golden.cases import FITS, RELATIONS, _estimator, _table
from tests.replay.planted import NAMES, fitted, plant

# Found in a second or two: in the noise, on the first pairs, or in the keys.
_FAST = ("half of", "last call", "centre", "one undeclared", "caution that", "two rows", "delta", "fixed key", "even")
MISTAKES = [
    pytest.param(name, marks=() if any(words in name for words in _FAST) else pytest.mark.slow) for name in NAMES
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake, monkeypatch):
    table, relation = plant(monkeypatch, mistake)
    # The audit ends when it has found the mistake; a shorter limit would only make a busy machine miss it.
    found = replay_release(fitted(table, relation), confidence=0.9999, seed=1, seconds=SECONDS)
    assert found.verdict.kind is VerdictKind.VIOLATED


@pytest.mark.parametrize("relation", RELATIONS)
def test_sound_code_is_called_so_and_the_audit_says_what_it_looked_at(relation):
    found = replay_release(fitted("classes", relation), confidence=0.9999, seed=1, seconds=1.0)
    assert found.verdict.kind is VerdictKind.CONSISTENT, found.refuted
    assert list(found.checks) == ["scales", "noise", "shifts", "release", "cells", "keys", "debit"]
    assert "missing cells, undeclared cells, cells of another type" in found.checks["cells"]
    assert all(words in str(found) for words in found.checks.values())


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("table", ["classes", "numbers"])
def test_some_pair_moves_every_call_nearly_as_far_as_planned(table, relation):
    # Twice the usual time: on a busy machine a search gets less of it.
    found = replay_release(fitted(table, relation), confidence=0.9999, seed=1, seconds=2 * SECONDS)
    # Bounds that no replaced pair reaches: |y - p| is below 1 at points near 0, and means of sizes have one sign.
    assert min(found.reached) >= 0.55
    assert sum(one >= 0.85 for one in found.reached) >= len(found.reached) - 3
    assert sum(one >= 0.95 for one in found.reached) >= 0.75 * len(found.reached)


HONEST = [
    (task, method, protection, relation, settings)
    for task, method, protections, settings in FITS
    for protection in protections
    for relation in RELATIONS
]


@pytest.mark.slow
@pytest.mark.parametrize("case", HONEST, ids=lambda case: "-".join(case[:4]))
def test_no_sound_release_is_called_broken(case):
    task, method, protection, relation, settings = case
    model = _estimator(task, method, protection, relation, settings)
    model.set_params(random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = model.fit(_table(task, protection)).release_
    found = replay_release(release, confidence=0.9999, seed=5, seconds=10.0)
    assert found.verdict.kind is VerdictKind.CONSISTENT, found.refuted
