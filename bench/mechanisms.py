"""Single mechanisms against dp-accounting: both ends of epsilon beside its upper end, and CPU seconds.

    python bench/mechanisms.py

Needs dp-accounting in the same environment. Every mechanism is used 10^2 and 10^4 times, delta 1e-5, one core.
dp-accounting discretises losses in steps of 1e-4, its default, and rounds up.
"""

import time
from collections.abc import Callable
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as pld

from sordino.core.guarantee import LossDistribution
from sordino.core.loss.atomic_pairs import DiscreteGaussianPair, DiscreteLaplacePair, LaplacePair
from sordino.core.loss.mixture_pairs import RandomShiftPair
from sordino.core.loss.pair import Pair

DELTA = 1e-5
STEP = 1e-4
WEIGHTS, SHIFTS = (0.97, 0.02, 0.01), (0.0, 1.0, 2.0)
GRID: dict[str, tuple[Pair, Callable[..., Any]]] = {
    "Laplace": (LaplacePair(0.1), lambda **options: pld.from_laplace_mechanism(10.0, **options)),
    "discrete Laplace": (
        DiscreteLaplacePair(0.05, 2),
        lambda **options: pld.from_discrete_laplace_mechanism(0.05, 2, **options),
    ),
    "discrete Gaussian": (
        DiscreteGaussianPair(10.0, 1),
        lambda **options: pld.from_discrete_gaussian_mechanism(10.0, 1, **options),
    ),
    "random shift": (
        RandomShiftPair(WEIGHTS, tuple(shift / 2 for shift in SHIFTS)),
        lambda **options: pld.from_mixture_gaussian_mechanism(2.0, SHIFTS, WEIGHTS, **options),
    ),
}


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    return work(), time.process_time() - begun


def main() -> None:
    print("| mechanism | uses | Sordino | seconds | dp-accounting | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for name, (pair, build) in GRID.items():
        for uses in (100, 10_000):
            ours = LossDistribution(((pair, uses),))
            found, seconds = timed(lambda ours=ours: ours.epsilon_bracket(DELTA))
            options = {"pessimistic_estimate": True, "value_discretization_interval": STEP}
            theirs, longer = timed(
                lambda build=build, uses=uses, options=options: (
                    build(**options).self_compose(uses).get_epsilon_for_delta(DELTA)
                )
            )
            ends = f"{found.low:.5f} to {found.high:.5f}"
            print(f"| {name} | {uses} | {ends} | {seconds:.3f} | {theirs:.5f} | {longer:.3f} |")


if __name__ == "__main__":
    main()
