"""Networks with a linear part on rows that a released linear map centres and whitens: f(x) = v.tanh(W z + b) + c + l.z.

z are the rows times the map, each entry cut to a public size. The map is a part of the parameters, so that a posterior
of them is all that a prediction needs; it was released before, and no draw varies it.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, check_numbers, refuse
from sordino.model.base import family
from sordino.model.contributions import Parts
from sordino.model.families.networks import MLPClassification, MLPRegression


def skip_size(features: int, hidden: int) -> int:
    """Parameters: a map of rows with an intercept to one entry less, then W, b, v, c and l."""
    inner = features - 1
    return features * inner + hidden * (inner + 2) + 1 + inner


def skip_output(theta: Array, x: Array, hidden: int, cut: float) -> Array:
    """The output for one row, a number."""
    features, inner = x.shape[-1], x.shape[-1] - 1
    edges = [features * inner, hidden * (inner + 1), hidden, 1]
    places = [sum(edges[: k + 1]) for k in range(len(edges))]
    turn, first, output, constant, straight = jnp.split(theta, places)
    row = jnp.clip(x @ turn.reshape(features, inner), -cut, cut)
    first = first.reshape(inner + 1, hidden)
    return jnp.tanh(row @ first[:-1] + first[-1]) @ output + constant[0] + row @ straight


def _one_layer(hidden: tuple[int, ...]) -> int:
    if len(hidden) != 1:
        raise refuse("hidden", "to be one width for a network with a linear part", hidden)
    return hidden[0]


@family("skip-regression")
@dataclass(frozen=True)
class SkipRegression(MLPRegression):
    """y = f(x) + N(0, 1 / noise_precision); a whitened row's entries are cut to `cut`."""

    cut: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, cut=POSITIVE)
        _one_layer(self.hidden)

    def dim(self, features: int) -> int:
        return skip_size(features, _one_layer(self.hidden))

    def predict(self, theta: Array, x: Array) -> Array:
        return skip_output(theta, x, self.hidden[0], self.cut)[None]

    def record_outputs(self, theta: Array, X: Array) -> Array:
        raise refuse("the model", "to be fitted by natural gradients", "skip-regression")

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: object = None) -> Parts:
        raise refuse("the model", "to be fitted by natural gradients", "skip-regression")


@family("skip-classification")
@dataclass(frozen=True)
class SkipClassification(MLPClassification):
    """Two classes; f(x) is the log-odds of the second."""

    cut: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, cut=POSITIVE)
        _one_layer(self.hidden)
        if self.classes != 2:
            raise refuse("classes", "to be 2 for a network with a linear part", self.classes)

    def dim(self, features: int) -> int:
        return skip_size(features, _one_layer(self.hidden))

    def predict(self, theta: Array, x: Array) -> Array:
        odds = skip_output(theta, x, self.hidden[0], self.cut)
        return jnp.stack([jnp.zeros_like(odds), odds])

    def record_outputs(self, theta: Array, X: Array) -> Array:
        raise refuse("the model", "to be fitted by natural gradients", "skip-classification")

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: object = None) -> Parts:
        raise refuse("the model", "to be fitted by natural gradients", "skip-classification")
