"""Last iterates in a bounded set, or with a bounded data part of any shape: shifts, and noise that hides the past.

Projection: any step may be taken as a start at the diameter. A bounded drift: by its bound, or smoothness if smaller.
Below, lengths are in units of the noise of a step.

**Hölder gradients.** A step of one dataset takes two points at distance z to at most c z + A z^a, and the two datasets'
steps add s. The shift theorem holds for every modulus that grows with z: any plan z_0 = D, ..., z_w = 0 costs the sum
of a_k^2 with a_k = c z_{k-1} + A z_{k-1}^a + s - z_k, or 0 where that is negative, because then the distance is below
the plan. Plans of the form z_k = D (1 - k / w)^p are tried.

**Curves.** Let f bound the hockey-stick divergences E_gamma of the two laws before a step, in either order, and let the
means of a step from any two points of the set, of one dataset, differ by at most w. Write mu - gamma nu = a - b with a,
b >= 0 of disjoint support: |a| = E_gamma = E, |b| = E + gamma - 1. A step K of one dataset is linear, and a K - b K is
an average over points x of a and y of b of |a| K_x - |b| K_y, so

    E_gamma(mu K, nu K) <= E delta_w(log(1 + (gamma - 1) / E)),

delta_w the curve of a w-Gaussian: far less than delta_w(log gamma) E where E is small (Asoodeh & Diaz 2023 call it
non-linear data processing). The right side grows with E. The steps K and K' of two datasets differ by at most s, so for
gamma = gamma_1 gamma_2, through nu K or mu K',

    E_gamma(mu K, nu K') <= E_gamma_1(mu K, nu K) + gamma_1 E_gamma_2(nu K, nu K'),
    E_gamma(mu K, nu K') <= E_gamma_1(mu K, mu K') + gamma_1 E_gamma_2(mu K', nu K'),

and a divergence of steps K, K' from one law is at most delta_s. A projection only lowers divergences. Whatever came
before, one step alone gives delta_{w+s}. Each of these grows with f, and a step that uses the record is never below one
that does not: so a run whose batches are given may be bounded by one that uses the record more often.
"""

import math
from dataclasses import replace

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import closed_forms as closed
from sordino.accounting.bounds import contraction as shifts
from sordino.accounting.bounds.contraction import IdenticalSteps, ListedSteps, Steps
from sordino.accounting.bounds.solver import LONGEST_WINDOW, TwoLines, two_line_shift
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import FIXED_ORDERS, Assumption, assumption, caller_checked, last_iterate_scope, promised
from sordino.accounting.theorems import langevin as drift
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, Certificate, Citation
from sordino.core.gaussian import delta_range, up
from sordino.core.guarantee import GaussianDP, Guarantee, LossDistribution
from sordino.core.loss.atomic_pairs import ExplicitPair, pair_from_curve
from sordino.core.spec import Scheme, Spec

_CONTRACTED_IN_A_BALL = (chains.SENSITIVITY, chains.BOUND, chains.BALL, *chains.NUMERICAL, chains.CONTRACTION)


@assumption("schedules of batches", "with cyclic or once-shuffled batches, step size and noise scale are constant")
def _varying_batches(spec: Spec) -> str | None:
    scheme, varying = chain_of(spec).batch.scheme, chains.varying_schedule(chain_of(spec))
    if scheme is Scheme.FULL or varying is None:
        return None
    return f"covers a varying {varying} with full batches only, and the batches are {scheme}"


@as_stated(
    "shifted.projected",
    Citation("bok2024shifted", "Section 4, constrained convex losses"),
    scope=last_iterate_scope(replace_one={Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE}, add_remove={Scheme.FULL}),
    assumptions=(*_CONTRACTED_IN_A_BALL, _varying_batches, chains.EVERY_RECORD),
)
def projected(spec: Spec) -> Guarantee:
    """If the iterates are projected on a set of diameter D, the last one is mu-Gaussian DP with mu = min over windows w
    of (c^w D + s (1 - c^w)/(1 - c)) / (tau sqrt((1 - c^2w)/(1 - c^2))) for full batches, (D + w s) / (tau sqrt(w)) for
    c = 1, and no more than without projection; with cyclic or once-shuffled batches the same shifts with moves at the
    steps of the worst position."""
    # A projection is free; it also bounds every distance by the diameter.
    return _in_a_ball(spec, chains.shift_steps(spec))


