"""MNIST for the recipes beside this file: rows, features, networks, and the law of synthetic strokes.

Rows are read from `mnist.npz` of a folder, with arrays x_train, y_train, x_test and y_test.
"""

import math
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scattering import Scattering, group_normalised

CLASSES = 10
GROUPS = 27
FEATURES = Scattering()


class Digits(NamedTuple):
    """Images in [0, 1], shape (rows, 28, 28), and labels."""

    images: NDArray[np.float32]
    labels: NDArray[np.int32]

    def rows(self, chosen: slice) -> "Digits":
        """Some of them."""
        return Digits(self.images[chosen], self.labels[chosen])


def read(folder: Path) -> tuple[Digits, Digits]:
    """Training and test rows."""
    with np.load(folder / "mnist.npz") as arrays:
        return tuple(
            Digits(arrays[f"x_{part}"].astype(np.float32) / 255.0, arrays[f"y_{part}"].astype(np.int32))
            for part in ("train", "test")
        )


def strokes(number: int, seed: int = 0) -> NDArray[np.float32]:
    """Images of random pen strokes: one or two smooth curves each, no data in them.

    They are the public law in whose metric features are whitened: like digits, bright lines a few pixels wide on a
    dark ground, centred by their mass.
    """
    generator = np.random.default_rng(seed)
    curves = 1 + (generator.random(number) < 0.5).astype(int)
    return _inked(generator.standard_normal((number, 2, 4, 2)), curves, generator)


def signs(number: int, classes: int, seed: int = 1) -> Digits:
    """Images of invented signs: each class one or two curves, drawn again and again by an unsteady hand; no data.

    A network that tells them apart has met strokes, ends and corners before it meets a digit: a public start.
    """
    generator = np.random.default_rng(seed)
    curves = 1 + (generator.random(classes) < 0.6).astype(int)
    points = generator.standard_normal((classes, 2, 4, 2))
    labels = np.arange(number) % classes
    turns = np.eye(2) + 0.2 * generator.standard_normal((number, 1, 2, 2))
    unsteady = points[labels] + 0.25 * generator.standard_normal((number, 2, 4, 2))
    return Digits(_inked(unsteady @ turns, curves[labels], generator), labels.astype(np.int32))


def _inked(
    points: NDArray[np.float64], curves: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.float32]:
    """Curves through points, as large as digits are: 18 pixels along the longer side, centred by their mass."""
    traces = np.einsum("ta,ncad->nctd", _bezier(np.linspace(0.0, 1.0, 40)), points)
    traces[curves == 1, 1] = traces[curves == 1, 0]
    traces = traces.reshape(len(points), -1, 2)
    traces *= 18.0 / np.ptp(traces, axis=1).max(axis=1)[:, None, None]
    traces += 13.5 - traces.mean(axis=1, keepdims=True)
    width = generator.uniform(0.8, 1.6, len(points))
    return np.concatenate(
        [_drawn(traces[first : first + 500], width[first : first + 500]) for first in range(0, len(points), 500)]
    )


