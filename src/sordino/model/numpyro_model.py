"""Any NumPyro model with a data plate."""

from dataclasses import dataclass

import jax
from jax import Array

from sordino.core import constants
from sordino.core.certificate import Certificate, Constant, Evidence
from sordino.core.rounding import widen_down, widen_up
from sordino.core.spec import Ball, Clipping, Problem
from sordino.core.validate import refuse, whole_number
from sordino.model.base import Model
from sordino.model.domain import Domain
from sordino.model.facts import NOTHING_KNOWN, LossFacts, need_declared
from sordino.model.numpyro_sites import (
    Layout,
    ModelFunction,
    blank_record,
    log_density,
    prior_precisions,
    read_layout,
    trace_with,
)

# Priors may be written in single precision; their precisions are rounded outward by more than that.
_SINGLE_PRECISION = 2.0**-20


@dataclass(frozen=True)
class NumPyroModel(Model):
    """`model_fn(x, y)` observes y, shape (rows,), in a plate over the rows of x, shape (rows, features).

    theta is the flat vector of unconstrained parameters in the order of sampling. The loss is minus the log-likelihood
    of one row; the penalty is minus the log-prior, volume term included, over `records`. Gradients are certified by
    clipping, or by facts in `declared`. Normal priors with constant scales certify the regulariser; others do not.
    """

    model_fn: ModelFunction
    features: int
    records: int
    declared: LossFacts = NOTHING_KNOWN

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weight_decay:
            raise refuse("weight_decay", "to be 0 for a NumPyro model", self.weight_decay, "the prior plays its part")
        if not callable(self.model_fn):
            raise refuse("model_fn", "to be a function of (x, y)", self.model_fn)
        whole_number("features", self.features)
        whole_number("records", self.records)
        need_declared(self.declared)
        read_layout(self.model_fn, self.features)

    def dim(self, features: int) -> int:
        if features != self.features:
            raise refuse("features", f"to be the {self.features} the NumPyro model was built for", features)
        return self._layout.size

    def constrain(self, theta: Array) -> dict[str, Array]:
        """The named parameters of the NumPyro model at theta."""
        return {name: value for name, value, _ in self._layout.constrained(theta)}

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        sites, _ = trace_with(self.model_fn, self._layout, theta, x, y)
        return -log_density(sites, observed=True)

    def penalty(self, theta: Array) -> Array:
        x, y = blank_record(self.features)
        sites, volume = trace_with(self.model_fn, self._layout, theta, x[0], y[0])
        return -(log_density(sites, observed=False) + volume) / self.records

    def penalty_gradient(self, theta: Array) -> Array:
        return jax.grad(self.penalty)(theta)

    def facts(self, domain: Domain) -> LossFacts:
        return self.declared

    def certificates(
        self, domain: Domain, clipping: Clipping | None, projection: Ball | None = None
    ) -> dict[str, Certificate]:
        # A prior need not be centred, and the growth constants count the whole gradient at theta = 0.
        held = super().certificates(domain, clipping, projection)
        return {name: certificate for name, certificate in held.items() if not name.startswith("gradient_growth.")}

    def regulariser_certificates(self) -> dict[str, Certificate]:
        precisions = prior_precisions(self.model_fn, self.features)
        if precisions is None:
            return {}
        low, high = (precision / self.records for precision in precisions)
        reason = (
            f"independent normal priors with precisions {precisions[0]:g} to {precisions[1]:g} over n = {self.records}"
        )

        def certificate(constant: Constant, value: float) -> Certificate:
            return Certificate(constant, value, Evidence.PROVED, reason)

        certificates = (
            certificate(constants.REGULARISER_STRONG_CONVEXITY, widen_down(low, _SINGLE_PRECISION)),
            certificate(constants.REGULARISER_SMOOTHNESS, widen_up(high, _SINGLE_PRECISION)),
        )
        return {one.constant.name: one for one in certificates}

    def problem(
        self, n: int, domain: Domain, clipping: Clipping | None = None, projection: Ball | None = None
    ) -> Problem:
        if n != self.records:
            raise refuse("n", f"to be the {self.records} records over which the prior was spread", n)
        return super().problem(n, domain, clipping, projection)

    @property
    def _layout(self) -> Layout:
        return read_layout(self.model_fn, self.features)