def _in_a_ball(spec: Spec, steps: Steps) -> Guarantee:
    """Batches in a fixed order move at one position of every pass; all others may move at every step."""
    chain, diameter = chain_of(spec), chains.diameter_of(spec)
    if isinstance(steps, ListedSteps) or chain.batch.scheme not in FIXED_ORDERS:
        return GaussianDP(closed.bounded_every_step_shift(steps, diameter))
    period, relative = chain.batches_per_epoch(spec.n), steps.relative(diameter)
    return GaussianDP(closed.bounded_cyclic_shift(steps.contraction, steps.ratio, period, steps.count, relative))


def regulariser_modulus(spec: Spec) -> shifts.Contraction | str:
    """The regulariser's part of the step; the bounded part goes into the moves."""
    return shifts.regulariser_contraction(spec) or shifts.UNSTRETCHED


def clipped_steps(spec: Spec) -> Steps:
    """Steps that move two points, of any two neighbours, further apart by the bound on both data parts."""
    bound = promised(assume.certificate_for(spec, GRADIENT_BOUND))
    # Both data parts are at most C long; every record that a dataset has beyond the divisor adds C / n.
    larger = (2 * spec.surplus - 1) / spec.n if spec.surplus else 0.0
    modulus = promised(regulariser_modulus(spec))
    return shifts.chain_steps(chain_of(spec), modulus, up((2.0 + larger) * bound.value, 3))


PUBLIC_REGULARISER = replace(
    assume.found_or_why(
        "public regulariser", "a declared regulariser is certified from public knowledge", regulariser_modulus
    ),
    certificates=lambda spec: shifts.resting_on(regulariser_modulus(spec)),
)
_CLIPPED_IN_A_BALL = (assume.certified(GRADIENT_BOUND), chains.BALL, chains.SCHEDULE_LENGTH, PUBLIC_REGULARISER)
NO_OTHER_REGULARISER = caller_checked("regulariser", "a run without problem.regulariser has none")


def _longest_step(spec: Spec) -> float:
    bound = promised(assume.certificate_for(spec, GRADIENT_BOUND)).value
    return math.inf if math.isinf(3.0 * bound) else drift.largest_ratio(clipped_steps(spec))


