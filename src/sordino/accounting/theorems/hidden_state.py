"""Hidden-state theorems of Ye & Shokri and their baselines: the last iterate of a smooth, strongly convex chain.

A use of the record is hidden by the steps that follow it. Every theorem assumes a constant step size and noise scale,
no projection, and clipping that keeps a convex loss convex.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps

import numpy as np
from numpy.typing import ArrayLike

from sordino.accounting import chain_assumptions as chains
from sordino.accounting.assumptions import Assumption, section_certificates
from sordino.accounting.evaluate import Monotone, Theorem, theorem
from sordino.accounting.scope import last_iterate_scope
from sordino.accounting.theorems import hidden_state as formulas
from sordino.core.bound import GRADIENT_SENSITIVITY, SMOOTHNESS, STRONG_CONVEXITY, Citation, Status
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, RenyiDP
from sordino.core.spec import Scheme, Spec

_FIXED = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})


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
    ratio = chains.required_ratio(steps)
    decay = Fraction(step) * m
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


def linear(coefficient: ArrayLike) -> RenyiDP:
    """The curve order -> coefficient * order. Linear in the order, but no claim of Gaussian privacy follows from it."""
    slope = float(np.asarray(coefficient))
    return RenyiDP(ORDERS, tuple(up(order * slope, 2) for order in ORDERS))


def curve(values: Callable[[np.ndarray], np.ndarray]) -> RenyiDP:
    """A curve that is not linear in the order, evaluated on the common grid."""
    return RenyiDP(ORDERS, tuple(map(up, values(np.asarray(ORDERS)).tolist())))


def _hidden_state_theorem(
    name: str, statement: str, citation: Citation, schemes: Set[Scheme], assumptions: tuple[Assumption, ...]
) -> Callable[[Callable[[HiddenState], RenyiDP]], Theorem]:
    """Register a theorem about the last iterate of a smooth chain under replace-one."""
    convexity = (chains.FALLS_WITH_CONVEXITY,) if chains.STRONG in assumptions else ()
    register = theorem(
        id=name,
        statement=statement,
        citation=citation,
        status=Status.AS_STATED,
        scope=last_iterate_scope(replace_one=schemes),
        assumptions=(*chains.SMOOTH_CHAIN, *assumptions),
        certificates=lambda spec: section_certificates(spec, (GRADIENT_SENSITIVITY, STRONG_CONVEXITY, SMOOTHNESS)),
        monotone=(*chains.MONOTONE_CHAIN, ("algorithm.steps", Monotone.RISES), *convexity),
    )

    def registered(proof: Callable[[HiddenState], RenyiDP]) -> Theorem:
        return register(wraps(proof)(lambda spec: proof(hidden_state(spec))))

    return registered


@_hidden_state_theorem(
    "hidden-state.balle",
    "With fixed batches, one use of the record followed by j - 1 >= 1 steps without it costs at most "
    "order u (1 - 2 eta m M / (m + M))^{j/2} / (j - 1), and one at the very end order u, u = kappa^2 / 2; the "
    "passes compose.",
    Citation("balle2019privacy", "Theorem 5, as Theorem D.5 of Ye & Shokri 2022"),
    _FIXED,
    (chains.STRONG, chains.STEP_UP_TO_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def balle(run: HiddenState) -> RenyiDP:
    """Each pass, counted from one use to the next, is one release; the last use stands at the end."""
    return linear(formulas.balle(run.balle_square, run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.convex",
    "With l fixed batches a pass and a convex, M-smooth loss, a record of batch j_0 has Rényi divergence at most "
    "order u ((K-1)/l + 1/(l-j_0)) after K passes, u = kappa^2 / 2. The worst record is in the batch of the last "
    "step.",
    Citation("ye2022differentially", "Theorem D.4"),
    _FIXED,
    (chains.STEP_BELOW_TWICE_INVERSE, chains.EQUAL_BATCHES),
)
def convex(run: HiddenState) -> RenyiDP:
    """Every earlier use is followed by a whole pass, the last one by nothing."""
    return linear(formulas.convex(run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.fixed",
    "With l >= 2 fixed batches a pass and an m-strongly convex, M-smooth loss, a record of batch j_0 has Rényi "
    "divergence at most epsilon_0^h (1 - c^{2(K-1)(l-h)}) / (1 - c^{2(l-h)}) + epsilon_0^{l-j_0} after K passes, "
    "h = floor(l/2), c = 1 - eta m, epsilon_0^j = order u c^{2(j-1)} / sum_{s<j} c^{2s}, u = kappa^2 / 2. The "
    "worst record is in the batch of the last step.",
    Citation("ye2022differentially", "Theorem 3.3"),
    _FIXED,
    (chains.STRONG, chains.STEP_BELOW_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def fixed(run: HiddenState) -> RenyiDP:
    """The recursion is about uses of the record, so a last pass that stops early is covered too."""
    return linear(formulas.strongly_convex(run.contraction, run.u, run.period, run.earlier_uses, 1))


@_hidden_state_theorem(
    "hidden-state.full",
    "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
    "2 order u sum_{k=1}^{T} (1 - eta m / 2)^k, u = kappa^2 / 2.",
    Citation("ye2022differentially", "Theorem D.6"),
    {Scheme.FULL},
    (chains.STRONG, chains.STEP_BELOW_INVERSE),
)
def full(run: HiddenState) -> RenyiDP:
    """A geometric sum."""
    return linear(formulas.full(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.full-chourasia",
    "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
    "order (4u / (eta m)) (1 - e^{-eta m T / 2}), u = kappa^2 / 2. Stated for a Gaussian start; it holds for any "
    "data-free start because hidden-state.full is smaller.",
    Citation("chourasia2021differential", "Corollary 1, as Theorem D.7 of Ye & Shokri 2022"),
    {Scheme.FULL},
    (chains.STRONG, chains.STEP_BELOW_INVERSE),
)
def full_chourasia(run: HiddenState) -> RenyiDP:
    """A closed form."""
    return linear(formulas.chourasia(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.naive",
    "Whatever batches of size b are used, Rényi divergence is at most order (4u / (eta m)) (1 - e^{-eta m T / 2}), "
    "u = kappa^2 / 2: the full-batch bound with every step taken as a step on b records that holds the record.",
    Citation("ye2022differentially", "Theorem 2.1, the naive baseline, as described in Appendix C"),
    {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT},
    (chains.STRONG, chains.STEP_BELOW_INVERSE, chains.EQUAL_BATCHES),
)
def naive(run: HiddenState) -> RenyiDP:
    """Given the batches, a step without the record only contracts; Rényi divergence is quasi-convex in the batches."""
    return linear(formulas.chourasia(run.decay, run.u, run.steps))


@_hidden_state_theorem(
    "hidden-state.shuffle-once",
    "With batches shuffled once, Rényi divergence is at most the first term of hidden-state.fixed plus "
    "log(average over j_0 of e^{(order-1) epsilon_0^{l-j_0}}) / (order - 1).",
    Citation("ye2022differentially", "Theorem 4.2"),
    {Scheme.SHUFFLE_ONCE},
    (chains.STRONG, chains.STEP_BELOW_HARMONIC, chains.EQUAL_BATCHES, chains.TWO_BATCHES),
)
def shuffle_once(run: HiddenState) -> RenyiDP:
    """exp((order - 1) divergence) is jointly convex, so the positions' exponentials average."""
    return curve(lambda orders: formulas.shuffled(orders, run.contraction, run.u, run.period, run.steps))


@_hidden_state_theorem(
    "hidden-state.subsampled",
    "With batches of b of n records drawn afresh, Rényi divergence is at most log(S_T) / (order - 1), where "
    "S_0 = 1 and S <- (b/n) e^{(order-1) order u} S + (1 - b/n) S^{c^2}, c = 1 - eta m, u = kappa^2 / 2.",
    Citation("ye2022differentially", "Theorem 4.3; step (157) read for bounds linear in the order"),
    {Scheme.WITHOUT_REPLACEMENT},
    (chains.STRONG, chains.STEP_BELOW_HARMONIC),
)
def subsampled(run: HiddenState) -> RenyiDP:
    """One recursion for all orders; long runs in blocks that only round up."""
    return curve(lambda orders: formulas.subsampled(orders, run.contraction, run.u, run.rate, run.steps))
