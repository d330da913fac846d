"""Single mechanisms: noised answers, randomised response, and one of many chosen by a noisy score."""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from sordino.accounting import scope as assume
from sordino.accounting.evaluate import as_stated, ours
from sordino.core import spec as specs
from sordino.core.bound import Citation, Relation, View
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, PureDP, RenyiDP
from sordino.core.loss import atomic_pairs as atomic
from sordino.core.loss.mixture_pairs import RandomShiftPair
from sordino.core.loss.normal_pairs import PoissonRemovePair
from sordino.core.loss.pair import Pair
from sordino.core.spec.mechanisms import AnswerNoiseKind

SEEN = frozenset({View.ALL_ITERATES})
EITHER = dict.fromkeys(Relation, frozenset())
_MOST_ATOMS = 5_000  # whole numbers between two centres, or in a deviation, that are listed one by one
_LARGEST_EPSILON = 500.0  # beyond it nothing is hidden, and exponentials leave the range of floating point

_BOUNDED = assume.caller_checked(
    "bounded sensitivity", "one unit moves every answer or score by at most the stated sensitivity, whatever the data"
)


def _once(pair: Pair) -> Guarantee:
    return LossDistribution(((pair, 1),))


def _ratio(spec: specs.Spec) -> float:
    """Sensitivity over scale, rounded up."""
    run = assume.run_of(spec, specs.NoisedAnswer)
    return up(run.sensitivity / run.noise.scale)


def _has_noise(*words: str) -> assume.Assumption:
    wanted = " or ".join(words)

    def failure(spec: specs.Spec) -> str | None:
        found = assume.run_of(spec, specs.NoisedAnswer).noise.kind.value
        return None if found in words else f"is about {wanted} noise, and the noise is {found}"

    return assume.Assumption("noise", f"the noise is {wanted}", failure)


_exponent_up_to = partial(assume.up_to, limit=_LARGEST_EPSILON)
_ANSWERS = assume.Scope({"noised-answer"}, SEEN, EITHER)
_SQUARE_REACH = _exponent_up_to(
    "the squared sensitivity over the scale", lambda spec: _ratio(spec) * max(1.0, _ratio(spec))
)
_ANSWER_REACH = _exponent_up_to("the sensitivity over the scale", _ratio)


@ours(
    "mechanism.laplace",
    Citation("dwork2006calibrating", "Proposition 1, with the group rule of Dong, Roth & Su 2022, Theorem 2.14"),
    scope=_ANSWERS,
    assumptions=(_has_noise("laplace"), _ANSWER_REACH, _BOUNDED),
)
def laplace(spec: specs.Spec) -> Guarantee:
    """An answer with l1 sensitivity D and Laplace noise of scale s on every coordinate is dominated by one Laplace
    variable moved by D / s: several coordinates are never worse than one, because shifts of one log-concave law add up
    exactly."""
    # Moving the coordinates one after the other is group privacy along a line, which a single one attains.
    return _once(atomic.LaplacePair(_ratio(spec)))


def _few_atoms(value: Callable[[specs.Spec], float], called: str) -> assume.Assumption:
    reason = f"lists {called} up to {{limit}}, and it is {{value:g}}"
    return assume.at_most("atoms", f"{called} is at most {{limit}}", value, reason, _MOST_ATOMS)


@ours(
    "mechanism.discrete-laplace",
    Citation("ghosh2012universally", "Section 2, with the group rule of Dong, Roth & Su 2022, Theorem 2.14"),
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-laplace"),
        _ANSWER_REACH,
        _few_atoms(lambda spec: assume.run_of(spec, specs.NoisedAnswer).sensitivity, "the sensitivity"),
        _BOUNDED,
    ),
)
def discrete_laplace(spec: specs.Spec) -> Guarantee:
    """A whole-number answer with l1 sensitivity D and noise P(x) proportional to e^(-|x| / s) is dominated by one such
    variable moved by D."""
    # The corners of its trade-off curves lie on those of every other shift, so shifts add up exactly.
    run = assume.run_of(spec, specs.NoisedAnswer)
    return _once(atomic.DiscreteLaplacePair(up(1 / run.noise.scale), int(run.sensitivity)))


@as_stated(
    "mechanism.gaussian",
    Citation("dong2022gaussian", "Theorem 2.7"),
    scope=_ANSWERS,
    assumptions=(_has_noise("gaussian"), assume.up_to("the sensitivity over the scale", _ratio), _BOUNDED),
)
def gaussian(spec: specs.Spec) -> Guarantee:
    """An answer with l2 sensitivity D and Gaussian noise of deviation s is mu-Gaussian DP with mu = D / s."""
    # Rotations bring the move onto one coordinate.
    return GaussianDP(_ratio(spec))


