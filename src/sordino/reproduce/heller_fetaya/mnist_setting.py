"""Section V and Appendix E of Heller & Fetaya: LeNet-5 on MNIST, in batches of four, plain and clipped."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.audit.fleet import FleetPlan
from sordino.audit.neural import Claimed, NeuralData, NeuralSetting, PilotRound
from sordino.core.spec import Batch, Scheme
from sordino.data.benchmark import ImageBenchmark
from sordino.model.domain import Domain
from sordino.model.lenet import LeNet5

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
            plan=FleetPlan(STEP, NOISE, batch, self.epochs, seed, clip_norm=self.clip_norm),
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
VARIANTS = (PLAIN, PLAIN_TANH, CLIPPED)


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
