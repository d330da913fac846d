"""Derivatives of losses in their scores, in double precision on the host; a loss registers its own."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.core.validate import refuse
from sordino.model.base import LinearScoreModel
from sordino.model.huber import Huber
from sordino.model.logistic import Logistic
from sordino.model.softmax import Softmax

Array = NDArray[np.float64]


@singledispatch
def residuals(model: LinearScoreModel, scores: Array, y: Array) -> Array:
    """The derivative of each record's loss in its scores, shape (records, outputs)."""
    del scores, y
    raise refuse("the model", "to have registered residuals", type(model).__name__)


@residuals.register
def _(model: Logistic, scores: Array, y: Array) -> Array:
    del model
    return -y[:, None] * special.expit(-y[:, None] * scores)


@residuals.register
def _(model: Softmax, scores: Array, y: Array) -> Array:
    found = special.softmax(scores, axis=1)
    found[np.arange(len(y)), y.astype(np.int64)] -= 1.0
    del model
    return found


@residuals.register
def _(model: Huber, scores: Array, y: Array) -> Array:
    return np.clip(scores - y[:, None], -model.threshold, model.threshold)
