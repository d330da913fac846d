"""Privacy from the shape of a potential: exact draws, Propose-Test-Sample, and minimisers released with noise."""

import math
from fractions import Fraction
from functools import partial
from typing import TypeVar

from sordino.accounting import scope as assume
from sordino.accounting.evaluate import as_stated, corrected, ours
from sordino.core.bound import Citation, Relation, View
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, ApproxDP, BoundedRange, GaussianDP, Guarantee, PureDP, RenyiDP
from sordino.core.spec import AverageNoiseKind, Spec
from sordino.core.spec import posterior as kinds
from sordino.core.spec.fields import Section
from sordino.core.spec.posterior import BoundedPotential, LinearRegression, PosteriorSample

Kind = TypeVar("Kind", bound=Section)

# One draw; two neighbours' potentials are compared under the spec's own relation.
DRAWS = assume.Scope({"posterior-sample"}, {View.ONE_SAMPLE}, dict.fromkeys(Relation, frozenset()))


def potential_of(spec: Spec, kind: type[Kind]) -> Kind:
    """The potential of a posterior draw whose potential is of this kind."""
    potential = assume.run_of(spec, PosteriorSample).potential
    return assume.promised(potential if isinstance(potential, kind) else None)


def has_potential(kind: type[Section]) -> assume.Assumption:
    """The potential is of one kind."""
    word = next(name for name, member in kinds.POTENTIALS.table.items() if member is kind)

    def failure(spec: Spec) -> str | None:
        found = kinds.POTENTIALS.word_of(assume.run_of(spec, PosteriorSample).potential)
        return None if found == word else f"is about {word} potentials, and the potential is {found}"

    return assume.Assumption("potential", f"the potential is {word}", failure)


@assume.assumption("exact draws", "draws are exact")
def _exact_draws(spec: Spec) -> str | None:
    drawn = assume.run_of(spec, PosteriorSample).drawn
    return None if drawn is None else f"is about exact draws, and draws are made {drawn.words}"


PUBLIC_POTENTIAL = assume.certified_parts("algorithm.potential")


def _certified_draws(kind: type[Section]) -> tuple[assume.Assumption, ...]:
    return has_potential(kind), _exact_draws, PUBLIC_POTENTIAL


_BOUNDED_SET = _certified_draws(BoundedPotential)
_on_bounded_set = partial(ours, scope=DRAWS)


def _bounded_mu(spec: Spec) -> float:
    potential = potential_of(spec, BoundedPotential)
    root = math.sqrt(2 * potential.lipschitz.value) * math.sqrt(potential.diameter.value)
    return up(root, 4) if potential.lipschitz.value else 0.0


@_on_bounded_set(
    "posterior.bounded",
    Citation("bok2024shifted", "Section 4, constrained convex losses, in the limit of small steps"),
    assumptions=(
        *_BOUNDED_SET,
        assume.up_to("mu", _bounded_mu),
        assume.caller_checked("convex set", "the potential is convex, and so is the set of parameters"),
    ),
)
def bounded(spec: Spec) -> Guarantee:
    """One draw from pi proportional to e^-F on a convex set of diameter D, F convex, with F - F' L-Lipschitz for
    neighbours, is mu-Gaussian DP with mu = sqrt(2 L D)."""
    # A window of length D / L: half of mu for the start at distance D, half for the moves.
    return GaussianDP(_bounded_mu(spec))


def oscillation(spec: Spec) -> float:
    """L D of a posterior on a bounded set, rounded up."""
    potential = potential_of(spec, BoundedPotential)
    return up(potential.lipschitz.value * potential.diameter.value)


@_on_bounded_set(
    "posterior.bounded-pure",
    Citation("wang2015privacy", "Theorem 1, with the oscillation of F - F' in place of a bound"),
    assumptions=(*_BOUNDED_SET, assume.up_to("L D", oscillation)),
)
def bounded_pure(spec: Spec) -> Guarantee:
    """One draw from pi proportional to e^-F on a set of diameter D, F and the set convex or not, with F - F'
    L-Lipschitz for neighbours, is epsilon-DP with epsilon = L D."""
    # F - F' varies by at most L D, so neither the density nor its normaliser can move the ratio by more.
    return PureDP(oscillation(spec))


