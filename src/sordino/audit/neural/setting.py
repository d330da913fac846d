"""What a network's audit is given: the data, the chain, and how many models do what."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.audit.fleet.members import FleetRecords
from sordino.audit.fleet.plan import FleetPlan
from sordino.core.guarantee.base import check_delta
from sordino.core.validate import OPEN_UNIT, Interval, instance_of, number, refuse, whole_number
from sordino.model.domain import Domain


@dataclass(frozen=True, eq=False)
class NeuralData:
    """D as rows and class codes, rows to measure accuracy on, and the public domain that a canary stays in."""

    features: NDArray[np.float32]
    target: NDArray[np.float32]
    test_features: NDArray[np.float32]
    test_target: NDArray[np.float32]
    domain: Domain

    def __post_init__(self) -> None:
        for prefix in ("", "test_"):
            checked = FleetRecords(getattr(self, f"{prefix}features"), getattr(self, f"{prefix}target"))
            object.__setattr__(self, f"{prefix}features", checked.features)
            object.__setattr__(self, f"{prefix}target", checked.target)
        if instance_of("domain", self.domain, Domain).classes is None:
            raise refuse("the domain", "to name the number of classes", None)


@dataclass(frozen=True)
class Claimed:
    """The delta of all lower bounds, and the confidence: of each bound alone, and of all joint ones together."""

    delta: float
    confidence: float

    def __post_init__(self) -> None:
        check_delta(self.delta)
        number("confidence", self.confidence, OPEN_UNIT)


@dataclass(frozen=True, kw_only=True)
class PilotRound:
    """A trial of candidates: models of D, models of each candidate's neighbour, and how long they are trained."""

    candidates: int
    of_d: int
    each: int
    epochs: int

    def __post_init__(self) -> None:
        for name in ("candidates", "epochs"):
            whole_number(name, getattr(self, name))
        for name in ("of_d", "each"):
            whole_number(name, getattr(self, name), Interval(2), "a deviation needs two models at least")


@dataclass(frozen=True, kw_only=True)
class NeuralSetting:
    """The chain and the sizes of the experiment.

    Attributes:
        plan: how every model is trained.
        learning: models that teach the attack, those of D and of its neighbour together; A_1 of the paper.
        testing: models that the attack is counted on; A_2 of the paper.
        ensemble: models of D that the canary is made against; M of the paper.
        ensemble_epochs: how long these are trained.
        tries: how many records a canary is made of before the one that pulls hardest is taken.
        claimed: the delta and the confidence of what is found.
        beyond: how far each record is pushed, as multiples of the shortest push that fools the whole ensemble.
        pilot: rounds of trial that the canary is chosen by, each with the best of the one before; none: by its pull.
    """

    plan: FleetPlan
    learning: int
    testing: int
    ensemble: int
    ensemble_epochs: int
    tries: int
    claimed: Claimed
    beyond: tuple[float, ...] = (1.0,)
    pilot: tuple[PilotRound, ...] = ()

    def __post_init__(self) -> None:
        instance_of("plan", self.plan, FleetPlan)
        for name in ("learning", "testing"):
            count = whole_number(name, getattr(self, name), Interval(2))
            if count % 2:
                raise refuse(name, "to be even, half of the models on either side", count)
        for name in ("ensemble", "ensemble_epochs", "tries"):
            whole_number(name, getattr(self, name))
        instance_of("claimed", self.claimed, Claimed)
        if not self.beyond:
            raise refuse("beyond", "to hold at least one multiple", self.beyond)
        for multiple in self.beyond:
            number("a multiple of the push", multiple, Interval(1.0))
