"""Settings of the MNIST recipes, chosen on a cut of the training rows: 50,000 to fit on, the last 10,000 to score.

    python bench/mnist_settings.py linear|network --data-dir DIR --out settings.csv [--seconds 280]
        [--starts drawn taught] [--choose examples/mnist/settings.json]
    python bench/mnist_settings.py temperature --data-dir DIR --out found.csv --choose examples/mnist/settings.json

The second form fits the chosen convolutional networks again, on all 50,000 records with three seeds, and sets their
temperatures to what is best for the log-loss of the cut rows on average. The test rows are never read. Noise is that of
50,000 records, so 60,000 do a little better. The runs here follow `networks.training` step by step, with what is
searched over as inputs of one compiled program.
"""

import argparse
import csv
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples" / "mnist"))
import digits

from sordino.core.guarantee import GaussianDP

DELTA = 1e-5
CUT = 50_000
SAMPLE = 5000
EPSILONS = (2.91, 6.86, 1.16)


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

    # Both ends are far outside what was ever best: a first list ended at exp(-1.5), which was chosen three times.
    factors = np.exp(np.linspace(-5.0, 4.0, 181))
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


class Tried(NamedTuple):
    """A setting of the convolutional network; all but the first two are inputs of one compiled program."""

    activation: str
    start: str
    epsilon: float
    steps: int
    clip: float
    pace: float
    momentum: float
    average: float
    fall: bool  # whether the rate falls to 0 in a straight line


@partial(jax.jit, static_argnums=(0, 1))
def network(
    activation: Any,
    size: int,
    start: Any,
    images: Array,
    labels: Array,
    V: Array,
    v: Array,
    steps: Array,
    mu: Array,
    clip: Array,
    rate: Array,
    momentum: Array,
    average: Array,
    fall: Array,
    key: Array,
) -> tuple[Array, Array]:
    """The same for the small convolutional network: steps of `size` records with the noise of a step of all of them.

    What a batch adds to the noise of a mean is 1 / sqrt(size) clips in all 26,010 directions together; the noise itself
    is more than four times that, so a sample shows what all records would do at a tenth of the time. With `size` equal
    to their number all records take part.
    """

    # The loss over the clip, clipped to 1, is the gradient clipped to the clip over the clip.
    def loss(params: Any, example: Any) -> Array:
        image, label, scale = example
        return scale * digits.cross_entropy(digits.network_scores(params, image, activation), label)

    flat, unravel = ravel_pytree(start)

    def clipped(w: Array, some: Any) -> Array:
        """The sum of gradients, each shortened to length 1, a few examples at a time."""

        def one(example: Any) -> Array:
            gradient = jax.grad(lambda flat: loss(unravel(flat), example))(w)
            return gradient / jnp.maximum(1.0, jnp.linalg.norm(gradient))

        def added(total: Array, part: Any) -> tuple[Array, None]:
            return total + jnp.sum(jax.vmap(one)(part), axis=0), None

        parts = jax.tree.map(lambda leaf: leaf.reshape(-1, min(size, 500), *leaf.shape[1:]), some)
        return lax.scan(added, jnp.zeros_like(w), parts)[0]

    noise = jnp.sqrt(steps) / mu / len(images)

    def body(k: Array, carry: Any) -> Any:
        w, velocity, mean = carry
        if size < len(images):
            chosen = jax.random.randint(jax.random.fold_in(key, k), (size,), 0, len(images))
            some = (images[chosen], labels[chosen])
        else:
            some = (images, labels)
        total = clipped(w, (*some, jnp.full(size, 1.0) / clip))
        drawn = jax.random.normal(jax.random.fold_in(key, k + 1_000_000), total.shape)
        velocity = momentum * velocity + total / size + noise * drawn
        w = w - rate * jnp.where(fall, 1.0 - k / steps, 1.0) * velocity
        decay = jnp.minimum(average, (1.0 + k) / (10.0 + k))
        return w, velocity, decay * mean + (1 - decay) * w

    w, _, mean = lax.fori_loop(0, steps, body, (flat, jnp.zeros_like(flat), flat))
    scores = [jax.vmap(partial(digits.network_scores, unravel(one), activation=activation))(V) for one in (w, mean)]
    return jnp.stack([jnp.mean(jnp.argmax(one, axis=1) == v) for one in scores]), scores[1]


# The best of a first search, with paces up to 60: what a second one begins with.
FOUND = (
    Tried("relu", "taught", 2.91, 184, 0.1, 7.5, 0.9, 0.98, False),
    Tried("relu", "taught", 6.86, 600, 0.3, 10.9, 0.9, 0.95, True),
    Tried("relu", "taught", 1.16, 200, 0.03, 10.5, 0.9, 0.95, True),
)


def drawn_setting(generator: np.random.Generator, starts: Sequence[str]) -> Tried:
    """Around what earlier lists found: relu; from a drawn start paces near 10 to 20, from a taught one below 12."""

    def between(low: float, high: float) -> float:
        return float(np.exp(generator.uniform(np.log(low), np.log(high))))

    fall, start = bool(generator.random() < 0.5), str(generator.choice(list(starts)))
    epsilon = float(generator.choice(EPSILONS))
    least = {1.16: 80, 2.91: 120, 6.86: 200}[epsilon]
    return Tried(
        activation="relu",
        start=start,
        epsilon=epsilon,
        steps=round(between(least, 3.0 * least)),
        clip=float(generator.choice([0.03, 0.1, 0.3])),
        pace=(between(2.5, 12.0) if start == "taught" else between(6.0, 24.0)) * (1.5 if fall else 1.0),
        momentum=0.9,
        average=float(generator.choice([0.9, 0.95, 0.98])),
        fall=fall,
    )


