"""How fast a fleet of LeNet-5 trains on one GPU, batches of four: model-steps per second, and what binds them.

    python bench/fleet_gpu.py [--variants all] [--seconds 5] [--models 1056] [--output FILE]

Images are random, of the size of MNIST's. One JSON line for each variant; a variant that fails says so and the others
go on. The first lines are the device's own ceilings, and the check of the kernel against the compiled program.
"""

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers.heller_fetaya.fleet import Compiled, FanInStart, FleetRecords, Members, Replacement, Trainer
from papers.heller_fetaya.lenet import LeNet5
from papers.heller_fetaya.lenet_on_cuda import LeNetOnCuda
from sordino.auditing.fleet import AnyModel, FleetNetwork, FleetPlan, network_for
from sordino.core.spec import Batch, GaussianStart, Scheme

BATCH, DIM = 4, 61_706
TARGETS = {"asked": 600_000, "stretch": 1_000_000}
# Multiply-adds of one example, forwards: convolutions and dense layers; backwards, all but the first one's input.
CONVOLUTIONS, DENSE = (28 * 28 * 25 * 6, 10 * 10 * 150 * 16), 400 * 120 + 120 * 84 + 84 * 10
OPERATIONS = 2 * BATCH * (2 * CONVOLUTIONS[0] + 3 * CONVOLUTIONS[1] + 3 * DENSE)
# Noise: a pair of Gaussians takes twenty rounds of three integer operations, and eighteen more for keys.
NOISE_OPERATIONS = (DIM + 1) // 2 * (20 * 3 + 18)
WEIGHT_BYTES = 3 * 4 * DIM  # read forwards, read and written backwards; the update is part of the backward pass


def records(count: int) -> FleetRecords:
    generator = np.random.default_rng(0)
    images = generator.random((count, 784), dtype=np.float32) * (generator.random((count, 784)) < 0.2)
    other = generator.random(784, dtype=np.float32)
    return FleetRecords(images, generator.integers(0, 10, count), (Replacement(7, other, 3.0),))


def plan(clip_norm: float | None) -> FleetPlan:
    # SGLD of Heller and Fetaya, Section V: 0.001 for the sum of a batch's gradients, noise of variance 2 * 0.004 / n.
    batch, start = Batch(Scheme.SHUFFLE_ONCE, BATCH), GaussianStart(0.05)
    return FleetPlan(0.004, (2 * 0.004 / 60_000) ** 0.5, batch, 1, seed=1, clip_norm=clip_norm, start=start)


