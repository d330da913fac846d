"""Scores of a network with a linear part and their derivatives, on the host, each from its row alone."""

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.model.families.skip_networks import SkipNetwork
from sordino.noise.sums import own_products


def parts(model: SkipNetwork, theta: Array, columns: int) -> tuple[Array, Array, Array, Array, Array]:
    """W, b, V, c and L of flat parameters."""
    W, b, V, c, L = np.split(np.asarray(theta, np.float64), np.cumsum(model.sizes(columns))[:-1])
    return W.reshape(model.seen, -1), b, V.reshape(model.hidden, -1), c, L.reshape(columns, -1)


class Forward:
    """A network's scores at some rows, and its gradients there.

    Sums over a row's entries are exact products (`own_products`) or are added entry by entry, and all else works
    entry by entry, so that nothing depends on where a row stands or what the others are.
    """

    def __init__(self, model: SkipNetwork, theta: Array, rows: Array) -> None:
        self.model, self.rows = model, np.clip(rows, -model.cut, model.cut)
        W, b, self._output, c, L = parts(model, theta, rows.shape[1])
        self._seen = self.rows[:, : model.seen]
        self._activity = np.tanh(own_products(self._seen, W) + b)
        self._slopes = 1.0 - self._activity * self._activity
        self.scores: Array = own_products(self._activity, self._output) + c + own_products(self.rows, L)

    def gradients(self, residuals: Array) -> Array:
        """The derivative of residuals . scores in every parameter, shape (rows, parameters); residuals are fixed."""
        model, (count, columns) = self.model, self.rows.shape
        signals = self._slopes * own_products(residuals, self._output.T)
        found = np.empty((count, model.dim(columns)))
        first, second, third, fourth, fifth = np.split(found, np.cumsum(model.sizes(columns))[:-1], axis=1)
        _outer(self._seen, signals, first)
        second[:] = signals
        _outer(self._activity, residuals, third)
        fourth[:] = residuals
        _outer(self.rows, residuals, fifth)
        return found


def _outer(left: Array, right: Array, out: Array) -> None:
    for place in range(left.shape[1]):
        np.multiply(left[:, place, None], right, out=out[:, place * right.shape[1] : (place + 1) * right.shape[1]])


def label_residuals(scores: Array) -> tuple[Array, Array]:
    """For every label a row might have: its probability, and the derivative of its loss in the scores.

    Shapes (labels, rows) and (labels, rows, outputs). The sum over labels of the one times the other is 0.
    """
    if scores.shape[1] == 1:
        second = special.expit(scores)
        return np.stack([1.0 - second[:, 0], second[:, 0]]), np.stack([second, second - 1.0])
    # Added class by class: a reduction along rows may add in another order where there are few rows.
    largest = scores[:, 0].copy()
    for column in scores.T[1:]:
        np.maximum(largest, column, out=largest)
    raised = np.exp(scores - largest[:, None])
    total = np.zeros(len(scores))
    for column in raised.T:
        total += column
    shares = raised / total[:, None]
    return shares.T, shares[None] - np.eye(scores.shape[1])[:, None, :]
