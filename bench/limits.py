"""Stated limits of accounting and how much of each is used: seconds of CPU, warm and cold, and peak memory.

One question per row, in a process of its own: a run of 10^6 steps described by a spec, asked of one theorem. *Warm* is
the second answer of that process with nothing remembered from the first; *cold* is the whole command, imports included.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
STEPS = 10**6
CLOSED, SAMPLED, COLD, MEMORY = 0.2, 10.0, 2.0, 1000.0
_DECAYING = {"kind": "polynomial", "initial": 0.02, "offset": 100.0, "power": 0.5}

# Name, theorem, batch, step size, strong convexity and ratio kappa; the rate is size / n.
_CLOSED = [
    ("full batches", "shifted.full", {"scheme": "full"}, 0.02, 1.0, 0.2),
    ("full batches, schedule", "shifted.full", {"scheme": "full"}, _DECAYING, 1.0, 0.2),
    ("full batches, schedule, convex", "shifted.full", {"scheme": "full"}, _DECAYING, 0.0, 0.2),
    ("cyclic", "shifted.cyclic", {"scheme": "cyclic", "size": 10**5}, 0.02, 1.0, 0.2),
    ("cyclic, schedule", "shifted.cyclic", {"scheme": "cyclic", "size": 10**5}, _DECAYING, 1.0, 0.2),
    ("cyclic, schedule, convex", "shifted.cyclic", {"scheme": "cyclic", "size": 10**5}, _DECAYING, 0.0, 0.2),
    ("shuffled once, schedule", "shifted.shuffle-once", {"scheme": "shuffle-once", "size": 10**5}, _DECAYING, 1.0, 0.2),
    ("composition, schedule", "composition.gaussian", {"scheme": "cyclic", "size": 10**5}, _DECAYING, 1.0, 0.2),
]
_SAMPLED = [
    (f"rate {size / 10**9:g}, ratio {ratio:g}, c = {1 - 0.02 * m:g}", theorem, size, m, ratio)
    for size, m, ratio in ((1, 0.5, 5.0), (1, 5e-5, 5.0), (10**5, 0.05, 1.0), (10**7, 0.5, 0.2))
    for theorem in (
        "shifted.random-batches",
        "shifted.random-participation",
        "shifted.revealed-batches",
        "composition.subsampled-without-replacement",
    )
]


def _spec(batch: dict[str, Any], step: Any, convexity: float, ratio: float, **top: Any) -> dict[str, Any]:
    n = 10**9 if batch["scheme"] in {"without-replacement", "poisson"} else 10**6
    size = batch.get("size", n)
    return {
        "algorithm": {
            "kind": "noisy-gradient",
            "steps": STEPS,
            "step_size": step,
            "noise": {"kind": "gaussian", "scale": 0.02},
            "batch": batch,
        },
        "problem": {
            "n": n,
            "dim": 2,
            "gradient_sensitivity": ratio * size,
            "gradient_bound": ratio * size / 2,
            "strong_convexity": convexity,
            "smoothness": max(1.0, convexity),
        },
        "relation": "replace-one",
        "view": "last-iterate",
        "delta": 1e-5,
    } | top


def questions() -> list[tuple[str, str, dict[str, Any], float]]:
    """Row, theorem, spec, and the limit in seconds."""
    closed = [(f"{name}: {theorem}", theorem, _spec(*given), CLOSED) for name, theorem, *given in _CLOSED]
    sampled = [
        (f"{theorem}: {name}", theorem, _spec({"scheme": "without-replacement", "size": size}, 0.02, m, ratio), SAMPLED)
        for name, theorem, size, m, ratio in _SAMPLED
    ]
    poisson = "composition.subsampled-poisson"
    return [
        *closed,
        *sampled,
        *(
            (f"{poisson}: rate {size / 10**9:g}, ratio {ratio:g}", poisson, _poisson(size, ratio), SAMPLED)
            for size, ratio in ((1, 5.0), (10**7, 1.0))
        ),
    ]


def _poisson(size: int, ratio: float) -> dict[str, Any]:
    return _spec({"scheme": "poisson", "size": size}, 0.02, 1.0, ratio, view="all-iterates")


def answer(theorem_id: str, given: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of a warm answer and the peak memory of this process; runs in a process of its own."""
    from sordino.accounting import evaluate  # noqa: PLC0415
    from sordino.core.spec import Spec  # noqa: PLC0415

    theorem = next(theorem for theorem in evaluate.theorems() if theorem.id == theorem_id)
    spec, seconds, epsilon = Spec.from_dict(given), 0.0, 0.0
    # The first answer loads what is loaded lazily; the second differs in delta, so that nothing is remembered.
    for delta in (2e-5, 1e-5):
        _forget()
        asked = spec.with_values({"delta": delta})
        begin = time.process_time()
        found = evaluate.evaluate(theorem, asked)
        if isinstance(found, evaluate.Inapplicable):
            raise SystemExit(f"{theorem_id} does not apply: {found.reason}")
        epsilon = found.guarantee.epsilon(delta)
        seconds = time.process_time() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "megabytes": memory, "epsilon": epsilon}


def _forget() -> None:
    """Empty every cache of the accountant."""
    for name, module in list(sys.modules.items()):
        if name.startswith("sordino."):
            for value in list(vars(module).values()):
                # Bounded caches hold answers; the others hold what is loaded once.
                if hasattr(value, "cache_parameters") and value.cache_parameters()["maxsize"] is not None:
                    value.cache_clear()


def cold(spec: str) -> float:
    """CPU seconds of the whole command on one of the example specs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sordino", "certify", str(ROOT / "examples" / "specs" / spec)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> list[dict[str, Any]]:
    """Every row: what was used, the limit, and their ratio."""
    rows = [
        _row(f"cold: sordino certify {spec}", min(cold(spec) for _ in range(3)), COLD, "s")
        for spec in ("full-last-iterate.json", "cyclic-last-iterate.json")
    ]
    for name, theorem, given, limit in questions():
        asked = [sys.executable, __file__, theorem, json.dumps(given)]
        found = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
        rows.append(_row(name, found["seconds"], limit, "s") | {"epsilon": found["epsilon"]})
        rows.append(_row(name, found["megabytes"], MEMORY, "MB"))
    return rows


def _row(name: str, used: float, limit: float, unit: str) -> dict[str, Any]:
    return {"name": name, "used": used, "limit": limit, "unit": unit, "ratio": used / limit}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1], json.loads(sys.argv[2]))))
