"""One cell of the grid of accounting in one library: the ends of epsilon, CPU seconds, the most memory.

    python accounting_cells.py LIBRARY "CELL STEPS" [RELATIVE WIDTH]

Needs the library that is asked, and nothing else: every way imports what it needs when it is called. The first answer
of a fresh process counts, imports left out of its time but not out of its memory.
"""
# Libraries are imported where they are asked, and every way has the same arguments.
# ruff: noqa: ARG001, ARG005, PLC0415

import json
import math
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

WORD = "PEER-RESULT "
DELTA = 1e-5
STEPS = (100, 10_000, 1_000_000)
STEP = 1e-4  # of dp-accounting's grid, its default
CATEGORIES, WEIGHTS, SHIFTS = 4, (0.97, 0.02, 0.01), (0.0, 1.0, 2.0)
RECORDS, TRIALS, BANDS = 100_000, 10.0, 4
NOTHING = -math.inf

Ends = tuple[float, float]
Way = Callable[[int], Callable[[float], Ends]]


def spread(steps: int) -> float:
    """Noise per use with which that many uses together move by one deviation."""
    return math.sqrt(steps)


def rate(steps: int) -> float:
    """Sampling rate with which that many steps of multiplier 1 cost about the same."""
    return 1 / math.sqrt(steps)


def truth(steps: int) -> float:
    """Chance of a true answer that makes randomised response pure with epsilon 1 / sqrt(steps)."""
    odds = math.exp(1 / spread(steps))
    return odds / (odds + CATEGORIES - 1)


def cap(steps: int, units: int = RECORDS) -> int:
    expected = units * rate(steps)
    return math.ceil(expected + 2 * math.sqrt(expected))


def rounds(steps: int) -> tuple[int, int, float]:
    """Steps in a round of random allocation, rounds, and the noise multiplier."""
    return {100: (100, 1, 0.8), 10_000: (1000, 10, 1.0), 1_000_000: (1000, 1000, 8.0)}[steps]


# Sordino -------------------------------------------------------------------------------------------------------------


def _composed(pair: Callable[[int], Any], uses: Callable[[int], int] = lambda steps: steps) -> Way:
    def way(steps: int) -> Callable[[float], Ends]:
        from sordino.core.guarantee import LossDistribution

        factors = ((pair(steps), uses(steps)),)

        def ends(width: float) -> Ends:
            found = LossDistribution(factors).epsilon_bracket(DELTA, width)
            return found.low, found.high

        return ends

    return way


def _pair(module: str, name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f"sordino.core.loss.{module}"), name)


def _gaussian_here(_: int) -> Callable[[float], Ends]:
    from sordino.core.guarantee import GaussianDP

    return lambda width: (GaussianDP(1.0).epsilon(DELTA) * (1 - 1e-9), GaussianDP(1.0).epsilon(DELTA))


def _response_here(steps: int) -> Any:
    p = truth(steps)
    other = (1 - p) / (CATEGORIES - 1)
    loss = math.log(p / other)
    return _pair("atomic_pairs", "ExplicitPair")((-loss, 0.0, loss), (other, 1 - p - other, p), 0.0)


def _described(algorithm: Callable[[int], dict[str, Any]], relation: str = "add-remove", **more: Any) -> Way:
    """The tightest theorem on a described run; no lower end."""

    def way(steps: int) -> Callable[[float], Ends]:
        from sordino import certify
        from sordino.accounting.evaluate import theorems
        from sordino.core.spec import Spec

        theorems()  # imported on first use, and imports are not counted
        run = {"algorithm": algorithm(steps), "relation": relation, "view": "all-iterates", "delta": DELTA} | more
        spec = Spec.from_dict(run)
        return lambda width: (NOTHING, certify(spec).epsilon)

    return way


def _tree(steps: int) -> dict[str, Any]:
    noise = math.sqrt(math.ceil(math.log2(steps)) + 1)
    return {
        "kind": "matrix-mechanism", "steps": steps, "strategy": {"kind": "tree"}, "contribution": 1.0,
        "noise_multiplier": noise, "participation": {"scheme": "single"},
    }  # fmt: skip


