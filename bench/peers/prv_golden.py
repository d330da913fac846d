"""The accounting task in prv-accountant: its eps_error is half the width of its bracket."""

import json
import statistics
import sys
import time
from importlib.metadata import version

import golden
import task
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant


def bracket(width: float) -> tuple[float, float]:
    mechanism = PoissonSubsampledGaussianMechanism(noise_multiplier=golden.MULTIPLIER, sampling_probability=golden.RATE)
    accountant = PRVAccountant(
        prvs=[mechanism],
        max_self_compositions=[golden.STEPS],
        eps_error=width * 1.8282 / 2,
        delta_error=golden.DELTA * 1e-4,
    )
    low, _, high = accountant.compute_epsilon(delta=golden.DELTA, num_self_compositions=[golden.STEPS])
    return low, high


def timed(width: float) -> dict[str, float]:
    seconds = []
    for _ in range(golden.REPETITIONS):
        begin = time.process_time()
        low, high = bracket(width)
        seconds.append(time.process_time() - begin)
    return {"low": low, "high": high, "seconds": statistics.median(seconds)}


if __name__ == "__main__":
    found = {str(width): timed(width) for width in golden.WIDTHS}
    sys.stdout.write(task.WORD + json.dumps({"found": found, "version": version("prv-accountant")}) + "\n")
