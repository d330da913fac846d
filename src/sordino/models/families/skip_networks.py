"""Networks with one hidden layer beside a linear part, on rows whose entries are cut to a public size."""

from abc import abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.validate import POSITIVE, check_numbers, refuse, whole_number
from sordino.models.base import Model, family
from sordino.models.facts import NOTHING_KNOWN, Domain, LossFacts
from sordino.models.families.networks import NetworkOfClasses, NetworkOfNumber


@dataclass(frozen=True)
class SkipNetwork(Model):
    """V' tanh(W' s + b) + c + L' z for a row z cut to [-cut, cut], of which hidden units see the first entries, s.

    Parameters are flat: W (seen, hidden), b, V (hidden, outputs), c, L (columns, outputs). Nothing is claimed about
    gradients, as for every network.
    """

    hidden: int
    seen: int
    cut: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("hidden", "seen"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        check_numbers(self, cut=POSITIVE)

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many scores a row has."""

    def dim(self, features: int) -> int:
        if features < self.seen:
            raise refuse("the columns of a row", f"to be at least the {self.seen} that hidden units see", features)
        return self.hidden * (self.seen + 1) + self.outputs * (self.hidden + 1 + features)

    def sizes(self, features: int) -> tuple[int, int, int, int, int]:
        """The lengths of W, b, V, c and L."""
        seen = self.seen * self.hidden
        return seen, self.hidden, self.hidden * self.outputs, self.outputs, features * self.outputs

    def predict(self, theta: Array, x: Array) -> Array:
        """The scores of one row, shape (outputs,)."""
        cut, ends = jnp.clip(x, -self.cut, self.cut), []
        for size in self.sizes(x.shape[-1])[:-1]:
            ends.append(size + (ends[-1] if ends else 0))
        W, b, V, c, L = jnp.split(theta, ends)
        activity = jnp.tanh(cut[: self.seen] @ W.reshape(self.seen, self.hidden) + b)
        return activity @ V.reshape(self.hidden, self.outputs) + c + cut @ L.reshape(-1, self.outputs)

    def facts(self, domain: Domain) -> LossFacts:
        return NOTHING_KNOWN


@family("skip-regression")
@dataclass(frozen=True)
class SkipRegression(NetworkOfNumber, SkipNetwork):
    """y = network(x) + an error of variance 1 / noise_precision."""

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.loss_of(self.predict(theta, x)[0], y)


@family("skip-classification")
@dataclass(frozen=True)
class SkipClassification(NetworkOfClasses, SkipNetwork):
    """Classes coded 0, 1, ...: the log odds of the second of two, or as many scores as classes."""

    @property
    def outputs(self) -> int:
        return 1 if self.classes == 2 else self.classes

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        scores = self.predict(theta, x)
        if self.classes == 2:
            scores = jnp.concatenate([jnp.zeros_like(scores), scores])
        return -jax.nn.log_softmax(scores)[y.astype(jnp.int32)]