@_on_bounded_set(
    "posterior.bounded-range",
    Citation("dong2020optimal", "Section 3, bounded range, composed without adaptivity"),
    assumptions=(*_BOUNDED_SET, assume.up_to("L D", oscillation)),
)
def bounded_range(spec: Spec) -> Guarantee:
    """One draw from pi proportional to e^-F on a set of diameter D, F and the set convex or not, with F - F'
    L-Lipschitz for neighbours, has a log ratio within an interval of length r = L D. k draws have the delta of the
    worst of the k-fold two-point laws with losses t and t - r, 0 <= t <= r: total variation tanh(r / 4) for one draw.
    """
    # F - F' varies by at most L D, and the normalisers shift the log ratio by a constant: all draws share it.
    return BoundedRange(oscillation(spec))


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

    Where ratios y/x may be negative (c < n^gamma1), two differ by up to 2 n^gamma1, in place of c + n^gamma1.
    """
    high, low = model.x_high * model.x_high, model.x_low * model.x_low
    spread = math.exp(model.gamma1 * math.log(n))
    largest = max(model.c, spread) + spread
    pull = model.alpha + high * model.beta
    # As a fraction: with hardly more records than an order needs, it would cancel.
    margin = (n - 1) * Fraction(model.x_low) ** 2 - Fraction(order) * Fraction(model.x_high) ** 2
    if margin <= 0:
        return math.inf
    terms = (
        high / (2 * (n - 1) * low),
        (order - 1) * order * high / (2 * float(margin)),
        20 * order * model.beta * high * high * spread * spread / (9 * n * low),
        20 * order * high * high * pull * largest * spread / (9 * low * low * n * n),
        5 * order * high * high * pull * pull * largest * largest / (9 * low * low * low * model.beta * n * n * n),
    )
    total = math.fsum(terms) * (1 + _ACCURACY) if all(map(math.isfinite, terms)) else math.inf
    return total if total >= 0 else math.inf


@assume.assumption("records", "n is large enough for some order of Lemma A.1")
def _enough_records(spec: Spec) -> str | None:
    least = least_records(potential_of(spec, LinearRegression), _ORDERS[0])
    return None if spec.n > least else f"needs n > {least:.6g} at order {_ORDERS[0]:g}, and n = {spec.n}"


@corrected(
    "posterior.linear-regression",
    Citation("heller2023can", "Lemma A.1"),
    scope=assume.Scope({"posterior-sample"}, {View.ONE_SAMPLE}, {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        has_potential(LinearRegression),
        _exact_draws,
        _enough_records,
        assume.caller_checked("domain", "every record satisfies x_l <= x <= x_h and |y/x - c| <= n^gamma1"),
    ),
)
def linear_regression(spec: Spec) -> Guarantee:
    """One draw from the posterior of y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha), with x_l <= x <= x_h and |y/x -
    c| <= n^gamma1, has Rényi divergence epsilon_1(nu) of Lemma A.1 at every order nu >= 2 with n > max(1 + 10 nu x_h^2
    / (x_l^2 beta), 1 + nu x_h^2 / x_l^2, 10 nu (x_h^2 - x_l^2) / x_l^2). The last condition and nu >= 2 are missing in
    the lemma."""
    model = potential_of(spec, LinearRegression)
    orders = tuple(order for order in _ORDERS if spec.n > least_records(model, order))
    return RenyiDP(orders, tuple(regression_divergence(model, spec.n, order) for order in orders))


_LARGEST_EPSILON = 1e9


@assume.assumption("exact draw", "line 25 draws exactly from the posterior")
def _exact_sampler(spec: Spec) -> str | None:
    sampler = assume.run_of(spec, kinds.ProposeTestSample).sampler
    if sampler is kinds.Sampler.EXACT:
        return None
    return (
        f"needs an exact draw from the posterior, and the sampler is {sampler}: with SGLD in its place the "
        "algorithm is not private, for any epsilon and any delta < 1/6 (Heller & Fetaya 2023, Claim IV.9)"
    )


@assume.assumption("stage epsilon", "epsilon is at most 4/3 sqrt(log(1/delta)) where beta > 1")
def _small_epsilon(spec: Spec) -> str | None:
    """Above this epsilon n_min no longer implies the condition that Claim D.22 misses a factor beta for."""
    run = assume.run_of(spec, kinds.ProposeTestSample)
    limit = _LARGEST_EPSILON if run.beta <= 1 else 4 / 3 * math.sqrt(-math.log(run.delta)) * (1 - 1e-12)
    if run.epsilon <= limit:
        return None
    return f"needs epsilon <= {limit:.6g} (4/3 sqrt(log(1/delta)) where beta > 1), and epsilon = {run.epsilon:.6g}"


@corrected(
    "posterior.propose-test-sample",
    Citation("heller2023can", "Claim IV.8, with the n_min that the proof of Claim C.14 uses"),
    scope=assume.Scope({"propose-test-sample"}, {View.ONE_SAMPLE}, {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        _exact_sampler,
        _small_epsilon,
        assume.caller_checked(
            "n_min", "the run tests against n_min of (33) with n_2^{rho_2 / gamma_1} as its last entry"
        ),
    ),
)
def propose_test_sample(spec: Spec) -> Guarantee:
    """Propose-Test-Sample with stage parameters epsilon and delta and an exact draw is (4 epsilon, 2 delta)-DP under
    replace-one: of the paper's 5 epsilon the noisy number of records costs nothing, because neighbours have equally
    many. n_min ends with n_2^{rho_2 / gamma_1}, where the text prints n_1.

    Two Laplace answers with failure delta, then a tested sample with 2 epsilon and delta.

    The paper composes three Laplace answers: the number of records, the number within the range, and their slope. Two
    neighbours under replace-one have the same number of records, so the first has the same law for both, and given its
    answer (hence the range) the others cost what the paper says: epsilon each.
    """
    run = assume.run_of(spec, kinds.ProposeTestSample)
    return ApproxDP(up(4 * run.epsilon), min(1.0, 2 * run.delta))


def _strongly_log_concave_mu(spec: Spec) -> float:
    potential = potential_of(spec, kinds.StronglyLogConcave)
    mu = potential.lipschitz.value / math.sqrt(potential.strong_convexity.value)
    return up(mu, 3) if potential.lipschitz.value else 0.0


@as_stated(
    "posterior.strongly-log-concave",
    Citation("gopi2022private", "abstract, result (1): Gaussian DP of the exponential mechanism"),
    scope=DRAWS,
    assumptions=(*_certified_draws(kinds.StronglyLogConcave), assume.up_to("mu", _strongly_log_concave_mu)),
)
def strongly_log_concave(spec: Spec) -> Guarantee:
    """One draw from pi proportional to e^-F, F m-strongly convex, with F - F' L-Lipschitz for neighbours, is
    mu-Gaussian DP with mu = L / sqrt(m). Equality holds for Gaussian posteriors that differ by a shift."""
    # The limit of the shift bound for ever smaller steps.
    return GaussianDP(_strongly_log_concave_mu(spec))


# Output perturbation: the minimiser of a strongly convex objective, released with noise.
#
# Let F and F' be the objectives of two neighbours, both m-strongly convex on the same convex set, with F - F'
# L-Lipschitz there. Their minimisers are at most L / m apart: strong convexity at both of them gives
# m |x - x'|^2 <= (F - F')(x') - (F - F')(x) <= L |x - x'|. Points found within t of them are at most D = L / m + 2 t
# apart. A mean is the minimiser of a sum of squares, so a noised mean is a case of this.


def _ratio(spec: Spec) -> float:
    """How far one record moves the point that is released, over the noise: mu, or the pure epsilon; rounded up."""
    run = assume.run_of(spec, kinds.OutputPerturbation)
    # A quotient, a sum and a root: a few units in the last place.
    move = max((run.lipschitz.value / run.strong_convexity.value + 2.0 * run.tolerance) * (1 + 1e-14), 1e-300)
    spread = math.sqrt(run.dim) if run.noise.kind is AverageNoiseKind.LAPLACE and run.dim > 1 else 1.0
    return up(move * spread / run.noise.scale, 3)


@ours(
    "output.strongly-convex",
    Citation("chaudhuri2011differentially", "Lemma 7 and Algorithm 1, with Gaussian noise and a tolerance"),
    scope=assume.Scope({"output-perturbation"}, {View.POSTERIOR_PARAMETERS}, dict.fromkeys(Relation, frozenset())),
    assumptions=(
        assume.certified_parts("algorithm"),
        assume.at_most(
            "reach",
            "the minimiser moves at most {limit:g} times its noise",
            _ratio,
            "evaluates moves of at most {limit:g} times the noise, and this one is {value:.3g}",
        ),
        assume.caller_checked(
            "proven tolerance", "the point released is within the tolerance of the minimiser, whatever the records are"
        ),
    ),
)
def strongly_convex(spec: Spec) -> Guarantee:
    """The minimiser of F, m-strongly convex, with F - F' L-Lipschitz for neighbours, found to within t, moves by at
    most D = L / m + 2 t. With Gaussian noise of standard deviation s its release is mu-Gaussian DP with mu = D / s;
    with Laplace noise of scale s in each of d coordinates it is pure DP with epsilon = sqrt(d) D / s."""
    noise, ratio = assume.run_of(spec, kinds.OutputPerturbation).noise, _ratio(spec)
    return GaussianDP(ratio) if noise.kind is AverageNoiseKind.GAUSSIAN else PureDP(ratio)