def rate(
    kind: type[Trainer], network: FleetNetwork, count: int, models: int, seconds: float, clip_norm: float | None = None
) -> dict[str, Any]:
    """Model-steps per second over whole epochs, batches and noise included, after one epoch that compiles."""
    begin = time.perf_counter()
    trainer = kind(network, plan(clip_norm), records(count), {}, jax.local_devices()[0])
    lanes = trainer.lanes(Members.of_both(models // 2), models)
    theta = jax.block_until_ready(trainer.epoch(lanes, trainer.first_points(lanes), 0)[0])
    compiled = time.perf_counter() - begin
    taken: list[float] = []
    while sum(taken) < seconds or len(taken) < 2:
        begin = time.perf_counter()
        theta = jax.block_until_ready(trainer.epoch(lanes, theta, len(taken) + 1)[0])
        taken.append(time.perf_counter() - begin)
    found = models * (count // BATCH) / statistics.median(taken)
    return {
        "model-steps per second": round(found),
        "TFLOP/s": found * OPERATIONS / 1e12,
        "TOP/s of noise, integers": found * NOISE_OPERATIONS / 1e12,
        "TB/s of weights": found * WEIGHT_BYTES / 1e12,
        "epochs timed": len(taken),
        "seconds before": compiled,
        "finite": bool(jnp.isfinite(theta).all()),
    }


def ceilings() -> dict[str, Any]:
    """What the device does at best: a copy, and a large product in single precision."""
    big = jnp.ones((2**29,), jnp.float32)
    copy = jax.jit(lambda x: x + 1.0)
    matrix = jax.random.normal(jax.random.key(0), (8192, 8192))
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    return {
        "device": jax.local_devices()[0].device_kind,
        "jax": jax.__version__,
        "copy TB/s": 2 * big.nbytes / _seconds(lambda: copy(big)) / 1e12,
        "float32 TFLOP/s": 2 * 8192**3 / _seconds(lambda: product(matrix)) / 1e12,
        "operations per model-step": OPERATIONS,
        "bytes of weights per model-step": WEIGHT_BYTES,
    }


def agreement(clip_norm: float | None = None) -> dict[str, Any]:
    """The kernel against the compiled program after 25 steps; and a member alone against the same in company."""
    data, network = records(100), network_for(LeNet5(weight_decay=0.01), 784)
    chosen = FleetPlan(0.05, 0.01, Batch(Scheme.RESHUFFLED, BATCH), 1, seed=3, clip_norm=clip_norm, start=FanInStart())
    results = {}
    with jax.default_matmul_precision("highest"):
        for kind in (Compiled, LeNetOnCuda):
            trainer = kind(network, chosen, data, {}, jax.local_devices()[0])
            lanes = trainer.lanes(Members.of_both(66), 132)
            start = trainer.first_points(lanes)
            results[kind] = (np.asarray(start), np.asarray(trainer.epoch(lanes, start, 0)[0]))
    (begin, expected), (_, found) = results[Compiled], results[LeNetOnCuda]
    trainer = LeNetOnCuda(network, chosen, data, {}, jax.local_devices()[0])
    few = trainer.lanes(Members((131, 5, 70), (True, False, True)), 132)
    alone = np.asarray(trainer.epoch(few, trainer.first_points(few), 0)[0])[:3]
    return {
        "largest difference": float(np.abs(found - expected).max()),
        "largest move": float(np.abs(expected - begin).max()),
        "relative": float(np.linalg.norm(found - expected) / np.linalg.norm(expected - begin)),
        "the same alone, bit for bit": bool((alone == found[[131, 5, 70]]).all()),
    }


def variants(models: int, seconds: float) -> dict[str, Callable[[], dict[str, Any]]]:
    fast = network_for(LeNet5(), 784)

    def with_precision(word: str, work: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
        def run() -> dict[str, Any]:
            with jax.default_matmul_precision(word):
                return work()

        return run

    def patches() -> dict[str, Any]:
        return rate(Compiled, fast, 1000, models, seconds)

    return {
        "ceilings": ceilings,
        "agreement": agreement,
        "agreement, clipped": lambda: agreement(2.0),
        "kernel": lambda: rate(LeNetOnCuda, fast, 4000, models, seconds),
        "kernel, clipped": lambda: rate(LeNetOnCuda, fast, 4000, models, seconds, 0.2),
        "patches, float32": with_precision("highest", patches),
        "patches, tensorfloat32": with_precision("tensorfloat32", patches),
        "convolutions": lambda: rate(Compiled, AnyModel(LeNet5(), 784), 400, models, seconds),
        "kernel, an epoch of MNIST's size": lambda: rate(LeNetOnCuda, fast, 60_000, models, 0.0),
    }


def _seconds(work: Callable[[], Any]) -> float:
    jax.block_until_ready(work())
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--variants", default="all", help="words that a variant's name begins with, or all")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--models", type=int, default=1056)
    parser.add_argument("--output", type=Path, help="a file for all lines, as one JSON object")
    given = parser.parse_args()
    wanted = [] if given.variants == "all" else [word.strip() for word in given.variants.split(",")]
    answers: dict[str, Any] = {"targets": TARGETS}
    for name, work in variants(given.models, given.seconds).items():
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        try:
            answers[name] = work()
        except Exception:
            answers[name] = {"failed": traceback.format_exc()[-2000:]}
        print(json.dumps({name: answers[name]}), flush=True)
        if given.output is not None:
            given.output.write_text(json.dumps(answers, indent=2) + "\n")


if __name__ == "__main__":
    main()
