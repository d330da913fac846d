"""Hidden-state theorems of Ye & Shokri and their baselines: the last iterate of a smooth, strongly convex chain."""

import math
from collections.abc import Callable, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps

import numpy as np
from numpy.typing import ArrayLike

from sordino.accounting import chain_assumptions as chains
from sordino.accounting.evaluate import Theorem, as_stated
from sordino.accounting.scope import FIXED_ORDERS, Assumption, last_iterate_scope, promised
from sordino.core.arrays import Array
from sordino.core.bound import SMOOTHNESS, STRONG_CONVEXITY, Citation
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, RenyiDP
from sordino.core.spec import Scheme, Spec

# The noise variance is tau^2, a step whose batch holds the record moves by kappa tau, and u = kappa^2 / 2 (in the
# papers' letters eta S_g^2 / (4 sigma^2 b^2)). Every value is linear in the order, so one coefficient says it for all
# orders. Every function rounds up; arrays are taken elementwise.

# Exponentials are evaluated at exponents of at most 700, known to a few units in the last place: 700 * 2^-52 * 4.
_ACCURACY = 1e-12
_LARGEST_EXPONENT = 700.0
_SMALLEST = 1e-300  # a coefficient that underflows is rounded up to this; it costs nothing


def one_pass(contraction: float, u: float, steps: ArrayLike) -> Array:
    """epsilon_0^j / order: the record is used once, j = `steps` steps before the end, that step included.

    u c^{2(j-1)} / sum_{s<j} c^{2s} (Ye & Shokri 2022, Equation 136); u / j for c = 1.
    """
    length = np.asarray(steps, dtype=np.float64)
    if contraction >= 1.0:
        return u / length * (1 + _ACCURACY)
    rate = min(-2 * math.log(contraction), _LARGEST_EXPONENT)
    ratio = math.expm1(rate) / np.expm1(np.minimum(length * rate, _LARGEST_EXPONENT))
    return np.maximum(u * np.minimum(ratio, 1.0), _SMALLEST) * (1 + _ACCURACY)


def geometric_sum(log_ratio: float, terms: ArrayLike) -> Array:
    """sum_{k < terms} exp(k log_ratio) for a log ratio of at most 0."""
    count = np.asarray(terms, dtype=np.float64)
    return count if log_ratio == 0.0 else np.expm1(count * log_ratio) / math.expm1(log_ratio) * (1 + _ACCURACY)


