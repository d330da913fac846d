"""A ledger charges single mechanisms beside chains, and recomputes what it wrote."""

from sordino.accounting.evaluate import tightest
from sordino.core.spec import Spec
from sordino.ledger import EntryVerdict, Ledger

ANSWER = {"kind": "noised-answer", "query": "a", "sensitivity": 1.0}
NAMED = (
    ANSWER | {"noise": {"kind": "laplace", "scale": 50.0}},
    ANSWER | {"noise": {"kind": "discrete-laplace", "scale": 50.0}},
    {"kind": "randomised-response", "categories": 3, "truth": 0.34},
    {"kind": "selection", "method": "exponential", "sensitivity": 1.0, "scale": 100.0},
    {"kind": "sparse-vector", "sensitivity": 1.0, "positives": 1, "threshold_scale": 50, "query_scale": 100},
    {"kind": "matrix-mechanism", "steps": 64, "strategy": {"kind": "tree"}, "contribution": 1.0}
    | {"noise_multiplier": 100.0, "participation": {"scheme": "single"}},
)
CONCAVE = {"kind": "strongly-log-concave", "lipschitz": 0.2, "strong_convexity": 4.0}
BOUNDED = {"kind": "bounded", "lipschitz": 0.05, "diameter": 2.0}
NOISE = {"kind": "gaussian", "scale": 1.0}
# Posterior draws that finish.
DRAWN = (
    (CONCAVE, {"kind": "rejection", "trials": 5000, "dim": 2, "smoothness": 12.0}),
    (CONCAVE, {"kind": "perturbed", "distance": 0.01, "dim": 2, "noise": NOISE}),
    (BOUNDED, {"kind": "rejection", "trials": 5000, "dim": 2, "oscillation": 3.0}),
    (BOUNDED, {"kind": "metropolis", "steps": 5000, "dim": 2, "oscillation": 3.0, "noise": NOISE}),
)


def test_every_mechanism_is_charged_and_verified(path):
    made = Ledger.open(path, "clinic", "replace-one", 3.0, 1e-5)
    runs = [(algorithm, "all-iterates") for algorithm in NAMED]
    runs += [({"kind": "posterior-sample", "potential": law, "drawn": how}, "one-sample") for law, how in DRAWN]
    for algorithm, view in runs:
        spec = Spec.from_dict({"algorithm": algorithm, "relation": "replace-one", "view": view, "delta": 1e-5})
        made.debit(tightest(spec, 1e-5), spec)
    assert len(made.entries()) == len(runs)
    assert {found.verdict for found in made.verify().findings} == {EntryVerdict.AGREES}
