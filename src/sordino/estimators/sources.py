"""Fresh randomness for each part of a fit: secure, or reproducible from a seed and then not private."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sordino.algorithm.randomness import Randomness, SeededRandomness
from sordino.algorithm.secure_randomness import SecureRandomness


@dataclass
class Sources:
    """Gives every part of a fit a source of its own, so that no noise is used twice.

    `replayed` takes the place of both kinds: a fit that is recorded or replayed gets its sources from there.
    """

    seed: int | None
    replayed: Callable[[], Randomness] | None = None
    _given: int = field(default=0, init=False)

    @property
    def private(self) -> bool:
        """Whether the noise is secret."""
        return self.seed is None and self.replayed is None

    def ready(self) -> None:
        """Refuse where no secure source can be had; asked before anything is debited."""
        if self.private:
            SecureRandomness()

    def fresh(self) -> Randomness:
        """The next source."""
        if self.replayed is not None:
            return self.replayed()
        self._given += 1
        if self.seed is None:
            return SecureRandomness()
        words = np.random.SeedSequence(self.seed, spawn_key=(self._given,)).generate_state(2, np.uint64)
        return SeededRandomness(int(words[0]) << 64 | int(words[1]))
