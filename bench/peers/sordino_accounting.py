"""The accounting task in Sordino; every answer is cold: nothing is remembered from the last one."""

from importlib.metadata import version

import golden

from sordino.core import guarantee as loss_distribution
from sordino.core.guarantee import ApproxDP, LossDistribution
from sordino.core.loss import evaluate
from sordino.core.loss.normal_pairs import PoissonRemovePair


def _run() -> LossDistribution:
    for remembered in (loss_distribution._epsilon_bracket, loss_distribution._delta_bracket, evaluate._on_grid):
        remembered.cache_clear()
    return LossDistribution(((PoissonRemovePair(golden.RATE, 1 / golden.MULTIPLIER), golden.STEPS),))


def bracket(width: str) -> golden.Interval:
    found = _run().epsilon_bracket(golden.DELTA, float(width))
    return found.low, found.high


def advantage() -> golden.Interval:
    found = _run().delta_bracket(0.0, 1e-3)
    return found.low, found.high


def converted() -> golden.Interval:
    return -float("inf"), ApproxDP(1.0, golden.DELTA).delta(0.0)


if __name__ == "__main__":
    golden.answer(
        {
            f"bracket {golden.WIDE}": lambda: bracket(golden.WIDE),
            f"bracket {golden.NARROW}": lambda: bracket(golden.NARROW),
            "upper": lambda: bracket(golden.NARROW),
            "advantage": advantage,
            "converted": converted,
        },
        {name: version(name) for name in ("numpy", "scipy")},
    )
