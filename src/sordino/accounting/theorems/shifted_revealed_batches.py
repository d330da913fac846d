"""Random batches, last iterate, all batches revealed: the average over participation of the cheapest shifts."""

from collections.abc import Callable

from sordino.accounting import compose
from sordino.accounting.participation.revealed import ShiftLaw, drawn_batches, reshuffled_passes
from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.hidden_state_needs import EQUAL_BATCHES
from sordino.accounting.theorems.random_batch_needs import (
    CONTRACTED_CHAIN,
    MONOTONE_RANDOM,
    NOT_EXPANDING,
    contraction_and_ratio,
)
from sordino.accounting.theorems.shift_needs import chain_of, shift_certificates
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.relation import Relation
from sordino.core.rounding import up
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.view import View

_LAWS: dict[Scheme, Callable[[float, NoisyGradient, int], ShiftLaw]] = {
    Scheme.WITHOUT_REPLACEMENT: lambda c, chain, n: drawn_batches(c, chain.rate(n), chain.steps),
    Scheme.RESHUFFLED: lambda c, chain, n: reshuffled_passes(c, chain.batches_per_epoch(n), chain.steps),
}


@theorem(
    id="shifted.revealed-batches",
    statement=(
        "With batches drawn independently of the data and contraction c <= 1, the last iterate has delta(epsilon) at "
        "most the average over participation patterns B of the delta of mu(B)-Gaussian DP, mu(B) the least cost of "
        "shifts given B. Up to 1e6 patterns are listed; beyond, uses are moved later and pushes before a last window "
        "do not look ahead, which only raises mu."
    ),
    citation=Citation("bok2024shifted", "Theorem 4.5, given the batches, with the exact minimiser"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT, Scheme.RESHUFFLED})},
    ),
    assumptions=(EQUAL_BATCHES, *CONTRACTED_CHAIN, NOT_EXPANDING),
    certificates=shift_certificates,
    monotone=MONOTONE_RANDOM,
)
def revealed_batches(spec: Spec) -> Guarantee:
    """Given the batches the shift theorem holds; a public choice between mechanisms averages their deltas."""
    chain, (contraction, ratio) = chain_of(spec), contraction_and_ratio(spec)
    law = _LAWS[chain.batch.scheme](contraction, chain, spec.n)
    return compose.mix(law.weights, [GaussianDP(up(ratio * mu, 2) if mu else 0.0) for mu in law.mus])
