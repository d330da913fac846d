"""Scores that look at a model's behaviour on the record in question, not at its parameters."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sordino.audit.attack.fitting import Releases
from sordino.audit.attack.scores import Score, ScoreFunction, Scores
from sordino.data.neighbours import Record
from sordino.model.base import Model


@dataclass(frozen=True, eq=False)
class CanaryLoss(Score):
    """How well a model fits one record: minus its loss there, or minus another record's loss on top.

    A release of several points (kept iterates, chains) is scored by its mean. Which side is smaller is learnt.
    """

    model: Model
    record: Record
    instead_of: Record | None = None

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        sign = -1.0 if np.median(self.fit(second)) < np.median(self.fit(first)) else 1.0
        return lambda releases: sign * self.fit(releases)

    def fit(self, releases: Releases) -> Scores:
        """Minus the loss of the record, relative to the other record's where there is one."""
        if self.instead_of is None:
            return -record_losses(self.model, releases, self.record)[:, 0]
        own, other = record_losses(self.model, releases, self.record, self.instead_of).T
        return other - own


def record_losses(model: Model, releases: Releases, *records: Record) -> Scores:
    """The loss of each record under every release, the mean over the points of a release; shape (releases, records)."""
    dtype = jnp.zeros(()).dtype
    rows = jnp.asarray(np.stack([record.features for record in records]), dtype)
    targets = jnp.asarray([record.target for record in records], dtype)
    points = np.asarray(releases).reshape(len(releases), -1, model.dim(rows.shape[1]))
    return np.asarray(_losses(model, jnp.asarray(points, dtype), rows, targets), float)


@partial(jax.jit, static_argnums=0)
def _losses(model: Model, points: Array, rows: Array, targets: Array) -> Array:
    def of_release(each: Array) -> Array:
        return jax.vmap(lambda x, y: jax.vmap(lambda theta: model.loss(theta, x, y))(each).mean())(rows, targets)

    return jax.vmap(of_release)(points)
