"""Specs with an instance: a model, a dataset and a neighbour, through the methods of the command line."""

import pytest

from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, VerdictKind, audit, verdict
from sordino.core.validate import InputError
from sordino.models import Logistic, MLPClassification
from tests.auditing.chains import chain

CASES = {
    "logistic": (Logistic(weight_decay=0.1), {"name": "logistic", "parameters": {"weight_decay": 0.1}}, "logistic"),
    "network": (
        MLPClassification(hidden=(4,), classes=3),
        {"name": "mlp-classification", "parameters": {"hidden": [4], "classes": 3}},
        "softmax",
    ),
}


def described(name, relation, noise, neighbour=None):
    model, named, generator = CASES[name]
    dataset = {"kind": "synthetic", "generator": generator, "records": 30, "features": 3, "seed": 1}
    return chain(
        steps=20,
        step_size=1.0,
        noise=noise,
        relation=relation,
        algorithm={"clipping": {"kind": "norm", "bound": 1.0}},
        instance={"model": named, "dataset": dataset} | ({} if neighbour is None else {"neighbour": neighbour}),
        n=30,
        dim=model.dim(3),
        gradient_sensitivity=2.0,
        gradient_bound=1.0,
    )


# Canaries in a network have two twins among the fast tests: the attack on a network, and canaries in a line.
@pytest.mark.every(2)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(
    ("method", "name"),
    [
        pytest.param(method, name, marks=pytest.mark.slow if (method, name) == ("one-run", "network") else ())
        for method in ("attack", "one-run")
        for name in CASES
    ],
)
def test_an_honest_instance_is_not_accused(method, name, relation):
    """95 % confidence, fixed seed."""
    spec = described(name, relation, 0.2)
    found = audit(spec, method, AuditOptions(delta=0.01, models=200, seed=1))
    bound = explain(spec, 0.01).tightest
    assert verdict(bound, found).kind in {VerdictKind.CONSISTENT, VerdictKind.INCONCLUSIVE}
    assert found.relation.value == relation
    assert found.method == method


def test_an_instance_without_noise_is_found_out():
    quiet = described("logistic", "replace-one", 1e-4)
    found = audit(quiet, "attack", AuditOptions(delta=0.01, models=200, seed=1))
    assert found.epsilon == found.cap
    claim = explain(described("logistic", "replace-one", 0.3), 0.01).tightest
    assert verdict(claim, found).kind is VerdictKind.VIOLATED


def test_an_instance_that_would_take_hours_is_refused():
    long = described("network", "replace-one", 0.2).with_values({"algorithm.steps": 10_000_000})
    with pytest.raises(InputError, match="shorter run"):
        audit(long, "attack", AuditOptions(delta=0.01, models=1000))
