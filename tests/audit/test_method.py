"""The registry of audits."""

import pytest

from sordino.auditing.lower_bound import AuditOptions, audit, audit_method, audit_methods
from sordino.core.spec import Spec
from sordino.core.validate import InputError, SordinoError


def test_exact_is_registered_under_its_name():
    assert "exact" in audit_methods()


def test_an_unknown_method_is_refused_with_the_known_ones():
    spec = Spec.from_dict(
        {
            "algorithm": {
                "kind": "posterior-sample",
                "potential": {"kind": "strongly-log-concave", "lipschitz": 1.0, "strong_convexity": 1.0},
            },
            "relation": "replace-one",
            "view": "one-sample",
        }
    )
    with pytest.raises(InputError, match="exact"):
        audit(spec, "guess", AuditOptions(delta=1e-5))
    assert audit(spec, "exact", AuditOptions(delta=1e-5)).epsilon == pytest.approx(4.3772, abs=1e-4)


def test_two_audits_cannot_share_a_name():
    with pytest.raises(SordinoError, match="exact"):
        audit_method("exact")(lambda spec, options: audit(spec, "exact", options))


@pytest.mark.parametrize(
    "change", [{"delta": 0.0}, {"delta": 1.0}, {"confidence": 1.0}, {"models": 1}, {"models": 2.5}, {"seed": -1}]
)
def test_malformed_options_are_refused(change):
    with pytest.raises(InputError):
        AuditOptions(**({"delta": 1e-5} | change))
