"""Images as rows of length one: normalised image by image, which costs no privacy, with an intercept."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.data import load_benchmark
from sordino.reproduce.options import Options

# The intercept's share of a row's length.
_INTERCEPT = 0.3
_RECORDS = 10_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Training and test rows, |x| = 1 with the intercept, and labels 0, 1, ..., 9."""

    name: str
    train: NDArray[np.float32]
    train_labels: NDArray[np.float64]
    test: NDArray[np.float32]
    test_labels: NDArray[np.int64]

    @property
    def records(self) -> int:
        """The number of private records."""
        return len(self.train)


def rows(options: Options) -> Rows:
    """The first 10,000 MNIST digits, averaged to 14 x 14, from the data folder; scikit-learn's digits without one."""
    if options.data_dir is None or not (options.data_dir / "mnist.npz").is_file():
        return _digits()
    found = load_benchmark("mnist", options.data_dir)
    count = 2000 if options.quick else _RECORDS
    return Rows(
        f"MNIST, first {count} records, averaged to 14 x 14",
        _unit(coarse(found.train_images[:count])),
        found.train_labels[:count].astype(np.float64),
        _unit(coarse(found.test_images)),
        found.test_labels.astype(np.int64),
    )


def _digits() -> Rows:
    from sklearn.datasets import load_digits  # noqa: PLC0415

    found: Any = load_digits()
    images, labels, count = np.asarray(found.data, float), np.asarray(found.target), 1400
    return Rows(
        f"scikit-learn digits, first {count} records",
        _unit(images[:count]),
        labels[:count].astype(np.float64),
        _unit(images[count:]),
        labels[count:].astype(np.int64),
    )


def coarse(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """28 x 28 pixels averaged to 14 x 14, a row an image."""
    return images.reshape(len(images), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)


def _unit(images: NDArray[np.float64]) -> NDArray[np.float32]:
    """Group normalisation with one group: each image loses its own mean and is scaled to one length."""
    centred = images - images.mean(axis=1, keepdims=True)
    scaled = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    intercept = np.full((len(scaled), 1), _INTERCEPT)
    # Single precision may round a row up; a millionth less keeps every row within length one.
    return (np.hstack([np.sqrt(1 - _INTERCEPT**2) * scaled, intercept]) * (1 - 1e-6)).astype(np.float32)
