"""Algorithm 2 of Appendix F.1, line by line in NumPy, and the chain that Sordino runs for the same spec."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.bound import Relation, View
from sordino.core.spec import Batch, Clipping, ClippingKind, Scheme
from sordino.core.validate import instance_of
from sordino.mechanisms import LastIterate, SeededRandomness, noisy_sgd, run
from sordino.model import Domain, Softmax

Array = NDArray[np.float64]

RECORDS, FEATURES, CLASSES, BATCH, EPOCHS = 60, 3, 3, 10, 5
STEP_SIZE, DECAY, SENSITIVITY, FEATURE_CLIP = 0.5, 0.05, 1.0, 1.0


@dataclass(frozen=True)
class Table:
    """Rows with the intercept's 1 appended, features clipped to FEATURE_CLIP, and labels 0, 1, ..."""

    rows: Array
    labels: NDArray[np.int64]

    @classmethod
    def drawn(cls, seed: int) -> "Table":
        """A random dataset."""
        rng = np.random.default_rng([seed, 29])
        features = rng.standard_normal((RECORDS, FEATURES))
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        clipped = features / lengths * np.minimum(lengths, FEATURE_CLIP)
        labels = rng.integers(0, CLASSES, RECORDS)
        return cls(np.hstack([clipped, np.ones((RECORDS, 1))]), labels)


def loss_gradient(theta: Array, row: Array, label: int) -> Array:
    """The gradient (170) of the unregularised loss, theta of shape (features + 1, classes)."""
    scores: Array = row @ theta
    chances: Array = np.exp(scores - scores.max())
    chances /= chances.sum()
    chances[label] -= 1.0
    return row[:, None] * chances[None, :]


def algorithm_two(
    data: Table, multiplier: float, order: NDArray[np.int64], rng: np.random.Generator, *, as_printed: bool = False
) -> Array:
    """The last iterate. `as_printed` puts the regularised gradient into the clipped numerator, as Algorithm 2 does.

    Proposition F.2 clips the unregularised gradient, and so does this function otherwise.
    """
    theta = np.zeros((FEATURES + 1, CLASSES))
    half = SENSITIVITY / 2
    batches = order.reshape(-1, BATCH)
    for _ in range(EPOCHS):
        for batch in batches:
            total = np.zeros_like(theta)
            for record in batch:
                gradient = loss_gradient(theta, data.rows[record], int(data.labels[record]))
                length = float(np.linalg.norm(gradient))
                numerator = gradient + DECAY * theta if as_printed else gradient
                total += numerator / length * min(length, half)
            step = total / BATCH + DECAY * theta
            noise = STEP_SIZE / BATCH * multiplier * half * rng.standard_normal(theta.shape)
            theta = theta - STEP_SIZE * step + noise
    return theta


def printed_sensitivity(length: float, share: float) -> float:
    """How far apart two records' clipped gradients can be in Algorithm 2 as printed, at |theta| = length.

    One record has a gradient within the clip, the other one that is clipped to `share` of itself, both orthogonal to
    theta and opposite: S_g between them, and (1 - share) lambda |theta| more across it, from the regulariser.
    """
    return math.hypot(SENSITIVITY, (1 - share) * DECAY * length)


def our_chain(data: Table, multiplier: float, scheme: Scheme, chains: int, seed: int) -> Array:
    """Last iterates of the chain as Sordino runs it, shape (chains, features + 1, classes)."""
    clipping = Clipping(ClippingKind.NORM, SENSITIVITY / 2, CLASSES)
    model = Softmax(classes=CLASSES, weight_decay=DECAY)
    domain = Domain(FEATURES + 1, math.sqrt(FEATURE_CLIP**2 + 1) * (1 + 1e-6), classes=CLASSES)
    spec = noisy_sgd(
        model.problem(RECORDS, domain, clipping),
        step_size=STEP_SIZE,
        batch=Batch(scheme, BATCH),
        noise_scale=STEP_SIZE / BATCH * multiplier * SENSITIVITY / 2,
        clipping=clipping,
        steps=EPOCHS * RECORDS // BATCH,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
    ).with_values({"algorithm.chains": chains})
    labels = data.labels.astype(np.float64)
    released = run(spec, model, data.rows.astype(np.float32), labels, SeededRandomness(seed))
    found = np.asarray(instance_of("release", released, LastIterate).iterates, np.float64)
    return found.reshape(chains, FEATURES + 1, CLASSES)


def equivalent_sigma(multiplier: float) -> float:
    """sigma of Algorithm 1 for a noise multiplier: sqrt(eta / 2) sigma_mul S_g / (2 b)."""
    return math.sqrt(STEP_SIZE / 2) * multiplier * SENSITIVITY / (2 * BATCH)


def printed_sigma(multiplier: float) -> float:
    """As the text of F.1 reads, with n in the place of eta."""
    return math.sqrt(RECORDS / 2) * multiplier * SENSITIVITY / (2 * BATCH)
