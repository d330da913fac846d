"""The network audit of Heller & Fetaya on one GPU: LeNet-5 on MNIST, 1,000 models plain and 400 clipped.

    python bench/neural_gpu.py --data out/data --output FOLDER [--variant plain] [--seconds 440] [--seed 1]

Writes what every epoch of a variant showed to FOLDER/VARIANT.npz as it goes, so that a run that is stopped loses
nothing, and the kernel's check and its speed to FOLDER/checks.json. `--small` runs the same lines on any machine with
a few models and records.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from papers.framework.benchmark import load_benchmark
from papers.heller_fetaya.fleet import Compiled, FanInStart, FleetRecords, Members, Replacement
from papers.heller_fetaya.lenet import LeNet5
from papers.heller_fetaya.lenet_on_cuda import LeNetOnCuda
from papers.heller_fetaya.mnist_experiment import run_variant
from papers.heller_fetaya.mnist_setting import CLIP_NORM, NOISE, RECORDS, STEP, VARIANTS, Variant, mnist_data
from papers.heller_fetaya.network_canary import Canary, NeuralData, NeuralSetting, PilotRound
from sordino.auditing.fleet import FleetPlan, network_for
from sordino.core.spec import Batch, Scheme

# A rectified unit that rounding puts on the other side of zero changes a gradient by more than rounding.
AGREES = 1e-3
RESERVE = 12.0


def agreement(activation: str, clip_norm: float | None, models: int) -> dict[str, Any]:
    """25 steps of the kernel against the compiled program, gradients short and long of the norm."""
    generator = np.random.default_rng(0)
    images = generator.random((100, 784)) * (generator.random((100, 784)) < 0.2)
    data = FleetRecords(images, generator.integers(0, 10, 100), (Replacement(7, generator.random(784), 3.0),))
    plan = FleetPlan(0.05, 0.01, Batch(Scheme.RESHUFFLED, 4), 1, seed=3, clip_norm=clip_norm, start=FanInStart())
    network, device = network_for(_model(activation), 784), jax.local_devices()[0]
    kinds = (Compiled, LeNetOnCuda) if device.platform == "gpu" else (Compiled, Compiled)
    ends = []
    for kind in kinds:
        trainer = kind(network, plan, data, {}, device)
        lanes = trainer.lanes(Members.of_both(models // 2), models)
        start = np.asarray(trainer.first_points(lanes))
        ends.append(np.asarray(trainer.epoch(lanes, jnp.asarray(start), 0)[0]))
    difference, move = np.linalg.norm(ends[1] - ends[0]), np.linalg.norm(ends[0] - start)
    return {
        "activation": activation,
        "clip norm": clip_norm,
        "relative": float(difference / move),
        "largest": float(np.abs(ends[1] - ends[0]).max()),
    }


def speed(activation: str, clip_norm: float | None, models: int, records: int) -> dict[str, Any]:
    """Model-steps per second of the kernel, batches and noise included."""
    generator = np.random.default_rng(0)
    data = FleetRecords(generator.random((records, 784)), generator.integers(0, 10, records))
    plan = FleetPlan(STEP, NOISE, Batch(Scheme.SHUFFLE_ONCE, 4), 1, seed=1, clip_norm=clip_norm, start=FanInStart())
    device = jax.local_devices()[0]
    kind = LeNetOnCuda if device.platform == "gpu" else Compiled
    trainer = kind(network_for(_model(activation), 784), plan, data, {}, device)
    lanes = trainer.lanes(Members.of_one(models), models)
    theta = jax.block_until_ready(trainer.epoch(lanes, trainer.first_points(lanes), 0)[0])
    begin = time.perf_counter()
    jax.block_until_ready(trainer.epoch(lanes, theta, 1)[0])
    seconds = time.perf_counter() - begin
    return {
        "activation": activation,
        "clip norm": clip_norm,
        "model-steps per second": models * records // 4 / seconds,
    }


def _model(activation: str) -> LeNet5:
    return LeNet5(activation, weight_decay=1.0 / RECORDS)


def small(data: NeuralData, setting: NeuralSetting) -> tuple[NeuralData, NeuralSetting]:
    few = NeuralData(
        data.features[:200], data.target[:200], data.test_features[:80], data.test_target[:80], data.domain
    )
    plan = replace(setting.plan, step_size=0.1 if setting.plan.clip_norm is None else 0.6, epochs=3)
    pilot = tuple(PilotRound(candidates=4, of_d=2, each=2, epochs=2) for _ in setting.pilot)
    fewer = replace(setting, plan=plan, learning=4, testing=4, ensemble=2, ensemble_epochs=6, tries=4, pilot=pilot)
    return few, fewer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds mnist.npz")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=440.0, help="for everything")
    names = [variant.name for variant in VARIANTS]
    parser.add_argument("--variant", choices=names, action="append", help="which to run; all of them unless told")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    jax.config.update("jax_default_matmul_precision", "highest")  # readings in single precision throughout
    begin = time.monotonic()
    given.output.mkdir(parents=True, exist_ok=True)
    answers: dict[str, Any] = {}

    def left() -> float:
        return given.seconds - RESERVE - (time.monotonic() - begin)

    def say(words: str) -> None:
        print(f"[{time.monotonic() - begin:7.1f}] {words}", flush=True)

    def attempt(name: str, work: Callable[[], Any]) -> Any:
        try:
            answers[name] = work()
        except Exception:
            answers[name] = {"failed": traceback.format_exc()[-1500:]}
        say(f"{name}: {answers[name]}")
        (given.output / "checks.json").write_text(json.dumps(answers, indent=2) + "\n")
        return answers[name]

    models = 8 if given.small else 132
    attempt("device", lambda: {"kind": jax.local_devices()[0].device_kind, "jax": jax.__version__})
    checks = {
        (activation, norm): attempt(f"agreement {activation} {norm}", partial(agreement, activation, norm, models))
        for activation, norm in (("relu", None), ("tanh", 2.0))
    }
    for activation, norm in (("relu", None), ("tanh", CLIP_NORM)):
        attempt(f"speed {activation} {norm}", partial(speed, activation, norm, 8 if given.small else 8 * models, 400))
    data = mnist_data(load_benchmark("mnist", given.data))

    canaries: list[Canary] = []

    def run(variant: Variant, seconds: float) -> str:
        used, setting = data, variant.setting(given.seed)
        if given.small:
            used, setting = small(used, setting)
        otherwise = canaries[0] if canaries else None
        canaries.append(run_variant(variant.name, variant.model, used, setting, given.output, seconds, say, otherwise))
        return "done"

    if all(check.get("relative", 1.0) < AGREES for check in checks.values()):
        for variant in VARIANTS:
            if given.variant is None or variant.name in given.variant:
                attempt(variant.name, partial(run, variant, left()))


if __name__ == "__main__":
    main()
