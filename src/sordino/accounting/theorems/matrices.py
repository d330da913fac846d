"""Matrix mechanisms: noise that is correlated over steps, for units that take part by their place or by secret chance.

What is seen is C x + Z, one row after another: x the contributions, each chosen in view of earlier rows, Z independent
Gaussian noise of the multiplier m. Column s of C is c(s) long, and C has k bands: columns k steps apart share no row.

*Drawn by a rate*, **proof**. Suppose that the columns of the steps that may use a unit share no row. The rows of such a
step s see the unit with some probability q <= p given all rows before s, moved by c(s) in a direction that is fixed by
rows before s, around means that both neighbours share: a step of Poisson batches at rate q of move c(s) / m. It is
dominated by that at rate p (`composition.min-separation` has the argument), and steps compose. This holds for groups
that have their turn every g >= k steps. Else give every row's noise in w = ceil(k / g) independent parts of variance
m^2 / w, one for each class of the group's turns modulo w: what is seen is the sum of the parts, and within a class
columns share no row. Order the steps by their time: given all that earlier steps show, a use has probability q <= p
still, and moves by sqrt(w) c(s) / m. *With a cap* on the units of a step, taken in the order of the table: given which
others are drawn, a unit that is drawn adds its own contribution, or takes the place of another, or is left out; so it
moves x_s by at most 1 or 2, and a step is one of capped Poisson batches (`bounds.hidden_steps`).

*One of b places*, **proof**. Let place g stand for uses in the steps S_g. Against rows without the unit the ratio of
densities is R = mean over g of X_g, X_g = exp(<u_g, z> - |u_g|^2 / 2), where row i of u_g is the sum over s in S_g of
C_is v_s / m, v_s a vector of length at most 1 chosen in view of rows before s. Both divergences are means of convex
functions f of R. For Gaussian vectors N of covariance K, the mean of f(sum of w_g e^(N_g - K_gg / 2)), w >= 0, has
derivative E f'' w_g w_h X_g X_h / 2 >= 0 in K_gh (Plackett's identity; the terms of f' cancel), so it rises with every
entry of K. From the last row backwards: given earlier rows, K_gh of a row is at most the product of the sums of
|C_is| / m over S_g and S_h; put that in its place, and the row no longer depends on earlier ones. So K_gh is at most
<m_g, m_h> with m_g = sum over S_g of columns of |C| / m, which parallel v attain. Enlarge further: all diagonal entries
to the largest D, all others to the largest r: then R is a lognormal of square r times the mean of b independent ones of
square D - r: a Gaussian answer, mu = sqrt(r), and random allocation to b places, mu = sqrt(D - r), composed. Places may
first be sorted into classes of a distance a, which is given away: of b / a places, r is then over distances a, 2a, ...
*Replace-one*: the same with a second mean of Y_g over the other unit; f(X - y Y) has mixed derivatives of the opposite
sign between X and Y, so K between them is least at -<m_g, m_h>, which is enlarged to -D and -r: a Gaussian answer of 2
sqrt(r), and the pair of replacements in random allocation. *Rounds* with a place drawn anew for each: noise is cut into
h parts, such that rounds of one part share no row, and D and r grow by h.
"""

import math
from collections.abc import Callable
from functools import lru_cache

from sordino.accounting import scope as assume
from sordino.accounting.bounds import hidden_steps as hidden
from sordino.accounting.bounds.matrix import Places, hidden_places, sampled_steps, sensitivity
from sordino.accounting.convert import compose
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.theorems.mechanisms import EITHER, SEEN
from sordino.core.bound import Citation, Relation
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.allocation import LARGEST_MU, SMALLEST_MU, within_reach
from sordino.core.spec import MatrixMechanism, ParticipationScheme, Spec

_MOST_PLACES = 1_000_000
_HUGE = 500.0  # an exponent; moves so large are not distinguished
_SCOPE = assume.Scope({"matrix-mechanism"}, SEEN, EITHER)
_BY_PLACE = (ParticipationScheme.BALLS_IN_BINS, ParticipationScheme.RANDOM_ALLOCATION)


def _run_of(spec: Spec) -> MatrixMechanism:
    return assume.run_of(spec, MatrixMechanism)


def _matrix_mu(spec: Spec) -> float:
    found = assume.promised(sensitivity(run := _run_of(spec)))
    # Where a step has room for few, a unit may take the place of another.
    ways = 2.0 if spec.relation is Relation.REPLACE_ONE or run.participation.cap is not None else 1.0
    return up(ways * found / run.noise_multiplier, 2)


