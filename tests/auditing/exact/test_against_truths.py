"""Exact audits against laws that are enumerated: never above a certificate, and the truth where it is known.

An audit above the truth cries wolf, and one far below it is of no use.
"""

from typing import Any

import pytest

from sordino import InputError, Spec
from sordino.accounting.evaluate import explain, tightest
from sordino.auditing.exact.extremal_chain import LONGEST
from sordino.auditing.lower_bound import AuditOptions, VerdictKind, audit, verdict
from tests.accounting.described import composite, curved
from tests.auditing.chains import chain
from tests.soundness import long_runs
from tests.soundness.compare import exact_epsilon
from tests.soundness.registry import draw, generator_names

DELTA = 1e-5
# Instances whose neighbours are the worst of their constants, or nearly always.
WORST = (
    *("affine-", "composite-fixed", "composite-per", "cyclic-all", "cyclic-average", "cyclic-last", "forgetting-"),
    *("full-add-remove", "full-replace-one", "langevin-linear-full", "langevin-transferred", "mechanism-", "paper-"),
    *("output-gaussian", "poisson-", "posterior-strongly", "random-allocation-", "reshuffled-", "shuffle"),
    *("rounds-full", "rounds-poisson", "rounds-random", "rounds-resh", "rounds-with", "stable-pulled-cyclic"),
    *("stable-pulled-full", "truncated-poisson-replace-one", "with-replacement-", "without-replacement-"),
)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", generator_names())
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.slow)], ids=["few", "many"])
def test_an_audit_is_never_above_a_certificate_and_meets_the_truth(name: str, seeds: range) -> None:
    met = []
    for seed in seeds:
        instance = draw(name, seed)
        try:
            found = audit(instance.spec, "exact", AuditOptions(delta=1e-3)).epsilon
        except InputError:  # `test_examples` reads the sentences
            continue
        assert all(found <= epsilon for _, epsilon in explain(instance.spec, 1e-3).bounds), seed
        if name.startswith(WORST):
            # Truths in cells fall a little short, and half-lines are not the best tests of every mixture.
            met.append(found == pytest.approx(exact_epsilon(instance, 1e-3), rel=1e-2, abs=1e-4))
    assert any(met) or not met


def cyclic(steps: int, convexity: float, size: int = 1, n: int = 2, scale: float = 2.0) -> dict[str, Any]:
    run = {"kind": "noisy-gradient", "steps": steps, "step_size": 1.0, "batch": {"scheme": "cyclic", "size": size}}
    problem = {"n": n, "dim": 1, "gradient_sensitivity": 2.0} | curved(convexity)
    return {"algorithm": run | {"noise": {"kind": "gaussian", "scale": scale}}, "problem": problem}


def lower(spec: Spec) -> float:
    return audit(spec, "exact", AuditOptions(delta=DELTA)).epsilon


def test_different_records_are_not_added_up() -> None:
    """One step uses the first record, two steps with c = 0 show only the second: each record shows one shift of 1."""
    spec = composite(cyclic(1, 0.5), cyclic(2, 1.0), view="last-iterate")
    found = audit(spec, "exact", AuditOptions(delta=DELTA))
    assert found.epsilon == pytest.approx(4.3772, abs=1e-4)
    assert verdict(tightest(spec, DELTA), found).kind is VerdictKind.TIGHTNESS


def test_one_record_that_shows_in_both_parts_is_added_up() -> None:
    assert lower(composite(cyclic(1, 0.5), cyclic(1, 0.5), view="last-iterate")) == pytest.approx(6.5724, abs=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        # Sums of at most and more than 8192 values; the second is rounded down onto a grid.
        lambda: long_runs.drawn_anew(12, 1, 4, 0.8, 1.0),
        lambda: long_runs.drawn_anew(16, 1, 4, 0.8, 1.0),
        pytest.param(lambda: long_runs.drawn_anew(300, 1, 20, 0.99, 1.0), marks=pytest.mark.slow),
        lambda: long_runs.reshuffled(24, 6, 0.8, 1.0),
        lambda: long_runs.reshuffled(60, 6, 0.95, 1.0),
        lambda: long_runs.shuffled_once(40, 8, 0.9, 2.0),
        lambda: long_runs.shuffled_once(41, 8, -1.02, 2.0),
    ],
)
def test_an_audit_on_either_side_of_its_sizes_agrees_with_the_law(make):
    """The extremal quadratic is the one whose law is enumerated here; half-lines are its best tests, or good ones."""
    instance = make()
    found, truth = audit(instance.spec, "exact", AuditOptions(delta=1e-5)).epsilon, exact_epsilon(instance, 1e-5)
    # Both are rounded down, the law here by about a part in a thousand.
    assert 0.8 * truth <= found <= truth * (1 + 3e-3)
    assert all(found <= epsilon for _, epsilon in explain(instance.spec, 1e-5).bounds)


@pytest.mark.parametrize("factor", [0.9, -1.5])
def test_an_audit_refuses_more_steps_than_it_follows(factor):
    long = long_runs.chain(LONGEST + 1, 1, 2, factor, 1.0, scheme="cyclic")
    with pytest.raises(InputError, match=f"at most {LONGEST} steps"):
        audit(long, "exact", AuditOptions(delta=1e-5))
    near = long.with_values({"algorithm.steps": LONGEST if factor > 0 else 500})
    bound = tightest(near, 1e-5)
    assert bound is not None
    assert audit(near, "exact", AuditOptions(delta=1e-5)).epsilon <= bound.guarantee.epsilon(1e-5)


def test_a_batch_of_everybody_is_no_draw() -> None:
    """It was refused for its rate of 1."""
    seen = {"view": "all-iterates", "gradient_sensitivity": 2.0, "gradient_bound": 1.0}
    drawn, full = (lower(chain(*scheme, **seen)) for scheme in (("without-replacement", 6), ("full",)))
    assert drawn == pytest.approx(full, rel=1e-3)