@assume.assumption("one value", "one value is answered")
def _one_value(spec: specs.Spec) -> str | None:
    dim = assume.run_of(spec, specs.NoisedAnswer).dim
    return None if dim == 1 else f"is about one value, and algorithm.dim is {dim}"


@as_stated(
    "mechanism.discrete-gaussian",
    Citation("canonne2020discrete", "Theorem 7"),
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-gaussian"),
        _SQUARE_REACH,
        _one_value,
        _few_atoms(lambda spec: assume.run_of(spec, specs.NoisedAnswer).noise.scale, "the scale"),
        _BOUNDED,
    ),
)
def discrete_gaussian(spec: specs.Spec) -> Guarantee:
    """One whole number with sensitivity D and discrete Gaussian noise is dominated by that noise moved by D against not
    moved."""
    # The noise is log-concave, so the largest move is the worst.
    run = assume.run_of(spec, specs.NoisedAnswer)
    return _once(atomic.DiscreteGaussianPair(run.noise.scale, int(run.sensitivity)))


@as_stated(
    "mechanism.discrete-gaussian-renyi",
    Citation("canonne2020discrete", "Theorem 4, coordinate by coordinate"),
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-gaussian"),
        _exponent_up_to("the squared ratio", lambda spec: _ratio(spec) * _ratio(spec)),
        _BOUNDED,
    ),
)
def discrete_gaussian_renyi(spec: specs.Spec) -> Guarantee:
    """A vector of whole numbers with l2 sensitivity D and independent discrete Gaussian noise of parameter s has Rényi
    divergence at most order D^2 / (2 s^2) at every order."""
    square = up(_ratio(spec) ** 2, 2)
    return RenyiDP(ORDERS, tuple(up(order * square / 2, 2) for order in ORDERS))


@assume.assumption("sample", "algorithm.rate is given")
def _sampled(spec: specs.Spec) -> str | None:
    absent = assume.run_of(spec, specs.NoisedAnswer).rate is None
    return "is about a sample of the units, and algorithm.rate is absent" if absent else None


@as_stated(
    "mechanism.sampled-answer",
    Citation("zhu2022optimal", "Theorem 11, with the pairs of the whole answers"),
    scope=assume.Scope({"noised-answer"}, SEEN, {Relation.ADD_REMOVE: frozenset()}),
    assumptions=(
        _sampled,
        _has_noise("laplace", "gaussian"),
        _SQUARE_REACH,
        _BOUNDED,
        assume.caller_checked("secret sample", "who takes part is drawn for each unit alone, and kept secret"),
    ),
)
def sampled_answer(spec: specs.Spec) -> Guarantee:
    """An answer on a secret Poisson sample of rate q, with Laplace or Gaussian noise whose pair is (P, Q), is dominated
    by (1 - q) Q + q P against Q, and its reverse; every use draws its own sample."""
    # Both pairs are their own mirror images, so they dominate in both directions, as the theorem asks.
    run = assume.run_of(spec, specs.NoisedAnswer)
    pair = PoissonRemovePair if run.noise.kind is AnswerNoiseKind.GAUSSIAN else atomic.PoissonLaplacePair
    return _once(pair(assume.promised(run.rate), _ratio(spec)))


