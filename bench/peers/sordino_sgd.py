"""The task in Sordino, with batches without replacement and with Poisson batches; drawing them is part of the time."""

from importlib.metadata import version

import task

from sordino.algorithm import SeededRandomness, dp_sgd, run
from sordino.core.relation import Relation
from sordino.core.spec import Batch, Problem, Scheme
from sordino.core.view import View
from sordino.model.logistic import Logistic

X, Y = task.data()


def with_batches(scheme: Scheme):
    def timed(steps: int):
        spec = dp_sgd(
            Problem(n=task.ROWS, dim=task.FEATURES),
            step_size=task.STEP_SIZE,
            noise_multiplier=task.NOISE_MULTIPLIER,
            clip_norm=task.CLIP_NORM,
            batch=Batch(scheme, task.BATCH),
            steps=steps,
            relation=Relation.REPLACE_ONE,
            view=View.LAST_ITERATE,
        )
        return run(spec, Logistic(), X, Y, SeededRandomness(0)).iterates

    return timed


if __name__ == "__main__":
    ways = {scheme.value: with_batches(scheme) for scheme in (Scheme.WITHOUT_REPLACEMENT, Scheme.POISSON)}
    rates = {name: task.steps_per_cpu_second(way, 100_000) for name, way in ways.items()}
    found = {name: task.accuracy(way(2000)) for name, way in ways.items()}
    task.report(rates, found, {name: version(name) for name in ("jax", "numpy")})
