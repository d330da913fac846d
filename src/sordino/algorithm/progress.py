"""How far a run is; whoever runs it may ask to be told."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Steps made so far, of all steps, and the seconds since this process began or took up the run."""

    step: int
    steps: int
    seconds: float

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.step / self.steps


# Called after every block of steps, from the thread that runs the chain; it should answer quickly.
ProgressCallback = Callable[[Progress], None]
