"""What a fleet's run leaves behind: a small file for each variant, rewritten after every epoch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.audit.neural import Canary, Halves, NeuralFindings, findings_of
from sordino.core.errors import InputError
from sordino.reproduce.heller_fetaya.mnist_setting import CLAIMED, Variant

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
