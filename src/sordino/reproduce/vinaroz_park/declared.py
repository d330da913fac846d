"""Public bounds for the columns of the regression sets, written down from their descriptions as round numbers.

A value outside is cut to its bound. Bounds need not hold the data: they only choose units, so that scaling reads no
record. Each column goes from [low, high] to [-sqrt(3), sqrt(3)], which has variance 1 if it is uniform.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import InputError

Array = NDArray[np.float64]
HALF_WIDTH = math.sqrt(3.0)


@dataclass(frozen=True)
class Bounds:
    """The declared interval of every feature, and of the target."""

    features: tuple[tuple[float, float], ...]
    target: tuple[float, float]

    @property
    def unit(self) -> float:
        """One scaled unit of the target in the units of the data."""
        low, high = self.target
        return (high - low) / (2.0 * HALF_WIDTH)

    def rows(self, X: Array) -> Array:
        """Scaled features."""
        return np.column_stack([_scaled(column, pair) for column, pair in zip(X.T, self.features, strict=True)])

    def targets(self, y: Array) -> Array:
        """Scaled targets."""
        return _scaled(y, self.target)

    def original(self, scaled: Array) -> Array:
        """Targets in the units of the data."""
        return scaled * self.unit + 0.5 * (self.target[0] + self.target[1])


def _scaled(values: Array, bounds: tuple[float, float]) -> Array:
    low, high = bounds
    return HALF_WIDTH * (2.0 * np.clip(values, low, high) - low - high) / (high - low)


# Joint angles, and a distance that a unit-length arm cannot exceed by much.
_KIN8NM = Bounds(((-1.6, 1.6),) * 8, (0.0, 1.5))
# Celsius, cm Hg, millibar, per cent; megawatt.
_POWER = Bounds(((0.0, 40.0), (25.0, 85.0), (995.0, 1035.0), (30.0, 105.0)), (420.0, 500.0))
# Ordinary ranges of red wine; scores of 3 to 8.
_WINE = Bounds(
    (
        (4.0, 13.0),
        (0.1, 1.0),
        (0.0, 0.8),
        (0.0, 6.0),
        (0.0, 0.2),
        (0.0, 45.0),
        (0.0, 130.0),
        (0.99, 1.004),
        (2.9, 3.7),
        (0.3, 1.1),
        (8.0, 14.0),
    ),
    (3.0, 8.0),
)
# Areas, masses and distances of protein decoys; root mean square deviation in angstrom.
_PROTEIN = Bounds(
    (
        (2000.0, 20000.0),
        (0.0, 6500.0),
        (0.15, 0.45),
        (0.0, 250.0),
        (250000.0, 2750000.0),
        (0.0, 320.0),
        (0.0, 8000.0),
        (0.0, 200.0),
        (20.0, 50.0),
    ),
    (0.0, 21.0),
)
# Ranges of a gas turbine from idle to full load; the compressor's decay coefficient. Two columns are constants of it.
_NAVAL = Bounds(
    (
        (1.0, 10.0),
        (0.0, 30.0),
        (0.0, 75000.0),
        (1000.0, 4000.0),
        (6500.0, 10000.0),
        (0.0, 700.0),
        (0.0, 700.0),
        (400.0, 1150.0),
        (270.0, 306.0),
        (500.0, 800.0),
        (1.0, 5.0),
        (0.9, 1.1),
        (5.0, 25.0),
        (1.0, 1.06),
        (0.0, 100.0),
        (0.0, 2.0),
    ),
    (0.95, 1.0),
)

DECLARED = {"naval": _NAVAL, "kin8nm": _KIN8NM, "power": _POWER, "wine_red": _WINE, "protein": _PROTEIN}


def declared(name: str) -> Bounds:
    """The declared bounds of a set."""
    if name not in DECLARED:
        raise InputError(f"Expected the name of a set with declared bounds, one of {sorted(DECLARED)}, got {name!r}.")
    return DECLARED[name]
