"""The advantage of the best attack in riskcal, on its default grid, and from (epsilon, delta) alone."""

from importlib.metadata import version

import golden
from riskcal.analysis.conversions import get_advantage_from_adp
from riskcal.calibration.dpsgd import get_advantage_for_dpsgd


def advantage() -> golden.Interval:
    return -float("inf"), float(get_advantage_for_dpsgd(golden.MULTIPLIER, golden.RATE, golden.STEPS))


def converted() -> golden.Interval:
    return -float("inf"), float(get_advantage_from_adp(1.0, golden.DELTA))


if __name__ == "__main__":
    ways = {"advantage": advantage, "converted": converted}
    golden.answer(ways, {name: version(name) for name in ("riskcal", "dp-accounting", "numpy")})