@ours(
    "shifted.projected-nonconvex",
    Citation("bok2024shifted", "Section 3, with the drift's bound in place of its contraction"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(*_CLIPPED_IN_A_BALL, chains.audible_noise(_longest_step), NO_OTHER_REGULARISER),
)
def projected_nonconvex(spec: Spec) -> Guarantee:
    """If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, the last
    iterate is mu-Gaussian DP with mu^2 = min over windows w <= T of (D + 2 w eta C)^2 / (w tau^2), whatever the loss
    and however batches of at most b records are chosen; a declared regulariser contracts distances on top."""
    # Two steps from anywhere end at most 2 eta C further apart, and never further than the diameter.
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
    Citation("chien2024convergent", "abstract, bounded domain without convexity; here by the cheapest shifts"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(chains.SENSITIVITY, chains.BALL, *chains.NUMERICAL, _SMOOTH_STEP, chains.EVERY_RECORD),
)
def projected_smooth(spec: Spec) -> Guarantee:
    """If the iterates are projected on a set of diameter D and a step of one dataset stretches distances by at most c
    (1 + eta M for an M-smooth objective of any shape), the last one is mu-Gaussian DP with mu^2 the least cost of
    shifts z_k = c z_{k-1} + s_k - a_k >= 0 from z = D at any step, s_k = eta Delta / b at the steps whose batch may
    hold the record. With full batches and c > 1 a long run costs at most (c^2 - 1) D (D + 2 s / (c - 1)) / tau^2, less
    than composition from (c^2 - 1) D (D + 2 s / (c - 1)) / s^2 steps on.

    |F(x) - F'(y)| <= |F(x) - F(y)| + |F(y) - F'(y)| <= c |x - y| + s, and no distance exceeds D.

    The shift theorem needs no convexity, a projection after the noise is free, and any step may be taken as a start at
    distance D. Pushes over one window of w full-batch steps cost (c^w D + A (c^w - 1))^2 (c^2 - 1) / (c^2w - 1) /
    tau^2, A = s / (c - 1), that is (D + A - A u)^2 (c^2 - 1) / (1 - u^2) with u = c^-w, least at u = A / (D + A), where
    it is (c^2 - 1) D (D + 2 A); up to there no z_k is negative.
    """
    return _in_a_ball(spec, chains.shift_steps(spec, promised(shifts.near_modulus(spec))))


_BOUNDED_DRIFT = (*drift.BOUNDED_DRIFT, chains.SCHEDULE_LENGTH, drift.AUDIBLE_NOISE)


@ours(
    "shifted.drift-bounded",
    Citation("bok2024shifted", "Section 3, with the drift's bound in place of its sensitivity"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(*_BOUNDED_DRIFT, drift.WHOLE_DRIFT),
)
def drift_bounded(spec: Spec) -> Guarantee:
    """If the data part of the drift is at most v (clipped gradients of any network) and theta - eta grad r(theta)
    contracts by rho = max(|1 - eta a|, |1 - eta L|), the last of T iterates is mu-Gaussian DP with mu^2 = (2 eta v /
    tau)^2 (1 - rho^T)/(1 + rho^T) (1 + rho)/(1 - rho), whatever the loss and however batches of at most b records are
    chosen; with varying schedules the least cost of shifts z_k = rho_k z_{k-1} + 2 eta_k v - a_k >= 0. Attained by
    linear losses with weight decay. For a data-free part that is strongly monotone but no gradient, rho is sqrt(1 - 2
    eta a + eta^2 L^2)."""
    # Two steps from anywhere on any two datasets end at most rho z + 2 eta v apart.
    return GaussianDP(closed.every_step_shift(drift.drift_steps(spec)))


@assumption("two lines", "a step stretches distances more than its regulariser's part does")
def _two_lines(spec: Spec) -> str | None:
    near, far = (promised(found(spec)) for found in (shifts.near_modulus, shifts.regulariser_contraction))
    chain = chain_of(spec)
    step = chain.step_size.largest(chain.steps)
    whole, alone = near.at(step), far.at(step)
    if whole > alone:
        return None
    return (
        f"needs a loss that stretches distances: a step multiplies them by up to {whole:.6g}, and its regulariser by "
        f"{alone:.6g}; use the contraction theorems"
    )


_TWO_LINES = (replace(chains.AUDIBLE_STEPS, name="sensitivity over noise"), _SMOOTH_STEP, _two_lines)


@ours(
    "shifted.drift-bounded-smooth",
    Citation("bok2024shifted", "Section 3, with the smaller of two moduli"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(chains.SENSITIVITY, *_BOUNDED_DRIFT, *_TWO_LINES, drift.WHOLE_DRIFT, chains.EVERY_RECORD),
)
def drift_bounded_smooth(spec: Spec) -> Guarantee:
    """If the data part of the drift is at most v and a step of one dataset stretches distances by at most c (smooth or
    weakly convex losses, clipped or not), the last iterate is mu-Gaussian DP with mu^2 the least sum of a_k^2 / tau_k^2
    over shifts z_k = min(rho z_{k-1} + 2 eta v, c z_{k-1} + s_k) - a_k >= 0 with z_T = 0, where s_k = eta Delta / b at
    the steps whose batch may hold the record and 0 at others. Never above shifted.drift-bounded, nor above composition
    with full or fixed batches."""
    # Every assignment of the two lines to the steps is a valid shift problem; the best found is used.
    far = drift.drift_steps(spec)
    near = chains.shift_steps(spec, promised(shifts.near_modulus(spec)))
    if isinstance(far, ListedSteps) and isinstance(near, ListedSteps):
        # With varying schedules every step is taken to use the record.
        composed = float(np.sqrt(np.sum((near.moves / near.noises) ** 2))) * (1 + 1e-13)
        lines = TwoLines(far.contractions, far.moves, near.contractions, near.moves, far.noises)
        return GaussianDP(min(composed, closed.every_step_shift(far), two_line_shift(lines)))
    far, near = _alike(far), _alike(near)
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


_SHAPES = (1.0, 1.5, 2.0, 3.0)
_WINDOWS = 48  # lengths of plans that are tried
LONGEST_PLAN = 20_000
_GROWTH, _LOWEST = 1.035, 1e-5  # of the points of a curve, and the first over the last
_TOP = 7.5  # deviations of the loss of a single step at the end of a curve
_MOST_USES = 40  # followed from any law before them
_MOST_FROM_THE_START = 64  # followed from the start, where both laws are one
_MOST_QUIET = 20  # steps without the record between two uses; further ones would lower the curve more


def hoelder_shift(steps: int, contraction: float, ratio: float, stretch: tuple[float, float], diameter: float) -> float:
    """The cheapest plan found; `stretch` is (A, a). Never above composition, which needs no modulus."""
    factor, exponent = stretch
    best = steps * ratio * ratio
    for length in np.unique(np.geomspace(1, min(steps, LONGEST_PLAN), _WINDOWS).astype(np.int64)).tolist():
        left = 1 - np.arange(length + 1) / length
        for shape in _SHAPES:
            plan = diameter * left**shape
            with np.errstate(over="ignore"):
                pushes = contraction * plan[:-1] + factor * plan[:-1] ** exponent + ratio - plan[1:]
                best = min(best, float(np.square(np.maximum(pushes, 0.0)).sum()))
    return up(math.sqrt(best) * (1 + 1e-12), 2)


def contracted_pair(far: float, ratio: float, period: int, uses: int) -> ExplicitPair:
    """The pair of the last iterate: `uses` steps that move by `ratio`, one in `period`, means at most `far` apart."""
    whole = far + ratio
    top = whole * (whole / 2 + _TOP)
    # The same points for every diameter, so that the bound moves as the curves do.
    lowest = max(0.05 * ratio, _LOWEST * top)
    count = max(2, math.ceil(math.log(top / lowest) / math.log(_GROWTH)) + 1)
    epsilons = np.concatenate([[0.0], lowest * _GROWTH ** np.arange(count)])
    alone = _curve(whole, epsilons)
    # Row k, column j: what is left of epsilon_k for the move where epsilon_j goes to the contracted law.
    rest = epsilons[:, None] - epsilons
    moved = np.where(rest >= 0, _curve(ratio, np.maximum(rest, 0.0)), np.inf)

    def used(curve: Array) -> Array:
        for _ in range(min(period, _MOST_QUIET + 1)):
            curve = _contracted(curve, far, epsilons)
        first = curve + np.exp(epsilons) * moved
        second = moved + np.exp(np.maximum(rest, 0.0)) * curve
        return np.minimum(alone, np.minimum(first, second).min(axis=1) * (1 + 1e-13))

    best = alone
    for _ in range(min(uses, _MOST_USES) - 1):
        best = used(best)
    if uses <= _MOST_FROM_THE_START:
        curve = _curve(ratio, epsilons)
        for _ in range(uses - 1):
            curve = used(curve)
        best = np.minimum(best, curve)
    return pair_from_curve(epsilons, np.minimum(best, 1.0))


def _curve(mu: float, epsilons: Array) -> Array:
    return delta_range(mu, epsilons)[1]


def _contracted(curve: Array, far: float, epsilons: Array) -> Array:
    """E delta_w(log(1 + (gamma - 1) / E)) at every point; rounding must not lower it, nor raise it above the curve."""
    seen = curve > 1e-290
    safe = np.where(seen, curve, 1.0)
    with np.errstate(over="ignore"):
        losses = np.log1p(np.expm1(epsilons) / (safe * (1 + 1e-15))) * (1 - 1e-15)
    return np.where(seen, np.minimum(curve, safe * _curve(far, losses) * (1 + 1e-14)), curve)


_HOELDER = (constants.HOELDER_CONSTANT, constants.HOELDER_EXPONENT)
_HOELDER_GRADIENTS = assume.certified(*_HOELDER, section="hoelder")
_IN_A_BALL = (chains.BALL, *chains.NUMERICAL, chains.CONSTANT, PUBLIC_REGULARISER)
_LARGEST_DISTANCE = 8.0  # noises between the means of two steps; a step that knows more forgets nothing


@ours(
    "shifted.projected-hoelder",
    Citation("chien2024convergent", "abstract, Hölder continuous gradients; shifts of our own"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES),
    assumptions=(chains.SENSITIVITY, _HOELDER_GRADIENTS, *_IN_A_BALL, NO_OTHER_REGULARISER),
)
def projected_hoelder(spec: Spec) -> Guarantee:
    """If the iterates are projected on a set of diameter D, every example's gradient differs by at most L |x - y|^a
    between two points, 0 < a <= 1, and the regulariser's part of a step stretches distances by at most c, the last
    iterate is mu-Gaussian DP with mu^2 the least sum of a_k^2 / tau^2 found over plans z_0 = D, ..., z_w = 0, w <= T,
    a_k = max(0, c z_{k-1} + eta L z_{k-1}^a + s - z_k), s = eta Delta / b; no more than composition."""
    (step, _), (constant, exponent) = chains.constant_step(spec), assume.section_values(spec, _HOELDER).values()
    steps = _alike(chains.shift_steps(spec, promised(regulariser_modulus(spec))))
    factor = up(step * constant * steps.noise ** (exponent - 1), 4)
    relative = steps.relative(chains.diameter_of(spec))
    return GaussianDP(hoelder_shift(steps.count, steps.contraction, steps.ratio, (factor, exponent), relative))


def _alike(steps: Steps) -> IdenticalSteps:
    return promised(steps if isinstance(steps, IdenticalSteps) else None)


def _far(spec: Spec) -> float:
    """How far apart, in noises, the means of two steps of one dataset may be."""
    if math.isinf(3.0 * promised(assume.certificate_for(spec, GRADIENT_BOUND)).value):
        return math.inf
    steps = _alike(clipped_steps(spec))
    # Under add-remove both points may be those of the larger dataset, with up to so many records more than the divisor.
    apart = steps.contraction * steps.relative(chains.diameter_of(spec))
    return up(apart + (1.0 + spec.surplus / spec.n) * steps.ratio, 4)


def _clipped_certificates(spec: Spec) -> tuple[Certificate, ...]:
    used = (*assume.section_certificates(spec, (GRADIENT_BOUND,)), *chains.used_certificates(spec))
    return tuple(dict.fromkeys((*used, *PUBLIC_REGULARISER.certificates(spec))))


_FORGETFUL = assume.at_most(
    "forgetful steps",
    "two steps of one dataset are at most {limit:g} noises apart",
    _far,
    "is of use where two steps of one dataset are at most {limit:g} noises apart (c D + 2 eta C over tau), and they "
    "may be {value:.3g} apart",
    _LARGEST_DISTANCE,
)


@ours(
    "hidden-state.projected-clipped",
    Citation("asoodeh2023privacy", "abstract, non-linear data processing; the recursion re-derived"),
    scope=last_iterate_scope(replace_one=chains.FIXED_SIZE_SCHEMES, add_remove={Scheme.FULL}),
    assumptions=(assume.certified(GRADIENT_BOUND), *_IN_A_BALL, _FORGETFUL, NO_OTHER_REGULARISER),
    certificates=_clipped_certificates,
)
def projected_clipped(spec: Spec) -> Guarantee:
    """If the averaged clipped gradient is at most C and the iterates are projected on a set of diameter D, a step takes
    a hockey-stick divergence E at gamma to at most E delta_w(log(1 + (gamma - 1) / E)), w = (c D + 2 eta C) / tau, c
    the regulariser's stretch and delta_w the curve of a w-Gaussian; one that uses the record adds delta_s, s = eta
    Delta / (b tau), at a share of epsilon. The last iterate is bounded by the curve these steps end in, whatever the
    loss."""
    # The proof is at the head of the file; batches that are not in a fixed order may use the record at every step.
    chain, ratio = chain_of(spec), promised(chains.required_steps(spec).constant_ratio)
    period = chain.batches_per_epoch(spec.n) if chain.batch.scheme in assume.FIXED_ORDERS else 1
    return LossDistribution(((contracted_pair(_far(spec), ratio, period, -(-chain.steps // period)), 1),))
