"""What leaves a run: exactly what its view allows, with the spec that ran. Nothing else of the run survives it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import NoisyGradient, Spec
from sordino.core.validate import instance_of

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False, slots=True)
class ChainRelease:
    """The release of a noisy gradient run; `spec` is the very object that ran, and that is certified."""

    spec: Spec


@dataclass(frozen=True, eq=False, slots=True)
class LastIterate(ChainRelease):
    """View last-iterate: the last point of each chain, shape (chains, dim)."""

    iterates: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterates", _read_only(self.iterates))


@dataclass(frozen=True, eq=False, slots=True)
class KeptIterates(ChainRelease):
    """View all-iterates: the kept points of each chain, shape (chains, kept, dim)."""

    iterates: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterates", _read_only(self.iterates))

    @property
    def positions(self) -> range:
        """The step after which each kept point was reached; the last possible one is `steps`."""
        return instance_of("spec.algorithm", self.spec.algorithm, NoisyGradient).kept_iterates(self.spec.view)


@dataclass(frozen=True, eq=False, slots=True)
class NoisedAverage(ChainRelease):
    """View average: each chain's average of a function over its kept points, plus noise; shape (chains, values)."""

    averages: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "averages", _read_only(self.averages))


def _read_only(values: Values) -> Values:
    own = np.array(values)
    own.setflags(write=False)
    return own
