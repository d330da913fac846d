"""Exact Gaussian noise on whole numbers: what everyone draws, and how it is timed: CPU seconds of one core."""

import json
import sys
import time
from collections.abc import Callable

SCALES = {"2": 2.0, "2^10": 2.0**10, "2^40": 2.0**40}
WORD = "PEER-RESULT "


def report(draw: Callable[[float, int], object], size: int, versions: dict[str, str]) -> None:
    """Draws a second at every scale; the first call is not counted."""
    rates = {}
    for name, scale in SCALES.items():
        draw(scale, size // 4)
        begin = time.process_time()
        draw(scale, size)
        rates[name] = size / (time.process_time() - begin)
    sys.stdout.write(WORD + json.dumps({"rates": rates, "versions": versions}) + "\n")
