"""`exact`: nothing is run and nothing sampled; the laws of what is seen follow from the description."""

from sordino.auditing.exact.explorers import findings
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound, audit_method
from sordino.core.spec import Spec


@audit_method("exact")
def exact(spec: Spec, options: AuditOptions) -> LowerBound:
    """The largest exact epsilon over the pairs of neighbours looked at."""
    pairs = findings(spec)
    values = [pair.leak.epsilon(options.delta) for pair in pairs]
    best = max(range(len(pairs)), key=values.__getitem__)
    return LowerBound(
        epsilon=values[best],
        delta=options.delta,
        relation=spec.relation,
        view=spec.view,
        method="exact",
        confidence=1.0,
        counts=(("pairs of neighbours", len(pairs)),),
        cap=None,
        seed_policy="No randomness: the laws are known in closed form or by quadrature.",
        evidence=f"Told apart: {pairs[best].neighbours}.",
        examined=Examined.DESCRIPTION,
        curve=pairs[best].leak.curve(),
    )
