"""The accounting task: epsilon of the Poisson-sampled Gaussian, and the advantage of the best attack on it.

Needs nothing but Python. A question is answered once unmeasured, then `repetitions` times; CPU seconds, the median.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable

import task

RATE, MULTIPLIER, DELTA = 0.01, 1.0, 1e-5
STEPS = 1000
VALUE = 1.8282  # to four decimals; peers that take an absolute error are told a share of it
WIDE, NARROW = "0.01", "0.001"  # relative widths of a two-sided bracket, the same for everyone

Interval = tuple[float, float]  # lower and upper end; the lower is -inf where only an upper bound is given


def answer(ways: dict[str, Callable[[], Interval]], versions: dict[str, str]) -> None:
    """Answer the questions named on the command line, as `name` or `name=repetitions`."""
    found = {}
    for asked in sys.argv[1:]:
        name, _, repetitions = asked.partition("=")
        if name not in ways:
            continue
        way, seconds = ways[name], []
        times = int(repetitions or 5)
        if times > 1:
            way()
        for _ in range(times):
            begin = time.process_time()
            low, high = way()
            seconds.append(time.process_time() - begin)
        found[name] = {
            "low": None if low == float("-inf") else low,
            "high": high,
            "seconds": statistics.median(seconds),
        }
    sys.stdout.write(task.WORD + json.dumps({"found": found, "versions": versions}) + "\n")
