"""What can go wrong with a checkpoint, and how a stopped run says where it stands."""

from pathlib import Path
from typing import ClassVar

from sordino.core.errors import InputError, SordinoError


class CheckpointError(InputError):
    """A checkpoint cannot be written, or cannot be used for this run."""


class Interrupted(SordinoError):
    """A run was asked to stop; the checkpoint at `path` holds it as it was after `step` of `steps` steps."""

    exit_code: ClassVar[int] = 130

    def __init__(self, path: Path, step: int, steps: int) -> None:
        super().__init__(
            f"Stopped after step {step} of {steps} as asked; run the same command again to go on from {str(path)!r}."
        )
        self.path, self.step, self.steps = path, step, steps