def _bezier(times: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([math.comb(3, k) * times**k * (1 - times) ** (3 - k) for k in range(4)], axis=1)


def _drawn(traces: NDArray[np.float64], width: NDArray[np.float64]) -> NDArray[np.float32]:
    """Ink by the distance of a pixel from the curve."""
    grid = np.arange(28.0)
    down, across = ((grid[None, None, :] - traces[:, :, axis, None]) ** 2 for axis in (0, 1))
    nearest = np.full((len(traces), 28, 28), np.inf, np.float32)
    for point in range(traces.shape[1]):
        square = (down[:, point, :, None] + across[:, point, None, :]).astype(np.float32)
        np.minimum(nearest, square, out=nearest)
    return np.clip(1.5 - np.sqrt(nearest) / width[:, None, None].astype(np.float32), 0.0, 1.0)


class Whitener(NamedTuple):
    """A public linear map of features: less the mean of the strokes' features, in the metric of their covariance."""

    centre: Array
    root: Array

    def __call__(self, rows: Array) -> Array:
        """Rows of length 1 (a row's own function)."""
        turned = (rows - self.centre) @ self.root
        return turned / jnp.maximum(jnp.linalg.norm(turned, axis=1, keepdims=True), 1e-6)


def scattering_rows(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scattering features, normalised in groups of channels, flat."""
    maps = FEATURES.in_parts(images)
    return np.concatenate(
        [
            np.asarray(group_normalised(jnp.asarray(maps[first : first + 5000]), GROUPS)).reshape(-1, _width())
            for first in range(0, len(maps), 5000)
        ]
    )


def _width() -> int:
    return FEATURES.channels * FEATURES.points**2


def whitener(rows: NDArray[np.float32], damping: float, power: float = 0.5) -> Whitener:
    """From features of strokes: covariance + damping times its mean eigenvalue, to the power -`power`."""
    centre = jnp.asarray(rows.mean(axis=0))
    moved = jnp.asarray(rows) - centre
    values, vectors = jnp.linalg.eigh(moved.T @ moved / len(rows))
    values = jnp.maximum(values, 0.0) + damping * jnp.mean(values)
    return Whitener(centre, (vectors * values ** (-power)) @ vectors.T)


def linear_start(width: int) -> dict[str, Array]:
    """A linear head at 0."""
    return {"w": jnp.zeros((width, CLASSES)), "b": jnp.zeros(CLASSES)}


def linear_scores(params: Any, row: Array) -> Array:
    """Scores of the classes from a row of features."""
    return row @ params["w"] + params["b"]


def network_start(key: Array) -> dict[str, Array]:
    """The small convolutional network of opacus's MNIST example, 26,010 parameters, uniform start by fan-in."""
    shapes = {"c1": (8, 8, 1, 16), "c2": (4, 4, 16, 32), "d1": (512, 32), "d2": (32, CLASSES)}
    params = {}
    for place, (name, shape) in enumerate(shapes.items()):
        edge = 1.0 / math.sqrt(math.prod(shape[:-1]))
        first, second = jax.random.split(jax.random.fold_in(key, place))
        params[name] = jax.random.uniform(first, shape, minval=-edge, maxval=edge)
        params[f"{name}b"] = jax.random.uniform(second, shape[-1:], minval=-edge, maxval=edge)
    return params


def taught_start(key: Array, activation: Any = jax.nn.relu, classes: int = 200, steps: int = 3000) -> dict[str, Array]:
    """The same network after it has learnt to tell invented signs apart, with a fresh last layer: public, no data."""
    met = signs(150 * classes, classes)
    images, labels = jnp.asarray(met.images), jnp.asarray(met.labels)
    start = network_start(key)
    wide = {"d2": 0.1 * jax.random.normal(key, (32, classes)), "d2b": jnp.zeros(classes)}

    def mean_loss(params: Any, step_key: Array) -> Array:
        chosen_key, move_key = jax.random.split(step_key)
        chosen = jax.random.randint(chosen_key, (256,), 0, len(images))
        moved = jax.vmap(shifted)(jax.random.split(move_key, 256), images[chosen])
        scores = jax.vmap(partial(network_scores, params, activation=activation))(moved)
        return jnp.mean(jax.vmap(cross_entropy)(scores, labels[chosen]))

    def stepped(k: Array, carry: Any) -> Any:
        params, velocity = carry
        gradient = jax.grad(mean_loss)(params, jax.random.fold_in(key, k))
        velocity = jax.tree.map(lambda old, new: 0.9 * old + new, velocity, gradient)
        rate = 0.05 * (1.0 - k / steps)
        return jax.tree.map(lambda one, move: one - rate * move, params, velocity), velocity

    zeros = jax.tree.map(jnp.zeros_like, start | wide)
    taught, _ = jax.jit(lambda begun: lax.fori_loop(0, steps, stepped, begun))((start | wide, zeros))
    return taught | {name: start[name] for name in ("d2", "d2b")}


ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
STARTS = {"drawn": lambda key, _: network_start(key), "taught": taught_start}


def network_scores(params: Any, image: Array, activation: Any = jax.nn.relu) -> Array:
    """Scores of the classes from one image of 28 by 28."""
    # Mean and deviation that examples for MNIST commonly state: of its training rows, and outside the guarantee.
    shown = (image[None, :, :, None] - 0.1307) / 0.3081
    shown = activation(_convolved(shown, params["c1"], params["c1b"], 3))
    shown = activation(_convolved(_pooled(shown), params["c2"], params["c2b"], 0))
    flat = _pooled(shown).reshape(-1)
    return activation(flat @ params["d1"] + params["d1b"]) @ params["d2"] + params["d2b"]


def _convolved(images: Array, kernel: Array, bias: Array, pad: int) -> Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(images, kernel, (2, 2), [(pad, pad)] * 2, dimension_numbers=numbers) + bias


def _pooled(images: Array) -> Array:
    """The largest of two by two neighbours, at every place."""
    across = jnp.maximum(images[:, 1:], images[:, :-1])
    return jnp.maximum(across[:, :, 1:], across[:, :, :-1])


def cross_entropy(scores: Array, label: Array) -> Array:
    """The loss of one example."""
    return -jax.nn.log_softmax(scores)[label]


def shifted(key: Array, image: Array, most: int = 2) -> Array:
    """The image moved by up to so many pixels each way."""
    moves = jax.random.randint(key, (2,), 0, 2 * most + 1)
    return lax.dynamic_slice(jnp.pad(image, most), (moves[0], moves[1]), image.shape)
