"""The derivative of a model's loss in its scores, for whole fleets; the slope of an activation, from its value."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sordino.model.base import Model
from sordino.model.lenet import LeNet5
from sordino.model.mlp import MLPClassification, MLPRegression

Residual = Callable[[Any, Array, Array], Array]
_RESIDUALS: dict[type[Model], Residual] = {}

# Each slope is a function of the activation's value, so that the backward pass keeps one array and not two.
SLOPES: dict[str, Callable[[Array], Array]] = {
    "tanh": lambda value: 1.0 - value * value,
    "relu": lambda value: (value > 0.0).astype(value.dtype),
    "softplus": lambda value: -jnp.expm1(-value),
}


def residual(*models: type[Model]) -> Callable[[Residual], Residual]:
    """Decorator: the derivative of these models' loss in their scores."""

    def registered(function: Residual) -> Residual:
        _RESIDUALS.update(dict.fromkeys(models, function))
        return function

    return registered


def residual_of(model: Model, scores: Array, y: Array) -> Array:
    """The derivative of the loss in the scores, shape (..., outputs), for targets y, shape (...)."""
    return _RESIDUALS[type(model)](model, scores, y)


@residual(MLPRegression)
def _squared(model: MLPRegression, scores: Array, y: Array) -> Array:
    return model.noise_precision * (scores - y[..., None])


@residual(MLPClassification, LeNet5)
def _softmax(_model: Model, scores: Array, y: Array) -> Array:
    codes = jnp.arange(scores.shape[-1], dtype=jnp.int32)
    return jax.nn.softmax(scores) - (y.astype(jnp.int32)[..., None] == codes)
