"""The bound of Balle et al. for one pass, composed over the passes: a baseline of Ye & Shokri."""

from sordino.accounting import hidden_state as fixed_batches
from sordino.accounting import hidden_state as random_batches
from sordino.accounting.evaluate import Monotone, Scope, theorem
from sordino.accounting.theorems.hidden_state_needs import (
    EQUAL_BATCHES,
    MONOTONE_HIDDEN,
    SMOOTH_CHAIN,
    STEP_BELOW_HARMONIC,
    STEP_BELOW_INVERSE,
    STEP_BELOW_TWICE_INVERSE,
    STEP_UP_TO_HARMONIC,
    STRONG,
    TWO_BATCHES,
    curve,
    hidden_state,
    hidden_state_certificates,
    linear,
)
from sordino.core.bound import Citation, Relation, Status, View
from sordino.core.guarantee import Guarantee
from sordino.core.spec import Scheme, Spec


@theorem(
    id="hidden-state.balle",
    statement=(
        "With fixed batches, one use of the record followed by j - 1 >= 1 steps without it costs at most "
        "order u (1 - 2 eta m M / (m + M))^{j/2} / (j - 1), and one at the very end order u, u = kappa^2 / 2; the "
        "passes compose."
    ),
    citation=Citation("balle2019privacy", "Theorem 5, as Theorem D.5 of Ye & Shokri 2022"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_UP_TO_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def balle(spec: Spec) -> Guarantee:
    """Each pass, counted from one use to the next, is one release; the last use stands at the end."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.balle(run.balle_square, run.u, run.period, run.earlier_uses, 1)))


# Batches fixed in advance, convex loss: a use is hidden by the steps that follow it.


@theorem(
    id="hidden-state.convex",
    statement=(
        "With l fixed batches a pass and a convex, M-smooth loss, a record of batch j_0 has Rényi divergence at most "
        "order u ((K-1)/l + 1/(l-j_0)) after K passes, u = kappa^2 / 2. The worst record is in the batch of the last "
        "step."
    ),
    citation=Citation("ye2022differentially", "Theorem D.4"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STEP_BELOW_TWICE_INVERSE, EQUAL_BATCHES),
    certificates=hidden_state_certificates,
    monotone=MONOTONE_HIDDEN,
)
def convex(spec: Spec) -> Guarantee:
    """Every earlier use is followed by a whole pass, the last one by nothing."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.convex(run.u, run.period, run.earlier_uses, 1)))


# Batches fixed in advance, strongly convex loss: each pass forgets part of the one before.


@theorem(
    id="hidden-state.fixed",
    statement=(
        "With l >= 2 fixed batches a pass and an m-strongly convex, M-smooth loss, a record of batch j_0 has Rényi "
        "divergence at most epsilon_0^h (1 - c^{2(K-1)(l-h)}) / (1 - c^{2(l-h)}) + epsilon_0^{l-j_0} after K passes, "
        "h = floor(l/2), c = 1 - eta m, epsilon_0^j = order u c^{2(j-1)} / sum_{s<j} c^{2s}, u = kappa^2 / 2. The "
        "worst record is in the batch of the last step."
    ),
    citation=Citation("ye2022differentially", "Theorem 3.3"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def fixed(spec: Spec) -> Guarantee:
    """The recursion is about uses of the record, so a last pass that stops early is covered too."""
    run = hidden_state(spec)
    return linear(float(fixed_batches.strongly_convex(run.contraction, run.u, run.period, run.earlier_uses, 1)))


# Full batches: noisy gradient descent, half of each step's noise hiding the other half's release.


@theorem(
    id="hidden-state.full",
    statement=(
        "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
        "2 order u sum_{k=1}^{T} (1 - eta m / 2)^k, u = kappa^2 / 2."
    ),
    citation=Citation("ye2022differentially", "Theorem D.6"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.FULL})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_INVERSE),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def full(spec: Spec) -> Guarantee:
    """A geometric sum."""
    run = hidden_state(spec)
    return linear(fixed_batches.full(run.decay, run.u, run.steps))


# Full batches by the bound of Chourasia, Ye & Shokri: a baseline, never below hidden-state.full.


@theorem(
    id="hidden-state.full-chourasia",
    statement=(
        "With full batches and an m-strongly convex, M-smooth loss, Rényi divergence is at most "
        "order (4u / (eta m)) (1 - e^{-eta m T / 2}), u = kappa^2 / 2. Stated for a Gaussian start; it holds for any "
        "data-free start because hidden-state.full is smaller."
    ),
    citation=Citation("chourasia2021differential", "Corollary 1, as Theorem D.7 of Ye & Shokri 2022"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.FULL})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_INVERSE),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def full_chourasia(spec: Spec) -> Guarantee:
    """A closed form."""
    run = hidden_state(spec)
    return linear(fixed_batches.chourasia(run.decay, run.u, run.steps))


# Mini-batches by the full-batch bound, every step charged as if it held the record: a baseline.


@theorem(
    id="hidden-state.naive",
    statement=(
        "Whatever batches of size b are used, Rényi divergence is at most order (4u / (eta m)) (1 - e^{-eta m T / 2}), "
        "u = kappa^2 / 2: the full-batch bound with every step taken as a step on b records that holds the record."
    ),
    citation=Citation("ye2022differentially", "Theorem 2.1, the naive baseline, as described in Appendix C"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {
            Relation.REPLACE_ONE: frozenset(
                {Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT}
            )
        },
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_INVERSE, EQUAL_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def naive(spec: Spec) -> Guarantee:
    """Given the batches, a step without the record only contracts; Rényi divergence is quasi-convex in the batches."""
    run = hidden_state(spec)
    return linear(fixed_batches.chourasia(run.decay, run.u, run.steps))


# Batches shuffled once: the record's position is uniform, and its last use rarely the last step.


@theorem(
    id="hidden-state.shuffle-once",
    statement=(
        "With batches shuffled once, Rényi divergence is at most the first term of hidden-state.fixed plus "
        "log(average over j_0 of e^{(order-1) epsilon_0^{l-j_0}}) / (order - 1)."
    ),
    citation=Citation("ye2022differentially", "Theorem 4.2"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.SHUFFLE_ONCE})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC, EQUAL_BATCHES, TWO_BATCHES),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def shuffle_once(spec: Spec) -> Guarantee:
    """exp((order - 1) divergence) is jointly convex, so the positions' exponentials average."""
    run = hidden_state(spec)
    return curve(lambda orders: random_batches.shuffled(orders, run.contraction, run.u, run.period, run.steps))


# Fresh batches without replacement: the recursion of Ye & Shokri in log S.


@theorem(
    id="hidden-state.subsampled",
    statement=(
        "With batches of b of n records drawn afresh, Rényi divergence is at most log(S_T) / (order - 1), where "
        "S_0 = 1 and S <- (b/n) e^{(order-1) order u} S + (1 - b/n) S^{c^2}, c = 1 - eta m, u = kappa^2 / 2."
    ),
    citation=Citation("ye2022differentially", "Theorem 4.3; step (157) read for bounds linear in the order"),
    status=Status.AS_STATED,
    scope=Scope(
        frozenset({"noisy-gradient"}),
        frozenset({View.LAST_ITERATE}),
        {Relation.REPLACE_ONE: frozenset({Scheme.WITHOUT_REPLACEMENT})},
    ),
    assumptions=(*SMOOTH_CHAIN, STRONG, STEP_BELOW_HARMONIC),
    certificates=hidden_state_certificates,
    monotone=(*MONOTONE_HIDDEN, ("problem.strong_convexity", Monotone.FALLS)),
)
def subsampled(spec: Spec) -> Guarantee:
    """One recursion for all orders; long runs in blocks that only round up."""
    run = hidden_state(spec)
    return curve(lambda orders: random_batches.subsampled(orders, run.contraction, run.u, run.rate, run.steps))
