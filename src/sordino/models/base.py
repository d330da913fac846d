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
from typing import Annotated, ClassVar, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from sordino.core import bound as constants
from sordino.core.spec import Ball, Clipping, ClippingKind, GradientGrowth, Problem, Regulariser
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import NON_NEGATIVE, Declared, Json, SordinoError, refuse, whole_number
from sordino.models.clip import clip_by_norm, exact_product, working_bound
from sordino.models.contributions import Parts, Plain, RowSizes, outer, products, whole_rows
from sordino.models.facts import NOTHING_KNOWN, Domain, Growth, LossFact, LossFacts, sum_up_exactly

Certificates = dict[str, constants.Certificate]


# A model is a frozen, hashable dataclass, so that it can be a static argument of a compiled function. Parameters are
# one flat vector. The objective of a chain is ``(1/n) sum_i loss(theta, x_i, y_i) + penalty(theta)``.


@dataclass(frozen=True)
class Model(Declared, ABC):
    """A loss with a weight decay (`weight_decay` / 2) |theta|^2; a Gaussian prior of precision p has p / n."""

    _: KW_ONLY
    weight_decay: Annotated[float, NON_NEGATIVE] = 0.0
    # Whether rows are cut to whole numbers, without which products of rows and parameters would be rounded.
    cuts_rows: ClassVar[bool] = True

    @abstractmethod
    def dim(self, features: int) -> int:
        """How many parameters the model has when rows have this many features."""

    @abstractmethod
    def loss(self, theta: Array, x: Array, y: Array) -> Array:
        """Minus log-likelihood of one example, without regulariser; x has shape (features,), y is a scalar."""

    def as_labels(self, y: Array) -> Array:
        """Targets as the loss reads them, whatever was given: labels of a classification become one of its labels."""
        return y

    def facts(self, domain: Domain) -> LossFacts:
        """What is proved about the unclipped loss of one record of this domain; what is absent is not claimed."""
        return NOTHING_KNOWN

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
        """The weighted sum over rows of per-example gradients, clipped as `clipping` says, in the precision given.

        `weights` are 0 or 1 (masks of padded batches). The sum is not divided by anything and holds no regulariser.
        """
        if clipping is None:
            return exact_product(weights, self._gradients(theta, X, Y))
        if self.clips_rows(clipping):
            return exact_product(weights, self._gradients(theta, clip_by_norm(X, clipping.bound), Y))
        return exact_product(weights, clip_by_norm(self._gradients(theta, X, Y), clipping.bound))

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: RowSizes | None = None) -> Parts:
        """Every record's gradient, unclipped, as a run adds them up: in double precision, each of its record alone."""
        return (Plain(self._gradients(theta, X, Y)),)

    def _gradients(self, theta: Array, X: Array, Y: Array) -> Array:
        return jax.vmap(self.gradient, in_axes=(None, 0, 0))(theta, X, Y)

    def clips_rows(self, clipping: Clipping) -> bool:
        """Whether a clipping acts on rows of features, and not on gradients; refused where the model has no residual.

        Residual clipping cuts a scalar residual at bound / |x|: the same update as clipping the norm.
        """
        if clipping.kind is ClippingKind.RESIDUAL and not self.scalar_residual:
            remedy = 'use clipping kind "norm"'
            raise refuse("the model", "to have one scalar residual for residual clipping", self, remedy)
        return clipping.kind is ClippingKind.FEATURE

    @property
    def scalar_residual(self) -> bool:
        """Whether the per-example gradient is a monotone scalar times a fixed vector: clipping it keeps contraction."""
        return False

    def regulariser_certificates(self) -> Certificates:
        """Strong convexity and smoothness of the penalty, by constant name; of a weight decay exactly itself."""
        reason = f"weight decay {self.weight_decay:g}: the Hessian is lambda times the identity"
        return {
            constant.name: constants.Certificate(constant, self.weight_decay, constants.Evidence.PROVED, reason)
            for constant in (constants.REGULARISER_STRONG_CONVEXITY, constants.REGULARISER_SMOOTHNESS)
        }

    def certificates(self, domain: Domain, clipping: Clipping | None, projection: Ball | None = None) -> Certificates:
        """Every constant this model can certify for the update as run, by its name in `core.bound`.

        With a `projection` the constants hold for theta inside the ball, so the start has to lie in it too.
        """
        clip = None
        if clipping is not None and self.clips_rows(clipping):
            domain = domain.with_rows_clipped_to(clipping.bound)
        elif clipping is not None:
            clip = clipping.bound
        facts = self.facts(domain)
        if projection is not None:
            facts = facts.inside_ball(projection.radius)
        # A clip that no gradient reaches, as the kernel shortens it, is no clip.
        bound = facts.gradient_bound
        if clip is not None and bound is not None and working_bound(clip, self.dim(domain.features)) >= bound.value:
            clip = None
        regulariser = self.regulariser_certificates()
        known = evidence = min(facts.evidence, domain.evidence)
        bound, apart, growth = facts.gradient_bound, facts.gradient_sensitivity, facts.growth
        if clip is not None:
            reason, evidence = f"per-example gradients clipped to {clip:g}", constants.Evidence.BY_CONSTRUCTION
            bound, apart = LossFact(clip, reason), LossFact(2.0 * clip, f"{reason}, any two at most twice that apart")
            growth = Growth(2.0 * clip, 0.0, clip if growth is None else min(clip, growth.at_zero), reason)
        found = [(constants.GRADIENT_BOUND, bound, evidence), (constants.GRADIENT_SENSITIVITY, apart, evidence)]
        found.append((constants.DRIFT_BOUND, bound, evidence))
        loss, unclipped = facts.smoothness, (constants.UNCLIPPED_SMOOTHNESS, facts.smoothness, known)
        if facts.convex and clip is not None and not self.scalar_residual:
            found.append(unclipped)
        elif facts.convex:  # of the update as run
            kept = "" if clip is None else "; clipping the scalar residual keeps it monotone and no steeper"
            penalty = regulariser[constants.REGULARISER_STRONG_CONVEXITY.name]
            convexity = LossFact(penalty.value, f"{facts.convex}; {penalty.reason}{kept}")
            found.append((constants.STRONG_CONVEXITY, convexity, min(facts.evidence, penalty.evidence)))
            if loss is not None:
                penalty = regulariser[constants.REGULARISER_SMOOTHNESS.name]
                whole = LossFact(sum_up_exactly(loss.value, penalty.value), f"{loss.reason}; {penalty.reason}{kept}")
                found.append((constants.SMOOTHNESS, whole, min(known, penalty.evidence)))
                found += [unclipped] if clip is not None else []
        if growth is not None:
            named = (constants.GROWTH_G0, constants.GROWTH_G1, constants.GROWTH_AT_ZERO)
            values = zip(named, (growth.g0, growth.g1, growth.at_zero), strict=True)
            found += [(constant, LossFact(value, growth.reason), evidence) for constant, value in values]
        private = domain.reads_private_data
        certificates = {
            constant.name: constants.Certificate(constant, fact.value, evidence, fact.reason, private)
            for constant, fact, evidence in found
            if fact is not None
        }
        return certificates | regulariser

    def problem(
        self, n: int, domain: Domain, clipping: Clipping | None = None, projection: Ball | None = None
    ) -> Problem:
        """The problem section of a spec, certificates filled in."""
        certified = self.certificates(domain, clipping, projection)
        plain: Json = {name: value for name, value in certified.items() if "." not in name}
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

    A family is a file in `models/families/`, which is found by itself.
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

    Its per-example gradient is the outer product of x and the residual, which a run never materialises.
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

    def record_gradients(self, theta: Array, X: Array, Y: Array, sizes: RowSizes | None = None) -> Parts:
        rows = whole_rows(X, sizes)
        return (outer(rows, self.residual(products(rows, theta.reshape(-1, self.outputs)), Y)),)


def describe_model(model: Model) -> NamedModel | None:
    """The words for a registered model; None for one of the user's own, which no file can hold."""
    name = next((name for name, kind in FAMILIES.items() if type(model) is kind), None)
    values = tuple((field.name, getattr(model, field.name)) for field in fields(model))
    return None if name is None else NamedModel(name, values)
