"""Exact noise at speed: draws a second of whole-number Gaussians, secure bits included, on processors and on a GPU.

    python bench/noise.py [--json FILE]

Scales 2, 2^10 and 2^40, in units of the lattice. On processors `SecureRandomness.whole_gaussians` draws on all cores;
on an accelerator `settled_steps` does. Chains and rounds with exact noise are timed against the same runs with noise
in floating point, which is what a source without whole numbers gives.
"""

import argparse
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import jax
import numpy as np
from machine import machine, own_versions

from sordino.core.spec import Spec
from sordino.mechanisms import Purpose, SecureRandomness, SeededRandomness, run
from sordino.models import Logistic
from sordino.noise.device_gaussian import settled_steps
from sordino.noise.lattice import in_doubles

SCALES = (2.0, 2.0**10, 2.0**40)
AIMS = {"cpu": 20e6, "gpu": 2e9}


def best(way: Callable[[], Any], repetitions: int = 5) -> float:
    """The least time of several, after one call that compiles: a busy machine only adds."""
    way()
    taken = []
    for _ in range(repetitions):
        begun = time.perf_counter()
        jax.block_until_ready(way())
        taken.append(time.perf_counter() - begun)
    return min(taken)


def host_rate(scale: float, size: int = 2**22) -> float | None:
    """Draws a second on all cores; None where the package of secure bits is not installed."""
    if importlib.util.find_spec("randomgen") is None:
        return None
    return size / best(lambda: SecureRandomness().whole_gaussians(Purpose.NOISE, 0, 64, np.full(1, scale), size // 64))


def host_nanoseconds(scale: float, size: int = 2**21) -> float | None:
    """Processor time a draw, all threads together: what a busy machine does not change much."""
    if importlib.util.find_spec("randomgen") is None:
        return None
    taken = []
    for _ in range(4):
        begun = time.process_time()
        SecureRandomness().whole_gaussians(Purpose.NOISE, 0, 32, np.full(1, scale), size // 32)
        taken.append(time.process_time() - begun)
    return 1e9 * min(taken) / size


def device_rate(scale: float, size: int) -> float:
    """Draws a second on the device, what is settled on the host included."""
    key, more, streams = np.arange(8, dtype=np.uint32), np.random.default_rng(0), iter(range(2**20))
    with in_doubles():
        return size / best(lambda: settled_steps(key, [next(streams)], size, np.full(1, scale), lambda _: more))


class Floating(SeededRandomness):
    """The same source without whole numbers: a run then adds Gaussians in floating point."""

    draws_exactly: ClassVar[bool] = False


def clipped_chain(records: int, width: int, steps: int, batch: dict[str, Any]) -> Spec:
    """Gradients clipped to 1, noise of one clip on their sum."""
    divisor = batch.get("size", records)
    algorithm = {
        "kind": "noisy-gradient",
        "steps": steps,
        "step_size": 0.1,
        "noise": {"kind": "gaussian", "scale": 0.1 / divisor},
        "batch": batch,
        "clipping": {"kind": "norm", "bound": 1.0},
    }
    problem = {"n": records, "dim": width, "gradient_sensitivity": 2.0, "gradient_bound": 1.0}
    seen = {"relation": "replace-one", "view": "last-iterate", "delta": 1e-6}
    return Spec.from_dict({"algorithm": algorithm, "problem": problem, **seen})


def runs() -> dict[str, dict[str, float]]:
    """Seconds of chains with exact noise and with noise in floating point, in turns."""
    generator = np.random.default_rng(0)
    found = {}
    for name, records, width, steps, batch in (
        ("full batches", 20_000, 20, 200, {"scheme": "full"}),
        ("mini-batches", 20_000, 20, 4096, {"scheme": "without-replacement", "size": 100}),
        ("wide, mini-batches", 5_000, 500, 1024, {"scheme": "without-replacement", "size": 64}),
    ):
        X, y = generator.normal(size=(records, width)), generator.choice([-1.0, 1.0], records)
        spec = clipped_chain(records, width, steps, batch)
        times: dict[str, list[float]] = {"exact": [], "floating": []}
        for turn in range(6):
            for kind, source in (("exact", SeededRandomness(turn)), ("floating", Floating(turn))):
                begun = time.perf_counter()
                run(spec, Logistic(), X, y, source)
                times[kind].append(time.perf_counter() - begun)
        seconds = {kind: statistics.median(taken[1:]) for kind, taken in times.items()}
        found[name] = seconds | {"ratio": seconds["exact"] / seconds["floating"]}
    return found


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--json", type=Path)
    asked.add_argument("--device-draws", type=int, default=None)
    given = asked.parse_args()
    backend = jax.default_backend()
    size = given.device_draws or (2**20 if backend == "cpu" else 2**28)
    figures = {
        "machine": machine() | {"backend": backend, "threads": os.cpu_count()},
        "versions": own_versions(),
        "processor draws a second": {f"{scale:g}": host_rate(scale) for scale in SCALES},
        "processor nanoseconds a draw": {f"{scale:g}": host_nanoseconds(scale) for scale in SCALES},
        "device draws a second": {f"{scale:g}": device_rate(scale, size) for scale in SCALES},
        "aims": AIMS,
        "runs": runs(),
    }
    text = json.dumps(figures, indent=2)
    print(text)
    if given.json is not None:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
