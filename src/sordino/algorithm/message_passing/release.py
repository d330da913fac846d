"""What leaves message passing: the posterior's natural parameters, the spec that ran, and the count of repairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.posterior.gaussian import GaussianPosterior
from sordino.core.spec import Spec
from sordino.model.sites.base import Site
from sordino.model.sites.families import Family

Values = NDArray[np.floating]


@dataclass(frozen=True)
class Repairs:
    """How often noise left a precision that had to be repaired: rounds, and eigenvalues in all of them."""

    rounds: int
    eigenvalues: int


@dataclass(frozen=True, eq=False)
class MessagePassingRelease:
    """A private posterior; `spec` is the very object that ran, and that is certified.

    `iterates` holds the natural parameters after every round where the view is all-iterates, and is None otherwise.
    The repairs are computed from released values, so they may be released with them.
    """

    spec: Spec
    site: Site
    family: Family
    natural: Values
    repairs: Repairs
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("natural", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> GaussianPosterior:
        """The approximate posterior."""
        return GaussianPosterior(self.site, self.family, self.natural)
