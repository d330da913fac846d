"""Exact draws from a posterior, and Propose-Test-Sample: privacy from the shape of the potential."""

import math
from collections.abc import Callable
from typing import TypeVar

from sordino.accounting.assumptions import Assumption, at_most, caller_checked, certified_parts, changed
from sordino.accounting.evaluate import Monotone, Scope, theorem
from sordino.core.bound import Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, ApproxDP, GaussianDP, Guarantee, PureDP, RenyiDP
from sordino.core.spec import (
    BoundedPotential,
    LinearRegression,
    PosteriorSample,
    ProposeTestSample,
    Sampler,
    Spec,
    StronglyLogConcave,
)
from sordino.core.spec.fields import Section
from sordino.core.spec.posterior import POTENTIALS
from sordino.core.validate import InputError

Kind = TypeVar("Kind", bound=Section)

# One draw; two neighbours' potentials are compared under the spec's own relation.
DRAWS = Scope(
    frozenset({"posterior-sample"}),
    frozenset({View.ONE_SAMPLE}),
    {Relation.REPLACE_ONE: frozenset(), Relation.ADD_REMOVE: frozenset()},
)


def potential_of(spec: Spec, kind: type[Kind]) -> Kind | None:
    """The potential of a posterior draw, if it is of this kind."""
    if isinstance(spec.algorithm, PosteriorSample) and isinstance(spec.algorithm.potential, kind):
        return spec.algorithm.potential
    return None


def required_potential(spec: Spec, kind: type[Kind]) -> Kind:
    """The potential of a run that is known to have one of this kind."""
    potential = potential_of(spec, kind)
    if potential is None:
        raise InputError(f"Expected a posterior draw with a potential of type {kind.__name__}; use evaluate.")
    return potential


def concave_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """Lipschitz constant and strong convexity of a strongly log-concave posterior."""
    potential = potential_of(spec, StronglyLogConcave)
    return () if potential is None else (potential.lipschitz, potential.strong_convexity)


def bounded_certificates(spec: Spec) -> tuple[Certificate, ...]:
    """Lipschitz constant and diameter of a posterior on a bounded set."""
    potential = potential_of(spec, BoundedPotential)
    return () if potential is None else (potential.lipschitz, potential.diameter)


def has_potential(kind: type[StronglyLogConcave] | type[BoundedPotential] | type[LinearRegression]) -> Assumption:
    """The potential is of one kind."""
    word = next(name for name, member in POTENTIALS.table.items() if member is kind)

    def failure(spec: Spec) -> str | None:
        if potential_of(spec, kind) is not None or not isinstance(spec.algorithm, PosteriorSample):
            return None
        return f"is about {word} potentials, and the potential is {POTENTIALS.word_of(spec.algorithm.potential)}"

    def violated(spec: Spec) -> Spec:
        other = {"kind": "bounded", "lipschitz": 1.0, "diameter": 1.0}
        if kind is BoundedPotential:
            other = {"kind": "strongly-log-concave", "lipschitz": 1.0, "strong_convexity": 1.0}
        return spec.with_values({"algorithm.potential": other})

    return Assumption("potential", f"the potential is {word}", failure, violated)


def within_reach(name: str, value: Callable[[Spec], float]) -> Assumption:
    """A quantity is small enough for a guarantee to say anything."""
    reason = f"evaluates {name} up to {{limit:g}}, and it is {{value}}"
    violated = changed({"algorithm.potential.lipschitz": 1e200})
    return at_most("reach", f"{name} is at most {{limit:g}}", value, reason, violated)


def _bounded_mu(spec: Spec) -> float:
    potential = potential_of(spec, BoundedPotential)
    if potential is None or potential.lipschitz.value == 0.0:
        return 0.0
    return up(math.sqrt(2 * potential.lipschitz.value) * math.sqrt(potential.diameter.value), 4)


@theorem(
    id="posterior.bounded",
    statement=(
        "One draw from pi proportional to e^-F on a convex set of diameter D, F convex, with F - F' L-Lipschitz for "
        "neighbours, is mu-Gaussian DP with mu = sqrt(2 L D)."
    ),
    citation=Citation("bok2024shifted", "Section 4, constrained convex losses, in the limit of small steps"),
    status=Status.OURS,
    scope=DRAWS,
    assumptions=(
        has_potential(BoundedPotential),
        certified_parts("algorithm.potential", bounded_certificates),
        within_reach("mu", _bounded_mu),
        caller_checked("convex set", "the potential is convex, and so is the set of parameters"),
    ),
    certificates=bounded_certificates,
    monotone=(("algorithm.potential.lipschitz", Monotone.RISES), ("algorithm.potential.diameter", Monotone.RISES)),
)
def bounded(spec: Spec) -> Guarantee:
    """A window of length D / L: half of mu for the start at distance D, half for the moves."""
    return GaussianDP(_bounded_mu(spec))


