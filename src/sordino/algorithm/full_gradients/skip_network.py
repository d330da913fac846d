"""A network with one hidden layer beside a linear part, and the derivative of its output in every parameter."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.validate import NON_NEGATIVE, number, whole_number

Values = NDArray[np.float32]


@dataclass(frozen=True)
class SkipNetwork:
    """f(x) = v . tanh(W x + b) + c + l . x; parameters are flat: W and b, then v, c and l.

    A run starts at random, data-free hidden weights of variance `start_scale`^2, output weights of `output_scale`^2,
    and no linear part.
    """

    hidden: int
    start_scale: float = 0.2
    output_scale: float = 0.3

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", whole_number("hidden", self.hidden))
        for name in ("start_scale", "output_scale"):
            object.__setattr__(self, name, number(name, getattr(self, name), NON_NEGATIVE))

    def size(self, features: int) -> int:
        """The number of parameters."""
        return self.hidden * (features + 2) + 1 + features

    def start(self, features: int, generator: np.random.Generator) -> Values:
        """Parameters before the first round."""
        inner = self.start_scale * generator.standard_normal(self.hidden * (features + 1))
        outer = self.output_scale * generator.standard_normal(self.hidden)
        return np.concatenate([inner, outer, np.zeros(1 + features)]).astype(np.float32)

    def predict(self, theta: Values, rows: Values) -> Values:
        """The output at every row."""
        activity, outer = self._activity(theta, rows)
        return activity @ outer[: self.hidden] + outer[self.hidden] + rows @ outer[self.hidden + 1 :]

    def derivatives(self, theta: Values, rows: Values) -> tuple[Values, Values]:
        """The output at every row, and its derivative in every parameter, (rows, parameters)."""
        activity, outer = self._activity(theta, rows)
        slopes = (1.0 - activity * activity) * outer[: self.hidden]
        found = np.empty((len(rows), len(theta)), np.float32)
        inner = rows.shape[1] * self.hidden
        np.multiply(
            rows[:, :, None], slopes[:, None, :], out=found[:, :inner].reshape(len(rows), rows.shape[1], self.hidden)
        )
        found[:, inner : inner + self.hidden] = slopes
        after = inner + self.hidden
        found[:, after : after + self.hidden] = activity
        found[:, after + self.hidden] = 1.0
        found[:, after + self.hidden + 1 :] = rows
        predicted = activity @ outer[: self.hidden] + outer[self.hidden] + rows @ outer[self.hidden + 1 :]
        return predicted, found

    def _activity(self, theta: Values, rows: Values) -> tuple[Values, Values]:
        features = rows.shape[1]
        inner = theta[: self.hidden * (features + 1)].reshape(features + 1, self.hidden)
        return np.tanh(rows @ inner[:-1] + inner[-1]), theta[self.hidden * (features + 1) :]


def hidden_units(parameters: float, features: int) -> int:
    """The most hidden units with no more than so many parameters in all, but at least one."""
    return max(1, math.floor((parameters - 1 - features) / (features + 2)))
