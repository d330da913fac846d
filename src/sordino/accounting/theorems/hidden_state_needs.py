"""What the hidden-state theorems need of a run, and the numbers they read off it once the needs are met."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sordino.accounting.evaluate import Monotone
from sordino.accounting.needs import Assumption, certificate_for, certified
from sordino.accounting.shifts.contraction import clipping_breaks_curvature
from sordino.accounting.theorems.step_needs import MONOTONE_STEPS, NUMERICAL, SENSITIVITY, required_steps
from sordino.core.bound import GRADIENT_SENSITIVITY, SMOOTHNESS, STRONG_CONVEXITY, Certificate, Constant
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, RenyiDP
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError

_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})


@dataclass(frozen=True)
class HiddenState:
    """One run in the letters of Ye & Shokri.

    Attributes:
        contraction: c = 1 - eta m, rounded up.
        decay: eta m, rounded down.
        u: kappa^2 / 2, rounded up.
        balle_square: 1 - 2 eta m M / (m + M), rounded up.
        period: batches in one pass.
        steps: number of steps.
        rate: share of the records in a batch.
    """

    contraction: float
    decay: float
    u: float
    balle_square: float
    period: int
    steps: int
    rate: float

    @property
    def earlier_uses(self) -> int:
        """How often a record in the batch of the last step was used before: the worst position.

        Every other position has as many uses or fewer, and more steps after its last one.
        """
        return (self.steps - 1) // self.period


def hidden_state(spec: Spec) -> HiddenState:
    """The numbers of a run that meets the needs below."""
    run, steps = chain(spec), required_steps(spec)
    eta, m, smooth = _step_size(run), _value(spec, STRONG_CONVEXITY), _value(spec, SMOOTHNESS)
    ratio = steps.constant_ratio
    if eta is None or ratio is None:
        raise InputError("Expected a constant step size and noise scale, got a schedule; use evaluate.")
    decay = eta * m
    balle = 1 - 2 * decay * smooth / (m + smooth) if m else Fraction(1)
    return HiddenState(
        up(float(1 - decay)),
        float(decay) * (1 - 1e-15),
        up(ratio * ratio / 2, 2),
        up(float(balle)),
        steps.batches_per_epoch,
        steps.steps,
        steps.rate,
    )


def linear(coefficient: float) -> RenyiDP:
    """The curve order -> coefficient * order. Linear in the order, but no claim of Gaussian privacy follows from it."""
    return RenyiDP(ORDERS, tuple(up(order * coefficient, 2) for order in ORDERS))


def curve(values: Callable[[np.ndarray], np.ndarray]) -> RenyiDP:
    """A curve that is not linear in the order, evaluated on the common grid."""
    return RenyiDP(ORDERS, tuple(map(up, values(np.asarray(ORDERS)).tolist())))


def hidden_state_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The sensitivity, the strong convexity and the smoothness of a run."""
    found = [certificate_for(spec, constant) for constant in (GRADIENT_SENSITIVITY, STRONG_CONVEXITY, SMOOTHNESS)]
    return tuple(certificate for certificate in found if certificate is not None)


def chain(spec: Spec) -> NoisyGradient:
    """The chain of a spec in scope."""
    if not isinstance(spec.algorithm, NoisyGradient):
        raise InputError("Expected a noisy gradient chain, got another kind of run; use evaluate.")
    return spec.algorithm


def _step_size(run: NoisyGradient) -> Fraction | None:
    constant = run.step_size.constant
    return None if constant is None else Fraction(constant)


def _value(spec: Spec, constant: Constant) -> Fraction:
    certificate = certificate_for(spec, constant)
    return Fraction(0 if certificate is None else certificate.value)


def _varying(spec: Spec) -> str | None:
    run = chain(spec)
    if run.step_size.is_constant and run.noise.scale.is_constant:
        return None
    varying = "noise scale" if run.step_size.is_constant else "step size"
    return f"is about a constant step size and noise scale, and the {varying} follows a schedule"


def _made_varying(spec: Spec) -> Spec:
    return spec.with_values(
        {"algorithm.step_size": {"kind": "polynomial", "initial": 0.001, "offset": 100.0, "power": 0.5}}
    )


