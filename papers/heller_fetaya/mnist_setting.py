"""The MNIST experiment of Heller and Fetaya: its settings, a small stand-in, and the arrays recorded on a GPU."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers.framework.benchmark import ImageBenchmark
from papers.heller_fetaya.fleet import FanInStart
from papers.heller_fetaya.lenet import LeNet5
from papers.heller_fetaya.network_audit import Halves, NeuralFindings, findings_of
from papers.heller_fetaya.network_canary import Canary, Claimed, NeuralData, NeuralSetting, PilotRound
from sordino.auditing.fleet import FleetPlan
from sordino.core.spec import Batch, Scheme
from sordino.core.validate import InputError
from sordino.models.facts import Domain
from sordino.models.families.networks import MLPClassification

# Section V and Appendix E of Heller & Fetaya: LeNet-5 on MNIST, in batches of four, plain and clipped.

RECORDS = 60_000
BATCH = 4
# The paper's rate of 0.001 is for the sum of a batch's gradients; a plan's step is for their mean.
STEP = 0.001 * BATCH
NOISE = (2.0 * STEP / RECORDS) ** 0.5
CLIP_NORM = 0.2
CLAIMED = Claimed(delta=1e-5, confidence=0.90)
# Pixels as they are usually given to LeNet-5: published mean and deviation of MNIST, not read from the records.
_CENTRE, _SCALE = 0.1307, 0.3081
# The longest image there could be: every pixel white.
DOMAIN = Domain(28 * 28, 28.0 * (1.0 - _CENTRE) / _SCALE, classes=10)
_EVERY = 5  # of the test images, which gives 2,000


@dataclass(frozen=True)
class CanaryChoice:
    """How many records are tried, how far they are pushed, and the rounds of trial; without any, the pull decides."""

    tries: int
    beyond: tuple[float, ...] = (1.0,)
    pilot: tuple[PilotRound, ...] = ()


@dataclass(frozen=True)
class Variant:
    """One of the experiments, with the numbers the paper gives for it and the activation it does not give."""

    name: str
    activation: str
    clip_norm: float | None
    learning: int
    testing: int
    epochs: int
    paper_accuracy: str
    choice: CanaryChoice

    @property
    def model(self) -> LeNet5:
        """The network, with the prior N(0, 1) for all weights as a share of the mean loss."""
        return LeNet5(self.activation, weight_decay=1.0 / RECORDS)

    def setting(self, seed: int) -> NeuralSetting:
        """The experiment in full."""
        batch = Batch(Scheme.SHUFFLE_ONCE, BATCH)
        return NeuralSetting(
            plan=FleetPlan(STEP, NOISE, batch, self.epochs, seed, clip_norm=self.clip_norm, start=FanInStart()),
            learning=self.learning,
            testing=self.testing,
            ensemble=32,
            ensemble_epochs=5,
            tries=self.choice.tries,
            claimed=CLAIMED,
            beyond=self.choice.beyond,
            pilot=self.choice.pilot,
        )


_BY_PULL = CanaryChoice(24)
# Numbers of models that fill a device of 132 multiprocessors: 264 in the first round, 132 in the second.
_BY_TRIAL = CanaryChoice(
    40,
    (4.0, 8.0, 16.0),
    (
        PilotRound(candidates=48, of_d=72, each=4, epochs=8),
        PilotRound(candidates=4, of_d=44, each=22, epochs=15),
    ),
)
PLAIN = Variant("plain", "relu", None, 500, 500, 25, "98-99 %", _BY_TRIAL)
PLAIN_TANH = Variant("plain-tanh", "tanh", None, 500, 500, 19, "98-99 %", _BY_PULL)
CLIPPED = Variant("clipped", "tanh", CLIP_NORM, 200, 200, 31, "90.6 %", _BY_PULL)
# Rectified networks with a canary that is pushed just until it fools the ensemble, as in the run with tangents.
PLAIN_NEAR = Variant("plain-near", "relu", None, 500, 500, 22, "98-99 %", _BY_PULL)
VARIANTS = (PLAIN, PLAIN_TANH, CLIPPED, PLAIN_NEAR)


# The upper curve of Figure 3 as Appendix E computes it: Opacus's accountant, converted by Proposition III.4.

# Opacus's default orders end here, and the last one is the best for this chain; III.4 then gives at least 0.1856.
_LAST_ORDER = 63


def papers_accounting(plan: FleetPlan, records: int, epochs: int) -> float:
    """Epsilon of a clipped chain after so many epochs: Rényi composition of sampled Gaussian steps, batches afresh.

    It is about Poisson batches and adding or removing a record, as Opacus counts; not about passes over the data.
    """
    if plan.clip_norm is None or plan.batch.size is None:
        raise InputError("Expected a chain with clipped gradients and batches, got one without; name its clip norm.")
    rate = plan.batch.size / records
    # One clipped gradient moves the sum of a batch by the clip, and a step by its share.
    multiplier = plan.noise_scale / (plan.step_size / plan.batch.size * plan.clip_norm)
    steps = epochs * records // plan.batch.size
    return min(
        steps * _sampled_gaussian(order, rate, multiplier) + math.log(1 / CLAIMED.delta) / (order - 1)
        for order in range(2, _LAST_ORDER + 1)
    )


def _sampled_gaussian(order: int, rate: float, multiplier: float) -> float:
    """Mironov, Talwar & Zhang 2019, Section 3.3: the divergence of one step at a whole order."""
    terms = [
        math.log(math.comb(order, k))
        + (order - k) * math.log1p(-rate)
        + (k * math.log(rate) if k else 0.0)
        + (k * k - k) / (2 * multiplier**2)
        for k in range(order + 1)
    ]
    # The sum is one plus very little: the two terms that make up the one are added without rounding it away.
    rest = math.fsum(math.exp(term) for term in terms[2:])
    both = math.expm1(order * math.log1p(-rate)) + order * rate * math.exp((order - 1) * math.log1p(-rate))
    return max(0.0, math.log1p(both + rest)) / (order - 1)


def mnist_data(images: ImageBenchmark) -> NeuralData:
    """MNIST as the network sees it, with every fifth test image to measure accuracy on."""
    return NeuralData(
        _rows(images.train_images),
        images.train_labels.astype(np.float32),
        _rows(images.test_images[::_EVERY]),
        images.test_labels[::_EVERY].astype(np.float32),
        DOMAIN,
    )


def _rows(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return ((images.reshape(len(images), -1) / 255.0 - _CENTRE) / _SCALE).astype(np.float32)


# The same experiment in a few seconds on any machine: a small network on generated 8 x 8 images.

SMALL_RECORDS, TEST, SIDE, CLASSES, EPOCHS = 80, 200, 8, 4, 8
MODEL = MLPClassification(hidden=(8,), classes=CLASSES, activation="relu", weight_decay=1.0 / SMALL_RECORDS)
SMALL_DOMAIN = Domain(SIDE * SIDE, 16.0, classes=CLASSES)


def generated_data(seed: int) -> NeuralData:
    """Each class an image of its own, drawn once, in noise of the same size."""
    rng = np.random.default_rng(seed)
    patterns = rng.standard_normal((CLASSES, SIDE * SIDE))

    def drawn(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        codes = np.arange(count) % CLASSES
        rows = patterns[codes] + rng.standard_normal((count, SIDE * SIDE))
        rows *= np.minimum(1.0, SMALL_DOMAIN.row_norm.value / np.linalg.norm(rows, axis=1, keepdims=True))
        return (0.5 * rows).astype(np.float32), codes.astype(np.float32)

    return NeuralData(*drawn(SMALL_RECORDS), *drawn(TEST), SMALL_DOMAIN)


def small_setting(clip_norm: float | None, seed: int) -> NeuralSetting:
    """A sixteenth of the models, and steps that learn this little data in a few epochs."""
    step, noise = (0.2, 1e-3) if clip_norm is None else (0.4, 0.03)
    return NeuralSetting(
        plan=FleetPlan(step, noise, Batch(Scheme.CYCLIC, BATCH), EPOCHS, seed, clip_norm=clip_norm, start=FanInStart()),
        learning=32,
        testing=32,
        ensemble=4,
        ensemble_epochs=4,
        tries=4,
        claimed=CLAIMED,
    )


# What a fleet's run leaves behind: a small file for each variant, rewritten after every epoch.

# The label is kept, so of the paper's four probabilities two are the other two once more: canary, record.
_DISTINCT, _AGAIN = (0, 2), (0, 0, 1, 1)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run of one variant: its seed, its canary, and for each epoch and model two probabilities and an accuracy."""

    variant: str
    seed: int
    canary: Canary
    probabilities: NDArray[np.float32]
    accuracy: NDArray[np.float32]
    seconds: NDArray[np.float64]

    def save(self, folder: Path) -> None:
        """Put the file in place in one move."""
        part = folder / f"{self.variant}.npz.part"
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                seed=np.int64(self.seed),
                row=np.int64(self.canary.row),
                label=np.int64(self.canary.label),
                x_zero=self.canary.x_zero,
                x_star=self.canary.x_star,
                length=np.float64(self.canary.length),
                pull=np.float64(self.canary.pull),
                probabilities=self.probabilities,
                accuracy=self.accuracy,
                seconds=self.seconds,
            )
        part.replace(folder / f"{self.variant}.npz")

    def findings(self, variant: Variant) -> NeuralFindings:
        """The attacks on what was recorded."""
        halves = Halves(variant.learning // 2, variant.testing // 2)
        readings = {"probabilities": self.probabilities[..., _AGAIN], "accuracy": self.accuracy}
        return findings_of(readings, halves, CLAIMED, self.seed)


def load_recorded(folder: Path, variant: Variant) -> Recorded:
    """The committed run of a variant."""
    path = folder / f"{variant.name}.npz"
    if not path.is_file():
        raise InputError(f"Expected a recorded run in {path.name}, got no such file; run the fleet on a GPU first.")
    with np.load(path, allow_pickle=False) as held:
        canary = Canary(
            int(held["row"]),
            int(held["label"]),
            held["x_zero"],
            held["x_star"],
            float(held["length"]),
            float(held["pull"]),
        )
        arrays = (held["probabilities"], held["accuracy"], held["seconds"])
        return Recorded(variant.name, int(held["seed"]), canary, *arrays)


def distinct(readings: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """One epoch's probabilities without those that are there twice."""
    return readings["probabilities"][:, _DISTINCT]
