"""Last iterates in a bounded set, or with a bounded data part of any shape: the cheapest shifts.

Projection: any step may be taken as a start at the diameter. A bounded drift: by its bound, or smoothness if smaller.
"""

import math
from dataclasses import replace

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import closed_forms as closed
from sordino.accounting.bounds import contraction as shifts
from sordino.accounting.bounds.contraction import Contraction, IdenticalSteps, ListedSteps
from sordino.accounting.bounds.solver import LONGEST_WINDOW, TwoLines, two_line_shift
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import FIXED_ORDERS, Assumption, assumption, caller_checked, last_iterate_scope, promised
from sordino.accounting.theorems import langevin as drift
from sordino.core.bound import GRADIENT_BOUND, Citation
from sordino.core.gaussian import up
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import InputError


@assumption("schedules of batches", "with cyclic or once-shuffled batches, step size and noise scale are constant")
def _varying_batches(spec: Spec) -> str | None:
    chain = chain_of(spec)
    varying = chains.varying_schedule(chain)
    if chain.batch.scheme is Scheme.FULL or varying is None:
        return None
    return f"covers a varying {varying} with full batches only, and the batches are {chain.batch.scheme}"


@as_stated(
    "shifted.projected",
    "If the iterates are projected on a set of diameter D, the last one is mu-Gaussian DP with mu = min over windows "
    "w of (c^w D + s (1 - c^w)/(1 - c)) / (tau sqrt((1 - c^2w)/(1 - c^2))) for full batches, (D + w s) / (tau "
    "sqrt(w)) for c = 1, and no more than without projection; with cyclic or once-shuffled batches the same shifts "
    "with moves at the steps of the worst position.",
    Citation("bok2024shifted", "Section 4, constrained convex losses"),
    scope=last_iterate_scope(replace_one={Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}, add_remove={Scheme.FULL}),
    assumptions=(
        chains.SENSITIVITY,
        chains.BOUND,
        chains.BALL,
        *chains.NUMERICAL,
        chains.CONTRACTION,
        _varying_batches,
        chains.EVERY_RECORD,
    ),
)
def projected(spec: Spec) -> Guarantee:
    """A projection is free; it also bounds every distance by the diameter."""
    return _in_a_ball(spec, chains.shift_steps(spec))


def _in_a_ball(spec: Spec, steps: IdenticalSteps | ListedSteps) -> Guarantee:
    """Batches in a fixed order move at one position of every pass; all others may move at every step."""
    chain, diameter = chain_of(spec), chains.diameter_of(spec)
    if isinstance(steps, ListedSteps) or chain.batch.scheme not in FIXED_ORDERS:
        return GaussianDP(closed.bounded_every_step_shift(steps, diameter))
    period, relative = chain.batches_per_epoch(spec.n), steps.relative(diameter)
    return GaussianDP(closed.bounded_cyclic_shift(steps.contraction, steps.ratio, period, steps.count, relative))


def regulariser_modulus(spec: Spec) -> Contraction | str:
    """The regulariser's part of the step; the bounded part goes into the moves."""
    return shifts.regulariser_contraction(spec) or shifts.UNSTRETCHED


def clipped_steps(spec: Spec) -> IdenticalSteps | ListedSteps:
    """Steps that move two points, of any two neighbours, further apart by the bound on both data parts."""
    expected = "a run with a certified gradient bound"
    bound = promised(assume.certificate_for(spec, GRADIENT_BOUND), expected)
    # Both data parts are at most C long; every record that a dataset has beyond the divisor adds C / n.
    larger = (2 * spec.surplus - 1) / spec.n if spec.surplus else 0.0
    modulus = promised(regulariser_modulus(spec), expected)
    return shifts.chain_steps(chain_of(spec), modulus, up((2.0 + larger) * bound.value, 3))


PUBLIC_REGULARISER = Assumption(
    "public regulariser",
    "a declared regulariser is certified from public knowledge",
    lambda spec: modulus if isinstance(modulus := regulariser_modulus(spec), str) else None,
    certificates=lambda spec: shifts.resting_on(regulariser_modulus(spec)),
)
NO_OTHER_REGULARISER = caller_checked("regulariser", "a run without problem.regulariser has none")


