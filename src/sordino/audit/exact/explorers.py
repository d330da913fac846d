"""Which neighbours an exact audit looks at, for each kind of run."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from sordino.audit.exact.extremal_chain import extremal_findings
from sordino.audit.exact.finding import Finding
from sordino.audit.exact.gaussian_shift import GaussianShift, composed_down
from sordino.audit.exact.perturbed_output import output_findings
from sordino.audit.exact.posterior_draw import posterior_findings
from sordino.audit.exact.proposed_sample import proposed_findings
from sordino.audit.exact.ridge_instance import ridge_findings
from sordino.audit.exact.seen_rounds import rounds_findings
from sordino.core.errors import InputError
from sordino.core.spec import (
    ALGORITHMS,
    Algorithm,
    Composite,
    ExpectationMaximisation,
    MessagePassing,
    NoisyGradient,
    OutputPerturbation,
    PosteriorSample,
    ProposeTestSample,
    Spec,
    Variational,
)

Explorer = Callable[[Spec], Iterator[Finding]]


def findings(spec: Spec) -> tuple[Finding, ...]:
    """Every pair of neighbours that is looked at, at least one; a run whose law is not known is refused."""
    explorer = EXPLORERS.get(type(spec.algorithm))
    found = () if explorer is None else tuple(explorer(spec))
    if not found:
        raise InputError(
            f"Expected a run whose law is known for an exact audit, got a {ALGORITHMS.word_of(spec.algorithm)} run "
            "without one; use another method."
        )
    return found


def _chain(spec: Spec) -> Iterator[Finding]:
    """The instance if there is one, else the extremal quadratic."""
    return extremal_findings(spec) if spec.instance is None else ridge_findings(spec)


def _composite(spec: Spec) -> Iterator[Finding]:
    """All parts together where each is a shifted Gaussian; else each part alone, which is less than what is seen."""
    parts = [findings(part) for part in spec.runs()]
    shifts = [[found.leak for found in part if isinstance(found.leak, GaussianShift)] for part in parts]
    if all(shifts):
        largest = [max(shift.mu for shift in part) for part in shifts]
        yield Finding(GaussianShift(composed_down(largest)), "the extremal neighbours of every part, seen together")
    for part in parts:
        yield from part


EXPLORERS: Mapping[type[Algorithm], Explorer] = MappingProxyType(
    {
        NoisyGradient: _chain,
        PosteriorSample: posterior_findings,
        ProposeTestSample: proposed_findings,
        OutputPerturbation: output_findings,
        MessagePassing: rounds_findings,
        Variational: rounds_findings,
        ExpectationMaximisation: rounds_findings,
        Composite: _composite,
    }
)
