"""What the theorems about noisy steps need of a run, and how they read its steps once the needs are met."""

from dataclasses import replace

from sordino.accounting.assumption import Assumption, caller_checked, certified
from sordino.accounting.constants import certificate_for
from sordino.accounting.noisy_steps import (
    LONGEST_SCHEDULE,
    NoisySteps,
    noisy_steps,
    scheme_of,
    sensitivity_constant,
)
from sordino.accounting.registry import Monotone
from sordino.core.certificate import Certificate, Constant
from sordino.core.constants import GRADIENT_BOUND, GRADIENT_SENSITIVITY
from sordino.core.errors import InputError
from sordino.core.spec import NoisyGradient, Scheme, Spec

# Beyond this a step hides nothing, and sums of squares would leave the range of floating point.
LARGEST_RATIO = 1e9


def used_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """The certificate that says how far a record moves a step of a chain; rounds carry theirs in the multiplier."""
    found = [certificate_for(spec, constant) for constant in _used(spec)]
    return tuple(certificate for certificate in found if certificate is not None)


def required_steps(spec: Spec) -> NoisySteps:
    """The steps of a run that meets the needs below."""
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None:
        raise InputError("Expected a run with noisy steps and a certified sensitivity, got one without; use evaluate.")
    return steps


def _used(spec: Spec) -> tuple[Constant, ...]:
    if not isinstance(spec.algorithm, NoisyGradient):
        return ()
    return (sensitivity_constant(spec.relation, scheme_of(spec.algorithm)),)


def _uses(constant: Constant, when: str) -> Assumption:
    needed = certified(constant, when=lambda spec: constant in _used(spec))
    return replace(needed, statement=f"{when}, {needed.statement}")


def _compares_others(spec: Spec) -> bool:
    """Whether a record that is not drawn is compared with other records, and no bound on every gradient covers that."""
    if scheme_of(spec.algorithm) is not Scheme.WITHOUT_REPLACEMENT or not isinstance(spec.algorithm, NoisyGradient):
        return False
    used, bound = certificate_for(spec, GRADIENT_SENSITIVITY), certificate_for(spec, GRADIENT_BOUND)
    return used is not None and (bound is None or used.value < 2 * bound.value * (1 - 1e-12))


def _too_long(spec: Spec) -> str | None:
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None or steps.constant_ratio is not None or steps.steps <= LONGEST_SCHEDULE:
        return None
    return f"evaluates varying schedules of at most {LONGEST_SCHEDULE} steps, and this run has {steps.steps}"


def _made_too_long(spec: Spec) -> Spec:
    steps = LONGEST_SCHEDULE + 1
    if isinstance(spec.algorithm, NoisyGradient):
        schedule = {"kind": "polynomial", "initial": 0.1, "offset": 1.0, "power": 0.5}
        return spec.with_values({"algorithm.steps": steps, "algorithm.step_size": schedule, "algorithm.keep": None})
    growing = {"kind": "polynomial", "initial": 1.0, "offset": 1.0, "power": 0.01}
    return spec.with_values({"algorithm.steps": steps, "algorithm.noise_multiplier": growing})


def _drowned(spec: Spec) -> str | None:
    steps = noisy_steps(spec.algorithm, spec)
    if steps is None:
        return None
    ratio = float(steps.ratios().max()) if steps.constant_ratio is None else steps.constant_ratio
    if ratio <= LARGEST_RATIO:
        return None
    return (
        f"evaluates steps that move at most {LARGEST_RATIO:g} times their noise, and a step moves {ratio:.3g} times it"
    )


def _made_quiet(spec: Spec) -> Spec:
    noise = "noise.scale" if isinstance(spec.algorithm, NoisyGradient) else "noise_multiplier"
    return spec.with_values({f"algorithm.{noise}": 1e-300})


SENSITIVITY = _uses(GRADIENT_SENSITIVITY, "under replace-one and without Poisson sampling")
BOUND = _uses(GRADIENT_BOUND, "under add-remove or with Poisson sampling")
ANY_TWO_RECORDS = caller_checked(
    "any two records",
    "with batches drawn without replacement, the declared gradient_sensitivity bounds the difference between the "
    "gradients of any two records there may be, not only of a record and its replacement: a batch without the record "
    "holds another one in its place",
    _compares_others,
)
NUMERICAL = (
    Assumption(
        "schedule length", f"a varying schedule has at most {LONGEST_SCHEDULE} steps", _too_long, _made_too_long
    ),
    Assumption("noise", f"no step moves more than {LARGEST_RATIO:g} times its noise", _drowned, _made_quiet),
)

MONOTONE_STEPS = (
    ("algorithm.noise.scale", Monotone.FALLS),
    ("algorithm.noise_multiplier", Monotone.FALLS),
    ("algorithm.steps", Monotone.RISES),
)
