"""What Google's dp-accounting says of the same steps: the best of its loss-distribution and Rényi accountants.

Multipliers are given relative to the relation's own sensitivity, because its Rényi accountant does not double the
sensitivity of a Gaussian under replace-one while its loss-distribution accountant does for Poisson batches.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from papers.grid.runs import (
    Described,
    PeerSteps,
    averages,
    chains,
    decaying,
    examples,
    further_batches,
    kept,
    posterior_draws,
    random_uses,
    rounds,
    single_records,
    stable,
)
from sordino.accounting.evaluate import Explanation, explain


@cache
def peer_epsilon(steps: PeerSteps, delta: float) -> tuple[str, float]:
    """The accountant with the smallest epsilon, and that epsilon."""
    return min(((name, found(steps, delta)) for name, found in _ACCOUNTANTS.items()), key=lambda answer: answer[1])


def _by_loss_distribution(steps: PeerSteps, delta: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415
    from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: PLC0415

    if steps.mechanism == "without-replacement":
        return math.inf
    replaced = steps.mechanism == "poisson-replace-one"
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
    spacing = 1e-4 if steps.ratio * steps.rate * math.sqrt(steps.uses) < 1 else 1e-3
    one = pld.from_gaussian_mechanism(
        1 / steps.ratio,
        sampling_prob=steps.rate,
        value_discretization_interval=spacing,
        neighboring_relation=relation,
    )
    return one.self_compose(steps.uses).get_epsilon_for_delta(delta)


def _by_renyi(steps: PeerSteps, delta: float) -> float:
    from dp_accounting import dp_event, rdp  # noqa: PLC0415
    from dp_accounting.privacy_accountant import NeighboringRelation  # noqa: PLC0415

    if steps.mechanism == "poisson-replace-one":
        return math.inf
    plain = dp_event.GaussianDpEvent(1 / steps.ratio)
    sampled = {
        "gaussian": plain,
        "poisson-add-remove": dp_event.PoissonSampledDpEvent(steps.rate, plain),
        # It reads the two counts only through their quotient.
        "without-replacement": dp_event.SampledWithoutReplacementDpEvent(10**6, round(steps.rate * 10**6), plain),
    }[steps.mechanism]
    replaced = steps.mechanism == "without-replacement"
    relation = NeighboringRelation.REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = rdp.RdpAccountant(neighboring_relation=relation)
    return float(accountant.compose(sampled, steps.uses).get_epsilon(delta))


_ACCOUNTANTS: dict[str, Callable[[PeerSteps, float], float]] = {
    "dp-accounting PLD": _by_loss_distribution,
    "dp-accounting RDP": _by_renyi,
}


# Asking every theorem and the peer about runs of the grid.

DELTA = 1e-5
# Loss distributions, ours and the peer's, answer with the upper end of a bracket; ours has relative width 1e-3.
TIE = 2e-3
_GROUPS = (
    *(chains, averages, kept, decaying, stable, posterior_draws, rounds),
    *(random_uses, further_batches, single_records, examples),
)


@dataclass(frozen=True)
class Answered:
    """A run, what every theorem says of it, and what the peer says."""

    run: Described
    found: Explanation
    peer: tuple[str, float] | None

    @property
    def winners(self) -> tuple[str, ...]:
        """The theorems within the tie of the smallest epsilon, the plainest name first."""
        if not math.isfinite(self.found.epsilon):
            return ()
        most = self.found.epsilon * (1 + TIE)
        return tuple(sorted(bound.theorem for bound, epsilon in self.found.bounds if epsilon <= most))

    @property
    def peer_is_smaller(self) -> bool:
        """Whether the peer's epsilon is below our smallest by more than the tie."""
        return self.peer is not None and self.peer[1] < self.found.epsilon * (1 - TIE)


def grid() -> tuple[Described, ...]:
    """Every run of the grid, in order."""
    return tuple(run for group in _GROUPS for run in group())


def quick_grid() -> tuple[Described, ...]:
    """The first run of every group."""
    return tuple(next(iter(group())) for group in _GROUPS)


def answered(runs: Iterable[Described]) -> Iterator[Answered]:
    """Each run with its answers, at the spec's delta or the common one."""
    for run in runs:
        delta = DELTA if run.spec.delta is None else run.spec.delta
        peer = None if run.peer is None else peer_epsilon(run.peer, delta)
        yield Answered(run, explain(run.spec, delta), peer)
