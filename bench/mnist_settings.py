"""Settings of the MNIST recipes, chosen on a cut of the training rows: 50,000 to fit on, the last 10,000 to score.

    python bench/mnist_settings.py --data-dir DIR --out settings.csv [--seconds 280] [--part linear|network|both]

The test rows are never read. Noise is that of 50,000 records, so 60,000 do a little better. The runs here follow
`algorithm.training.train` step by step, with what is searched over as inputs of one compiled program.
"""

import argparse
import csv
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "mnist"))
import digits

from sordino.algorithm.training.clipped import Clipped
from sordino.core.guarantee import GaussianDP

DELTA = 1e-5
CUT = 50_000


def mu_of(epsilon: float) -> float:
    """The Gaussian mu of a full-batch run at the recipes' delta."""
    low, high = 1e-3, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if GaussianDP(middle).epsilon(DELTA) <= epsilon else (low, middle)
    return low


@jax.jit
def linear(
    X: Array,
    Y: Array,
    V: Array,
    v: Array,
    steps: Array,
    mu: Array,
    clip: Array,
    rate: Array,
    momentum: Array,
    key: Array,
) -> tuple[Array, Array]:
    """Held-out accuracy and calibration error of the last point and of the running average, at the best temperature."""
    noise = jnp.sqrt(steps) / mu * clip

    def body(k: Array, carry: Any) -> Any:
        w, velocity, average = carry
        residual = jax.nn.softmax(X @ w[:-1] + w[-1]) - Y
        length = jnp.linalg.norm(residual, axis=1) * jnp.sqrt(2.0)
        residual = residual * jnp.minimum(1.0, clip / jnp.maximum(length, 1e-9))[:, None]
        total = jnp.concatenate([X.T @ residual, jnp.sum(residual, axis=0)[None]])
        noised = total + noise * jax.random.normal(jax.random.fold_in(key, k), total.shape)
        velocity = momentum * velocity + noised / len(X)
        w = w - rate * velocity
        decay = jnp.minimum(0.95, (1.0 + k) / (10.0 + k))
        return w, velocity, decay * average + (1 - decay) * w

    zero = jnp.zeros((X.shape[1] + 1, digits.CLASSES))
    w, _, average = lax.fori_loop(0, steps, body, (zero, zero, zero))
    scores = [V @ one[:-1] + one[-1] for one in (w, average)]
    return jnp.stack([jnp.mean(jnp.argmax(one, axis=1) == v) for one in scores]), scores[1]


