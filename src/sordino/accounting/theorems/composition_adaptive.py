"""A list of runs on the same data: their guarantees compose, also when later runs depend on earlier releases."""

import math

from sordino.accounting import compose
from sordino.accounting.assumption import Assumption
from sordino.accounting.evaluate import explain
from sordino.accounting.registry import theorem, theorems
from sordino.accounting.scope import Scope
from sordino.core.bound import Bound, Status
from sordino.core.certificate import Certificate
from sordino.core.citation import Citation
from sordino.core.guarantee import Guarantee, RenyiDP
from sordino.core.relation import Relation
from sordino.core.spec import Spec
from sordino.core.view import View

# Parts are compared at this delta when the spec states none; the choice is public either way.
_REFERENCE_DELTA = 1e-6


def _chosen(part: Spec) -> Bound | None:
    """The tightest bound that has a dominating pair, else the tightest Rényi curve, else None."""
    bounds = explain(part, part.delta or _REFERENCE_DELTA).bounds
    paired = (bound for bound, epsilon in bounds if math.isfinite(epsilon) and not isinstance(bound.guarantee, RenyiDP))
    return next(paired, bounds[0][0] if bounds else None)


def _part_bounds(spec: Spec) -> list[Bound]:
    return [bound for bound in map(_chosen, spec.runs()) if bound is not None]


def _uncertified(spec: Spec) -> str | None:
    for position, part in enumerate(spec.runs()):
        if _chosen(part) is None:
            reasons = {found.failure(part) for found in theorems() if found.scope.failure(part) is None}
            why = "; ".join(sorted(filter(None, reasons))) or "no theorem covers such a run"
            return f"needs a bound for every part, and part {position} has none: {why}"
    return None


def _part_certificates(spec: Spec) -> tuple[Certificate, ...]:
    return tuple(certificate for bound in _part_bounds(spec) for certificate in bound.certificates)


def _unscoped(spec: Spec) -> Spec:
    """Make the first part one that no theorem covers: a chain without any certified sensitivity."""
    gone = {"gradient_sensitivity": None, "gradient_bound": None}
    return spec.with_values(
        {f"algorithm.parts.0.problem.{name}": value for name, value in gone.items()}
        | {"algorithm.parts.0.algorithm.clipping": None}
    )


@theorem(
    id="composition.adaptive",
    statement=(
        "If every run of a list has a dominating pair, their adaptive composition is dominated by the product of the "
        "pairs; Rényi curves add. The tightest theorem is used for each part."
    ),
    citation=Citation("zhu2022optimal", "Theorem 10"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"composite"}),
        frozenset(View),
        {Relation.REPLACE_ONE: frozenset(), Relation.ADD_REMOVE: frozenset()},
    ),
    assumptions=(Assumption("every part", "every part has a bound", _uncertified, _unscoped),),
    certificates=_part_certificates,
)
def adaptive(spec: Spec) -> Guarantee:
    """Compose each part's tightest guarantee that has a dominating pair; fall back on Rényi curves for the rest."""
    return compose.compose([(bound.guarantee, 1) for bound in _part_bounds(spec)])
