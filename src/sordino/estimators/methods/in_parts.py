"""A plan of several releases, described as one run."""

from sordino.core.spec import Spec
from sordino.core.view import View
from sordino.estimators.situation import Situation


def in_parts(situation: Situation, *parts: Spec) -> Spec:
    """One after the other, everything released: what is certified is their composition."""
    described = [{"algorithm": part.to_dict()["algorithm"], "view": part.view.value} for part in parts]
    return Spec.from_dict(
        {
            "algorithm": {"kind": "composite", "parts": described},
            "relation": situation.relation.value,
            "view": View.ALL_ITERATES.value,
            "delta": situation.delta,
        }
    )
