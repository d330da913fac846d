"""How fast and how large message passing is: JSON to bench/results/message_passing.json, and a Markdown table.

    python bench/message_passing.py [--without-peers]

Speed: the network of Vinaroz & Park's kin8nm rows (8 features, 50 hidden units, 7373 records), private rounds with
noise and clipping. Wall time needs an idle machine; CPU time hardly does, so both are given. Memory: what the compiled
program holds besides the rows, as the compiler reports it. Variational inference is timed beside Opacus, in an
environment of its own (`bench/peers`), on one core.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from chains import Target

from sordino.algorithm import SeededRandomness
from sordino.algorithm.message_passing import (
    CentredCoordinates,
    Coordinates,
    NaturalCoordinates,
    Prior,
    Refinement,
    run_message_passing,
)
from sordino.algorithm.message_passing.ep import refine
from sordino.algorithm.message_passing.kernel import Constants, MessageBlock, Program, advance, first_state
from sordino.algorithm.rounds.feed import RoundBlock
from sordino.algorithm.rounds.rows import RowAccess, Table
from sordino.core.spec import Spec
from sordino.model.sites import NetworkSite, PublicPrecision

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

RECORDS, FEATURES, HIDDEN = 7373, 8, 50
SITE = NetworkSite(HIDDEN, PublicPrecision(10.0))
SEQUENTIAL, MINI_BATCH = 25_000.0, 125_000.0


def spec_of(sampling: str, batch: int | None, steps: int) -> Spec:
    algorithm = {"kind": "message-passing", "records": RECORDS, "steps": steps, "sampling": sampling, "batch": batch}
    return Spec.from_dict(
        {
            "algorithm": algorithm | {"clip": 1.0, "noise_multiplier": 2.0, "damping": 1.0},
            "relation": "replace-one",
            "view": "posterior-parameters",
        }
    )


def rates(work: Callable[[], Any], records: int, repetitions: int = 5) -> dict[str, float]:
    """Records per second of wall time and of CPU time: medians after one call that compiles."""
    work()
    wall, cpu = [], []
    for _ in range(repetitions):
        clocks = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - clocks[0])
        cpu.append(time.process_time() - clocks[1])
    return {"wall": records / statistics.median(wall), "cpu": records / statistics.median(cpu)}


def speed() -> tuple[dict[str, Any], list[Target]]:
    """Sequential passes as published, mini-batches, and full-batch rounds."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    y = np.sin(X[:, 0]) + 0.1 * generator.normal(size=RECORDS)
    ways: dict[str, Coordinates] = {"natural": NaturalCoordinates(), "centred": CentredCoordinates(0.1)}
    runs = {
        "sequential": ("passes", 1, 2 * RECORDS),
        "mini-batch of 64": ("passes", 64, 8 * RECORDS // 64),
        "Poisson batch of 64": ("poisson", 64, 8 * RECORDS // 64),
        "full batch": ("full", None, 8),
    }
    figures: dict[str, Any] = {}
    for way, coordinates in ways.items():
        refinement = Refinement(coordinates, start_scale=1.0)
        for name, (sampling, batch, steps) in runs.items():
            described = spec_of(sampling, batch, steps)

            def work(described: Spec = described, refinement: Refinement = refinement) -> Any:
                randomness = SeededRandomness(0)
                return run_message_passing(described, SITE, X, y, randomness, prior=Prior(), refinement=refinement)

            figures[f"{way}, {name}"] = rates(work, steps * (batch or RECORDS))
    targets = []
    for way in ways:
        for clock in ("wall", "cpu"):
            one, many = (figures[f"{way}, {name}"][clock] for name in ("sequential", "mini-batch of 64"))
            targets += [
                Target(f"{way}, sequential: records per {clock} second", one, SEQUENTIAL, True),
                Target(f"{way}, mini-batch: records per {clock} second", many, MINI_BATCH, True),
            ]
    return {"records per second": figures}, targets


def memory() -> tuple[dict[str, Any], list[Target]]:
    """Bytes besides the rows: stochastic EP keeps one message whatever n is, EP keeps one for every record."""
    family = SITE.family(FEATURES)
    held: dict[str, dict[int, int]] = {"EP": {}, "DP-SEP, sequential": {}, "DP-SEP, full batch": {}}
    for n in (1_000, 10_000, 100_000):
        X, y = jax.ShapeDtypeStruct((n, FEATURES), jnp.float32), jax.ShapeDtypeStruct((n,), jnp.float32)
        vector = jax.ShapeDtypeStruct((family.size,), jnp.float32)
        number = jax.ShapeDtypeStruct((), jnp.float32)
        whole = jax.ShapeDtypeStruct((), jnp.int32)
        held["EP"][n] = _bytes(refine.lower(SITE, family, 1, (X, y), vector, number))
        for name, capacity in (("DP-SEP, sequential", 1), ("DP-SEP, full batch", None)):
            program = Program(SITE, family, Refinement(NaturalCoordinates()), RowAccess(capacity), keep=False)
            steps = jax.ShapeDtypeStruct((64,), jnp.float32)
            places = jax.ShapeDtypeStruct((64, 1), jnp.int32)
            indices = jax.ShapeDtypeStruct((65,), jnp.int32)
            gaussians = jax.ShapeDtypeStruct((64, family.size), jnp.float32)
            rounds = RoundBlock(whole, whole, steps, gaussians, indices, places, places)
            block = MessageBlock(rounds, steps, steps)
            state = jax.eval_shape(first_state, vector)
            arguments = Table(X, y, whole), Constants(vector, number, number), state, block
            held[name][n] = _bytes(advance.lower(program, *arguments))
    growth = {name: counts[100_000] / counts[1_000] for name, counts in held.items()}
    targets = [
        Target("memory of EP at n = 100,000 over n = 1,000", growth["EP"], None, True),
        *(
            Target(f"memory of {name} at n = 100,000 over n = 1,000", growth[name], 1.01, False)
            for name in held
            if name != "EP"
        ),
    ]
    return {"bytes besides the rows": held}, targets


def variational(rounds: int = 3) -> tuple[dict[str, Any], list[Target]]:
    """Steps per CPU-second of private variational inference on an 8-50-1 network with batches of 100, in turns."""
    scripts = {
        "opacus": (environments.python_of("opacus"), "opacus_vi.py"),
        "sordino": (sys.executable, "sordino_vi.py"),
    }
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in scripts}
    for _ in range(rounds):
        for name, script in scripts.items():
            answers[name].append(environments.on_one_core(*script))
    rates = {
        name: {way: statistics.median(answer["rates"][way] for answer in given) for way in given[0]["rates"]}
        for name, given in answers.items()
    }
    ratio = rates["sordino"]["poisson"] / max(rates["opacus"].values())
    figures = {
        "steps per CPU-second": rates,
        "test error": {name: given[0]["accuracy"] for name, given in answers.items()},
        "versions": {name: given[0]["versions"] for name, given in answers.items()},
    }
    return figures, [Target("variational inference: over opacus", ratio, 8.0, True)]


def _bytes(lowered: Any) -> int:
    found = lowered.compile().memory_analysis()
    return found.temp_size_in_bytes + found.output_size_in_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--without-peers", action="store_true", help="install and time no other library")
    peers = [] if parser.parse_args().without_peers else [variational]
    answer: dict[str, Any] = {
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy")}
        | {"python": platform.python_version()},
    }
    targets: list[Target] = []
    for part in (memory, speed, *peers):
        figures, reached = part()
        answer[part.__name__] = figures
        targets += reached
    answer["targets"] = [target._asdict() | {"met": target.met} for target in targets]
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "message_passing.json").write_text(json.dumps(answer, indent=2) + "\n")
    print(json.dumps(answer, indent=2))
    print("\n| figure | measured | target | met |\n| --- | ---: | ---: | --- |")
    for target in targets:
        print(f"| {target.name} | {target.ratio:,.2f} | {target.stated} |")


if __name__ == "__main__":
    main()