class NetworkRows:
    """The rows to fit on and those to score, and the starts that were made."""

    def __init__(self, folder: Path, write: Any) -> None:
        train, _ = digits.read(folder)
        self.rows = [jnp.asarray(part) for part in (*train.rows(slice(0, CUT)), *train.rows(slice(CUT, None)))]
        self.write, self.made = write, dict[tuple[str, str], Any]()

    def scored(self, setting: Tried, size: int, seed: int) -> tuple[float, float]:
        """Held-out accuracy of the running average, and the best temperature."""
        clock, act = time.monotonic(), digits.ACTIVATIONS[setting.activation]
        pair = (setting.activation, setting.start)
        if pair not in self.made:
            self.made[pair] = digits.STARTS[setting.start](jax.random.key(0), act)
        rate = setting.pace * (1.0 - setting.momentum)
        numbers = (setting.clip, rate, setting.momentum, setting.average, setting.fall)
        key, mu = jax.random.key(seed), mu_of(setting.epsilon)
        found, scores = network(act, size, self.made[pair], *self.rows, setting.steps, mu, *numbers, key)
        warm = temperature(np.asarray(scores), np.asarray(self.rows[3]))
        self.write(["network", *setting, size, *map(float, found), *warm, time.monotonic() - clock])
        return float(found[1]), warm[0]


def search_network(folder: Path, seconds: float, write: Any, starts: Sequence[str]) -> None:
    """Settings on samples for five sixths of the time, the first ones known; then the best ones on all records."""
    begun = time.monotonic()
    rows, generator = NetworkRows(folder, write), np.random.default_rng(1)
    tried: list[tuple[float, Tried]] = []
    while time.monotonic() - begun < seconds * 5 / 6:
        known = FOUND[len(tried) :] if "taught" in starts else ()
        setting = known[0] if known else drawn_setting(generator, starts)
        tried.append((rows.scored(setting, SAMPLE, len(tried))[0], setting))
    best = {epsilon: sorted((one for one in tried if one[1].epsilon == epsilon), reverse=True) for epsilon in EPSILONS}
    for place in range(3):
        for epsilon in EPSILONS:
            if time.monotonic() - begun > seconds:
                return
            if place < len(best[epsilon]):
                rows.scored(best[epsilon][place][1], CUT, 10_000 + place)


def search_temperatures(folder: Path, settings: Path, write: Any) -> None:
    """Of the chosen networks, by the cut rows, into the recipes' file."""
    rows, chosen = NetworkRows(folder, write), json.loads(settings.read_text(encoding="utf-8"))
    for word, one in chosen["cnn"].items():
        same = {name: one[name] for name in ("activation", "start", "clip", "pace", "momentum", "average", "fall")}
        tried = Tried(**same, epsilon=float(word), steps=one["rounds"])
        best = [rows.scored(tried, CUT, seed)[1] for seed in (20_001, 20_002, 20_003)]
        one["temperature"] = round(float(np.exp(np.mean(np.log(best)))), 4)
        settings.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")


COLUMNS = {
    "linear": ("features", "epsilon", "steps", "clip", "pace", "momentum", "last", "averaged"),
    "network": (*Tried._fields, "size", "last", "averaged"),
    "temperature": (*Tried._fields, "size", "last", "averaged"),
}
TEMPERATURE = ("temperature", "ece", "ece at 1", "seconds")


def main() -> None:
    """Search and write every setting that was tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=tuple(COLUMNS))
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=280.0)
    parser.add_argument("--starts", nargs="+", choices=tuple(digits.STARTS), default=list(digits.STARTS))
    parser.add_argument("--choose", type=Path, default=None)
    asked = parser.parse_args()
    with asked.out.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["what", *COLUMNS[asked.part], *TEMPERATURE])

        def write(row: list[Any]) -> None:
            table.writerow(row)
            file.flush()

        if asked.part == "temperature":
            search_temperatures(asked.data_dir, asked.choose, write)
        elif asked.part == "network":
            search_network(asked.data_dir, asked.seconds, write, asked.starts)
        else:
            search_linear(asked.data_dir, asked.seconds, write)
    if asked.choose is not None and asked.part == "network":
        choose_networks(asked.out, asked.choose)


def choose_networks(found: Path, settings: Path) -> None:
    """Put the best setting of the network at every epsilon, by the held-out rows, into the recipes' file."""
    with found.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["what"] == "network"]
    chosen = json.loads(settings.read_text(encoding="utf-8"))
    for word in sorted({row["epsilon"] for row in rows}):
        best = max((row for row in rows if row["epsilon"] == word), key=lambda row: float(row["averaged"]))
        if float(best["averaged"]) <= chosen["cnn"].get(word, {}).get("held_out", 0.0):
            continue
        numbers = ("clip", "pace", "momentum", "average", "temperature")
        chosen["cnn"][word] = {name: float(best[name]) for name in numbers} | {
            "held_out": float(best["averaged"]),
            "rounds": int(best["steps"]),
            "fall": best["fall"] == "True",
            "activation": best["activation"],
            "start": best["start"],
        }
    settings.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
