"""The accounting task in dp-accounting: connect-the-dots above, optimistic rounding below, and its Rényi accountant."""

from importlib.metadata import version

import golden
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant

# Measured: the coarsest grid on which connect-the-dots is within a thousandth of the value.
COARSE = 1.5e-3


def _epsilon(interval: float, pessimistic: bool) -> float:
    one = privacy_loss_distribution.from_gaussian_mechanism(
        golden.MULTIPLIER,
        pessimistic_estimate=pessimistic,
        value_discretization_interval=interval,
        sampling_prob=golden.RATE,
        use_connect_dots=pessimistic,
    )
    return one.self_compose(golden.STEPS).get_epsilon_for_delta(golden.DELTA)


def bracket(width: str) -> golden.Interval:
    # Its lower end moves by about half a grid step per use: the coarsest grid that is narrow enough.
    interval = float(width) * golden.VALUE / golden.STEPS * 2
    return _epsilon(interval, False), _epsilon(interval, True)


def upper() -> golden.Interval:
    return -float("inf"), _epsilon(COARSE, True)


def renyi() -> golden.Interval:
    event = PoissonSampledDpEvent(golden.RATE, GaussianDpEvent(golden.MULTIPLIER))
    return -float("inf"), RdpAccountant().compose(event, golden.STEPS).get_epsilon(golden.DELTA)


if __name__ == "__main__":
    golden.answer(
        {
            f"bracket {golden.WIDE}": lambda: bracket(golden.WIDE),
            f"bracket {golden.NARROW}": lambda: bracket(golden.NARROW),
            "upper": upper,
            "renyi": renyi,
        },
        {name: version(name) for name in ("dp-accounting", "numpy")},
    )