def _projected(spec: Spec) -> str | None:
    return "is about chains without projection, and this one is projected" if chain(spec).projection else None


def _made_projected(spec: Spec) -> Spec:
    return spec.with_values({"algorithm.projection": {"kind": "ball", "radius": 1.0}})


def _norm_clipped(spec: Spec) -> str | None:
    return clipping_breaks_curvature(chain(spec))


def _made_norm_clipped(spec: Spec) -> Spec:
    return spec.with_values({"algorithm.clipping": {"kind": "norm", "bound": 1e6, "classes": 3}})


def _flat(spec: Spec) -> str | None:
    return None if _value(spec, STRONG_CONVEXITY) > 0 else "needs strong convexity m > 0, and m = 0"


def _ragged(spec: Spec) -> str | None:
    run = chain(spec)
    size = run.divisor(spec.n)
    if run.batch.scheme not in _PASSES or spec.n % size == 0:
        return None
    return f"needs batches of equal size, and {spec.n} records do not split into batches of {size}"


def _one_batch(spec: Spec) -> str | None:
    period = chain(spec).batches_per_epoch(spec.n)
    return None if period >= 2 else f"needs at least 2 batches in a pass, and there is {period}"


def _made_one_batch(spec: Spec) -> Spec:
    return spec.with_values({"algorithm.batch.size": spec.n})


def step_at_most(name: str, limit: str, reached: Callable[[Fraction, Fraction], Fraction], strict: bool) -> Assumption:
    """eta below (`strict`) or at most a limit computed from m and M; both sides are printed."""

    def failure(spec: Spec) -> str | None:
        eta, m, smooth = _step_size(chain(spec)), _value(spec, STRONG_CONVEXITY), _value(spec, SMOOTHNESS)
        if eta is None or smooth == 0:
            return None
        bound = reached(m, smooth)
        if eta < bound or (eta == bound and not strict):
            return None
        sign = "<" if strict else "<="
        return f"needs eta {sign} {limit} = {float(bound):.6g}, and eta = {float(eta):.6g}"

    def violated(spec: Spec) -> Spec:
        eta = chain(spec).step_size.constant
        return spec.with_values({"problem.smoothness": 4 / (1.0 if eta is None else eta)})

    return Assumption(name, f"the step size eta is {'below' if strict else 'at most'} {limit}", failure, violated)


CONVEXITY = certified(STRONG_CONVEXITY)
SMOOTH = certified(SMOOTHNESS)
CONSTANT = Assumption("constant schedules", "step size and noise scale are constant", _varying, _made_varying)
STRONG = Assumption(
    "strong convexity", "m > 0", _flat, lambda spec: spec.with_values({"problem.strong_convexity": 0.0})
)
EQUAL_BATCHES = Assumption(
    "equal batches", "b divides n", _ragged, lambda spec: spec.with_values({"problem.n": spec.n + 1})
)
TWO_BATCHES = Assumption("two batches", "a pass has at least two batches", _one_batch, _made_one_batch)
UNPROJECTED = Assumption("no projection", "the chain is not projected", _projected, _made_projected)
CONVEX_CLIPPING = Assumption(
    "clipping", "clipping, if any, keeps the gradient of a convex loss", _norm_clipped, _made_norm_clipped
)
STEP_BELOW_HARMONIC = step_at_most("step size", "2 / (m + M)", lambda m, smooth: 2 / (m + smooth), strict=True)
STEP_UP_TO_HARMONIC = step_at_most("step size", "2 / (m + M)", lambda m, smooth: 2 / (m + smooth), strict=False)
STEP_BELOW_TWICE_INVERSE = step_at_most("step size", "2 / M", lambda _, smooth: 2 / smooth, strict=True)
STEP_BELOW_INVERSE = step_at_most("step size", "1 / M", lambda _, smooth: 1 / smooth, strict=True)

# In the order in which a reader would check them.
SMOOTH_CHAIN = (SENSITIVITY, CONVEXITY, SMOOTH, *NUMERICAL, CONSTANT, UNPROJECTED, CONVEX_CLIPPING)
MONOTONE_HIDDEN = (
    *(entry for entry in MONOTONE_STEPS if entry[0] != "algorithm.noise_multiplier"),
    ("problem.gradient_sensitivity", Monotone.RISES),
)