def _oscillation(spec: Spec) -> float:
    potential = potential_of(spec, BoundedPotential)
    return 0.0 if potential is None else up(potential.lipschitz.value * potential.diameter.value)


@theorem(
    id="posterior.bounded-pure",
    statement=(
        "One draw from pi proportional to e^-F on a set of diameter D, with F - F' L-Lipschitz for neighbours, is "
        "epsilon-DP with epsilon = L D; F need not be convex."
    ),
    citation=Citation("wang2015privacy", "Theorem 1, with the oscillation of F - F' in place of a bound"),
    status=Status.OURS,
    scope=DRAWS,
    assumptions=(
        has_potential(BoundedPotential),
        certified_parts("algorithm.potential", bounded_certificates),
        within_reach("L D", _oscillation),
    ),
    certificates=bounded_certificates,
    monotone=(("algorithm.potential.lipschitz", Monotone.RISES), ("algorithm.potential.diameter", Monotone.RISES)),
)
def bounded_pure(spec: Spec) -> Guarantee:
    """F - F' varies by at most L D, so neither the density nor its normaliser can move the ratio by more."""
    return PureDP(_oscillation(spec))


_ACCURACY = 1e-13
# The paper's Rényi divergence of two Gaussians has a factor (nu - 1) / 2 where 1 / (2 (nu - 1)) is right; from order 2
# on it is the larger of the two, and the lemma stands.
_ORDERS = tuple(order for order in ORDERS if order >= 2.0)


def least_records(model: LinearRegression, order: float) -> float:
    """More records than this are needed at an order.

    The lemma asks for n > max(1 + 10 nu x_h^2 / (x_l^2 beta), 1 + nu x_h^2 / x_l^2). Claim D.22 drops a factor beta on
    its way to the first; with it the condition is n >= 10 nu (x_h^2 - x_l^2) / x_l^2, so both are asked for here.
    """
    squares = (model.x_high / model.x_low) * (model.x_high / model.x_low)
    return max(1 + 10 * order * squares / model.beta, 1 + order * squares, 10 * order * (squares - 1)) * (1 + _ACCURACY)


def regression_divergence(model: LinearRegression, n: int, order: float) -> float:
    """epsilon_1 of Lemma A.1 at an order that n allows, rounded up.

    Where ratios y/x may be negative (c < n^gamma1), two of them differ by up to 2 n^gamma1, which then takes the place
    of c + n^gamma1.
    """
    high, low = model.x_high * model.x_high, model.x_low * model.x_low
    spread = math.exp(model.gamma1 * math.log(n))
    largest = max(model.c, spread) + spread
    pull = model.alpha + high * model.beta
    terms = (
        high / (2 * (n - 1) * low),
        (order - 1) * order * high / (2 * ((n - 1) * low - order * high)),
        20 * order * model.beta * high * high * spread * spread / (9 * n * low),
        20 * order * high * high * pull * largest * spread / (9 * low * low * n * n),
        5 * order * high * high * pull * pull * largest * largest / (9 * low * low * low * model.beta * n * n * n),
    )
    total = math.fsum(terms) * (1 + _ACCURACY) if all(map(math.isfinite, terms)) else math.inf
    return total if total >= 0 else math.inf


def _orders(spec: Spec) -> tuple[float, ...]:
    model = potential_of(spec, LinearRegression)
    if model is None:
        return ()
    return tuple(order for order in _ORDERS if spec.n > least_records(model, order))


def _too_few(spec: Spec) -> str | None:
    model = potential_of(spec, LinearRegression)
    if model is None or spec.n > least_records(model, _ORDERS[0]):
        return None
    return f"needs n > {least_records(model, _ORDERS[0]):.6g} at order {_ORDERS[0]:g}, and n = {spec.n}"


