"""How the cost of Sordino grows: seconds against n, d, steps, chains, models. One process, one core, sizes in turns.

A cost per step is that of a long run less that of a short one, so that start-up and copying are not counted.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import task

sys.path.insert(0, str(Path(__file__).parents[2]))

from papers.heller_fetaya.fleet import Compiled, FleetRecords, Members
from sordino.auditing.fleet import FleetPlan, network_for
from sordino.core import guarantee as loss_distribution
from sordino.core.bound import Relation, View
from sordino.core.guarantee import LossDistribution
from sordino.core.loss import evaluate
from sordino.core.loss.normal_pairs import PoissonRemovePair
from sordino.core.spec import Batch, GaussianStart, Problem, Scheme, Spec
from sordino.mechanisms import SeededRandomness, dp_sgd, noisy_gd, run
from sordino.models.families.classification import Logistic
from sordino.models.families.networks import MLPRegression

MODEL = Logistic(weight_decay=0.01)
PLACE: dict[str, Any] = {"relation": Relation.REPLACE_ONE, "view": View.LAST_ITERATE}
FEATURES, BATCH = 20, 256
Clock = Callable[[], float]
Cost = Callable[[Clock], float]
CPU: Clock = time.process_time


def rows_of(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.standard_normal((n, d), np.float32) / 10, generator.choice(np.float32([-1, 1]), n)


def private_steps(n: int, d: int, steps: int, scheme: Scheme = Scheme.POISSON, chains: int = 1) -> Spec:
    return dp_sgd(
        Problem(n=n, dim=d),
        step_size=0.1,
        noise_multiplier=1.0,
        clip_norm=1.0,
        batch=Batch(scheme, BATCH),
        steps=steps,
        chains=chains,
        **PLACE,
    )


def full_steps(n: int, d: int, steps: int) -> Spec:
    return noisy_gd(Problem(n=n, dim=d), step_size=0.1, noise_scale=0.01, steps=steps, **PLACE)


def per_step(run_steps: Callable[[int], Any], short: int, long: int) -> Cost:
    """Seconds of one step; the first call compiles both lengths."""

    def cost(clock: Clock) -> float:
        marks = [clock()]
        for steps in (short, long):
            jax.block_until_ready(run_steps(steps))
            marks.append(clock())
        return max(marks[2] - 2 * marks[1] + marks[0], 1e-9) / (long - short)

    return cost


def whole(work: Callable[[], Any]) -> Cost:
    def cost(clock: Clock) -> float:
        begin = clock()
        jax.block_until_ready(work())
        return clock() - begin

    return cost


def chain(spec_of: Callable[[int], Spec], X: np.ndarray, y: np.ndarray) -> Callable[[int], Any]:
    return lambda steps: run(spec_of(steps), MODEL, X, y, SeededRandomness(0)).iterates


def full_gradient(n: int) -> Cost:
    return per_step(chain(partial(full_steps, n, FEATURES), *rows_of(n, FEATURES)), 4, 4 + max(8, 4_000_000 // n))


def poisson_step(n: int) -> Cost:
    return per_step(chain(partial(private_steps, n, FEATURES), *rows_of(n, FEATURES)), 1000, 21_000)


def dimension(d: int) -> Cost:
    steps = max(1000, 600_000 // d)
    return per_step(chain(partial(private_steps, 20_000, d), *rows_of(20_000, d)), 100, 100 + steps)


def steps_of_a_chain(steps: int) -> Cost:
    X, y = rows_of(20_000, FEATURES)
    return whole(lambda: chain(partial(private_steps, 20_000, FEATURES), X, y)(steps))


def chains(number: int) -> Cost:
    def spec_of(steps: int) -> Spec:
        return private_steps(20_000, 100, steps, Scheme.CYCLIC, number)

    return per_step(chain(spec_of, *rows_of(20_000, 100)), 64, 64 + max(256, 16_384 // number))


def models(number: int) -> Cost:
    """Seconds of one step of every model of a fleet."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2048, 8), np.float32)
    records = FleetRecords(X, np.tanh(X[:, 0]))
    plan = FleetPlan(0.05, 0.002, Batch(Scheme.WITHOUT_REPLACEMENT, 32), 1, 1, 1.0, GaussianStart(0.2))
    trainer = Compiled(network_for(MLPRegression((50,)), 8), plan, records, {}, jax.local_devices()[0])
    lanes = trainer.lanes(Members.of_one(number), number)
    epochs = max(1, 256 // number)

    def train() -> Any:
        theta = trainer.first_points(lanes)
        for epoch in range(epochs):
            theta, _ = trainer.epoch(lanes, theta, epoch)
        return theta

    trained = whole(train)
    return lambda clock: trained(clock) / (epochs * 2048 // 32)


def accountant(steps: int) -> Cost:
    def answer() -> float:
        for remembered in (loss_distribution._epsilon_bracket, evaluate._on_grid):
            remembered.cache_clear()
        return LossDistribution(((PoissonRemovePair(0.01, 1.0), steps),)).epsilon_bracket(1e-5, 1e-3).high

    return whole(answer)


def measured(cases: dict[int, Cost], repetitions: int, clock: Clock) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {str(size): [] for size in cases}
    for repetition in range(repetitions + 1):
        for size, cost in cases.items():
            seconds = cost(clock)
            if repetition:
                taken[str(size)].append(seconds)
    return taken


def main() -> None:
    repetitions, largest = int(sys.argv[1]), float(sys.argv[2])

    def up_to(*sizes: int) -> list[int]:
        return [size for size in sizes if size <= largest]

    axes: dict[str, tuple[list[int], Callable[[int], Cost]]] = {
        "records, full gradients": (up_to(10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6), full_gradient),
        "records, Poisson batches of 256": (up_to(10**4, 10**5, 10**6), poisson_step),
        "features, Poisson batches of 256": ([16, 64, 256, 1024], dimension),
        "steps, whole chain": ([10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5], steps_of_a_chain),
        "steps, accountant": ([10**3, 10**4, 10**5, 10**6], accountant),
        "chains, cyclic batches of 256": ([1, 4, 16, 64, 256], chains),
        "models, fleet of 8-50-1": ([8, 32, 128, 512, 2048], models),
    }
    found = {}
    for axis, (sizes, cost_of) in axes.items():
        found[axis] = measured({size: cost_of(size) for size in sizes}, repetitions, CPU)
    sys.stdout.write(task.WORD + json.dumps({"seconds": found}) + "\n")


if __name__ == "__main__":
    main()
