"""Projection on a bounded set, last iterate: any step may be taken as a start at the diameter, convex or not."""

import math

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting.assumptions import Assumption, caller_checked, certificate_for, certified, changed
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import Monotone, last_iterate_scope, theorem
from sordino.accounting.langevin import largest_ratio
from sordino.accounting.shifts.closed_forms import bounded_cyclic_shift, bounded_every_step_shift
from sordino.accounting.shifts.contraction import Contraction, Identical, Listed, chain_steps, regulariser_contraction
from sordino.core.bound import GRADIENT_BOUND, Certificate, Citation, Relation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError

RISES_WITH_RADIUS = ("algorithm.projection.radius", Monotone.RISES)
_UNSTRETCHED = Contraction((), lambda _: 1.0, np.ones_like)


def _varying_batches(spec: Spec) -> str | None:
    chain = chain_of(spec)
    varying = chains.varying_schedule(chain)
    if chain.batch.scheme is Scheme.FULL or varying is None:
        return None
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
    scope=last_iterate_scope(replace_one={Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}, add_remove={Scheme.FULL}),
    assumptions=(
        chains.SENSITIVITY,
        chains.BOUND,
        chains.BALL,
        *chains.NUMERICAL,
        chains.CONTRACTION,
        Assumption(
            "schedules of batches",
            "with cyclic or once-shuffled batches, step size and noise scale are constant",
            _varying_batches,
            _varied,
        ),
        chains.EVERY_RECORD,
    ),
    certificates=chains.shift_certificates,
    monotone=(*chains.MONOTONE_CHAIN, RISES_WITH_RADIUS),
)
def projected(spec: Spec) -> Guarantee:
    """A projection is free; it also bounds every distance by the diameter."""
    chain, steps, diameter = chain_of(spec), chains.shift_steps(spec), chains.diameter_of(spec)
    if isinstance(steps, Listed) or chain.batch.scheme is Scheme.FULL:
        return GaussianDP(bounded_every_step_shift(steps, diameter))
    period, relative = chain.batches_per_epoch(spec.n), steps.relative(diameter)
    return GaussianDP(bounded_cyclic_shift(steps.contraction, steps.ratio, period, steps.count, relative))


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


_PRIVATE = {"value": 0.1, "evidence": "estimated", "reason": "computed from rows", "reads_private_data": True}


def _longest_step(spec: Spec) -> float | None:
    bound = certificate_for(spec, GRADIENT_BOUND)
    if bound is None or isinstance(_modulus(spec), str):
        return None
    return math.inf if math.isinf(3.0 * bound.value) else largest_ratio(_steps(spec))


@theorem(
    id="shifted.projected-nonconvex",
    statement=(
        "If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, the last "
        "iterate is mu-Gaussian DP with mu^2 = min over windows w <= T of (D + 2 w eta C)^2 / (w tau^2), whatever the "
        "loss and however batches of at most b records are chosen; a declared regulariser contracts distances on top."
    ),
    citation=Citation("bok2024shifted", "Section 3, with the drift's bound in place of its contraction"),
    status=Status.OURS,
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(
        certified(GRADIENT_BOUND),
        chains.BALL,
        chains.SCHEDULE_LENGTH,
        Assumption(
            "public regulariser",
            "a declared regulariser is certified from public knowledge",
            _unusable_regulariser,
            changed({"problem.regulariser": {"strong_convexity": _PRIVATE, "smoothness": _PRIVATE}}),
        ),
        chains.audible_noise(_longest_step),
        caller_checked("regulariser", "a run without problem.regulariser has none"),
    ),
    certificates=_certificates,
    monotone=(("algorithm.noise.scale", Monotone.FALLS), chains.RISES_WITH_BOUND, RISES_WITH_RADIUS),
)
def projected_nonconvex(spec: Spec) -> Guarantee:
    """Two steps from anywhere end at most 2 eta C further apart, and never further than the diameter."""
    return GaussianDP(bounded_every_step_shift(_steps(spec), chains.diameter_of(spec)))
