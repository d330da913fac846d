"""One run of the grid: its settings in words, its spec, and how a peer would describe its steps."""

from dataclasses import dataclass

from sordino.core.spec import Spec


@dataclass(frozen=True)
class PeerSteps:
    """Steps in the terms every accountant shares.

    Attributes:
        mechanism: "gaussian", "poisson-add-remove", "poisson-replace-one" or "without-replacement".
        ratio: what one use of the record moves over the noise; of the clip norm alone for both Poisson mechanisms.
        rate: the probability that a step uses the record; 1 for plain Gaussian steps.
        uses: how many such steps are composed.
    """

    mechanism: str
    ratio: float
    rate: float
    uses: int


@dataclass(frozen=True)
class Described:
    """A run of the grid."""

    kind: str
    scheme: str
    problem: str
    projection: str
    noise: str
    steps: int
    rate: float
    spec: Spec
    peer: PeerSteps | None = None
