"""Random chains of every scheme, relation and view: no theorem is below the exact audit of the extremal quadratic."""

import pytest

from sordino.accounting.evaluate import explain, tightest
from sordino.auditing.exact.extremal_chain import LONGEST
from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.core.validate import InputError
from tests.soundness import long_runs
from tests.soundness.compare import exact_epsilon


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
