"""The scores of a classifier, one for each class, whatever kind of model it is."""

from functools import singledispatch

import jax.numpy as jnp
from jax import Array

from sordino.core.validate import refuse
from sordino.model.base import Model
from sordino.model.lenet import CLASSES, LeNet5
from sordino.model.logistic import Logistic
from sordino.model.mlp import MLPClassification
from sordino.model.probit import Probit
from sordino.model.softmax import Softmax


@singledispatch
def class_scores(model: Model, theta: Array, x: Array) -> Array:
    """Scores of all classes for one row, shape (classes,); the largest decides."""
    del theta, x
    raise refuse("the model", "to be a classifier", type(model).__name__)


@singledispatch
def class_targets(model: Model) -> tuple[float, ...]:
    """The target that stands for each class, in the order of the scores."""
    raise refuse("the model", "to be a classifier", type(model).__name__)


@class_scores.register
def _(model: Softmax, theta: Array, x: Array) -> Array:
    return x @ theta.reshape(-1, model.classes)


@class_scores.register(LeNet5)
@class_scores.register(MLPClassification)
def _(model: LeNet5 | MLPClassification, theta: Array, x: Array) -> Array:
    return model.predict(theta, x)


@class_scores.register(Logistic)
@class_scores.register(Probit)
def _(model: Logistic | Probit, theta: Array, x: Array) -> Array:
    del model
    return jnp.array([-0.5, 0.5], x.dtype) * jnp.vdot(x, theta)


@class_targets.register(Softmax)
@class_targets.register(MLPClassification)
def _(model: Softmax | MLPClassification) -> tuple[float, ...]:
    return tuple(float(code) for code in range(model.classes))


@class_targets.register
def _(model: LeNet5) -> tuple[float, ...]:
    del model
    return tuple(float(code) for code in range(CLASSES))


@class_targets.register(Logistic)
@class_targets.register(Probit)
def _(model: Logistic | Probit) -> tuple[float, ...]:
    del model
    return (-1.0, 1.0)
