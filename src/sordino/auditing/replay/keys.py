"""Where the keys of noise come from: each source has 256 secret bits of its own, and no part of it repeats another."""

from collections.abc import Callable
from itertools import combinations

import numpy as np

from sordino.algorithm.noise.randomness import Purpose, Randomness
from sordino.algorithm.noise.secure import SecureRandomness

# A step of so many numbers is drawn in pieces of 8,192, each with a key derived for it.
_PIECE, _PIECES = 8192, 3


def key_faults(fresh: Callable[[], Randomness]) -> list[str]:
    """What contradicts that two sources of private fits are secret and independent; refused where none can be had."""
    sources = fresh(), fresh()
    if not all(isinstance(source, SecureRandomness) for source in sources):
        return ["the noise of a private fit comes from a source that can be made again"]
    keys = [str(source.held()["key"]) for source in sources]
    if any(len({key[at : at + 8] for at in range(0, len(key), 8)}) < 8 or len(key) < 64 for key in keys):
        return ["the key of a private fit has fewer than 256 random bits"]
    drawn = [
        source.whole_gaussians(Purpose.NOISE, 0, 1, np.array([2.0**40]), _PIECE * _PIECES).reshape(_PIECES, _PIECE)
        for source in sources
    ]
    drawn += [source.generator(Purpose.NOISE).random((1, _PIECE)) for source in sources]
    pieces = [piece for one in drawn for piece in one]
    if any(bool((first == second).mean() > 0.01) for first, second in combinations(pieces, 2)):
        return ["the noise of a private fit repeats itself, or that of another fit"]
    return []
