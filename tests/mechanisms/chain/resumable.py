"""A chain in a process of its own, to be stopped and taken up: `python resumable.py FOLDER SECONDS SCHEME`.

The checkpoint is in FOLDER; SECONDS is the time a block of steps takes at least.
"""

import sys
import time
from pathlib import Path

import numpy as np

from sordino.core.spec import Spec
from sordino.mechanisms import Checkpoint, SeededRandomness, run
from sordino.mechanisms.chain.run import Progress
from sordino.models.families.classification import Logistic

STEPS, BLOCK = 96, 4


def spec_of(scheme: str = "poisson") -> Spec:
    batch = {"scheme": scheme} | ({} if scheme == "full" else {"size": 5})
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": STEPS,
                "step_size": 0.1,
                "noise": {"kind": "stable", "alpha": 1.7, "scale": 0.1},
                "batch": batch,
                "chains": 2,
                "keep": "all",
            },
            "problem": {"n": 23, "dim": 3},
            "relation": "replace-one",
            "view": "all-iterates",
        }
    )


def rows() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(23, 3)), generator.choice([-1.0, 1.0], 23)


def iterates(folder: Path, progress: Progress | None = None, scheme: str = "poisson") -> np.ndarray:
    """Begin the run, or take it up from the checkpoint in the folder."""
    release = run(
        spec_of(scheme),
        Logistic(),
        *rows(),
        SeededRandomness(5),
        steps_per_block=BLOCK,
        checkpoint=Checkpoint(folder / "run.checkpoint", every=0.0),
        progress=progress,
    )
    return release.iterates


def main() -> None:
    folder, wait, scheme = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]

    def slowly(step: int, _: int) -> None:
        (folder / "begun").write_text(str(step))
        time.sleep(wait)

    iterates(folder, slowly, scheme)


if __name__ == "__main__":
    main()
