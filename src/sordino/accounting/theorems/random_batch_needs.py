"""What the theorems about random batches and the last iterate need of a run, and how they read it."""

from sordino.accounting.assumption import Assumption
from sordino.accounting.shifts.contraction import contraction_of, required_contraction
from sordino.accounting.theorems.hidden_state_needs import CONSTANT
from sordino.accounting.theorems.shift_needs import CONTRACTION, EVERY_RECORD, MONOTONE_CHAIN, chain_of
from sordino.accounting.theorems.step_needs import NUMERICAL, SENSITIVITY, required_steps
from sordino.core.errors import InputError
from sordino.core.spec import Spec

# The delta at which windows and splits are chosen when the spec states none; the choice is public either way.
REFERENCE_DELTA = 1e-6
# Smaller contractions are rounded up to this one: logarithms stay finite, and nothing is lost.
_SMALLEST_CONTRACTION = 1e-9


def contraction_and_ratio(spec: Spec) -> tuple[float, float]:
    """c > 0 and kappa of the identical steps of a run that meets the needs below."""
    eta, ratio = chain_of(spec).step_size.constant, required_steps(spec).constant_ratio
    if eta is None or ratio is None:
        raise InputError("Expected a constant step size and noise scale, got a schedule; use evaluate.")
    return max(required_contraction(spec).at(eta), _SMALLEST_CONTRACTION), ratio


def _modulus(spec: Spec) -> float:
    found, eta = contraction_of(spec), chain_of(spec).step_size.constant
    return 0.0 if isinstance(found, str) or eta is None else found.at(eta)


def _not_contracting(spec: Spec) -> str | None:
    modulus = _modulus(spec)
    return None if modulus < 1 else f"needs a contraction c < 1, and c = {modulus:.6g}"


def _expanding(spec: Spec) -> str | None:
    modulus = _modulus(spec)
    return None if modulus <= 1 else f"needs a contraction c <= 1, and c = {modulus:.6g}"


def _made_expanding(spec: Spec) -> Spec:
    return spec.with_values({"problem.smoothness": 4 / (chain_of(spec).step_size.constant or 1.0)})


def _unsampled(spec: Spec) -> str | None:
    size = chain_of(spec).divisor(spec.n)
    return None if size < spec.n else f"needs batches of b < n records, and b = {size}, n = {spec.n}"


CONTRACTING = Assumption("contracting", "c < 1", _not_contracting, _made_expanding)
NOT_EXPANDING = Assumption("not expanding", "c <= 1", _expanding, _made_expanding)
SAMPLED = Assumption("sampled", "b < n", _unsampled, lambda spec: spec.with_values({"algorithm.batch.size": spec.n}))

CONTRACTED_CHAIN = (SENSITIVITY, *NUMERICAL, CONTRACTION, CONSTANT, EVERY_RECORD)
MONOTONE_RANDOM = MONOTONE_CHAIN
