"""Any loss written in JAX."""

from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from sordino.core.validate import refuse, whole_number
from sordino.model.base import Model
from sordino.model.domain import Domain
from sordino.model.facts import NOTHING_KNOWN, LossFacts, need_declared


@dataclass(frozen=True)
class JaxModel(Model):
    """`loss_fn(theta, x, y)` is minus the log-likelihood of one example; theta is flat, of length `parameters`.

    Clipping certifies the size of its gradients. Facts that the caller vouches for go into `declared`; they are never
    marked better than declared.
    """

    loss_fn: Callable[[Array, Array, Array], Array]
    parameters: int
    declared: LossFacts = NOTHING_KNOWN

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.loss_fn):
            raise refuse("loss_fn", "to be a function of (theta, x, y)", self.loss_fn)
        whole_number("parameters", self.parameters)
        need_declared(self.declared)

    def dim(self, features: int) -> int:
        return self.parameters

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.loss_fn(theta, x, y)

    def facts(self, domain: Domain) -> LossFacts:
        return self.declared
