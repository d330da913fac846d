"""What leaves variational inference: the family's parameters and the spec that ran."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.posterior.base import Posterior
from sordino.algorithm.variational.family import VariationalFamily
from sordino.core.spec import Spec
from sordino.model.base import Model

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class VariationalRelease:
    """A private posterior; `spec` is the very object that ran, and that is certified.

    `iterates` holds phi after every round where the view is all-iterates, and is None otherwise.
    """

    spec: Spec
    model: Model
    family: VariationalFamily
    phi: Values
    iterates: Values | None

    def __post_init__(self) -> None:
        for name in ("phi", "iterates"):
            values = getattr(self, name)
            if values is not None:
                own = np.array(values)
                own.setflags(write=False)
                object.__setattr__(self, name, own)

    @property
    def posterior(self) -> Posterior:
        """The approximate posterior."""
        return self.family.posterior(self.model, self.phi)
