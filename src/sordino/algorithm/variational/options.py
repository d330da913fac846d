"""Public choices of a variational run that do not touch its guarantee."""

from dataclasses import dataclass, field

from sordino.algorithm.variational.family import FactorisedGaussian, VariationalFamily
from sordino.algorithm.variational.optimiser import Adam, Optimiser
from sordino.core.validate import NON_NEGATIVE, Interval, instance_of, number, whole_number

_HALF_OPEN = Interval(0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class VariationalOptions:
    """How the posterior is written, moved and started.

    Attributes:
        family: the approximate posterior.
        optimiser: what is done with noised gradients.
        draws: how many draws of theta a round takes the expected loss at; the same for every record.
        start_scale: standard deviation of the random, data-free means a run starts from; 0 starts at 0.
        averaged: share of the last rounds whose phi is averaged into the release; 0 releases the last one.
    """

    family: VariationalFamily = field(default_factory=FactorisedGaussian)
    optimiser: Optimiser = field(default_factory=Adam)
    draws: int = 1
    start_scale: float = 0.1
    averaged: float = 0.0

    def __post_init__(self) -> None:
        instance_of("family", self.family, VariationalFamily)
        instance_of("optimiser", self.optimiser, Optimiser)
        object.__setattr__(self, "draws", whole_number("draws", self.draws))
        object.__setattr__(self, "start_scale", number("start_scale", self.start_scale, NON_NEGATIVE))
        object.__setattr__(self, "averaged", number("averaged", self.averaged, _HALF_OPEN))
