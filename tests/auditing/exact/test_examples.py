"""The exact audit of every example spec: a lower bound below the certificate, or one sentence why there is none."""

from pathlib import Path

import pytest

from sordino import InputError, Spec, read_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.lower_bound import AuditOptions, LowerBound, VerdictKind, audit, verdict

FOLDER = Path(__file__).parents[3] / "examples" / "specs"
SLOW = {"heavy-tail-sgd", "without-replacement-last-iterate", "langevin-constant-drift"}
# No theorem is tight here, or the extremal quadratic is exactly what the tightest theorem assumes.
EXACT = {
    "full-last-iterate",
    "full-add-remove",
    "full-add-remove-last-iterate",
    "kept-draws",
    "kept-draws-add-remove",
    "cyclic-all-iterates",
    "sgld-list",
    "langevin-path",
    "residual-clipping",
    "posterior-strongly-log-concave",
}
REFUSED = {
    "average-laplace": "Laplace",
    "em": "all-iterates",
    "heavy-tail-as-stated": "dissipativity",
    "message-passing-passes": "independent batches",
    "message-passing-rounds": "all-iterates",
    "output-perturbation-mean": "Laplace",
    "posterior-bounded": "bounded",
    "projected-convex": "projection",
    "propose-test-sample": "is not known, so it has no exact audit",
    "ula-transfer": "convergence",
}
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def names() -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]


def audited(spec: Spec, delta: float) -> LowerBound | None:
    """The audit, or None where the law is not known; `test_what_is_not_known_...` reads the sentences."""
    try:
        return audit(spec, "exact", AuditOptions(delta=delta))
    except InputError:
        return None


@pytest.mark.every(2)
@pytest.mark.parametrize("name", names())
def test_no_theorem_is_below_the_exact_audit(name):
    spec = read_spec(FOLDER / f"{name}.json")
    delta = spec.delta or 1e-5
    lower = audited(spec, delta)
    if lower is None:
        assert name not in EXACT
        return
    for bound, epsilon in explain(spec, delta).bounds:
        assert lower.epsilon <= epsilon, bound.theorem
        assert verdict(bound, lower).kind in {VerdictKind.TIGHTNESS, VerdictKind.NOT_COMPARABLE}
    assert lower.confidence == 1.0
    assert lower.cap is None
    assert (lower.relation, lower.view, lower.delta) == (spec.relation, spec.view, delta)


@pytest.mark.parametrize("name", sorted(EXACT))
def test_where_a_theorem_is_exact_the_sandwich_closes(name):
    spec = read_spec(FOLDER / f"{name}.json")
    delta = spec.delta or 1e-5
    lower = audit(spec, "exact", AuditOptions(delta=delta))
    assert lower.epsilon == pytest.approx(explain(spec, delta).epsilon, rel=1e-9)


@pytest.mark.parametrize(("name", "epsilon"), [("golden-poisson", 1.8282), ("golden-poisson-replace-one", 2.8434)])
def test_the_golden_cases_from_below(name, epsilon):
    lower = audit(read_spec(FOLDER / f"{name}.json"), "exact", AuditOptions(delta=1e-5))
    assert epsilon * 0.999 <= lower.epsilon <= epsilon


@pytest.mark.parametrize(("name", "word"), sorted(REFUSED.items()))
def test_what_is_not_known_is_said_in_one_sentence(name, word):
    with pytest.raises(InputError, match=word):
        audit(read_spec(FOLDER / f"{name}.json"), "exact", AuditOptions(delta=1e-5))
