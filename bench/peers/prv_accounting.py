"""The accounting task in prv-accountant: its eps_error is half the width of its bracket."""

from importlib.metadata import version

import golden
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant


def bracket(width: str) -> golden.Interval:
    mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=golden.MULTIPLIER, sampling_probability=golden.RATE)
    accountant = PRVAccountant(
        prvs=[mechanism],
        max_self_compositions=[golden.STEPS],
        eps_error=float(width) * golden.VALUE / 2,
        delta_error=golden.DELTA * 1e-4,
    )
    low, _, high = accountant.compute_epsilon(delta=golden.DELTA, num_self_compositions=[golden.STEPS])
    return low, high


if __name__ == "__main__":
    golden.answer(
        {
            f"bracket {golden.WIDE}": lambda: bracket(golden.WIDE),
            f"bracket {golden.NARROW}": lambda: bracket(golden.NARROW),
        },
        {name: version(name) for name in ("prv-accountant", "numpy")},
    )
