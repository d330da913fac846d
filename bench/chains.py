"""How fast chains run: JSON with every figure to bench/results/chains.json, and a Markdown table of the ratios.

    python bench/chains.py [--without-peers]

All figures are medians of repetitions in this one run, and every target is a ratio of two of them, because machines
differ. Peers run in environments of their own (`bench/peers`).
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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import environments

from sordino.algorithm import SeededRandomness, heavy_tailed_sgd, noisy_gd, noisy_sgd, run
from sordino.core.relation import Relation
from sordino.core.spec import Batch, Clipping, ClippingKind, Problem, Scheme, Spec
from sordino.core.view import View
from sordino.model.logistic import Logistic

MODEL = Logistic(weight_decay=0.01)
OPTIONS: dict[str, Any] = {"relation": Relation.REPLACE_ONE, "view": View.LAST_ITERATE}
CLIPPED = Clipping(ClippingKind.NORM, 1.0)


class Target(NamedTuple):
    """One line of the table: a ratio, what it should be (None: reported, not promised), and which way is better."""

    name: str
    ratio: float
    wanted: float | None
    at_least: bool

    @property
    def met(self) -> bool | None:
        if self.wanted is None:
            return None
        return self.ratio >= self.wanted if self.at_least else self.ratio <= self.wanted

    @property
    def stated(self) -> str:
        """The last two columns of the table."""
        if self.wanted is None:
            return "none |"
        return f"{'at least' if self.at_least else 'at most'} {self.wanted:g} | {'yes' if self.met else 'no'}"


def rows_of(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(n, d)).astype(np.float32) / 10, generator.choice([-1.0, 1.0], n).astype(np.float32)


def seconds(work: Callable[[], Any], repetitions: int = 7) -> float:
    """Median wall time, after one call that compiles."""
    jax.block_until_ready(work())
    taken = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def per_step(spec_of: Callable[[int], Spec], X: np.ndarray, y: np.ndarray, steps: tuple[int, int]) -> float:
    """Wall time of a step: a long run less a short one, so that copying the rows to the device is not counted."""
    short, long = (seconds(lambda s=s: run(spec_of(s), MODEL, X, y, SeededRandomness(0)).iterates, 5) for s in steps)
    return (long - short) / (steps[1] - steps[0])


def full_batch() -> tuple[dict[str, float], list[Target]]:
    """Noisy gradient descent against plain products with the same matrix: X theta, and r X."""
    n, d = 200_000, 100
    X, y = rows_of(n, d)
    problem = Problem(n=n, dim=d)
    on_device, theta, residual = jnp.asarray(X), jnp.ones(d), jnp.ones(n)
    score = jax.jit(lambda X, theta: X @ theta)
    gather = jax.jit(lambda X, residual: residual @ X)
    rounds = [
        (
            seconds(lambda: score(on_device, theta)),
            seconds(lambda: gather(on_device, residual)),
            per_step(lambda s: noisy_gd(problem, step_size=0.1, noise_scale=0.01, steps=s, **OPTIONS), X, y, (16, 64)),
        )
        for _ in range(3)  # in turns, so that a busy moment of the machine hits all alike
    ]
    forward, backward, step = (statistics.median(taken) for taken in zip(*rounds, strict=True))
    figures = {
        "seconds of X @ theta": forward,
        "seconds of r @ X": backward,
        "seconds of a step": step,
        "GB/s of X @ theta": X.nbytes / forward / 1e9,
    }
    # The faster product twice is the harder limit: two passes over the matrix at the speed of the better one.
    limit = 2.0 * min(forward, backward)
    targets = [
        Target(
            "full batch: share of the traffic limit (X @ theta, then r @ X)", (forward + backward) / step, 0.6, True
        ),
        Target("full batch: the same, both passes at the faster product's speed", limit / step, 0.6, True),
        Target("full batch: the same, one pass only, at the faster product's speed", 0.5 * limit / step, None, True),
    ]
    return figures, targets


def many_chains() -> tuple[dict[str, float], list[Target]]:
    """64 chains against 64 times one chain; batches that are random are drawn for each chain separately."""
    n, d, chains = 20_000, 100, 64
    X, y = rows_of(n, d)
    problem = Problem(n=n, dim=d)
    cases: dict[str, tuple[Batch, tuple[int, int]]] = {
        "full": (Batch(Scheme.FULL), (16, 64)),
        "cyclic": (Batch(Scheme.CYCLIC, 256), (256, 2048)),
        "poisson": (Batch(Scheme.POISSON, 256), (256, 2048)),
    }
    figures, targets = {}, []
    for name, (batch, steps) in cases.items():

        def spec_of(s: int, number: int, batch: Batch = batch) -> Spec:
            common = {"step_size": 0.1, "noise_scale": 0.01, "clipping": CLIPPED, "steps": s, "chains": number}
            return noisy_sgd(problem, batch=batch, **common, **OPTIONS)

        one = per_step(lambda s: spec_of(s, 1), X, y, steps)
        many = per_step(lambda s: spec_of(s, chains), X, y, (steps[0] // 4, steps[1] // 4))
        figures |= {f"{name}: seconds of a step, 1 chain": one, f"{name}: seconds of a step, {chains} chains": many}
        # Chains with batches of their own share nothing but the call.
        wanted = None if name == "poisson" else 0.35
        shares = many / (chains * one)
        targets.append(Target(f"{chains} chains over {chains} single runs, {name} batches", shares, wanted, False))
    return figures, targets


def stable_noise() -> tuple[dict[str, float], list[Target]]:
    """Stable against Gaussian noise where noise weighs most: small batches in fifty dimensions."""
    n, d = 2_000, 50
    X, y = rows_of(n, d)
    common: dict[str, Any] = {"step_size": 0.1, "batch": Batch(Scheme.CYCLIC, 16), **OPTIONS}
    problem = Problem(n=n, dim=d)
    steps = (4096, 32_768)
    gaussian = per_step(lambda s: noisy_sgd(problem, noise_scale=0.01, steps=s, **common), X, y, steps)
    stable = per_step(lambda s: heavy_tailed_sgd(problem, alpha=1.5, sigma=0.01, steps=s, **common), X, y, steps)
    figures = {"seconds of a step, gaussian": gaussian, "seconds of a step, stable": stable}
    return figures, [Target("stable noise over Gaussian noise", stable / gaussian, 4.0, False)]


def mini_batch(rounds: int = 3) -> tuple[dict[str, Any], list[Target]]:
    """Steps per CPU-second on one core, in turns, so that a busy moment of the machine hits all alike."""
    scripts = {
        "opacus": (environments.python_of("opacus"), "opacus_sgd.py"),
        "jax-privacy": (environments.python_of("jax-privacy"), "jax_privacy_sgd.py"),
        "sordino": (sys.executable, "sordino_sgd.py"),
    }
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in scripts}
    for _ in range(rounds):
        for name, script in scripts.items():
            answers[name].append(environments.on_one_core(*script))
    rates = {
        name: {way: statistics.median(answer["rates"][way] for answer in given) for way in given[0]["rates"]}
        for name, given in answers.items()
    }
    opacus, privacy = rates["opacus"], rates["jax-privacy"]
    fixed, poisson = rates["sordino"]["without-replacement"], rates["sordino"]["poisson"]
    figures = {
        "steps per CPU-second": rates,
        "accuracy": {name: given[0]["accuracy"] for name, given in answers.items()},
        "versions": {name: given[0]["versions"] for name, given in answers.items()},
    }
    targets = [
        Target("mini-batch: over opacus, its fastest way", fixed / max(opacus.values()), 20.0, True),
        Target("mini-batch: over jax-privacy, compiled step", fixed / privacy["compiled step"], 3.0, True),
        # Not how it is documented, but what a user who knows JAX can do with it.
        Target("mini-batch: over jax-privacy in a scan of one's own", fixed / privacy["scan over steps"], None, True),
        Target("mini-batch, Poisson: over jax-privacy, compiled step", poisson / privacy["compiled step"], 3.0, True),
    ]
    return figures, targets


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--without-peers", action="store_true", help="leave out the libraries that have to be installed"
    )
    peers = [] if parser.parse_args().without_peers else [mini_batch]
    answer: dict[str, Any] = {
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]},
        "versions": {name: version(name) for name in ("jax", "jaxlib", "numpy")}
        | {"python": platform.python_version()},
    }
    targets: list[Target] = []
    for part in (full_batch, many_chains, stable_noise, *peers):
        figures, reached = part()
        answer[part.__name__] = figures
        targets += reached
    answer["targets"] = [target._asdict() | {"met": target.met} for target in targets]
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "chains.json").write_text(json.dumps(answer, indent=2) + "\n")
    print(json.dumps(answer, indent=2))
    print("\n| ratio | measured | target | met |\n| --- | ---: | ---: | --- |")
    for target in targets:
        print(f"| {target.name} | {target.ratio:.2f} | {target.stated} |")


if __name__ == "__main__":
    main()
