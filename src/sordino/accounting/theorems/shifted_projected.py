"""Projection on a bounded set, last iterate: any step may be taken as a start at the diameter."""

import math

import numpy as np

from sordino.accounting.evaluate import Monotone, Scope, theorem
from sordino.accounting.needs import Assumption, caller_checked, certificate_for, certified
from sordino.accounting.shifts.closed_forms import bounded_cyclic_shift, bounded_full_shift
from sordino.accounting.shifts.contraction import Contraction, Identical, Listed, chain_steps, regulariser_contraction
from sordino.accounting.shifts.solver import optimal_shift_bounded
from sordino.accounting.theorems.step_needs import (
    BALL,
    BOUND,
    CONTRACTION,
    EVERY_RECORD,
    LARGEST_RATIO,
    MONOTONE_CHAIN,
    NUMERICAL,
    SENSITIVITY,
    chain_of,
    diameter_of,
    shift_certificates,
    shift_steps,
)
from sordino.core.bound import GRADIENT_BOUND, Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError


def _varying_batches(spec: Spec) -> str | None:
    chain = chain_of(spec)
    if chain.batch.scheme is Scheme.FULL or (chain.step_size.is_constant and chain.noise.scale.is_constant):
        return None
    varying = "noise scale" if chain.step_size.is_constant else "step size"
    return f"covers a varying {varying} with full batches only, and the batches are {chain.batch.scheme}"


