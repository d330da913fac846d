"""From facts about a loss to certificates of the update as run: how clipping and weight decay carry over.

- Clipping a gradient to C bounds it by C and keeps two of them within 2C, whatever the loss.
- Clipping keeps strong convexity and smoothness where the gradient is a monotone scalar times a fixed vector: the
  clipped scalar is still monotone and no steeper, so it is the derivative of a convex loss that is no less smooth.
- With vector residuals (softmax, three or more classes) it does not: Ye & Shokri 2022, Proposition F.2, is false there
  (see `core.clipped_modulus`). Then only the smoothness of the unclipped convex loss is certified.
- A clip that never acts is no clip.
- The mean of per-example gradients over a batch of at most b records, divided by b, is no longer than the longest.
"""

from dataclasses import dataclass

from sordino.core import constants
from sordino.core.certificate import Certificate, Constant, Evidence
from sordino.model.clip import working_bound
from sordino.model.domain import Domain
from sordino.model.facts import Fact, LossFacts, sum_up_exactly

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
        return tuple(
            self._certificate(constant, fact, evidence)
            for constant, fact in (
                (constants.GRADIENT_BOUND, bound),
                (constants.GRADIENT_SENSITIVITY, apart),
                (constants.DRIFT_BOUND, bound),
            )
            if fact is not None
        )

    def curvature(self, regulariser: Certificates, clip: GradientClip | None) -> tuple[Certificate, ...]:
        """Strong convexity and smoothness of the update as run, or of the unclipped loss where clipping breaks them."""
        smoothness = self.facts.smoothness
        if not self.facts.convex:
            return ()
        if clip is not None and not clip.keeps_curvature:
            return () if smoothness is None else (self._upper(constants.UNCLIPPED_SMOOTHNESS, smoothness),)
        kept = "" if clip is None else "; clipping the scalar residual keeps it monotone and no steeper"
        return (*self._convexity(regulariser, kept), *self._smoothness(regulariser, kept, clip is not None))

    def _convexity(self, regulariser: Certificates, kept: str) -> tuple[Certificate, ...]:
        penalty = regulariser.get(constants.REGULARISER_STRONG_CONVEXITY.name)
        if penalty is None:
            return ()
        reason = f"{self.facts.convex}; {penalty.reason}{kept}"
        evidence = min(self.facts.evidence, penalty.evidence)
        return (self._certificate(constants.STRONG_CONVEXITY, Fact(penalty.value, reason), evidence),)

    def _smoothness(self, regulariser: Certificates, kept: str, clipped: bool) -> tuple[Certificate, ...]:
        loss, penalty = self.facts.smoothness, regulariser.get(constants.REGULARISER_SMOOTHNESS.name)
        if loss is None or penalty is None:
            return ()
        whole = Fact(sum_up_exactly(loss.value, penalty.value), f"{loss.reason}; {penalty.reason}{kept}")
        evidence = min(self._from_domain, penalty.evidence)
        as_run = self._certificate(constants.SMOOTHNESS, whole, evidence)
        return (as_run, self._upper(constants.UNCLIPPED_SMOOTHNESS, loss)) if clipped else (as_run,)

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
        named = (constants.GROWTH_G0, constants.GROWTH_G1, constants.GROWTH_AT_ZERO)
        return tuple(
            self._certificate(constant, Fact(value, reason), evidence)
            for constant, value in zip(named, values, strict=True)
        )

    @property
    def _from_domain(self) -> Evidence:
        return min(self.facts.evidence, self.domain.evidence)

    def _upper(self, constant: Constant, fact: Fact) -> Certificate:
        return self._certificate(constant, fact, self._from_domain)

    def _certificate(self, constant: Constant, fact: Fact, evidence: Evidence) -> Certificate:
        return Certificate(constant, fact.value, evidence, fact.reason, self.domain.reads_private_data)


def weight_decay_certificates(weight_decay: float) -> Certificates:
    """The regulariser (lambda / 2) |theta|^2 is exactly lambda-strongly convex and lambda-smooth."""
    reason = f"weight decay {weight_decay:g}: the Hessian is lambda times the identity"
    return {
        constant.name: Certificate(constant, weight_decay, Evidence.PROVED, reason)
        for constant in (constants.REGULARISER_STRONG_CONVEXITY, constants.REGULARISER_SMOOTHNESS)
    }
