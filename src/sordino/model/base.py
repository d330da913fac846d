"""From facts about a loss to certificates of the update as run: how clipping and weight decay carry over.

- Clipping a gradient to C bounds it by C and keeps two of them within 2C, whatever the loss.
- Clipping keeps strong convexity and smoothness where the gradient is a monotone scalar times a fixed vector: the
  clipped scalar is still monotone and no steeper, so it is the derivative of a convex loss that is no less smooth.
- With vector residuals (softmax, three or more classes) it does not: Ye & Shokri 2022, Proposition F.2, is false there
  (see `core.clipped_modulus`). Then only the smoothness of the unclipped convex loss is certified.
- A clip that never acts is no clip.
- The mean of per-example gradients over a batch of at most b records, divided by b, is no longer than the longest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core.bound import (
    DRIFT_BOUND,
    GRADIENT_BOUND,
    GRADIENT_SENSITIVITY,
    GROWTH_AT_ZERO,
    GROWTH_G0,
    GROWTH_G1,
    REGULARISER_SMOOTHNESS,
    REGULARISER_STRONG_CONVEXITY,
    SMOOTHNESS,
    STRONG_CONVEXITY,
    UNCLIPPED_SMOOTHNESS,
    Certificate,
    Constant,
    Evidence,
)
from sordino.core.spec import Ball, Clipping, GradientGrowth, Problem, Regulariser
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import NON_NEGATIVE, SordinoError, check_numbers, refuse, whole_number
from sordino.model.clip import (
    CLIPPING_RULES,
    ClippingRule,
    clip_by_norm,
    clip_residuals,
    exact_product,
    row_lengths,
    working_bound,
)
from sordino.model.contributions import Parts, Plain, RowSizes, outer, products, whole_rows
from sordino.model.facts import Domain, Fact, LossFacts, sum_up_exactly

Certificates = dict[str, Certificate]


@dataclass(frozen=True)
class GradientClip:
    """A clip of per-example gradients to `bound`; `keeps_curvature` for a scalar residual times a fixed vector."""

    bound: float
    dim: int
    keeps_curvature: bool

    def acts_on(self, gradient_bound: Fact | None) -> bool:
        """Whether some gradient may be longer than what the kernel shortens it to."""
        return gradient_bound is None or working_bound(self.bound, self.dim) < gradient_bound.value


def certify(facts: LossFacts, domain: Domain, regulariser: Certificates, clip: GradientClip | None) -> Certificates:
    """Every certificate that follows from these facts, by constant name."""
    issue = _Issuer(domain, facts)
    acting = clip if clip is not None and clip.acts_on(facts.gradient_bound) else None
    certificates = (
        *issue.sizes(acting),
        *issue.curvature(regulariser, acting),
        *issue.growth(acting),
        *regulariser.values(),
    )
    return {certificate.constant.name: certificate for certificate in certificates}


@dataclass(frozen=True)
class _Issuer:
    domain: Domain
    facts: LossFacts

    def sizes(self, clip: GradientClip | None) -> tuple[Certificate, ...]:
        """Gradient bound, sensitivity and drift bound."""
        bound, apart, evidence = self.facts.gradient_bound, self.facts.gradient_sensitivity, self._from_domain
        if clip is not None:
            reason = f"per-example gradients clipped to {clip.bound:g}"
            bound = Fact(clip.bound, reason)
            apart = Fact(2.0 * clip.bound, f"{reason}, any two at most twice that apart")
            evidence = Evidence.BY_CONSTRUCTION
        named = ((GRADIENT_BOUND, bound), (GRADIENT_SENSITIVITY, apart), (DRIFT_BOUND, bound))
        return tuple(self._certificate(constant, fact, evidence) for constant, fact in named if fact is not None)

    def curvature(self, regulariser: Certificates, clip: GradientClip | None) -> tuple[Certificate, ...]:
        """Strong convexity and smoothness of the update as run, or of the unclipped loss where clipping breaks them."""
        loss = self.facts.smoothness
        if not self.facts.convex:
            return ()
        unclipped = () if loss is None else (self._certificate(UNCLIPPED_SMOOTHNESS, loss, self._from_domain),)
        if clip is not None and not clip.keeps_curvature:
            return unclipped
        kept = "" if clip is None else "; clipping the scalar residual keeps it monotone and no steeper"
        certificates: list[Certificate] = []
        if (penalty := regulariser.get(REGULARISER_STRONG_CONVEXITY.name)) is not None:
            convexity = Fact(penalty.value, f"{self.facts.convex}; {penalty.reason}{kept}")
            evidence = min(self.facts.evidence, penalty.evidence)
            certificates.append(self._certificate(STRONG_CONVEXITY, convexity, evidence))
        if loss is not None and (penalty := regulariser.get(REGULARISER_SMOOTHNESS.name)) is not None:
            whole = Fact(sum_up_exactly(loss.value, penalty.value), f"{loss.reason}; {penalty.reason}{kept}")
            certificates.append(self._certificate(SMOOTHNESS, whole, min(self._from_domain, penalty.evidence)))
            certificates += unclipped if clip is not None else ()
        return tuple(certificates)

    def growth(self, clip: GradientClip | None) -> tuple[Certificate, ...]:
        """Linear growth of gradients: of the loss, or constant once they are clipped or bounded."""
        growth = self.facts.growth
        if clip is not None:
            reason = f"per-example gradients clipped to {clip.bound:g}"
            at_zero = clip.bound if growth is None else min(clip.bound, growth.at_zero)
            values, evidence = (2.0 * clip.bound, 0.0, at_zero), Evidence.BY_CONSTRUCTION
        elif growth is not None:
            values, reason, evidence = (growth.g0, growth.g1, growth.at_zero), growth.reason, self._from_domain
        else:
            return ()
        named = (GROWTH_G0, GROWTH_G1, GROWTH_AT_ZERO)
        return tuple(
            self._certificate(constant, Fact(value, reason), evidence)
            for constant, value in zip(named, values, strict=True)
        )

    @property
    def _from_domain(self) -> Evidence:
        return min(self.facts.evidence, self.domain.evidence)

    def _certificate(self, constant: Constant, fact: Fact, evidence: Evidence) -> Certificate:
        return Certificate(constant, fact.value, evidence, fact.reason, self.domain.reads_private_data)


# What a model is: a per-example loss, a data-free penalty, gradients the kernel can sum, and certificates.
#
# A model is a frozen, hashable dataclass, so that it can be a static argument of a compiled function. Parameters are
# one flat vector. The objective of a chain is ``(1/n) sum_i loss(theta, x_i, y_i) + penalty(theta)``.


@dataclass(frozen=True)
class Model(ABC):
    """A loss with a weight decay (`weight_decay` / 2) |theta|^2; a Gaussian prior of precision p has p / n."""

    _: KW_ONLY
    weight_decay: float = 0.0
    # Whether rows are cut to whole numbers, without which products of rows and parameters would be rounded.
    cuts_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_numbers(self, weight_decay=NON_NEGATIVE)

    @abstractmethod
    def dim(self, features: int) -> int:
        """How many parameters the model has when rows have this many features."""

    @abstractmethod
    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        """Minus log-likelihood of one example, without regulariser; x has shape (features,), y is a scalar."""

    def as_labels(self, y: Array) -> Array:
        """Targets as the loss reads them, whatever was given: labels of a classification become one of its labels."""
        return y

    @abstractmethod
    def facts(self, domain: Domain) -> LossFacts:
        """What is proved about the unclipped loss of one record of this domain; what is absent is not claimed."""

    def penalty(self, theta: Array) -> Array:
        """r(theta), data-free, on the scale of one example."""
        return 0.5 * self.weight_decay * jnp.vdot(theta, theta)

    def penalty_gradient(self, theta: Array) -> Array:
        """The gradient of the penalty."""
        return self.weight_decay * theta

    def gradient(self, theta: Array, x: Array, y: Array) -> Array:
        """The gradient of one example's loss, shape (dim,), unclipped and without regulariser."""
        return jax.grad(self.loss)(theta, x, y)

    def batch_gradient(self, theta: Array, X: Array, Y: Array, weights: Array, clipping: Clipping | None) -> Array:
        """The weighted sum over rows of per-example gradients, clipped as `clipping` says.

        `weights` are 0 or 1 (masks of padded batches). The sum is not divided by anything and holds no regulariser.
        """
        if clipping is None:
            return self.gradient_sum(theta, X, Y, weights)
        if self.clipping_rule(clipping).of_rows:
            return self.gradient_sum(theta, clip_by_norm(X, clipping.bound), Y, weights)
        return self.clipped_gradient_sum(theta, X, Y, weights, clipping.bound)

    def gradient_sum(self, theta: Array, X: Array, Y: Array, weights: Array) -> Array:
        """The weighted sum of per-example gradients."""
        return exact_product(weights, self._gradients(theta, X, Y))

    def clipped_gradient_sum(self, theta: Array, X: Array, Y: Array, weights: Array, bound: float) -> Array:
        """The weighted sum of per-example gradients, each shortened to at most `bound`."""
        return exact_product(weights, clip_by_norm(self._gradients(theta, X, Y), bound))

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: RowSizes | None = None) -> Parts:
        """Every record's gradient, unclipped, as a run adds them up: in double precision, each from its record alone.

        `sizes` are those of the rows where the caller has them.
        """
        del sizes
        return (Plain(self._gradients(theta, X, Y)),)

    def _gradients(self, theta: Array, X: Array, Y: Array) -> Array:
        return jax.vmap(self.gradient, in_axes=(None, 0, 0))(theta, X, Y)

    def clipping_rule(self, clipping: Clipping) -> ClippingRule:
        """What a clipping acts on; refused where the model has nothing of that kind."""
        rule = CLIPPING_RULES[clipping.kind]
        if rule.needs_scalar_residual and not self.scalar_residual:
            remedy = 'use clipping kind "norm"'
            raise refuse("the model", "to have one scalar residual for residual clipping", self, remedy)
        return rule

    @property
    def scalar_residual(self) -> bool:
        """Whether the per-example gradient is a monotone scalar times a fixed vector: clipping it keeps contraction."""
        return False

    def regulariser_certificates(self) -> dict[str, Certificate]:
        """Strong convexity and smoothness of the penalty, by constant name; of a weight decay exactly itself."""
        reason = f"weight decay {self.weight_decay:g}: the Hessian is lambda times the identity"
        return {
            constant.name: Certificate(constant, self.weight_decay, Evidence.PROVED, reason)
            for constant in (REGULARISER_STRONG_CONVEXITY, REGULARISER_SMOOTHNESS)
        }

    def certificates(
        self, domain: Domain, clipping: Clipping | None, projection: Ball | None = None
    ) -> dict[str, Certificate]:
        """Every constant this model can certify for the update as run, by its name in `core.bound`.

        With a `projection` the constants hold for theta inside the ball, so the start has to lie in it too.
        """
        clip = None
        if clipping is not None and self.clipping_rule(clipping).of_rows:
            domain = domain.with_rows_clipped_to(clipping.bound)
        elif clipping is not None:
            clip = GradientClip(clipping.bound, self.dim(domain.features), self.scalar_residual)
        facts = self.facts(domain)
        if projection is not None:
            facts = facts.inside_ball(projection.radius)
        return certify(facts, domain, self.regulariser_certificates(), clip)

    def problem(
        self, n: int, domain: Domain, clipping: Clipping | None = None, projection: Ball | None = None
    ) -> Problem:
        """The problem section of a spec, certificates filled in."""
        certified = self.certificates(domain, clipping, projection)
        plain: dict[str, Any] = {name: value for name, value in certified.items() if "." not in name}
        for kind, section, parts in (
            (Regulariser, "regulariser", ("strong_convexity", "smoothness")),
            (GradientGrowth, "gradient_growth", ("g0", "g1", "at_zero")),
        ):
            if f"{section}.{parts[0]}" in certified:
                plain[section] = kind(*(certified[f"{section}.{part}"] for part in parts))
        return Problem(n=whole_number("n", n), dim=self.dim(domain.features), **plain)


