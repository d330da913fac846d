"""A ledger charges single mechanisms beside chains, and recomputes what it wrote."""

import pytest

from sordino.accounting.evaluate import tightest
from sordino.core.spec import Spec
from sordino.ledger import EntryVerdict, Ledger

NAMED = {
    "laplace": {"kind": "noised-answer", "query": "a", "sensitivity": 1.0, "noise": {"kind": "laplace", "scale": 50.0}},
    "response": {"kind": "randomised-response", "categories": 3, "truth": 0.34},
    "exponential": {"kind": "selection", "method": "exponential", "sensitivity": 1.0, "scale": 100.0},
    "sparse": {"kind": "sparse-vector", "sensitivity": 1.0, "positives": 1, "threshold_scale": 50, "query_scale": 100},
    "discrete": {
        "kind": "noised-answer",
        "query": "a",
        "sensitivity": 1.0,
        "noise": {"kind": "discrete-laplace", "scale": 50.0},
    },
    "tree": {
        "kind": "matrix-mechanism",
        "steps": 64,
        "strategy": {"kind": "tree"},
        "contribution": 1.0,
        "noise_multiplier": 100.0,
        "participation": {"scheme": "single"},
    },
}


@pytest.mark.parametrize("kind", ["gaussian", "renyi", "either"])
def test_every_mechanism_is_charged_and_verified(path, kind):
    made = Ledger.open(path, "clinic", "replace-one", 2.0, 1e-5, filter_kind=kind)
    for algorithm in NAMED.values():
        spec = Spec.from_dict(
            {"algorithm": algorithm, "relation": "replace-one", "view": "all-iterates", "delta": 1e-5}
        )
        made.debit(tightest(spec, 1e-5), spec)
    assert len(made.entries()) == len(NAMED)
    assert {found.verdict for found in made.verify().findings} == {EntryVerdict.AGREES}


@pytest.mark.parametrize("kind", ["gaussian", "renyi", "either"])
def test_draws_that_finish_are_charged_and_verified(path, kind):
    made = Ledger.open(path, "clinic", "replace-one", 2.0, 1e-5, filter_kind=kind)
    concave = {"kind": "strongly-log-concave", "lipschitz": 0.2, "strong_convexity": 4.0}
    bounded = {"kind": "bounded", "lipschitz": 0.05, "diameter": 2.0}
    noise = {"kind": "gaussian", "scale": 1.0}
    runs = (
        (concave, {"kind": "rejection", "trials": 5000, "dim": 2, "smoothness": 12.0}),
        (concave, {"kind": "perturbed", "distance": 0.01, "dim": 2, "noise": noise}),
        (bounded, {"kind": "rejection", "trials": 5000, "dim": 2, "oscillation": 3.0}),
        (bounded, {"kind": "metropolis", "steps": 5000, "dim": 2, "oscillation": 3.0, "noise": noise}),
    )
    for potential, drawn in runs:
        algorithm = {"kind": "posterior-sample", "potential": potential, "drawn": drawn}
        spec = Spec.from_dict({"algorithm": algorithm, "relation": "replace-one", "view": "one-sample", "delta": 1e-5})
        made.debit(tightest(spec, 1e-5), spec)
    assert len(made.entries()) == len(runs)
    assert {found.verdict for found in made.verify().findings} == {EntryVerdict.AGREES}
