"""Private batch normalisation of features, as the first line of Algorithm 2 asks: noisy means and squares, composed.

Every record shows its features, clipped to a public length C, once to a release of their means and once to one of
their mean squares. Replacing a record moves the means by at most 2C/n and the mean squares, vectors without negative
entries and at most C^2 long, by at most sqrt(2) C^2/n. Everything after that reads the noisy statistics and the record
itself, so the training composes with the two releases.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.compose import compose
from sordino.core.errors import SordinoError
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.data import load_benchmark
from sordino.reproduce.bounds import bound_of
from sordino.reproduce.least_noise import least_noise
from sordino.reproduce.options import Options
from sordino.reproduce.ye_shokri.regression import DELTA, Method, as_accounted
from sordino.reproduce.ye_shokri.rows import Rows, coarse

Array = NDArray[np.float64]

LENGTH = 4.0
_FLOOR = 0.02
_INTERCEPT = 0.3
_DIGITS, _MNIST = 1400, 10_000


@dataclass(frozen=True, eq=False)
class Images:
    """Pixels between 0 and 1, and labels."""

    name: str
    train: Array
    train_labels: Array
    test: Array
    test_labels: NDArray[np.int64]


def images(options: Options) -> Images:
    """The first MNIST digits, averaged to 14 x 14, from the data folder; scikit-learn's digits without one."""
    if options.data_dir is None or not (options.data_dir / "mnist.npz").is_file():
        return _digits()
    found = load_benchmark("mnist", options.data_dir)
    count = 2000 if options.quick else _MNIST
    train, test = (coarse(part) / 255 for part in (found.train_images[:count], found.test_images))
    labels = found.train_labels[:count].astype(float)
    return Images(f"MNIST, first {count} records, 14 x 14", train, labels, test, found.test_labels.astype(np.int64))


def _digits() -> Images:
    from sklearn.datasets import load_digits  # noqa: PLC0415

    found: Any = load_digits()
    pixels, labels = np.asarray(found.data, float) / 16, np.asarray(found.target)
    return Images(
        f"scikit-learn digits, first {_DIGITS} records",
        pixels[:_DIGITS],
        labels[:_DIGITS].astype(float),
        pixels[_DIGITS:],
        labels[_DIGITS:].astype(np.int64),
    )


def cost(multiplier: float) -> GaussianDP:
    """Both releases, each with noise `multiplier` times its sensitivity."""
    return GaussianDP(math.sqrt(2) / multiplier)


def normalised(given: Images, multiplier: float, seed: int) -> Rows:
    """Rows of length at most one with an intercept, scaled by noisy means and variances; 0 noise is not private."""
    rng = np.random.default_rng([seed, 47])
    clipped, clipped_test = _clip(given.train, LENGTH), _clip(given.test, LENGTH)
    count = len(clipped)
    mean = clipped.mean(0) + multiplier * 2 * LENGTH / count * rng.standard_normal(clipped.shape[1])
    squares = (clipped**2).mean(0)
    squares = squares + multiplier * math.sqrt(2) * LENGTH**2 / count * rng.standard_normal(clipped.shape[1])
    scale = np.sqrt(np.maximum(squares - mean**2, _FLOOR))
    made = [_unit((rows - mean) / scale) for rows in (clipped, clipped_test)]
    return Rows("batch normalisation", made[0], given.train_labels, made[1], given.test_labels)


def by_image(given: Images) -> Rows:
    """Group normalisation: every image by its own mean and length, which costs nothing."""
    made = [_unit(rows - rows.mean(axis=1, keepdims=True)) for rows in (given.train, given.test)]
    return Rows("group normalisation", made[0], given.train_labels, made[1], given.test_labels)


def unscaled(given: Images) -> Rows:
    """No normalisation: pixels clipped to a length and divided by it."""
    made = [_unit(_clip(rows, LENGTH) / LENGTH, stretch=False) for rows in (given.train, given.test)]
    return Rows("as they are", made[0], given.train_labels, made[1], given.test_labels)


def training(method: Method, rows: Rows, epochs: int, noise: float) -> Guarantee:
    """What the method's theorem says of the training alone."""
    bound = bound_of(method.theorem, as_accounted(method, rows, epochs, noise))
    if bound is None:
        raise SordinoError(f"Expected {method.theorem} to apply to this training, got that it does not.")
    return bound.guarantee


def whole_epsilon(method: Method, rows: Rows, epochs: int, noise: float, release: GaussianDP | None) -> float:
    """Training and normalisation together."""
    alone = training(method, rows, epochs, noise)
    both = alone if release is None else compose([(alone, 1), (release, 1)])
    return both.epsilon(DELTA)


def needed_noise(method: Method, rows: Rows, epochs: int, epsilon: float, release: GaussianDP | None) -> float:
    """The least training noise with which the whole keeps within epsilon; infinite where the release alone does not."""
    if release is not None and release.epsilon(DELTA) >= epsilon:
        return math.inf
    return least_noise(
        lambda noise: whole_epsilon(method, rows, epochs, noise, release) <= epsilon,
        f"training and normalisation to keep within epsilon {epsilon:g}",
    )


def _clip(rows: Array, length: float) -> Array:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, length / np.maximum(lengths, 1e-12))


def _unit(rows: Array, *, stretch: bool = True) -> NDArray[np.float32]:
    """Rows of length one (or at most one) with an intercept; a millionth less, for single precision."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled = rows / np.maximum(lengths, 1e-9) if stretch else _clip(rows, 1.0)
    with_intercept = np.hstack([math.sqrt(1 - _INTERCEPT**2) * scaled, np.full((len(rows), 1), _INTERCEPT)])
    return (with_intercept * (1 - 1e-6)).astype(np.float32)
