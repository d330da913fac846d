"""Chains against other libraries: steps per CPU-second on one core, everyone in turns.

    python bench/chains.py [--full]

Logistic regression, 20,000 records of 100 features, batches of 256 (bench/peers/task.py). `--full` adds what is
promised of chains alone: full batches against plain products, many chains against one, stable against Gaussian noise.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import area
import jax
import jax.numpy as jnp
import numpy as np
from rounds import OURS, Answers, Contender, in_rounds, rate_rows, versions_in
from rows import Question, Row
from targets import Target, as_dicts

from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Clipping, ClippingKind, Problem, Scheme, Spec
from sordino.mechanisms import SeededRandomness, heavy_tailed_sgd, noisy_gd, noisy_sgd, run
from sordino.model.families.classification import Logistic

MODEL = Logistic(weight_decay=0.01)
OPTIONS: dict[str, Any] = {"relation": Relation.REPLACE_ONE, "view": View.LAST_ITERATE}
CLIPPED = Clipping(ClippingKind.NORM, 1.0)
_ABOUT = "Logistic regression, 20,000 records of 100 features; drawing batches and noise is part of the time; one core"
_STEPS = "steps per CPU-second"
CLIPPED_STEPS = Question(
    "chains",
    "clipped",
    "private steps, batches of 256, every gradient clipped",
    _STEPS,
    f"{_ABOUT}. opacus: the faster of per-example gradients and ghost clipping. jax-privacy: its clipped gradient in a "
    "compiled step, and in a scan of one's own. Sordino draws without replacement, the others with",
)
POISSON_STEPS = Question(
    "chains",
    "poisson",
    "the same with Poisson batches, which privacy accounting asks for",
    _STEPS,
    f"{_ABOUT}. jax-privacy draws batches of fixed size with replacement in this script, which is less work",
)
SGLD_STEPS = Question(
    "chains",
    "sgld",
    "SGLD steps without clipping, batches of 256",
    _STEPS,
    f"{_ABOUT}. BlackJAX: its SGLD step, compiled, and in a scan; not private",
)
FULL_GRADIENTS = Question(
    "chains",
    "full",
    "gradients of all records together",
    "gradients per CPU-second",
    f"{_ABOUT}. NumPyro: leapfrog steps of HMC in one compiled program, no noise, not private; rows stay in cache",
)
LARGE_GRADIENTS = Question(
    "chains",
    "full large",
    "gradients of ten times as many records",
    "gradients per CPU-second",
    "As the row before with 200,000 records, 80 MB, which no cache holds; for Sordino copying them is part of the time",
)


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


def against_others(rounds: int) -> tuple[list[Row], dict[str, Any]]:
    """Steps per CPU-second on one core: clipped mini-batches, SGLD without clipping, and full gradients."""
    answers = in_rounds(
        {
            OURS: Contender("sordino_sgd.py"),
            "opacus": Contender("opacus_sgd.py", "opacus"),
            "jax-privacy": Contender("jax_privacy_sgd.py", "jax-privacy"),
            "BlackJAX": Contender("blackjax_sgld.py", "blackjax"),
            "NumPyro": Contender("numpyro_hmc.py", "numpyro"),
        },
        rounds,
    )

    def those(*peers: str) -> dict[str, Answers]:
        return {name: answers[name] for name in (OURS, *peers)}

    scans = {name: ("step", "scan") for name in ("jax-privacy", "BlackJAX")}
    rows = [
        *rate_rows(CLIPPED_STEPS, those("opacus", "jax-privacy"), _rate("without-replacement"), scans),
        *rate_rows(POISSON_STEPS, those("jax-privacy"), _rate("poisson"), {"jax-privacy": ("scan",)}),
        *rate_rows(SGLD_STEPS, those("BlackJAX"), _rate("langevin"), scans),
        *rate_rows(FULL_GRADIENTS, those("NumPyro"), _rate("full gradients"), {"NumPyro": ("HMC on 8 MB",)}),
        *rate_rows(LARGE_GRADIENTS, those("NumPyro"), _rate("full gradients, large"), {"NumPyro": ("HMC on 80 MB",)}),
    ]
    accuracy = {name: found.given[0]["accuracy"] for name, found in answers.items() if found.given}
    return rows, {"accuracy": accuracy, "versions": versions_in(answers)}


def _rate(way: str) -> Callable[[dict[str, Any]], float]:
    return lambda answer: answer["rates"][way]


def measure(full: bool) -> area.Measured:
    rows, others = against_others(7 if full else 5)
    figures: dict[str, Any] = {"accuracy": others["accuracy"]}
    targets: list[Target] = []
    for part in (full_batch, many_chains, stable_noise) if full else ():
        figures[part.__name__], reached = part()
        targets += reached
    return area.Measured(rows, figures | {"targets": as_dicts(targets)}, others["versions"])


if __name__ == "__main__":
    area.main("chains", measure, __doc__)