def _varied(spec: Spec) -> Spec:
    return spec.with_values(
        {
            "algorithm.batch": {"scheme": "cyclic", "size": max(1, spec.n // 2)},
            "algorithm.step_size": {"kind": "polynomial", "initial": 0.001, "offset": 100.0, "power": 0.5},
            "relation": "replace-one",
        }
    )


@theorem(
    id="shifted.projected",
    statement=(
        "If the iterates are projected on a set of diameter D, the last one is mu-Gaussian DP with "
        "mu = min over windows w of (c^w D + s (1 - c^w)/(1 - c)) / (tau sqrt((1 - c^2w)/(1 - c^2))) for full batches, "
        "(D + w s) / (tau sqrt(w)) for c = 1, and no more than without projection; with cyclic or once-shuffled "
        "batches the same shifts with moves at the steps of the worst position."
    ),
    citation=Citation("bok2024shifted", "Section 4, constrained convex losses"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {
            Relation.REPLACE_ONE: frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}),
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(
        SENSITIVITY,
        BOUND,
        BALL,
        *NUMERICAL,
        CONTRACTION,
        Assumption(
            "schedules of batches",
            "with cyclic or once-shuffled batches, step size and noise scale are constant",
            _varying_batches,
            _varied,
        ),
        EVERY_RECORD,
    ),
    certificates=shift_certificates,
    monotone=(*MONOTONE_CHAIN, ("algorithm.projection.radius", Monotone.RISES)),
)
def projected(spec: Spec) -> Guarantee:
    """A projection is free; it also bounds every distance by the diameter."""
    chain, steps, diameter = chain_of(spec), shift_steps(spec), diameter_of(spec)
    if not isinstance(steps, Identical):
        return GaussianDP(optimal_shift_bounded(steps.contractions, steps.moves, steps.noises, diameter))
    relative = steps.relative(diameter)
    if chain.batch.scheme is Scheme.FULL:
        return GaussianDP(bounded_full_shift(steps.contraction, steps.ratio, steps.count, relative))
    period = chain.batches_per_epoch(spec.n)
    return GaussianDP(bounded_cyclic_shift(steps.contraction, steps.ratio, period, steps.count, relative))


# Any bounded gradient on a bounded set, last iterate: no convexity, no smoothness.

_UNSTRETCHED = Contraction((), lambda _: 1.0, np.ones_like)
_SCHEDULE_LENGTH, _ = NUMERICAL


def _modulus(spec: Spec) -> Contraction | str:
    """The regulariser's part of the step; the bounded part goes into the moves."""
    declared = regulariser_contraction(spec)
    return _UNSTRETCHED if declared is None else declared


def _steps(spec: Spec) -> Identical | Listed:
    bound, modulus = certificate_for(spec, GRADIENT_BOUND), _modulus(spec)
    if bound is None or isinstance(modulus, str):
        raise InputError("Expected a run with a certified gradient bound, got one without; use evaluate.")
    # Both data parts are at most C long; a dataset with one record more than the divisor allows adds C / n.
    larger = 1.0 / spec.n if spec.relation is Relation.ADD_REMOVE else 0.0
    return chain_steps(chain_of(spec), modulus, up((2.0 + larger) * bound.value, 3))


def _certificates(spec: Spec) -> tuple[Certificate, ...]:
    bound, modulus = certificate_for(spec, GRADIENT_BOUND), _modulus(spec)
    return (*(() if bound is None else (bound,)), *(() if isinstance(modulus, str) else modulus.certificates))


def _unusable_regulariser(spec: Spec) -> str | None:
    modulus = _modulus(spec)
    return modulus if isinstance(modulus, str) else None


def _private_regulariser(spec: Spec) -> Spec:
    private = {"value": 0.1, "evidence": "estimated", "reason": "computed from rows", "reads_private_data": True}
    return spec.with_values({"problem.regulariser": {"strong_convexity": private, "smoothness": private}})


def _drowned(spec: Spec) -> str | None:
    bound = certificate_for(spec, GRADIENT_BOUND)
    if bound is None or isinstance(_modulus(spec), str):
        return None
    if math.isinf(3.0 * bound.value):
        return f"needs three times the gradient bound to be a finite float, and the bound is {bound.value!r}"
    steps = _steps(spec)
    with np.errstate(over="ignore"):
        ratio = steps.ratio if isinstance(steps, Identical) else float(np.max(steps.moves / steps.noises))
    if ratio <= LARGEST_RATIO:
        return None
    return f"evaluates steps of at most {LARGEST_RATIO:g} times their noise, and a step is {ratio:.3g} times it long"


def _made_quiet(spec: Spec) -> Spec:
    return spec.with_values({"algorithm.noise.scale": 1e-300})


@theorem(
    id="shifted.projected-nonconvex",
    statement=(
        "If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, the last "
        "iterate is mu-Gaussian DP with mu^2 = min over windows w <= T of (D + 2 w eta C)^2 / (w tau^2), whatever the "
        "loss and however batches of at most b records are chosen; a declared regulariser contracts distances on top."
    ),
    citation=Citation("bok2024shifted", "Section 3, with the drift's bound in place of its contraction"),
    status=Status.OURS,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {
            Relation.REPLACE_ONE: frozenset(Scheme) - {Scheme.POISSON},
            Relation.ADD_REMOVE: frozenset({Scheme.FULL}),
        },
    ),
    assumptions=(
        certified(GRADIENT_BOUND),
        BALL,
        _SCHEDULE_LENGTH,
        Assumption(
            "public regulariser",
            "a declared regulariser is certified from public knowledge",
            _unusable_regulariser,
            _private_regulariser,
        ),
        Assumption("noise", f"no step is longer than {LARGEST_RATIO:g} times its noise", _drowned, _made_quiet),
        caller_checked("regulariser", "a run without problem.regulariser has none"),
    ),
    certificates=_certificates,
    monotone=(
        ("algorithm.noise.scale", Monotone.FALLS),
        ("problem.gradient_bound", Monotone.RISES),
        ("algorithm.projection.radius", Monotone.RISES),
    ),
)
def projected_nonconvex(spec: Spec) -> Guarantee:
    """Two steps from anywhere end at most 2 eta C further apart, and never further than the diameter."""
    steps, diameter = _steps(spec), diameter_of(spec)
    if isinstance(steps, Listed):
        return GaussianDP(optimal_shift_bounded(steps.contractions, steps.moves, steps.noises, diameter))
    return GaussianDP(bounded_full_shift(steps.contraction, steps.ratio, steps.count, steps.relative(diameter)))
