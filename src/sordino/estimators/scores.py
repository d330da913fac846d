"""Scores of rows at draws of the parameters: the one thing predictions need of a model."""

from functools import partial, singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import refuse
from sordino.model.base import LinearScoreModel, Model
from sordino.model.mlp import DenseNetwork

Array = NDArray[np.float64]


@singledispatch
def scores(model: Model, thetas: Array, X: Array) -> Array:
    """Scores of shape (draws, records, outputs); a model registers its own."""
    del thetas, X
    raise refuse("the model", "to have registered scores", type(model).__name__)


@scores.register
def _(model: LinearScoreModel, thetas: Array, X: Array) -> Array:
    weights = thetas.reshape(len(thetas), -1, model.outputs)
    return np.einsum("nd,kdo->kno", X, weights, optimize=True)


@scores.register
def _(model: DenseNetwork, thetas: Array, X: Array) -> Array:
    rows = jnp.asarray(X, jnp.float32)
    found = jax.lax.map(partial(_network, model, rows), jnp.asarray(thetas, jnp.float32))
    return np.asarray(found, np.float64)


def _network(model: DenseNetwork, rows: Any, theta: Any) -> Any:
    return jax.vmap(lambda x: model.predict(theta, x))(rows)


def class_shares(found: Array) -> Array:
    """Probabilities of the classes from scores; one score is that of the second of two classes."""
    if found.shape[-1] > 1:
        return special.softmax(found, axis=-1)
    second = special.expit(found)
    return np.concatenate([1.0 - second, second], axis=-1)
