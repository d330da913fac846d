"""The noise variance of a fitted regression, released: one noised sum of squared residuals, each cut to a bound."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sordino.core.spec import ConstantSchedule, MessagePassing, Sampling, Spec
from sordino.core.view import View
from sordino.reproduce.vinaroz_park.budget import Budget

Array = NDArray[np.float64]
SHARE = 0.02
# In scaled units, where targets lie in [-sqrt(3), sqrt(3)].
BOUND = 1.5
_LEAST = 1e-3


def residual_spec(budget: Budget, records: int) -> Spec:
    """One full round; a record contributes its cut square minus half the bound, so at most half the bound."""
    algorithm = MessagePassing(
        records=records,
        steps=1,
        sampling=Sampling.FULL,
        clip=0.5 * BOUND,
        noise_multiplier=ConstantSchedule(budget.multiplier(SHARE, 1)),
        damping=ConstantSchedule(float(records)),
    )
    return Spec(algorithm=algorithm, relation=budget.relation, view=View.POSTERIOR_PARAMETERS)


def released_variance(
    budget: Budget, predict: Callable[[Array], Array], X: Array, y: Array, generator: np.random.Generator
) -> float:
    """The noised mean of the cut squared residuals; the number of records is public."""
    squares = np.minimum((y - predict(X)) ** 2, BOUND)
    sensitivity = BOUND if budget.relation.value == "replace-one" else 0.5 * BOUND
    noise = budget.multiplier(SHARE, 1) * sensitivity
    total = float(np.sum(squares - 0.5 * BOUND)) + noise * float(generator.standard_normal())
    return max(total / len(X) + 0.5 * BOUND, _LEAST) if math.isfinite(total) else BOUND
