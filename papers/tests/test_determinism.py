"""Seeded fits give the same bits however often, and in whatever process, they are made: `bench/determinism.py`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sordino.algorithm import SeededRandomness, noisy_sgd
from sordino.algorithm.chain.run import run
from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Scheme
from sordino.model import Domain, Logistic

ROOT = Path(__file__).parents[2]


def line(case, process, **found):
    return json.dumps({"case": case, "process": process, "found": found, "seconds": 0.1}) + "\n"


@pytest.mark.parametrize(("second", "code"), [("a1", 0), ("b2", 1)])
def test_a_second_answer_is_reported(tmp_path, second, code):
    """The report has to be able to say that answers differ."""
    path = tmp_path / "lines.jsonl"
    path.write_text(line("chain", 0, iterates="a1") + line("chain", 1, iterates=second))
    asked = [sys.executable, str(ROOT / "bench" / "determinism.py"), "--out", str(path), "--report"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.returncode == code, told.stderr
    assert f"2 fits, 1 cases, {code} with more than one answer" in told.stdout


def test_rows_may_be_overwritten_as_soon_as_a_run_has_returned():
    """Rows that fit are handed to the device without a copy; nothing may still read them when a release is there."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.3, 0.3, (1024, 8)).astype(np.float32)
    y, model = np.sign(X[:, 0]), Logistic(weight_decay=0.1)
    spec = noisy_sgd(
        model.problem(1024, Domain(8, 1.0)),
        step_size=0.5,
        noise_scale=0.01,
        steps=40,
        batch=Batch(Scheme.POISSON, 64),
        relation=Relation.REPLACE_ONE,
        view=View.ALL_ITERATES,
        chains=2,
    )
    expected = run(spec, model, X, y, SeededRandomness(1), steps_per_block=8).iterates
    for _ in range(5):
        mine, own = X.copy(), y.copy()
        found = run(spec, model, mine, own, SeededRandomness(1), steps_per_block=8)
        mine[:], own[:] = 1e6, 0.0
        np.testing.assert_array_equal(found.iterates, expected)


@pytest.mark.slow
def test_fits_in_more_processes_than_cores_have_one_answer_each(tmp_path):
    """About two minutes; it sees that answers differ by chance, as they did where memory was read unwritten."""
    path = tmp_path / "lines.jsonl"
    asked = [sys.executable, str(ROOT / "bench" / "determinism.py"), "--out", str(path), "--seconds", "90"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "failed" not in path.read_text()