def strongly_convex(contraction: float, u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem 3.3 for a record used `earlier` times before its last use, which comes `steps` steps before the end.

    epsilon_0^h (1 - c^{2 E (l-h)}) / (1 - c^{2 (l-h)}) + epsilon_0^steps with l = `period` >= 2 batches a pass and
    h = floor(l / 2). A record of batch j_0 in K whole passes has E = K - 1 earlier uses and l - j_0 steps left.
    """
    half = period // 2
    log_ratio = 0.0 if contraction >= 1.0 else 2 * (period - half) * math.log(contraction)
    return one_pass(contraction, u, half) * geometric_sum(log_ratio, earlier) + one_pass(contraction, u, steps)


def convex(u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem D.4: u E / l + u / steps."""
    before, left = np.asarray(earlier, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    return u * (before / period + 1 / left) * (1 + _ACCURACY)


def balle(square: float, u: float, period: int, earlier: ArrayLike, steps: ArrayLike) -> Array:
    """Theorem D.5, Balle et al. 2019 (Theorem 5), composed over the passes; `square` is 1 - 2 eta m M / (m + M).

    A use followed by j - 1 >= 1 others costs u square^{j/2} / (j - 1), one at the very end costs u.
    """

    def use(length: Array) -> Array:
        faded = u * np.exp(np.maximum(length * (math.log(square) / 2), -_LARGEST_EXPONENT))
        return np.where(length <= 1, u, faded / np.maximum(length - 1, 1.0))

    before, left = np.asarray(earlier, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    return (before * use(np.asarray(float(period))) + use(left)) * (1 + _ACCURACY)


def full(decay: float, u: float, steps: int) -> float:
    """Theorem D.6: 2 u sum_{k=1}^{K} (1 - eta m / 2)^k; `decay` is eta m, below 1."""
    log_ratio = math.log1p(-decay / 2)
    return float(2 * u * math.exp(log_ratio) * geometric_sum(log_ratio, steps)) * (1 + _ACCURACY)


def chourasia(decay: float, u: float, steps: int) -> float:
    """Theorem D.7, Chourasia, Ye & Shokri 2021 (Corollary 1): 4 u / (eta m) (1 - e^{-eta m K / 2})."""
    exponent = decay * steps / 2
    # A decay that underflows to 0 is the limit 2 u K, which is never smaller.
    return 2 * u * steps * (-math.expm1(-exponent) / exponent if exponent > 0 else 1.0) * (1 + _ACCURACY)


_MOST_POSITIONS = 2048  # passes of more batches than this are summed over groups of positions, each at its worst one
# The recursion takes single steps up to this many, then blocks of at most this share of the steps already taken.
_SINGLE_STEPS = 2048
_RANDOM_ACCURACY = 1e-11  # some 2e4 blocks at 1e6 steps, each rounded a few times


def shuffled(orders: Array, contraction: float, u: float, period: int, steps: int) -> Array:
    """Theorem 4.2: log of the mean over positions of exp((order - 1) value), over order - 1.

    A record j positions into the pass has its last use r steps before the end; as j runs over the pass, r takes each
    of 1, ..., l once, and was used one time more before if r <= T mod l.
    """
    whole, rest = divmod(steps, period)
    starts = _groups(period, rest)
    weights = np.diff(np.append(starts, period + 1)) / period
    earlier = np.where(starts <= rest, whole, whole - 1)
    coefficient = np.where(earlier < 0, 0.0, strongly_convex(contraction, u, period, np.maximum(earlier, 0), starts))
    exponents = (orders * (orders - 1))[:, None] * coefficient[None, :]
    peak = exponents.max(axis=1)
    # Most of the mean is near 1 for small exponents: sum expm1 there, so that no digits are lost.
    small = np.log1p(np.expm1(np.minimum(exponents, 1.0)) @ weights)
    large = peak + np.log(np.exp(exponents - peak[:, None]) @ weights)
    mean = np.where(peak <= 1.0, small, large)
    return np.minimum(mean / (orders - 1), orders * coefficient.max()) * (1 + _RANDOM_ACCURACY)


def _groups(period: int, rest: int) -> Array:
    """First members of groups of 1, ..., period; values fall within a group, and `rest` ends one."""
    if period <= _MOST_POSITIONS:
        return np.arange(1.0, period + 1)
    starts = np.unique(np.floor(np.geomspace(1.0, period, _MOST_POSITIONS)))
    return np.unique(np.append(starts, min(rest + 1, period)))


def subsampled(orders: Array, contraction: float, u: float, rate: float, steps: int) -> Array:
    """Theorem 4.3: log S / (order - 1), with S <- q e^{(order-1) order u} S + (1-q) S^{c^2} from S = 1.

    L = log S grows by D(L) = log(q e^A + (1-q) e^{-(1-c^2) L}), which falls as L grows, and never passes the fixed
    point of the recursion where there is one. So a block of n steps adds at most n D(L): blocks as long as 1/2048 of
    the steps already taken bound the rest of a long run from above.
    """
    growth = orders * (orders - 1) * u
    fade = -math.expm1(2 * math.log(contraction)) if contraction < 1.0 else 0.0
    ceiling = _fixed_point(growth, fade, rate)
    total, taken = np.zeros(len(orders)), 0
    while taken < steps:
        block = min(max(1, taken // _SINGLE_STEPS), steps - taken)
        reached = np.minimum(total + block * _gain(total, growth, fade, rate), ceiling)
        if np.array_equal(reached, total):
            break
        total, taken = reached, taken + block
    return np.minimum(total, steps * growth) / (orders - 1) * (1 + _RANDOM_ACCURACY)


def _gain(total: Array, growth: Array, fade: float, rate: float) -> Array:
    """D(L), rounded up; accurate when it is small, and without overflow when it is large."""
    capped = np.minimum(growth, 500.0)
    added = rate * np.expm1(capped)
    small = np.log1p(np.maximum(added + (1 - rate) * np.expm1(-fade * total), 0.0)) + 4e-15 * np.minimum(added, 2.0)
    large = growth + math.log(rate) + np.log1p((1 - rate) / rate * np.exp(-capped)) + 4e-15 * growth
    return np.where(growth <= 500.0, small, large)


def _fixed_point(growth: Array, fade: float, rate: float) -> Array:
    """log((1-q) / (1 - q e^A)) / (1 - c^2) where q e^A < 1, rounded up; infinite elsewhere."""
    room = 1 - rate * np.exp(np.minimum(growth, 700.0))
    if fade <= 0.0:
        return np.full(len(growth), np.inf)
    kept = np.maximum(room, 1e-6)
    excess = rate * np.expm1(np.minimum(growth, 600.0)) / kept
    # 1 - q e^A is known to about 4e-16; divided by itself that is its relative error.
    return np.where(room > 1e-6, np.log1p(excess) / fade * (1 + 1e-15 / kept), np.inf)


@dataclass(frozen=True)
class HiddenState:
    """One run in the letters of Ye & Shokri."""

    contraction: float  # c = 1 - eta m, rounded up
    decay: float  # eta m, rounded down
    u: float  # kappa^2 / 2, rounded up
    balle_square: float  # 1 - 2 eta m M / (m + M), rounded up
    period: int  # batches in one pass
    steps: int
    rate: float  # share of the records in a batch

    @property
    def earlier_uses(self) -> int:
        """How often a record in the batch of the last step was used before: the worst position.

        Every other position has as many uses or fewer, and more steps after its last one.
        """
        return (self.steps - 1) // self.period


def hidden_state(spec: Spec) -> HiddenState:
    """The numbers of a run that meets the assumptions."""
    (step, _), steps = chains.constant_step(spec), chains.required_steps(spec)
    m, smooth = chains.stated_value(spec, STRONG_CONVEXITY), chains.stated_value(spec, SMOOTHNESS)
    ratio = promised(steps.constant_ratio)
    decay = Fraction(step) * m
    balle = 1 - 2 * decay * smooth / (m + smooth) if m else Fraction(1)
    factors = up(float(1 - decay)), float(decay) * (1 - 1e-15), up(ratio * ratio / 2, 2), up(float(balle))
    return HiddenState(*factors, steps.batches_per_epoch, steps.steps, steps.rate)


def linear(coefficient: ArrayLike) -> RenyiDP:
    """The curve order -> coefficient * order. Linear in the order, but no claim of Gaussian privacy follows from it."""
    slope = float(np.asarray(coefficient))
    return RenyiDP(ORDERS, tuple(up(order * slope, 2) for order in ORDERS))


def _hidden_state_theorem(
    name: str, citation: Citation, schemes: Set[Scheme], assumptions: tuple[Assumption, ...]
) -> Callable[[Callable[[HiddenState], RenyiDP]], Theorem]:
    scope = last_iterate_scope(replace_one=schemes)
    register = as_stated(name, citation, scope=scope, assumptions=(*chains.SMOOTH_CHAIN, *assumptions))
    return lambda proof: register(wraps(proof)(lambda spec: proof(hidden_state(spec))))


@_hidden_state_theorem(
    "hidden-state.balle",
    Citation("balle2019privacy", "Theorem 5, as Theorem D.5 of Ye & Shokri 2022"),
    FIXED_ORDERS,
    (chains.STRONG, chains.STEP_UP_TO_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def uses_by_balle(run: HiddenState) -> RenyiDP:
    """With fixed batches, one use of the record followed by j - 1 >= 1 steps without it costs at most order u (1 - 2
    eta m M / (m + M))^{j/2} / (j - 1), and one at the very end order u, u = kappa^2 / 2; the passes compose."""
    # Each pass, counted from one use to the next, is one release; the last use is at the end.
    return linear(balle(run.balle_square, run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.convex",
    Citation("ye2022differentially", "Theorem D.4"),
    FIXED_ORDERS,
    (chains.STEP_BELOW_TWICE_INVERSE, chains.EQUAL_BATCHES),
)
def convex_uses(run: HiddenState) -> RenyiDP:
    """With l fixed batches a pass and a convex, M-smooth loss, a record of batch j_0 has Rényi divergence at most order
    u ((K-1)/l + 1/(l-j_0)) after K passes, u = kappa^2 / 2. The worst record is in the batch of the last step."""
    # Every earlier use is followed by a whole pass, the last one by nothing.
    return linear(convex(run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.fixed",
    Citation("ye2022differentially", "Theorem 3.3"),
    FIXED_ORDERS,
    (chains.STRONG, chains.STEP_BELOW_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def fixed(run: HiddenState) -> RenyiDP:
    """With l >= 2 fixed batches a pass and an m-strongly convex, M-smooth loss, a record of batch j_0 has Rényi
    divergence at most epsilon_0^h (1 - c^{2(K-1)(l-h)}) / (1 - c^{2(l-h)}) + epsilon_0^{l-j_0} after K passes, h =
    floor(l/2), c = 1 - eta m, epsilon_0^j = order u c^{2(j-1)} / sum_{s<j} c^{2s}, u = kappa^2 / 2. The worst record is
    in the batch of the last step."""
    # The recursion is about uses of the record, so a last pass that stops early is covered too.
    return linear(strongly_convex(run.contraction, run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.full",
    Citation("ye2022differentially", "Theorem D.6"),
    {Scheme.FULL},
    (chains.STRONG, chains.STEP_BELOW_INVERSE),
)
def full_batches(run: HiddenState) -> RenyiDP:
    """With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most 2 order u sum_{k=1}^{T} (1
    - eta m / 2)^k, u = kappa^2 / 2."""
    return linear(full(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.full-chourasia",
    Citation("chourasia2021differential", "Corollary 1, as Theorem D.7 of Ye & Shokri 2022"),
    {Scheme.FULL},
    (chains.STRONG, chains.STEP_BELOW_INVERSE),
)
def full_chourasia(run: HiddenState) -> RenyiDP:
    """With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most order (4u / (eta m)) (1 -
    e^{-eta m T / 2}), u = kappa^2 / 2. Stated for a Gaussian start; it holds for any data-free start because
    hidden-state.full is smaller."""
    return linear(chourasia(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.naive",
    Citation("ye2022differentially", "Theorem 2.1, the naive baseline, as described in Appendix C"),
    {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT},
    (chains.STRONG, chains.STEP_BELOW_INVERSE, chains.EQUAL_BATCHES),
)
def naive(run: HiddenState) -> RenyiDP:
    """Whatever batches of size b are used, Rényi divergence is at most order (4u / (eta m)) (1 - e^{-eta m T / 2}), u =
    kappa^2 / 2: the full-batch bound with every step taken as a step on b records that holds the record."""
    # Given the batches, a step without the record only contracts; Rényi divergence is quasi-convex in the batches.
    return linear(chourasia(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.shuffle-once",
    Citation("ye2022differentially", "Theorem 4.2"),
    {Scheme.SHUFFLE_ONCE},
    (chains.STRONG, chains.STEP_BELOW_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def shuffle_once(run: HiddenState) -> RenyiDP:
    """With batches shuffled once, Rényi divergence is at most the first term of hidden-state.fixed plus log(average
    over j_0 of e^{(order-1) epsilon_0^{l-j_0}}) / (order - 1)."""
    # exp((order - 1) divergence) is jointly convex, so the positions' exponentials average.
    values = shuffled(np.asarray(ORDERS), run.contraction, run.u, run.period, run.steps)
    return RenyiDP(ORDERS, tuple(map(up, values.tolist())))


@_hidden_state_theorem(
    "hidden-state.subsampled",
    Citation("ye2022differentially", "Theorem 4.3; step (157) read for bounds linear in the order"),
    {Scheme.WITHOUT_REPLACEMENT},
    (chains.STRONG, chains.STEP_BELOW_HARMONIC),
)
def fresh_batches(run: HiddenState) -> RenyiDP:
    """With batches of b of n records drawn afresh, Rényi divergence is at most log(S_T) / (order - 1), where S_0 = 1
    and S <- (b/n) e^{(order-1) order u} S + (1 - b/n) S^{c^2}, c = 1 - eta m, u = kappa^2 / 2."""
    values = subsampled(np.asarray(ORDERS), run.contraction, run.u, run.rate, run.steps)
    return RenyiDP(ORDERS, tuple(map(up, values.tolist())))
