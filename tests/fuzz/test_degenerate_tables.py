"""After the debit there is a release, whatever the rows are: constant, clipped, of one class, missing, nobody's.

An exception is an answer without noise, and so is a warning of a library: both are about rows. `degenerate.drawn` draws
a model, a method, units, weights, a range of the target, and rows; each fit either ends in a release that can be
written, or is refused before anything is debited.
"""

import warnings

import numpy as np
import pytest

from sordino import InputError, Ledger
from sordino.data import declared_lines
from sordino.estimators.replay import replay_release
from sordino.fitting.fit import fit_table
from sordino.inference.summary import summary_of
from sordino.ledger.release.folder import release_digest
from tests.fuzz.degenerate import METHODS, WITH_UNITS, Fit, drawn

QUICK = tuple(name for name in METHODS if name not in ("mixture", "network-regressor", "network-classifier"))


def released(fit: Fit, path) -> bool:
    """Whether there is a release; where there is none, nothing was debited."""
    print(fit.words)  # noqa: T201  shown of the one that fails
    ledger = Ledger.open(path, "clinic", fit.settings["relation"], 1e9, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            made = fit_table(fit.model, fit.table, ledger=ledger, **fit.settings)
        except InputError:
            if ledger.entries():
                raise
            return False
    assert all(np.isfinite(array).all() for array in made.arrays.values()), fit.words
    assert ledger.entries()[0].release == release_digest(made), fit.words
    return True


@pytest.mark.parametrize("model", QUICK)
def test_no_rows_stop_a_fit_after_the_debit(model, tmp_path):
    made = [released(drawn(seed, (model,)), tmp_path / f"{seed}") for seed in range(4)]
    assert sum(made) >= 3  # few of these budgets are refused


COSTS = "records = 300\na: 0..1\nward: a|b|c\nwho: unit of 3\ny: 0..1e6 [target]"


@pytest.fixture(scope="module")
def costs():
    """Costs of about 2,000 in a declared range of a million, three for each patient."""
    g = np.random.default_rng(0)
    cost = 2000.0 + 300.0 * g.standard_normal(900)
    return {"a": g.uniform(0, 1, 900), "ward": g.choice(["a", "b", "c"], 900), "who": np.arange(900) // 3, "y": cost}


@pytest.mark.parametrize("model", ["linear", "robust"])
@pytest.mark.parametrize("seed", [0, 1, 6])
def test_a_wide_range_of_the_target_stops_no_unit_fit_and_no_audit(model, seed, costs, tmp_path):
    """At the last point all residuals of stand-in rows are cut, so that there is no slope: it was inverted."""
    budget = {"epsilon": 4.0, "delta": 1e-6, "relation": "replace-one", "method": "bounded-influence", "seed": seed}
    fit = Fit(model, costs, budget | {"schema": declared_lines(COSTS)}, f"{model} {seed}")
    assert released(fit, tmp_path / "ledger")
    if seed == 0:
        made = fit_table(model, costs, **fit.settings)
        assert len(summary_of(made).lines) == 4
        assert not replay_release(made, confidence=0.99, seed=1, seconds=1.0).refuted


@pytest.mark.slow
@pytest.mark.parametrize("model", METHODS)
def test_two_thousand_degenerate_tables_stop_no_fit_after_the_debit(model, tmp_path):
    """All of the 2,000 have units; models that take none are fitted to 60 tables each."""
    count = 2000 // len(WITH_UNITS) if model in WITH_UNITS else 60
    made = [released(drawn(1000 + seed, (model,), units=True), tmp_path / f"{seed}") for seed in range(count)]
    assert sum(made) >= 0.9 * count
