"""Inference beside peers: scores are right, and the page says of every library what was measured or why it was not."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def peers():
    before = list(sys.path)
    sys.path[:0] = [str(HERE), str(HERE / "peers")]
    try:
        yield importlib.import_module("peer_inference"), importlib.import_module("utility_task")
    finally:
        sys.path[:] = before


def test_the_area_counts_ordered_pairs_and_ties_half(peers):
    g = np.random.default_rng(1)
    scores, positive = g.integers(0, 6, 60).astype(float), g.random(60) < 0.4
    differences = scores[positive][:, None] - scores[~positive][None]
    assert peers[1].auc(scores, positive) == pytest.approx(np.mean((differences > 0) + 0.5 * (differences == 0)))
    assert np.isnan(peers[1].auc(scores, np.zeros(60, bool)))


def test_columns_without_a_coefficient_of_their_own_are_left_out(peers):
    X = np.random.default_rng(2).normal(size=(50, 3))
    assert peers[0].own_columns(np.column_stack([X[:, 0], np.ones(50), X[:, 1], X[:, 0] - X[:, 1], X[:, 2]])) == [
        0,
        2,
        4,
    ]


def test_the_page_says_what_holds_and_who_could_not_be_run(peers):
    pages = peers[0]
    one = pages.Drawn("linear small", "linear", np.zeros((9, 2)), np.zeros(9), np.array([0.0, 1.0, 2.0]))
    ends = np.array([0.0, 0.5, 2.5]), np.array([0.0, 1.5, 3.5])
    rows = [
        pages.judged(one, "sordino", np.array([0.0, 1.0, 3.0]), *ends, np.array([False, False, True])),
        pages.judged(one, "diffprivlib", np.array([0.0, 1.0, 2.5])),
        pages.judged(one, "not private", np.array([0.0, 1.0, 2.0]), ends[0], ends[0] + 0.5),
    ]
    assert pages.interval_table(rows)[2:4] == [
        "| linear small | sordino | 0.707 | 50.0 | 100.0 of 1 | 1 | 2 |",
        "| linear small | diffprivlib | 0.354 | - | - | - | - |",
    ]
    classes = [{"data": "adult", "library": "sordino", "auc": auc, "log_loss": 0.3} for auc in (0.8, 0.9)]
    found = {"intervals": rows, "classes": classes, "numbers": [{"data": "power", "library": "interpret", "rmse": 4.5}]}
    found |= {"code": "abc", "tables": 1, "seeds": 2, "versions": {"x": "1"}, "failed": {"opacus, adult": "no memory"}}
    text = "\n".join(pages.page(found))
    assert "| adult | 0.85 | - | - | - | - |" in text
    assert "| power | - | 4.5 | - | - | - | - |" in text
    assert "- opacus, adult: no memory." in text
    assert "- DPrivStats: an R package" in text
