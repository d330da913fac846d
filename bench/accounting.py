"""How fast and how tight accounting is: JSON to bench/results/accounting.json, and a Markdown table of the ratios.

    python bench/accounting.py [--without-peers]

Everyone answers the same question, epsilon of the Poisson-sampled Gaussian (rate 0.01, multiplier 1, 1000 steps, delta
1e-5), with a two-sided bracket of the same relative width; CPU seconds, median of repetitions, one run. `limits` adds
the stated limits on long runs, and how much of each is used.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments
import golden
import limits

from sordino.core.guarantee import loss_distribution
from sordino.core.guarantee.loss_distribution import LossDistribution
from sordino.core.loss import evaluate
from sordino.core.loss.normal_pairs import PoissonRemovePair
from sordino.core.rounding import Bracket

RESULTS = Path(__file__).parent / "results"


def ours(steps: int, width: float) -> Bracket:
    """A cold answer: nothing remembered from the last one."""
    loss_distribution._epsilon_bracket.cache_clear()
    evaluate._on_grid.cache_clear()
    pair = PoissonRemovePair(golden.RATE, 1 / golden.MULTIPLIER)
    return LossDistribution(((pair, steps),)).epsilon_bracket(golden.DELTA, width)


def google(width: float) -> Bracket:
    """dp-accounting: connect-the-dots above, optimistic rounding below, the coarsest grid that is narrow enough."""
    from dp_accounting.pld import privacy_loss_distribution  # noqa: PLC0415

    # Its lower end moves by about half a grid step per use.
    interval = width * 1.8282 / golden.STEPS * 2
    ends = []
    for pessimistic in (False, True):
        one = privacy_loss_distribution.from_gaussian_mechanism(
            golden.MULTIPLIER,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=interval,
            sampling_prob=golden.RATE,
            use_connect_dots=pessimistic,
        )
        ends.append(one.self_compose(golden.STEPS).get_epsilon_for_delta(golden.DELTA))
    return Bracket(*ends)


def timed(question: Callable[[], Bracket], repetitions: int = golden.REPETITIONS) -> dict[str, float]:
    seconds = []
    for _ in range(repetitions):
        begin = time.process_time()
        answer = question()
        seconds.append(time.process_time() - begin)
    return {"low": answer.low, "high": answer.high, "seconds": statistics.median(seconds)}


def peak_memory(steps: int) -> float:
    """Peak resident megabytes of a fresh process that answers once."""
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import accounting; accounting.ours({steps}, 1e-3)"
    subprocess.run([sys.executable, "-c", code], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def measure(with_peers: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"sordino": {}, "dp-accounting": {}, "prv-accountant": {}, "scaling": {}}
    ours(golden.STEPS, 1e-3)
    for width in golden.WIDTHS:
        found["sordino"][str(width)] = timed(lambda width=width: ours(golden.STEPS, width), 15)
    for steps in (10**3, 10**4, 10**5, 10**6):
        found["scaling"][str(steps)] = timed(lambda steps=steps: ours(steps, 1e-3), 9)
    found["memory_megabytes"] = {str(steps): peak_memory(steps) for steps in (10**3, 10**6)}
    if with_peers:
        for width in golden.WIDTHS:
            found["dp-accounting"][str(width)] = timed(lambda width=width: google(width), 1)
        peer = environments.on_one_core(environments.python_of("prv-accountant"), "prv_golden.py")
        found["prv-accountant"] = peer["found"]
        found["versions"] = {"dp-accounting": version("dp-accounting"), "prv-accountant": peer["version"]}
    found["limits"] = limits.measure()
    found["python"] = platform.python_version()
    return found


def table(found: dict[str, Any]) -> str:
    lines = [
        "| library | asked width | bracket | width | CPU seconds | Sordino is faster by |",
        "|---|---|---|---|---|---|",
    ]
    for library in ("sordino", "dp-accounting", "prv-accountant"):
        for width, row in found[library].items():
            ratio = row["seconds"] / found["sordino"][width]["seconds"]
            reached = (row["high"] - row["low"]) / row["high"]
            lines.append(
                f"| {library} | {float(width):g} | [{row['low']:.5f}, {row['high']:.5f}] | {reached:.1e} "
                f"| {row['seconds']:.4f} | {ratio:.0f}x |"
            )
    lines += ["", "| steps | bracket | width | CPU seconds | against 1000 steps |", "|---|---|---|---|---|"]
    first = found["scaling"]["1000"]["seconds"]
    for steps, row in found["scaling"].items():
        reached = (row["high"] - row["low"]) / row["high"]
        lines.append(
            f"| {steps} | [{row['low']:.5g}, {row['high']:.5g}] | {reached:.1e} | {row['seconds']:.4f} "
            f"| {row['seconds'] / first:.2f}x |"
        )
    lines += ["", "Peak memory (MB) of a process that answers once: " + json.dumps(found["memory_megabytes"])]
    return "\n".join([*lines, "", limits.table(found["limits"])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-peers", action="store_true")
    found = measure(not parser.parse_args().without_peers)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "accounting.json").write_text(json.dumps(found, indent=2))
    print(table(found))


if __name__ == "__main__":
    main()
