"""Public choices of private expectation maximisation that do not touch its guarantee."""

from dataclasses import dataclass

from sordino.core.validate import NON_NEGATIVE, POSITIVE, Interval, number

_SHARE = Interval(0.0, 1.0, low_open=True)


@dataclass(frozen=True)
class EmOptions:
    """How statistics are weighted, averaged over rounds, and turned into parameters.

    Attributes:
        count_weight: what a unit of count weighs in the clipped vector beside a unit of a feature; larger is noisier
            means, smaller is noisier counts. The noise on counts is divided by it.
        learn_weights: whether the mixing weights are estimated too; otherwise the model's stay.
        prior_precision: precision of the Gaussian prior of every mean around 0.
        rate: share of a round's new statistics in the running ones; 1 forgets earlier rounds.
        start_scale: standard deviation of the random, data-free means a run starts from.
        least_count: counts below this many records are raised to it.
    """

    count_weight: float = 1.0
    learn_weights: bool = False
    prior_precision: float = 1.0
    rate: float = 1.0
    start_scale: float = 1.0
    least_count: float = 1.0

    def __post_init__(self) -> None:
        for name in ("count_weight", "least_count"):
            object.__setattr__(self, name, number(name, getattr(self, name), POSITIVE))
        for name in ("prior_precision", "start_scale"):
            object.__setattr__(self, name, number(name, getattr(self, name), NON_NEGATIVE))
        object.__setattr__(self, "rate", number("rate", self.rate, _SHARE))