@theorem(
    id="posterior.linear-regression",
    statement=(
        "One draw from the posterior of y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha), with x_l <= x <= x_h and "
        "|y/x - c| <= n^gamma1, has Rényi divergence epsilon_1(nu) of Lemma A.1 at every order nu >= 2 with "
        "n > max(1 + 10 nu x_h^2 / (x_l^2 beta), 1 + nu x_h^2 / x_l^2, 10 nu (x_h^2 - x_l^2) / x_l^2). The last "
        "condition and nu >= 2 are missing in the lemma."
    ),
    citation=Citation("heller2023can", "Lemma A.1"),
    status=Status.CORRECTED,
    scope=Scope(frozenset({"posterior-sample"}), frozenset({View.ONE_SAMPLE}), {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        has_potential(LinearRegression),
        Assumption(
            "records",
            "n is large enough for some order of Lemma A.1",
            _too_few,
            changed({"problem.n": 2}),
        ),
        caller_checked("domain", "every record satisfies x_l <= x <= x_h and |y/x - c| <= n^gamma1"),
    ),
)
def linear_regression(spec: Spec) -> Guarantee:
    """Two Gaussians whose precisions and means are compared term by term."""
    model, orders = required_potential(spec, LinearRegression), _orders(spec)
    return RenyiDP(orders, tuple(regression_divergence(model, spec.n, order) for order in orders))


_LARGEST_EPSILON = 1e9


def _approximate(spec: Spec) -> str | None:
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample) or run.sampler is Sampler.EXACT:
        return None
    return (
        f"needs an exact draw from the posterior, and the sampler is {run.sampler}: with SGLD in its place the "
        "algorithm is not private, for any epsilon and any delta < 1/6 (Heller & Fetaya 2023, Claim IV.9)"
    )


def _too_loose(spec: Spec) -> str | None:
    """Above this epsilon n_min no longer implies the condition that Claim D.22 misses a factor beta for."""
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample):
        return None
    limit = _LARGEST_EPSILON if run.beta <= 1 else 4 / 3 * math.sqrt(-math.log(run.delta)) * (1 - 1e-12)
    if run.epsilon <= limit:
        return None
    return f"needs epsilon <= {limit:.6g} (4/3 sqrt(log(1/delta)) where beta > 1), and epsilon = {run.epsilon:.6g}"


@theorem(
    id="posterior.propose-test-sample",
    statement=(
        "Propose-Test-Sample with stage parameters epsilon and delta and an exact draw is (5 epsilon, 2 delta)-DP; "
        "n_min ends with n_2^{rho_2 / gamma_1}, where the text prints n_1."
    ),
    citation=Citation("heller2023can", "Claim IV.8, with the n_min that the proof of Claim C.14 uses"),
    status=Status.CORRECTED,
    scope=Scope(frozenset({"propose-test-sample"}), frozenset({View.ONE_SAMPLE}), {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        Assumption(
            "exact draw",
            "line 25 draws exactly from the posterior",
            _approximate,
            changed({"algorithm.sampler": Sampler.SGLD.value}),
        ),
        Assumption(
            "stage epsilon",
            "epsilon is at most 4/3 sqrt(log(1/delta)) where beta > 1",
            _too_loose,
            changed({"algorithm.epsilon": 2 * _LARGEST_EPSILON}),
        ),
        caller_checked("n_min", "the run tests against n_min of (33) with n_2^{rho_2 / gamma_1} as its last entry"),
    ),
    monotone=(("algorithm.epsilon", Monotone.RISES),),
)
def propose_test_sample(spec: Spec) -> Guarantee:
    """Three Laplace answers with failure delta, then a tested sample with 2 epsilon and delta."""
    run = spec.algorithm
    if not isinstance(run, ProposeTestSample):
        raise InputError("Expected a propose-test-sample run, got another kind; use evaluate.")
    return ApproxDP(up(5 * run.epsilon), min(1.0, 2 * run.delta))


def _strongly_log_concave_mu(spec: Spec) -> float:
    potential = potential_of(spec, StronglyLogConcave)
    if potential is None or potential.lipschitz.value == 0.0:
        return 0.0
    return up(potential.lipschitz.value / math.sqrt(potential.strong_convexity.value), 3)


@theorem(
    id="posterior.strongly-log-concave",
    statement=(
        "One draw from pi proportional to e^-F, F m-strongly convex, with F - F' L-Lipschitz for neighbours, is "
        "mu-Gaussian DP with mu = L / sqrt(m). Equality holds for Gaussian posteriors that differ by a shift."
    ),
    citation=Citation("gopi2022private", "abstract, result (1): Gaussian DP of the exponential mechanism"),
    status=Status.AS_STATED,
    scope=DRAWS,
    assumptions=(
        has_potential(StronglyLogConcave),
        certified_parts("algorithm.potential", concave_certificates),
        within_reach("mu", _strongly_log_concave_mu),
    ),
    certificates=concave_certificates,
    monotone=(
        ("algorithm.potential.lipschitz", Monotone.RISES),
        ("algorithm.potential.strong_convexity", Monotone.FALLS),
    ),
)
def strongly_log_concave(spec: Spec) -> Guarantee:
    """The limit of the shift bound for ever smaller steps."""
    return GaussianDP(_strongly_log_concave_mu(spec))