@as_stated(
    "matrix.gaussian",
    Citation(
        "choquette2023multi",
        "sensitivity under a participation schema, with Kalinin & Lampert 2024 for falling Toeplitz matrices",
    ),
    scope=_SCOPE,
    assumptions=(
        assume.found_or_why(
            "size",
            "the matrix is Toeplitz with falling entries, or small, or a unit is used once",
            lambda spec: sensitivity(_run_of(spec)),
        ),
        assume.up_to("mu", _matrix_mu),
        assume.caller_checked(
            "participation",
            "when a unit contributes follows from its place or from chance, never from data; a unit that is removed "
            "leaves its place empty",
        ),
    ),
)
def matrix_gaussian(spec: Spec) -> Guarantee:
    """Contributions of norm at most c over the steps, times a matrix C, plus Gaussian noise of m c, are mu-Gaussian DP
    with mu = S / m (2 S / m under replace-one, and where the units of a step are capped), S^2 the largest sum of |C'C|
    over the steps that may use one unit; contributions may depend on all that was released before."""
    # What is seen is a linear function of the contributions with Gaussian noise, also when they are adaptive.
    return GaussianDP(_matrix_mu(spec))


def _by_chance(name: str, statement: str, *schemes: ParticipationScheme) -> assume.Assumption:
    words = " or ".join(scheme.value for scheme in schemes)

    def failure(spec: Spec) -> str | None:
        participation = _run_of(spec).participation
        drawn = participation.scheme is not ParticipationScheme.MIN_SEPARATION or participation.rate is not None
        if participation.scheme in schemes and drawn:
            return None
        return f"is about {words} participation by chance, and it is {participation.scheme.value} without"

    return assume.Assumption(name, statement, failure)


_BY_RATE = (ParticipationScheme.POISSON, ParticipationScheme.MIN_SEPARATION)
_RATED = _by_chance("rate", "participation is poisson, or min-separation with a rate", *_BY_RATE)
_SECRET = assume.caller_checked(
    "secret chance",
    "when a unit contributes is drawn for it alone, independently of the data, and kept secret; a unit that is removed "
    "leaves its place empty",
)


_SO_MANY_UNITS = assume.caller_checked(
    "units",
    "where the units of a step are capped, no group has more units beside the one that differs than "
    "algorithm.participation.units",
    lambda spec: _run_of(spec).participation.cap is not None,
)


def _full(spec: Spec) -> float:
    """The chance that a step has all the units it may have without the one that differs; rounded up."""
    use = _run_of(spec).participation
    if use.cap is None or use.units is None or use.rate is None:
        return 0.0
    return hidden.full_chance(use.cap, use.units + max(spec.surplus - 1, 0), use.rate)


def _moves_little(move: Callable[[Spec], float]) -> assume.Assumption:
    reason = "evaluates moves up to {limit:g} noises, and a use moves {value:.3g}"
    return assume.at_most("reach", "a use moves at most {limit:g} noises", move, reason)


def _step_ratio(spec: Spec) -> float:
    run = _run_of(spec)
    return up(sampled_steps(run)[0] / run.noise_multiplier)


@ours(
    "matrix.sampled",
    Citation("choquette2023amplified", "Theorem 4 and its reduction, for w = 1; else noise cut into parts"),
    scope=_SCOPE,
    assumptions=(_RATED, _moves_little(_step_ratio), _SECRET, _SO_MANY_UNITS),
)
def matrix_sampled(spec: Spec) -> Guarantee:
    """If a unit is drawn with probability p for every step of its group, which has its turn every g steps, or for every
    step at which it is free (g = 1), a matrix of k bands with columns of length at most S is dominated by ceil(T / g)
    steps of Poisson batches at rate p that move by S sqrt(w) / m, w = ceil(k / g): exact for w = 1. Where at most B
    units of a group are used, by capped Poisson batches (composition.truncated-poisson)."""
    run = _run_of(spec)
    rate = assume.promised(run.participation.rate)
    step = hidden.capped_step(spec.relation, rate, _step_ratio(spec), _full(spec))
    return LossDistribution(((step, sampled_steps(run)[1]),))


