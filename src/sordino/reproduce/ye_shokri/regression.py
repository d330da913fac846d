"""Private softmax regression by noisy mini-batch gradient descent, its noise calibrated with one named theorem."""

import math
from dataclasses import dataclass

import numpy as np

from sordino.algorithm import LastIterate, SeededRandomness, noisy_sgd, run
from sordino.core.relation import Relation
from sordino.core.spec import Batch, Clipping, ClippingKind, Scheme, Spec
from sordino.core.validate import instance_of
from sordino.core.view import View
from sordino.model import Domain, Softmax
from sordino.reproduce.bounds import epsilon_of
from sordino.reproduce.least_noise import least_noise
from sordino.reproduce.ye_shokri.rows import Rows

DELTA = 1e-5
STEP_SIZE, DECAY, BATCHES, CLASSES = 3.5, 1e-3, 10, 10
# The paper also clips gradients by norm; the smoothness of the unclipped loss is then claimed to survive.
CLIP = 0.5


@dataclass(frozen=True)
class Method:
    """How noise is chosen: a batch scheme, the theorem that certifies it, and whether gradients are clipped by norm.

    `claimed`: the theorem is told that clipped gradients contract like unclipped ones (Proposition F.2), which is
    false. Composition needs no contraction, so it may clip.
    """

    name: str
    scheme: Scheme
    theorem: str
    norm_clipped: bool = False
    claimed: bool = False

    @property
    def valid(self) -> bool:
        """Whether the calibrated noise gives the stated epsilon."""
        return not self.claimed


def model() -> Softmax:
    """Softmax regression with weight decay; rows of length one make gradients at most sqrt(2) long."""
    return Softmax(classes=CLASSES, weight_decay=DECAY)


def as_run(method: Method, rows: Rows, epochs: int, noise: float) -> Spec:
    """The chain that is executed."""
    clipping = Clipping(ClippingKind.NORM, CLIP, CLASSES) if method.norm_clipped else None
    domain = Domain(rows.train.shape[1], 1.0, classes=CLASSES)
    return noisy_sgd(
        model().problem(rows.records, domain, clipping),
        step_size=STEP_SIZE,
        batch=Batch(method.scheme, rows.records // BATCHES),
        noise_scale=noise,
        clipping=clipping,
        steps=epochs * BATCHES,
        relation=Relation.REPLACE_ONE,
        view=View.LAST_ITERATE,
    )


def as_accounted(method: Method, rows: Rows, epochs: int, noise: float) -> Spec:
    """The chain the theorem is asked about: the one executed, or for norm clipping the paper's claim about it."""
    if method.valid:
        return as_run(method, rows, epochs, noise)
    claimed = {
        "n": rows.records,
        "dim": rows.train.shape[1] * CLASSES,
        "gradient_sensitivity": 2 * CLIP,
        "gradient_bound": CLIP,
        "strong_convexity": DECAY,
        "smoothness": 0.5 + DECAY,
    }
    return as_run(method, rows, epochs, noise).with_values({"problem": claimed, "algorithm.clipping": None})


def calibrated_noise(method: Method, rows: Rows, epochs: int, epsilon: float) -> float:
    """The least noise, to one part in a thousand, with which the method's theorem gives at most epsilon."""

    def enough(noise: float) -> bool:
        return epsilon_of(method.theorem, as_accounted(method, rows, epochs, noise), DELTA) <= epsilon

    return least_noise(enough, f"{method.theorem} to reach epsilon {epsilon:g}")


def accuracy(method: Method, rows: Rows, epochs: int, noise: float, seed: int) -> float:
    """Share of test images classified correctly by the last iterate of one chain."""
    released = run(as_run(method, rows, epochs, noise), model(), rows.train, rows.train_labels, SeededRandomness(seed))
    theta = instance_of("release", released, LastIterate).iterates[0].reshape(-1, CLASSES)
    return float(np.mean(np.argmax(rows.test @ theta, axis=1) == rows.test_labels))


def multiplier(method: Method, rows: Rows, noise: float) -> float:
    """The paper's sigma_mul: noise = eta sigma_mul S_g / (2 b), S_g the sensitivity."""
    sensitivity = 2 * CLIP if method.norm_clipped else 2 * math.sqrt(2.0)
    return noise * 2 * (rows.records // BATCHES) / (STEP_SIZE * sensitivity)
