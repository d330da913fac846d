"""Message passing and variational inference: steps per CPU-second against others, memory, and own speed.

    python bench/message_passing.py [--full]

Variational inference is timed beside Opacus, d3p and NumPyro (bench/peers/vi_task.py). Memory: what the compiled
program holds besides the rows, as the compiler reports it. `--full` adds records per second of private rounds on the
network of Vinaroz & Park's kin8nm rows; wall time needs an idle machine, CPU time hardly does, so both are given.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The networks of Vinaroz & Park are in the folder beside this one.
sys.path.insert(0, str(Path(__file__).parents[1]))

import area
import jax
import jax.numpy as jnp
import numpy as np
from rounds import OURS, Contender, in_rounds, rate_rows, versions_in
from rows import Question, Row
from targets import Target, as_dicts

from papers.round_words import stated_spec
from papers.vinaroz_park.message_passing import refine
from sordino.core.spec import Spec
from sordino.mechanisms import SeededRandomness
from sordino.mechanisms.chain.kernel import Records, StepBlock, advance
from sordino.mechanisms.messages import (
    CentredCoordinates,
    Coordinates,
    MessageInputs,
    Messages,
    MessageState,
    NaturalCoordinates,
    Prior,
    Refinement,
    run_message_passing,
)
from sordino.mechanisms.rounds import Public, RoundInputs, RoundProgram
from sordino.models.contributions import RowSizes
from sordino.models.message_passing.sites import NetworkSite
from sordino.noise.lattice import in_doubles

RECORDS, FEATURES, HIDDEN = 7373, 8, 50
SITE = NetworkSite(HIDDEN, 10.0)
SEQUENTIAL, MINI_BATCH = 25_000.0, 125_000.0
SCANS = ("step", "scan")
_ABOUT = (
    "8-50-1 network, independent Gaussians on its weights, batches of 100 of 7373 records; drawing batches, noise and "
    "weights is part of the time; one core. Sordino draws Poisson batches and the weights once a step"
)
PRIVATE_STEPS = Question(
    "message-passing",
    "private-vi",
    "private variational steps",
    "steps per CPU-second",
    f"{_ABOUT}. opacus: per-example gradients by functorch. d3p: the faster of stepwise and in a scan; it draws "
    "weights for every example, and its noise is cryptographic, ours seeded here; it runs on JAX 0.4.30 only",
)
PLAIN_STEPS = Question(
    "message-passing",
    "plain-vi",
    "private variational steps against steps without privacy",
    "steps per CPU-second",
    f"{_ABOUT}. NumPyro: SVI, no clipping, no noise, batches of fixed size",
)


def spec_of(sampling: str, batch: int | None, steps: int) -> Spec:
    algorithm = {"kind": "message-passing", "records": RECORDS, "steps": steps, "sampling": sampling, "batch": batch}
    return stated_spec(
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
        sizes = RowSizes(jax.ShapeDtypeStruct((n,), jnp.int16), jax.ShapeDtypeStruct((n,), np.float64))
        vector, number = (jax.ShapeDtypeStruct(shape, np.float64) for shape in ((family.size,), ()))
        for name, capacity in (("DP-SEP, sequential", 1), ("DP-SEP, full batch", None)):
            asked = Messages(SITE, Prior(), Refinement(NaturalCoordinates()), FEATURES)
            program = RoundProgram(asked, capacity, keeps=False)
            steps = jax.ShapeDtypeStruct((64,), np.float64)
            places = jax.ShapeDtypeStruct((64, 1), jnp.int32)
            indices = jax.ShapeDtypeStruct((65,), jnp.int32)
            gaussians = jax.ShapeDtypeStruct((64, family.size), jnp.float32)
            inputs = RoundInputs(steps, gaussians, MessageInputs(steps, steps))
            block = StepBlock(whole, whole, inputs, indices, places, places)
            with in_doubles():
                state = MessageState(vector, vector, vector, jax.ShapeDtypeStruct((2,), jnp.int32))
                arguments = Public(number, number, number), Records(X, y, sizes, whole), state, block
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


def _bytes(lowered: Any) -> int:
    found = lowered.compile().memory_analysis()
    return found.temp_size_in_bytes + found.output_size_in_bytes


def variational(rounds: int) -> tuple[list[Row], dict[str, Any]]:
    """Private steps on an 8-50-1 network with batches of 100, on one core."""
    answers = in_rounds(
        {
            OURS: Contender("sordino_vi.py"),
            "opacus": Contender("opacus_vi.py", "opacus"),
            "d3p": Contender("d3p_vi.py", "d3p"),
            "NumPyro": Contender("numpyro_svi.py", "numpyro"),
        },
        rounds,
    )
    private = {name: found for name, found in answers.items() if name != "NumPyro"}
    plain = {name: answers[name] for name in (OURS, "NumPyro")}
    rows = [
        *rate_rows(PRIVATE_STEPS, private, lambda answer: answer["rates"]["poisson"]),
        *rate_rows(PLAIN_STEPS, plain, lambda answer: answer["rates"]["poisson"], {"NumPyro": SCANS}),
    ]
    errors = {name: found.given[0]["accuracy"] for name, found in answers.items() if found.given}
    return rows, {"test error": errors, "versions": versions_in(answers)}


def measure(full: bool) -> area.Measured:
    rows, others = variational(7 if full else 5)
    figures: dict[str, Any] = {"test error": others["test error"]}
    targets: list[Target] = []
    for part in (memory, speed) if full else (memory,):
        figures[part.__name__], reached = part()
        targets += reached
    return area.Measured(rows, figures | {"targets": as_dicts(targets)}, others["versions"])


if __name__ == "__main__":
    area.main("message_passing", measure, __doc__)
