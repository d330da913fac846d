"""A network with one hidden layer beside a linear part, and the derivative of its output in every parameter."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.exact_noise.record_sums import own_products
from sordino.core.validate import NON_NEGATIVE, number, whole_number

Values = NDArray[np.float32]
Array = NDArray[np.float64]


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

    def predict(self, theta: NDArray[Any], rows: NDArray[Any]) -> Array:
        """The output at every row."""
        return self.derivatives(theta, rows)[0]

    def derivatives(self, theta: NDArray[Any], rows: NDArray[Any]) -> tuple[Array, Array]:
        """The output at every row, and its derivative in every parameter, (rows, parameters); each from its row alone.

        Sums over a row are exact products or are added entry by entry (`record_sums`), in double precision.
        """
        X, parameters, width = np.asarray(rows, np.float64), np.asarray(theta, np.float64), rows.shape[1]
        inner = parameters[: self.hidden * (width + 1)].reshape(width + 1, self.hidden)
        output, constant, straight = np.split(parameters[self.hidden * (width + 1) :], [self.hidden, self.hidden + 1])
        activity = np.tanh(own_products(X, inner[:-1]) + inner[-1])
        slopes = (1.0 - activity * activity) * output
        found = np.empty((len(X), len(parameters)))
        parts = np.split(found, np.cumsum([width * self.hidden, self.hidden, self.hidden, 1]), axis=1)
        np.multiply(X[:, :, None], slopes[:, None, :], out=parts[0].reshape(len(X), width, self.hidden))
        for part, values in zip(parts[1:], (slopes, activity, 1.0, X), strict=True):
            part[:] = values
        curved = own_products(activity, output[:, None])[:, 0]
        return curved + constant + own_products(X, straight[:, None])[:, 0], found


def hidden_units(parameters: float, features: int) -> int:
    """The most hidden units with no more than so many parameters in all, but at least one."""
    return max(1, math.floor((parameters - 1 - features) / (features + 2)))