def _longest_step(spec: Spec) -> float | None:
    bound = assume.certificate_for(spec, GRADIENT_BOUND)
    if bound is None or isinstance(regulariser_modulus(spec), str):
        return None
    return math.inf if math.isinf(3.0 * bound.value) else drift.largest_ratio(clipped_steps(spec))


@ours(
    "shifted.projected-nonconvex",
    "If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, the last "
    "iterate is mu-Gaussian DP with mu^2 = min over windows w <= T of (D + 2 w eta C)^2 / (w tau^2), whatever the "
    "loss and however batches of at most b records are chosen; a declared regulariser contracts distances on top.",
    Citation("bok2024shifted", "Section 3, with the drift's bound in place of its contraction"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(
        assume.certified(GRADIENT_BOUND),
        chains.BALL,
        chains.SCHEDULE_LENGTH,
        PUBLIC_REGULARISER,
        chains.audible_noise(_longest_step),
        NO_OTHER_REGULARISER,
    ),
)
def projected_nonconvex(spec: Spec) -> Guarantee:
    """Two steps from anywhere end at most 2 eta C further apart, and never further than the diameter."""
    return GaussianDP(closed.bounded_every_step_shift(clipped_steps(spec), chains.diameter_of(spec)))


_SMOOTH_STEP = Assumption(
    "smooth step",
    "how much a step stretches a distance is certified: by the curvature of the update as run, by its "
    "smoothness alone, or, for clipped gradients, by unclipped_smoothness",
    lambda spec: chains.beyond_floating_point(shifts.near_modulus(spec), spec),
    certificates=lambda spec: shifts.resting_on(shifts.near_modulus(spec)),
)


@ours(
    "shifted.projected-smooth",
    "If the iterates are projected on a set of diameter D and a step of one dataset stretches distances by at most c "
    "(1 + eta M for an M-smooth objective of any shape), the last one is mu-Gaussian DP with mu^2 the least cost of "
    "shifts z_k = c z_{k-1} + s_k - a_k >= 0 from z = D at any step, s_k = eta Delta / b at the steps whose batch may "
    "hold the record. With full batches and c > 1 a long run costs at most (c^2 - 1) D (D + 2 s / (c - 1)) / tau^2, "
    "less than composition from (c^2 - 1) D (D + 2 s / (c - 1)) / s^2 steps on.",
    Citation("chien2024convergent", "abstract, bounded domain without convexity; here by the cheapest shifts"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(chains.SENSITIVITY, chains.BALL, *chains.NUMERICAL, _SMOOTH_STEP, chains.EVERY_RECORD),
)
def projected_smooth(spec: Spec) -> Guarantee:
    """|F(x) - F'(y)| <= |F(x) - F(y)| + |F(y) - F'(y)| <= c |x - y| + s, and no distance exceeds D.

    The shift theorem needs no convexity, a projection after the noise is free, and any step may be taken as a start at
    distance D. Pushes over one window of w full-batch steps cost (c^w D + A (c^w - 1))^2 (c^2 - 1) / (c^2w - 1) /
    tau^2, A = s / (c - 1), that is (D + A - A u)^2 (c^2 - 1) / (1 - u^2) with u = c^-w, least at u = A / (D + A), where
    it is (c^2 - 1) D (D + 2 A); up to there no z_k is negative.
    """
    modulus = promised(shifts.near_modulus(spec), "a run with a certified smoothness")
    return _in_a_ball(spec, chains.shifted_by(spec, modulus))


_BOUNDED_DRIFT = (drift.bounded_drift, drift.contracting_regulariser, chains.SCHEDULE_LENGTH, drift.AUDIBLE_NOISE)


@ours(
    "shifted.drift-bounded",
    "If the data part of the drift is at most v (clipped gradients of any network) and theta - eta grad r(theta) "
    "contracts by rho = max(|1 - eta a|, |1 - eta L|), the last of T iterates is mu-Gaussian DP with mu^2 = (2 eta v "
    "/ tau)^2 (1 - rho^T)/(1 + rho^T) (1 + rho)/(1 - rho), whatever the loss and however batches of at most b records "
    "are chosen; with varying schedules the least cost of shifts z_k = rho_k z_{k-1} + 2 eta_k v - a_k >= 0. Attained "
    "by linear losses with weight decay. For a data-free part that is strongly monotone but no gradient, rho is "
    "sqrt(1 - 2 eta a + eta^2 L^2).",
    Citation("bok2024shifted", "Section 3, with the drift's bound in place of its sensitivity"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(*_BOUNDED_DRIFT, drift.WHOLE_DRIFT),
)
def drift_bounded(spec: Spec) -> Guarantee:
    """Two steps from anywhere on any two datasets end at most rho z + 2 eta v apart."""
    return GaussianDP(closed.every_step_shift(drift.drift_steps(spec)))


@assumption("two lines", "a step stretches distances more than its regulariser's part does")
def _two_lines(spec: Spec) -> str | None:
    near, far = shifts.near_modulus(spec), shifts.regulariser_contraction(spec)
    if not isinstance(near, Contraction) or not isinstance(far, Contraction):
        return None
    step = chains.largest_step(chain_of(spec))
    whole, alone = near.at(step), far.at(step)
    if whole > alone:
        return None
    return (
        f"needs a step that stretches distances more than its regulariser's part does, and {whole:.6g} <= {alone:.6g}: "
        "the contraction theorems say all there is to say"
    )


@ours(
    "shifted.drift-bounded-smooth",
    "If the data part of the drift is at most v and a step of one dataset stretches distances by at most c (smooth or "
    "weakly convex losses, clipped or not), the last iterate is mu-Gaussian DP with mu^2 the least sum of a_k^2 / "
    "tau_k^2 over shifts z_k = min(rho z_{k-1} + 2 eta v, c z_{k-1} + s_k) - a_k >= 0 with z_T = 0, where s_k = eta "
    "Delta / b at the steps whose batch may hold the record and 0 at others. Never above shifted.drift-bounded, nor "
    "above composition with full or fixed batches.",
    Citation("bok2024shifted", "Section 3, with the smaller of two moduli"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(
        chains.SENSITIVITY,
        *_BOUNDED_DRIFT,
        replace(chains.AUDIBLE_STEPS, name="sensitivity over noise"),
        _SMOOTH_STEP,
        _two_lines,
        drift.WHOLE_DRIFT,
        chains.EVERY_RECORD,
    ),
)
def drift_bounded_smooth(spec: Spec) -> Guarantee:
    """Every assignment of the two lines to the steps is a valid shift problem; the best found is used."""
    modulus = promised(shifts.near_modulus(spec), "a run with a certified smoothness")
    far, near = drift.drift_steps(spec), chains.shifted_by(spec, modulus)
    if isinstance(far, ListedSteps) and isinstance(near, ListedSteps):
        # With varying schedules every step is taken to use the record.
        composed = float(np.sqrt(np.sum((near.moves / near.noises) ** 2))) * (1 + 1e-13)
        lines = TwoLines(far.contractions, far.moves, near.contractions, near.moves, far.noises)
        return GaussianDP(min(composed, closed.every_step_shift(far), two_line_shift(lines)))
    if not isinstance(far, IdenticalSteps) or not isinstance(near, IdenticalSteps):
        raise InputError("Expected both moduli of one run to follow the same schedule.")
    # With identical steps the worst record is the one that the last step uses: for any other one the steps after its
    # last use are post-processing, and what is left is the end of this one's run.
    chain = chain_of(spec)
    period = chain.batches_per_epoch(spec.n) if chain.batch.scheme in FIXED_ORDERS else 1
    composed = closed.cyclic_shift(near.contraction, near.ratio, period, -(-near.count // period))
    window = np.ones(min(far.count, LONGEST_WINDOW + 1))
    used = np.arange(len(window) - 1, -1, -1) % period == 0
    moves = np.where(used, near.ratio, 0.0)
    lines = TwoLines(far.contraction * window, far.ratio * window, near.contraction * window, moves, window)
    return GaussianDP(min(composed, closed.every_step_shift(far), two_line_shift(lines)))