@lru_cache(maxsize=64)
def _best_places(run: MatrixMechanism, anything: bool = False) -> Places | str:
    """The way that is best by the variance of the ratio of densities, of those that are evaluated or of all."""
    if isinstance(ways := hidden_places(run), str):
        return ways
    square = max(run.noise_multiplier**2, 1e-300 if anything else 0.0)
    usable = [way for way in ways if anything or (way.places <= _MOST_PLACES and within_reach(_own_move(way, run)))]
    if not usable:
        least = math.sqrt(ways[0].own) / run.noise_multiplier
        return f"evaluates places of up to {_MOST_PLACES} that move {LARGEST_MU} noises at most, got {least:.3g}"

    def cost(way: Places) -> float:
        return way.shared / square + math.log1p(math.expm1(min(way.own / square, _HUGE)) / way.places)

    return min(usable, key=cost)


def _own_move(way: Places, run: MatrixMechanism) -> float:
    return max(SMALLEST_MU, up(math.sqrt(way.own) / run.noise_multiplier, 2))


@ours(
    "matrix.allocated",
    Citation("choquette2025near", "balls in bins for matrix mechanisms; ours by comparing covariances"),
    scope=_SCOPE,
    assumptions=(
        _by_chance("places", "participation is balls-in-bins or random-allocation", *_BY_PLACE),
        assume.found_or_why(
            "reach",
            f"there are two places or more, up to {_MOST_PLACES} that move {LARGEST_MU} noises at most; the matrix is "
            "Toeplitz or small",
            lambda spec: _best_places(_run_of(spec)),
        ),
        _SECRET,
    ),
)
def matrix_allocated(spec: Spec) -> Guarantee:
    """If a unit has one secret place of b in every pass (balls in bins), its uses of place i moving the rows by m_i =
    |C| times these uses over m, what is seen is dominated by a Gaussian answer of mu = sqrt(r) composed with random
    allocation to floor(b / a) places that move by sqrt(D - r): D the largest |m_i|^2, r the largest <m_i, m_j> of
    places a, 2a, ... apart, any a; 2 sqrt(r) and replaced records under replace-one. With a place drawn anew for every
    round of b steps, h D and h r, h = min(rounds, ceil((b - 1 + bands) / b)), every round."""
    run = _run_of(spec)
    rounds, shared = _allocation(assume.promised(_best_places(run)), run)
    return hidden.allocated(rounds, spec.relation, shared)


def _allocation(way: Places, run: MatrixMechanism) -> tuple[tuple[hidden.Round], float]:
    """Rounds of random allocation to the places, and the mu of the Gaussian answer that they share."""
    shared = up(math.sqrt(way.shared) / run.noise_multiplier, 2) if way.shared > 0 else 0.0
    return (hidden.Round(way.places, way.places, _own_move(way, run), way.rounds),), shared


def _any_move(spec: Spec) -> float:
    run = _run_of(spec)
    if run.participation.scheme not in _BY_PLACE:
        return _step_ratio(spec)
    return _own_move(assume.promised(_best_places(run, anything=True)), run)


@ours(
    "matrix.renyi",
    Citation("mironov2017renyi", "Proposition 1, over the reductions of matrix.sampled and matrix.allocated"),
    scope=_SCOPE,
    assumptions=(
        _by_chance(
            "chance",
            "participation is poisson, min-separation with a rate, balls-in-bins or random-allocation",
            *_BY_RATE,
            *_BY_PLACE,
        ),
        assume.found_or_why(
            "places",
            "there are two places or more, and the matrix is Toeplitz or small",
            lambda spec: hidden_places(run) if (run := _run_of(spec)).participation.scheme in _BY_PLACE else None,
        ),
        _moves_little(_any_move),
        _SECRET,
        _SO_MANY_UNITS,
    ),
)
def matrix_renyi(spec: Spec) -> Guarantee:
    """What dominates a matrix mechanism with participation by chance in matrix.sampled and matrix.allocated, by its
    Rényi divergences: those of Poisson-sampled Gaussian steps, or of a Gaussian answer and a round of random allocation
    (composition.random-allocation-renyi), which add. No delta is too small, and no move too large."""
    # Both proofs are at the head of the file; loss distributions are smaller where they have an answer.
    run = _run_of(spec)
    if run.participation.scheme not in _BY_PLACE:
        rate, ratio, full = assume.promised(run.participation.rate), _step_ratio(spec), _full(spec)
        curve = tuple(hidden.capped_renyi(order, rate, ratio, full, spec.relation) for order in ORDERS)
        return compose([(RenyiDP(ORDERS, curve), sampled_steps(run)[1])])
    rounds, shared = _allocation(assume.promised(_best_places(run, anything=True)), run)
    return hidden.allocated_renyi(rounds, spec.relation, shared)
