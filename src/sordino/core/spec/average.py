"""The released average of a function along a chain, for the view "average"."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from sordino.core import constants
from sordino.core.certificate import Certificate
from sordino.core.spec.certified import Certified
from sordino.core.spec.section import Nested, Section
from sordino.core.spec.shape import Number, Whole, Word
from sordino.core.validate import POSITIVE


class AverageNoiseKind(StrEnum):
    """The law of the noise added to an average."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True)
class AverageNoise(Section):
    """Noise added once, to the average."""

    kind: Annotated[AverageNoiseKind, Word(tuple(AverageNoiseKind))]
    scale: Annotated[float, Number(POSITIVE), "laplace: scale of each coordinate; gaussian: standard deviation"]


@dataclass(frozen=True)
class Average(Section):
    """The average of f over the kept iterates, plus noise."""

    lipschitz: Annotated[Certificate, Certified(constants.AVERAGE_LIPSCHITZ)]
    dim: Annotated[int, Whole(), "number of values of f"]
    noise: Annotated[AverageNoise, Nested(AverageNoise)]