Kind = TypeVar("Kind", bound=type[Model])
FAMILIES: dict[str, type[Model]] = {}


def family(word: str) -> Callable[[Kind], Kind]:
    """Register a model under the word by which a spec, a release or a command names it.

    A family is a file in `model/families/`, which is found by itself.
    """

    def registered(kind: Kind) -> Kind:
        if word in FAMILIES and FAMILIES[word].__qualname__ != kind.__qualname__:
            raise SordinoError(f"Two models are registered as {word!r}; names must be unique.")
        FAMILIES[word] = kind
        return kind

    return registered


@dataclass(frozen=True)
class LinearScoreModel(Model):
    """A loss of the scores x @ Theta, with Theta of shape (features, outputs), stored flat.

    Its per-example gradient is the outer product of x and the residual, so the kernel never materialises it.
    """

    @property
    def outputs(self) -> int:
        """Number of scores."""
        return 1

    @abstractmethod
    def score_loss(self, scores: Array, y: Array) -> Array:
        """The loss of one example's scores, shape (outputs,)."""

    @abstractmethod
    def residual(self, scores: Array, y: Array) -> Array:
        """The derivative of `score_loss` in the scores: (..., outputs) for scores (..., outputs) and y (...)."""

    @property
    def scalar_residual(self) -> bool:
        return self.outputs == 1

    def dim(self, features: int) -> int:
        return features * self.outputs

    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.score_loss(x @ theta.reshape(-1, self.outputs), y)

    def gradient(self, theta: Array, x: Array, y: Array) -> Array:
        return jnp.outer(x, self.residual(x @ theta.reshape(-1, self.outputs), y)).ravel()

    def gradient_sum(self, theta: Array, X: Array, Y: Array, weights: Array) -> Array:
        return self._outer_sum(X, self._residuals(theta, X, Y), weights)

    def clipped_gradient_sum(self, theta: Array, X: Array, Y: Array, weights: Array, bound: float) -> Array:
        residuals = clip_residuals(self._residuals(theta, X, Y), row_lengths(X), bound, theta.size)
        return self._outer_sum(X, residuals, weights)

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: RowSizes | None = None) -> Parts:
        rows = whole_rows(X, sizes)
        return (outer(rows, self.residual(products(rows, theta.reshape(-1, self.outputs)), Y)),)

    def _residuals(self, theta: Array, X: Array, Y: Array) -> Array:
        return self.residual(X @ theta.reshape(-1, self.outputs), Y)

    def _outer_sum(self, X: Array, residuals: Array, weights: Array) -> Array:
        # Not X.T @ residuals: the compiled product with a transposed left factor is several times slower on a CPU.
        return exact_product((weights[:, None] * residuals).T, X).T.ravel()


def describe_model(model: Model) -> NamedModel | None:
    """The words for a registered model; None for one of the user's own, which no file can hold."""
    name = next((name for name, kind in FAMILIES.items() if type(model) is kind), None)
    if name is None:
        return None
    return NamedModel(name, tuple((field.name, getattr(model, field.name)) for field in fields(model)))