def temperature(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    """The factor on scores with the best log-loss, its expected calibration error, and that of a factor of 1."""

    def error(factor: float) -> tuple[float, float]:
        shown = scores * factor
        shown = np.exp(shown - shown.max(axis=1, keepdims=True))
        shown /= shown.sum(axis=1, keepdims=True)
        sure, right = shown.max(axis=1), shown.argmax(axis=1) == labels
        place = np.minimum((sure * 15).astype(int), 14)
        gaps = [abs(sure[place == b].sum() - right[place == b].sum()) for b in range(15)]
        return float(-np.log(shown[np.arange(len(labels)), labels] + 1e-12).mean()), sum(gaps) / len(labels)

    factors = np.exp(np.linspace(-1.5, 4.0, 56))
    best = min(factors, key=lambda factor: error(factor)[0])
    return float(best), error(best)[1], error(1.0)[1]


def search_linear(folder: Path, seconds: float, write: Any) -> None:
    """Random search over features, steps, clip, rate and momentum at each epsilon."""
    begun = time.monotonic()
    train, _ = digits.read(folder)
    rows = digits.scattering_rows(train.images)
    drawn = digits.scattering_rows(digits.strokes(20_000))
    write(["note", "features", time.monotonic() - begun])
    labels = jnp.asarray(train.labels)
    Y, v = jax.nn.one_hot(labels[:CUT], digits.CLASSES), labels[CUT:]
    kinds: dict[str, Any] = {"plain": None}
    for damping in (1.0, 0.1, 0.01):
        for power in (0.5, 0.25):
            kinds[f"strokes {damping} {power}"] = (damping, power)
    generator = np.random.default_rng(0)
    budget = (seconds - (time.monotonic() - begun)) / len(kinds)
    for name, law in kinds.items():
        stop = time.monotonic() + budget
        if law is None:
            made = jnp.asarray(rows) / np.sqrt(rows.shape[1])
        else:
            whitened = digits.whitener(drawn, *law)
            made = jnp.concatenate([whitened(jnp.asarray(rows[i : i + 10_000])) for i in range(0, 60_000, 10_000)])
        X, V = made[:CUT], made[CUT:]
        while time.monotonic() < stop:
            epsilon = float(generator.choice([0.5, 1.0, 3.0, 8.0]))
            steps = int(generator.choice([15, 30, 60, 120, 240]))
            clip = float(generator.choice([0.05, 0.2, 0.5, 1.0]))
            pace = float(np.exp(generator.uniform(np.log(2.0), np.log(400.0))))
            momentum = float(generator.choice([0.5, 0.9]))
            key = jax.random.key(int(generator.integers(2**31)))
            # A rate for gradients that are all clipped is one over the clip; per unit of momentum's total weight.
            rate = pace * (1 - momentum) / clip
            found, scores = linear(X, Y, V, v, steps, mu_of(epsilon), clip, rate, momentum, key)
            warm = temperature(np.asarray(scores), np.asarray(v))
            write(["linear", name, epsilon, steps, clip, pace, momentum, *map(float, found), *warm])


@partial(jax.jit, static_argnums=(0, 1))
def network(
    activation: Any,
    views: int,
    images: Array,
    labels: Array,
    V: Array,
    v: Array,
    steps: Array,
    mu: Array,
    clip: Array,
    rate: Array,
    key: Array,
) -> tuple[Array, Array]:
    """The same for the small convolutional network, full batches, momentum .9."""

    # The loss over the clip, clipped to 1, is the gradient clipped to the clip over the clip.
    def loss(params: Any, example: Any) -> Array:
        image, label, scale, word = example
        if views == 1:
            return scale * digits.cross_entropy(digits.network_scores(params, image, activation), label)
        keys = jax.random.split(jax.random.wrap_key_data(word), views)

        def of_one(one: Array) -> Array:
            scores = digits.network_scores(params, digits.shifted(one, image), activation)
            return digits.cross_entropy(scores, label)

        return scale * jnp.mean(jax.vmap(of_one)(keys))

    size = 5000
    clipped = Clipped(loss, 1.0, size)
    start = digits.network_start(key)
    flat, unravel = ravel_pytree(start)
    noise = jnp.sqrt(steps) / mu

    def body(k: Array, carry: Any) -> Any:
        w, velocity, average = carry
        words = jax.random.split(jax.random.fold_in(key, k), size)

        def added(j: Array, total: Array) -> Array:
            def some(leaf: Array) -> Array:
                return lax.dynamic_slice_in_dim(leaf, j * size, size)

            example = (some(images), some(labels), jnp.full(size, 1.0) / clip, jax.random.key_data(words))
            return total + ravel_pytree(clipped.part(unravel(w), example, jnp.ones(size)))[0]

        total = lax.fori_loop(0, len(images) // size, added, jnp.zeros_like(w))
        noised = total + noise * jax.random.normal(jax.random.fold_in(key, k + 1_000_000), total.shape)
        velocity = 0.9 * velocity + noised / len(images)
        w = w - rate * velocity
        decay = jnp.minimum(0.95, (1.0 + k) / (10.0 + k))
        return w, velocity, decay * average + (1 - decay) * w

    w, _, average = lax.fori_loop(0, steps, body, (flat, jnp.zeros_like(flat), flat))
    scores = [jax.vmap(partial(digits.network_scores, unravel(one), activation=activation))(V) for one in (w, average)]
    return jnp.stack([jnp.mean(jnp.argmax(one, axis=1) == v) for one in scores]), scores[1]


def search_network(folder: Path, seconds: float, write: Any) -> None:
    """A grid, the most promising first; whatever fits into the time."""
    stop = time.monotonic() + seconds
    train, _ = digits.read(folder)
    images, labels = jnp.asarray(train.images), jnp.asarray(train.labels)
    settings = [
        (name, views, epsilon, steps, clip, pace)
        for views in (1, 4)
        for epsilon in (2.91, 1.16, 6.86)
        for name, steps, clip, pace in (
            ("relu", 150, 0.1, 10.0),
            ("tanh", 150, 0.1, 10.0),
            ("relu", 150, 1.0, 10.0),
            ("relu", 150, 0.1, 20.0),
            ("relu", 80, 0.1, 20.0),
            ("relu", 300, 0.1, 10.0),
            ("tanh", 150, 1.0, 20.0),
        )
    ]
    for name, views, epsilon, steps, clip, pace in settings:
        if time.monotonic() > stop:
            return
        begun = time.monotonic()
        activation = {"relu": jax.nn.relu, "tanh": jnp.tanh}[name]
        found, scores = network(
            activation,
            views,
            images[:CUT],
            labels[:CUT],
            images[CUT:],
            labels[CUT:],
            steps,
            mu_of(epsilon),
            clip,
            pace * 0.1,
            jax.random.key(steps),
        )
        warm = temperature(np.asarray(scores), np.asarray(labels[CUT:]))
        write(
            [
                "network",
                f"{name} {views}",
                epsilon,
                steps,
                clip,
                pace,
                0.9,
                *map(float, found),
                *warm,
                time.monotonic() - begun,
            ]
        )


def main() -> None:
    """Search and write every setting that was tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--part", choices=("linear", "network", "both"), default="both")
    asked = parser.parse_args()
    with asked.out.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            [
                "what",
                "features",
                "epsilon",
                "steps",
                "clip",
                "pace",
                "momentum",
                "last",
                "averaged",
                "temperature",
                "ece",
                "ece at 1",
            ]
        )

        def write(row: list[Any]) -> None:
            table.writerow(row)
            file.flush()

        share = 0.5 if asked.part == "both" else 1.0
        if asked.part != "linear":
            search_network(asked.data_dir, share * asked.seconds, write)
        if asked.part != "network":
            search_linear(asked.data_dir, share * asked.seconds, write)


if __name__ == "__main__":
    main()