def _selected(steps: int) -> dict[str, Any]:
    noise = {"kind": "gaussian", "scale": 4 * spread(steps)}
    answer = {"kind": "noised-answer", "query": "a mean", "repetitions": steps, "sensitivity": 1.0, "noise": noise}
    return {
        "kind": "repeat-and-select", "base": {"algorithm": answer}, "trials": {"kind": "poisson", "mean": TRIALS},
    }  # fmt: skip


def _capped(steps: int, units: int = RECORDS, relation: str = "add-remove") -> Any:
    from sordino.accounting.bounds.hidden_steps import capped_step, full_chance
    from sordino.core.bound import Relation

    return capped_step(Relation(relation), rate(steps), 1.0, full_chance(cap(steps, units), units, rate(steps)))


def _truncated_here(relation: str) -> Callable[[int], Any]:
    return lambda steps: _capped(steps, relation=relation)


def _allocation_here(steps: int) -> Any:
    length, _, noise = rounds(steps)
    return _pair("allocation", "AllocationPair")(length, length, 1 / noise)


OURS: dict[str, Way] = {
    "Gaussian": _gaussian_here,
    "Laplace": _composed(lambda steps: _pair("atomic_pairs", "LaplacePair")(1 / spread(steps))),
    "discrete Laplace": _composed(lambda steps: _pair("atomic_pairs", "DiscreteLaplacePair")(1 / spread(steps), 1)),
    "discrete Gaussian": _composed(lambda steps: _pair("atomic_pairs", "DiscreteGaussianPair")(spread(steps), 1)),
    "randomised response": _composed(_response_here),
    "pure": _composed(lambda steps: _pair("atomic_pairs", "ResponsePair")(1 / spread(steps), 0.0)),
    "exponential mechanism": _composed(lambda steps: _pair("atomic_pairs", "BoundedRangePair")(1 / spread(steps))),
    "mixture of Gaussians": _composed(
        lambda steps: _pair("mixture_pairs", "RandomShiftPair")(
            WEIGHTS, tuple(10 * shift / spread(steps) for shift in SHIFTS)
        )
    ),
    "tree aggregation": _described(_tree),
    "repeat and select": _described(_selected),
    "Poisson": _composed(lambda steps: _pair("normal_pairs", "PoissonRemovePair")(rate(steps), 1.0)),
    "Poisson, replace-one": _composed(lambda steps: _pair("normal_pairs", "PoissonReplacePair")(rate(steps), 1.0)),
    "Poisson, Laplace": _composed(lambda steps: _pair("atomic_pairs", "PoissonLaplacePair")(rate(steps), 1.0)),
    "without replacement": _composed(lambda steps: _pair("normal_pairs", "WithoutReplacementPair")(rate(steps), 1.0)),
    "with replacement": _composed(
        lambda steps: _pair("mixture_pairs", "WithReplacementPair")(math.ceil(RECORDS * rate(steps)), RECORDS, 1.0)
    ),
    "truncated Poisson": _composed(_truncated_here("add-remove")),
    "truncated Poisson, replace-one": _composed(_truncated_here("replace-one")),
    "random allocation": _composed(_allocation_here, lambda steps: rounds(steps)[1]),
    "banded matrix, sampled in groups": _composed(
        lambda steps: _pair("normal_pairs", "PoissonRemovePair")(rate(steps), 1.0), lambda steps: -(-steps // BANDS)
    ),
    "banded matrix, groups capped": _composed(
        lambda steps: _capped(steps, RECORDS // BANDS), lambda steps: -(-steps // BANDS)
    ),
}

# dp-accounting -------------------------------------------------------------------------------------------------------


def _discretised(build: Callable[[Any, int, dict[str, Any]], Any], uses: Callable[[int], int] = lambda s: s) -> Way:
    """Connect the dots above, optimistic rounding below, on the library's default grid."""

    def way(steps: int) -> Callable[[float], Ends]:
        from dp_accounting.pld import privacy_loss_distribution as pld

        def end(pessimistic: bool) -> float:
            options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": STEP}
            return build(pld, steps, options).self_compose(uses(steps)).get_epsilon_for_delta(DELTA)

        def ends(width: float) -> Ends:
            high = end(True)
            try:
                low = end(False)
            except (ValueError, OverflowError, MemoryError):
                low = NOTHING
            return low if low > 0 else NOTHING, high

        return ends

    return way


def _neighbours(pld: Any) -> Any:
    from dp_accounting.privacy_accountant import NeighboringRelation

    return NeighboringRelation.REPLACE_ONE


def _renyi(event: Callable[[Any, int], Any], relation: str = "ADD_OR_REMOVE_ONE") -> Way:
    def way(steps: int) -> Callable[[float], Ends]:
        import dp_accounting
        from dp_accounting.privacy_accountant import NeighboringRelation
        from dp_accounting.rdp import RdpAccountant

        def ends(width: float) -> Ends:
            accountant = RdpAccountant(neighboring_relation=NeighboringRelation[relation])
            return NOTHING, float(accountant.compose(event(dp_accounting, steps)).get_epsilon(DELTA))

        return ends

    return way


def _truncated_there(relation: str) -> Way:
    """It is rounded up only."""

    def way(steps: int) -> Callable[[float], Ends]:
        from dp_accounting.pld import privacy_loss_distribution as pld
        from dp_accounting.privacy_accountant import NeighboringRelation

        def ends(width: float) -> Ends:
            one = pld.from_truncated_subsampled_gaussian_mechanism(
                dataset_size=RECORDS, sampling_probability=rate(steps), truncated_batch_size=cap(steps),
                noise_multiplier=1.0, value_discretization_interval=STEP,
                neighboring_relation=NeighboringRelation[relation],
            )  # fmt: skip
            return NOTHING, one.self_compose(steps).get_epsilon_for_delta(DELTA)

        return ends

    return way


def _without_replacement(library: Any, steps: int) -> Any:
    # Its Rényi accountant does not double a Gaussian under replace-one: the multiplier is that of the replacement.
    sampled = library.dp_event.SampledWithoutReplacementDpEvent(
        RECORDS, math.ceil(RECORDS * rate(steps)), library.GaussianDpEvent(1.0)
    )
    return library.SelfComposedDpEvent(sampled, steps)


def _pure(steps: int) -> Callable[[float], Ends]:
    """All that is known of an exponential mechanism there is that it is pure; rounded up only."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    def ends(width: float) -> Ends:
        known = DifferentialPrivacyParameters(1 / spread(steps), 0.0)
        one = pld.from_privacy_parameters(known, value_discretization_interval=STEP)
        return NOTHING, one.self_compose(steps).get_epsilon_for_delta(DELTA)

    return ends


GOOGLE: dict[str, Way] = {
    "Gaussian": _discretised(lambda pld, steps, o: pld.from_gaussian_mechanism(1.0, **o), lambda steps: 1),
    "Laplace": _discretised(lambda pld, steps, o: pld.from_laplace_mechanism(spread(steps), **o)),
    "discrete Laplace": _discretised(
        lambda pld, steps, o: pld.from_discrete_laplace_mechanism(1 / spread(steps), 1, **o)
    ),
    "discrete Gaussian": _discretised(
        lambda pld, steps, o: pld.from_discrete_gaussian_mechanism(spread(steps), 1, **o)
    ),
    "randomised response": _discretised(
        lambda pld, steps, o: pld.from_randomized_response(
            CATEGORIES * (1 - truth(steps)) / (CATEGORIES - 1), CATEGORIES, neighboring_relation=_neighbours(pld), **o
        )
    ),
    "pure": _pure,
    "exponential mechanism": _pure,
    "mixture of Gaussians": _discretised(
        lambda pld, steps, o: pld.from_mixture_gaussian_mechanism(spread(steps) / 10, SHIFTS, WEIGHTS, **o)
    ),
    "tree aggregation": _renyi(
        lambda library, steps: library.dp_event.SingleEpochTreeAggregationDpEvent(
            math.sqrt(math.ceil(math.log2(steps)) + 1), steps
        ),
        "REPLACE_SPECIAL",
    ),
    "repeat and select": _renyi(
        lambda library, steps: library.dp_event.RepeatAndSelectDpEvent(
            library.SelfComposedDpEvent(library.GaussianDpEvent(4 * spread(steps)), steps), TRIALS, math.inf
        )
    ),
    "Poisson": _discretised(lambda pld, steps, o: pld.from_gaussian_mechanism(1.0, sampling_prob=rate(steps), **o)),
    "Poisson, replace-one": _discretised(
        lambda pld, steps, o: pld.from_gaussian_mechanism(
            1.0, sampling_prob=rate(steps), neighboring_relation=_neighbours(pld), **o
        )
    ),
    "Poisson, Laplace": _discretised(
        lambda pld, steps, o: pld.from_laplace_mechanism(1.0, sampling_prob=rate(steps), **o)
    ),
    "without replacement": _renyi(_without_replacement, "REPLACE_ONE"),
    "truncated Poisson": _truncated_there("ADD_OR_REMOVE_ONE"),
    "truncated Poisson, replace-one": _truncated_there("REPLACE_ONE"),
}

# jax-privacy ---------------------------------------------------------------------------------------------------------


def _event(build: Callable[[Any, int], Any]) -> Way:
    """An event of jax-privacy in the accountant its documentation uses."""

    def way(steps: int) -> Callable[[float], Ends]:
        from dp_accounting.pld import PLDAccountant
        from jax_privacy.experimental import accounting

        return lambda width: (NOTHING, PLDAccountant().compose(build(accounting, steps)).get_epsilon(DELTA))

    return way


JAX: dict[str, Way] = {
    "Poisson": _event(lambda a, steps: a.dpsgd_event(1.0, steps, sampling_prob=rate(steps))),
    "truncated Poisson": _event(
        lambda a, steps: a.truncated_dpsgd_event(
            1.0, steps, sampling_prob=rate(steps), num_examples=RECORDS, truncated_batch_size=cap(steps)
        )
    ),
    "banded matrix, sampled in groups": _event(
        lambda a, steps: a.amplified_bandmf_event(1.0, steps, num_bands=BANDS, sampling_prob=rate(steps))
    ),
    "banded matrix, groups capped": _event(
        lambda a, steps: a.truncated_amplified_bandmf_event(
            1.0,
            steps,
            num_bands=BANDS,
            sampling_prob=rate(steps),
            largest_group_size=RECORDS // BANDS,
            truncated_batch_size=cap(steps, RECORDS // BANDS),
        )
    ),
}

# PLD-accounting ------------------------------------------------------------------------------------------------------


def _allocation_there(steps: int) -> Callable[[float], Ends]:
    from PLD_accounting import gaussian_allocation_epsilon_range

    length, count, noise = rounds(steps)

    def ends(width: float) -> Ends:
        high, low = gaussian_allocation_epsilon_range(
            delta=DELTA, sigma=noise, num_steps=length, num_selected=1, num_epochs=count
        )
        return (low if low > 0 else NOTHING), high

    return ends


def _subsampled(steps: int) -> Callable[[float], Ends]:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from PLD_accounting import subsample_pld

    def ends(width: float) -> Ends:
        base = pld.from_gaussian_mechanism(1.0, value_discretization_interval=STEP)
        sampled = subsample_pld(pld=base, sampling_probability=rate(steps))
        return NOTHING, sampled.self_compose(steps).get_epsilon_for_delta(DELTA)

    return ends


LIBRARIES: dict[str, dict[str, Way]] = {
    "Sordino": OURS,
    "dp-accounting": GOOGLE,
    "jax-privacy": JAX,
    "PLD-accounting": {"random allocation": _allocation_there, "Poisson": _subsampled},
}
PACKAGES = {"dp-accounting": "dp-accounting", "jax-privacy": "jax-privacy", "PLD-accounting": "PLD_accounting"}


def main() -> None:
    from importlib.metadata import version

    library, cell, steps, *asked = sys.argv[1:]
    answer = LIBRARIES[library][cell](int(steps))
    begin = time.process_time()
    low, high = answer(float(asked[0]) if asked else 1e-3)
    seconds = time.process_time() - begin
    found = {
        "low": None if low == NOTHING else low,
        "high": high if math.isfinite(high) else None,
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": None if library == "Sordino" else version(PACKAGES[library]),
    }
    sys.stdout.write(WORD + json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
