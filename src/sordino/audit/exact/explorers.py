"""Which neighbours an exact audit looks at, for each kind of run."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from sordino.audit.exact.composed_loss import ComposedLoss
from sordino.audit.exact.extremal_chain import extremal_findings
from sordino.audit.exact.finding import Finding
from sordino.audit.exact.gaussian_shift import GaussianShift
from sordino.audit.exact.perturbed_output import output_findings
from sordino.audit.exact.posterior_draw import posterior_findings
from sordino.audit.exact.proposed_sample import proposed_findings
from sordino.audit.exact.ridge_instance import ridge_findings
from sordino.audit.exact.seen_rounds import rounds_findings
from sordino.core.errors import InputError
from sordino.core.guarantee import LossDistribution
from sordino.core.loss.normal_pairs import GaussianPair
from sordino.core.loss.pair import Pair
from sordino.core.rounding import UNIT_ROUNDOFF
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
    """What one record shows in all parts together, for the record that shows most; and each part alone.

    The two datasets differ in one record, which stands at one place, so its distances in the parts are composed first
    and the largest over the records is taken last. Parts have losses of their own, so the record may be the odd one in
    each, on the same side of every pair; noise and batches of different parts are independent. A part whose losses are
    not known one by one is left out of the composition, which is less than what is seen.
    """
    equal = Counter(spec.runs())
    found = {part: findings(part) for part in equal}
    together = [(one, count) for part, count in equal.items() if (one := _composable(found[part])) is not None]
    placed = [one.placed for one, _ in together if one.placed is not None]
    if sum(count for _, count in together) > 1 and len({order.records for order in placed}) <= 1:
        yield _together(together)
    for part in equal:
        yield from found[part]


def _composable(part: tuple[Finding, ...]) -> Finding | None:
    """The first finding of a part whose losses add up with those of others."""
    return next((one for one in part if isinstance(one.leak, GaussianShift | ComposedLoss)), None)


def _together(parts: list[tuple[Finding, int]]) -> Finding:
    """Shifts of one record are one shift; the losses of sampled parts, the same for every record, add to it."""
    starts = [one.placed.starts for one, _ in parts if one.placed is not None]
    # Between the starts of any batches all records show the same.
    records = np.unique(np.concatenate(starts)) if starts else np.zeros(1, dtype=np.int64)
    squares = np.zeros(len(records))
    losses: list[tuple[Pair, int]] = []
    for one, count in parts:
        if isinstance(one.leak, ComposedLoss):
            losses += [(pair, times * count) for pair, times in one.leak.losses.factors]
        elif isinstance(one.leak, GaussianShift):
            squares += count * np.square(one.leak.mu if one.placed is None else one.placed.at(records))
    worst = int(np.argmax(squares))
    mu = math.sqrt(float(squares[worst])) * (1 - (len(parts) + 16) * UNIT_ROUNDOFF)
    which = f"record {records[worst] + 1} the odd one in all" if starts else "any record the odd one in all"
    story = f"the extremal neighbours of {sum(count for _, count in parts)} parts seen together, {which}"
    if not losses:
        return Finding(GaussianShift(mu), story)
    return Finding(ComposedLoss(LossDistribution((*([(GaussianPair(mu), 1)] if mu > 0 else []), *losses))), story)


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
