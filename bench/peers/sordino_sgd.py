"""The task in Sordino; drawing batches is part of the time. Beside it the two that others run without clipping."""

from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import task

from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Problem, Scheme, Spec
from sordino.mechanisms import SeededRandomness, dp_sgd, run, sgld, ula
from sordino.model.families.classification import Logistic

X, Y = task.data()
PROBLEM = Problem(n=task.ROWS, dim=task.FEATURES)
PLACE = {"relation": Relation.REPLACE_ONE, "view": View.LAST_ITERATE}


def private(scheme: Scheme) -> Callable[[int], Spec]:
    return lambda steps: dp_sgd(
        PROBLEM,
        step_size=task.STEP_SIZE,
        noise_multiplier=task.NOISE_MULTIPLIER,
        clip_norm=task.CLIP_NORM,
        batch=Batch(scheme, task.BATCH),
        steps=steps,
        **PLACE,
    )


def langevin(steps: int) -> Spec:
    step, batch = 2.0 * task.STEP_SIZE / task.ROWS, Batch(Scheme.WITHOUT_REPLACEMENT, task.BATCH)
    return sgld(PROBLEM, step=step, batch=batch, steps=steps, **PLACE)


def full_gradients(steps: int, problem: Problem = PROBLEM) -> Spec:
    return ula(problem, step=task.STEP_SIZE / task.ROWS, steps=steps, **PLACE)


def chain(spec_of: Callable[[int], Spec], decay: float) -> Callable[[int], np.ndarray]:
    return lambda steps: np.asarray(
        run(spec_of(steps), Logistic(weight_decay=decay), X, Y, SeededRandomness(0)).iterates
    )


def large_chain() -> Callable[[int], np.ndarray]:
    """Full gradients of ten times as many records; copying them to the device is part of the time."""
    rows, labels = task.large_data()
    problem = Problem(n=len(rows), dim=task.FEATURES)

    def timed(steps: int) -> np.ndarray:
        spec = full_gradients(steps, problem)
        return np.asarray(run(spec, Logistic(weight_decay=0.01), rows, labels, SeededRandomness(0)).iterates)

    return timed


if __name__ == "__main__":
    ways = {
        "without-replacement": (chain(private(Scheme.WITHOUT_REPLACEMENT), 0.0), 30_000),
        "poisson": (chain(private(Scheme.POISSON), 0.0), 30_000),
        "langevin": (chain(langevin, 0.01), 30_000),
        "full gradients": (chain(full_gradients, 0.01), 1_000),
    }
    rates = {name: task.steps_per_cpu_second(way, steps) for name, (way, steps) in ways.items()}
    rates["full gradients, large"] = task.steps_per_cpu_second(large_chain(), 48)
    found = {name: task.accuracy(way(2000)) for name, (way, _) in ways.items()}
    task.report(rates, found, {name: version(name) for name in ("jax", "numpy")})