@ours(
    "mechanism.randomised-response",
    Citation("kairouz2017composition", "Section 3, for k categories"),
    scope=assume.Scope({"randomised-response"}, SEEN, {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(assume.caller_checked("own answer", "a unit's answer is its own, and depends on no other unit"),),
)
def randomised_response(spec: specs.Spec) -> Guarantee:
    """A category reported truly with probability p, else as one of the k - 1 others, has losses of +-ln(p (k - 1) / (1
    - p)) with probabilities p and (1 - p) / (k - 1), and 0 else; this is exact."""
    # Two units that replace each other swap the probabilities of two answers.
    run = assume.run_of(spec, specs.RandomisedResponse)
    # As fractions: near 1 / k the two logarithms agree in most of their digits.
    truth = Fraction(run.truth)
    less, more = sorted((truth, (1 - truth) / (run.categories - 1)))
    if less == more:
        return LossDistribution(())
    loss = up(math.log1p(float(more / less - 1)) if more < 2 * less else math.log(more) - math.log(less), 4)
    large, small = float(more), float(less)
    rest = max(0.0, 1 - large - small)
    if run.categories == 2:
        return _once(atomic.ExplicitPair((-loss, loss), (small, 1 - small), 0.0))
    return _once(atomic.ExplicitPair((-loss, 0.0, loss), (small, rest, large), 0.0))


def _largest_shift(spec: specs.Spec) -> float:
    run = assume.run_of(spec, specs.RandomShift)
    return max(run.shifts) / run.scale


@as_stated(
    "mechanism.random-shift",
    Citation("choquette2024privacy", "mixture of Gaussians mechanisms"),
    scope=assume.Scope({"random-shift"}, SEEN, {Relation.ADD_REMOVE: frozenset()}),
    assumptions=(
        _exponent_up_to("the squared shift over the noise", lambda spec: _largest_shift(spec) * _largest_shift(spec)),
        assume.caller_checked(
            "secret draw", "which length it is depends on nothing that is seen or private, and stays secret"
        ),
    ),
)
def random_shift(spec: specs.Spec) -> Guarantee:
    """A Gaussian answer that a unit's presence moves by length s_j with probability w_j, j secret and independent of
    the data, is dominated by the mixture of N(s_j / sigma, 1) against N(0, 1), and its reverse."""
    # Shifts along one line are the worst of all shifts of these lengths.
    run = assume.run_of(spec, specs.RandomShift)
    total = math.fsum(run.weights)
    weights = tuple(weight / total for weight in run.weights)
    return _once(RandomShiftPair(weights, tuple(up(shift / run.scale) if shift else 0.0 for shift in run.shifts)))


# One of many: by a noisy score, or against a noisy threshold.


def _range(spec: specs.Spec) -> float:
    """2 D / s, or D / s where all scores move one way: under replace-one one unit goes and another comes."""
    run = assume.run_of(spec, specs.Selection)
    both_ways = not (run.monotone and spec.relation is Relation.ADD_REMOVE)
    return up((2.0 if both_ways else 1.0) * run.sensitivity / run.scale, 2)


_SELECTIONS = assume.Scope({"selection"}, SEEN, EITHER)
_SELECTION_REACH = _exponent_up_to("the range of the loss", _range)
_SCORES = assume.caller_checked("candidates", "the list of candidates is public, and only the chosen name is released")


@assume.assumption("method", "the choice is exponential")
def _ranged(spec: specs.Spec) -> str | None:
    method = assume.run_of(spec, specs.Selection).method
    if method in {specs.SelectionMethod.EXPONENTIAL, specs.SelectionMethod.NOISY_MAX_GUMBEL}:
        return None
    return f"is about exponential and noisy-max-gumbel selection, and this is {method.value}"


@ours(
    "selection.bounded-range",
    Citation("dong2020optimal", "the optimal bound for one bounded-range mechanism, read as a dominating pair"),
    scope=_SELECTIONS,
    assumptions=(_ranged, _SELECTION_REACH, _BOUNDED, _SCORES),
)
def bounded_range(spec: specs.Spec) -> Guarantee:
    """The exponential mechanism with weights e^(score / s), or the largest score with Gumbel noise of scale s, has its
    loss in an interval of length r = 2 D / s (D / s for monotone scores under add-remove), so it is dominated by the
    pair whose loss has density e^(loss / 2) on [-r, r]; adaptive uses compose."""
    # The curve that every such mechanism stays below is the curve of a pair.
    return _once(atomic.BoundedRangePair(_range(spec)))


@as_stated(
    "selection.pure",
    Citation("mckenna2020permute", "Theorem 1, with Dwork & Roth 2014, Theorem 3.10 and Claim 3.9"),
    scope=_SELECTIONS,
    assumptions=(_SELECTION_REACH, _BOUNDED, _SCORES),
)
def pure(spec: specs.Spec) -> Guarantee:
    """The exponential mechanism, permute-and-flip, and the largest score with Laplace, Gumbel or exponential noise of
    scale s are epsilon-DP with epsilon = 2 D / s; D / s for monotone scores under add-remove."""
    # Permute-and-flip is the largest score with exponential noise.
    return PureDP(_range(spec))


def _sparse_epsilon(spec: specs.Spec) -> float:
    run = assume.run_of(spec, specs.SparseVector)
    both_ways = 1.0 if run.monotone and spec.relation is Relation.ADD_REMOVE else 2.0
    answers = 0.0 if run.answer_scale is None else run.positives * run.sensitivity / run.answer_scale
    queries = both_ways * run.positives * run.sensitivity / run.query_scale
    return up(run.sensitivity / run.threshold_scale + queries + answers, 6)


@as_stated(
    "selection.sparse-vector",
    Citation("lyu2017understanding", "Algorithm 7, with and without monotone queries"),
    scope=assume.Scope({"sparse-vector"}, SEEN, EITHER),
    assumptions=(
        _exponent_up_to("epsilon", _sparse_epsilon),
        _BOUNDED,
        assume.caller_checked("fresh noise", "every query gets fresh noise, and released values get fresh noise again"),
    ),
)
def sparse_vector(spec: specs.Spec) -> Guarantee:
    """Queries compared with one noised threshold until c are above are epsilon-DP with epsilon = D / s_threshold + 2 c
    D / s_query (c D / s_query for monotone queries under add-remove), plus c D / s_answer where values are released."""
    # A moved threshold covers all answers below at once; each one above pays for itself.
    return PureDP(_sparse_epsilon(spec))
