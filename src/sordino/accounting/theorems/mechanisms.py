"""Single mechanisms: each has a dominating pair, so it composes with chains in composites and in the ledger."""

import math
from collections.abc import Callable
from typing import Any

from sordino.accounting.assumptions import Assumption, at_most, caller_checked, changed, promised
from sordino.accounting.evaluate import Monotone, theorem
from sordino.accounting.scope import Scope
from sordino.core.bound import Citation, Relation, Status, View
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, RenyiDP
from sordino.core.loss.atomic_pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    ExplicitPair,
    LaplacePair,
    PoissonLaplacePair,
)
from sordino.core.loss.mixture_pairs import RandomShiftPair
from sordino.core.loss.normal_pairs import PoissonRemovePair
from sordino.core.loss.pair import Pair
from sordino.core.spec import (
    NoisedAnswer,
    RandomisedResponse,
    RandomShift,
    Spec,
)
from sordino.core.spec.mechanisms import ANSWER_NOISES

SEEN = frozenset({View.ALL_ITERATES})
EITHER = dict.fromkeys(Relation, frozenset())
_FALLS_WITH_NOISE = ("algorithm.noise.scale", Monotone.FALLS)
RISES_WITH_SENSITIVITY = ("algorithm.sensitivity", Monotone.RISES)
_MOST_ATOMS = 5_000  # whole numbers between two centres, or in a deviation, that are listed one by one
_LARGEST_EPSILON = 500.0  # beyond it nothing is hidden, and exponentials leave the range of floating point

BOUNDED = caller_checked(
    "bounded sensitivity", "one unit moves every answer or score by at most the stated sensitivity, whatever the data"
)


def once(pair: Pair) -> Guarantee:
    """One use of a pair."""
    return LossDistribution(((pair, 1),))


def _answer(spec: Spec) -> NoisedAnswer:
    run = spec.algorithm if isinstance(spec.algorithm, NoisedAnswer) else None
    return promised(run, "a noised-answer run", "another")


def _ratio(spec: Spec) -> float:
    """Sensitivity over scale, rounded up."""
    run = _answer(spec)
    return up(run.sensitivity / run.noise.scale)


def _has_noise(word: str) -> Assumption:
    other = {"kind": "gaussian" if word != "gaussian" else "laplace", "scale": 1.0}

    def failure(spec: Spec) -> str | None:
        found = ANSWER_NOISES.word_of(_answer(spec).noise)
        return None if found == word else f"is about {word} noise, and the noise is {found}"

    return Assumption("noise", f"the noise is {word}", failure, changed({"algorithm.noise": other}))


def within(value: Callable[[Spec], float], called: str, violated: dict[str, Any]) -> Assumption:
    """A number of the run is small enough for exponentials."""

    def failure(spec: Spec) -> str | None:
        found = value(spec)
        return (
            None
            if found <= _LARGEST_EPSILON
            else f"evaluates {called} up to {_LARGEST_EPSILON:g}, and it is {found:.3g}"
        )

    return Assumption("reach", f"{called} is at most {_LARGEST_EPSILON:g}", failure, changed(violated))


_ANSWERS = Scope({"noised-answer"}, SEEN, EITHER)
_ANSWER_REACH = within(_ratio, "the sensitivity over the scale", {"algorithm.sensitivity": 1e6})


@theorem(
    id="mechanism.laplace",
    statement=(
        "An answer with l1 sensitivity D and Laplace noise of scale s on every coordinate is dominated by one Laplace "
        "variable moved by D / s: several coordinates are never worse than one, because shifts of one log-concave law "
        "add up exactly."
    ),
    citation=Citation(
        "dwork2006calibrating", "Proposition 1, with the group rule of Dong, Roth & Su 2022, Theorem 2.14"
    ),
    status=Status.OURS,
    scope=_ANSWERS,
    assumptions=(_has_noise("laplace"), _ANSWER_REACH, BOUNDED),
    monotone=(_FALLS_WITH_NOISE, RISES_WITH_SENSITIVITY),
)
def laplace(spec: Spec) -> Guarantee:
    """Moving the coordinates one after the other is group privacy along a line, which a single one attains."""
    return once(LaplacePair(_ratio(spec)))


def _few_atoms(value: Callable[[Spec], float], called: str, violated: dict[str, Any]) -> Assumption:
    def failure(spec: Spec) -> str | None:
        found = value(spec)
        return None if found <= _MOST_ATOMS else f"lists {called} up to {_MOST_ATOMS}, and it is {found:g}"

    return Assumption("atoms", f"{called} is at most {_MOST_ATOMS}", failure, changed(violated))


@theorem(
    id="mechanism.discrete-laplace",
    statement=(
        "A whole-number answer with l1 sensitivity D and noise P(x) proportional to e^(-|x| / s) is dominated by one "
        "such variable moved by D."
    ),
    citation=Citation("ghosh2012universally", "Section 2, with the group rule of Dong, Roth & Su 2022, Theorem 2.14"),
    status=Status.OURS,
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-laplace"),
        _ANSWER_REACH,
        _few_atoms(
            lambda spec: _answer(spec).sensitivity,
            "the sensitivity",
            {"algorithm.sensitivity": 2.0 * _MOST_ATOMS, "algorithm.noise.scale": 100.0},
        ),
        BOUNDED,
    ),
    monotone=(_FALLS_WITH_NOISE,),
)
def discrete_laplace(spec: Spec) -> Guarantee:
    """The corners of its trade-off curves lie on those of every other shift, so shifts add up exactly."""
    run = _answer(spec)
    return once(DiscreteLaplacePair(up(1 / run.noise.scale), int(run.sensitivity)))


@theorem(
    id="mechanism.gaussian",
    statement="An answer with l2 sensitivity D and Gaussian noise of deviation s is mu-Gaussian DP with mu = D / s.",
    citation=Citation("dong2022gaussian", "Theorem 2.7"),
    status=Status.AS_STATED,
    scope=_ANSWERS,
    assumptions=(
        _has_noise("gaussian"),
        at_most(
            "reach",
            "the sensitivity over the scale is at most {limit:g}",
            _ratio,
            "evaluates the sensitivity over the scale up to {limit:g}, and it is {value}",
            changed({"algorithm.sensitivity": 1e200}),
        ),
        BOUNDED,
    ),
    monotone=(_FALLS_WITH_NOISE, RISES_WITH_SENSITIVITY),
)
def gaussian(spec: Spec) -> Guarantee:
    """Rotations bring the move onto one coordinate."""
    return GaussianDP(_ratio(spec))


def _one_dimensional(spec: Spec) -> str | None:
    dim = _answer(spec).dim
    return None if dim == 1 else f"is about one value, and algorithm.dim is {dim}"


@theorem(
    id="mechanism.discrete-gaussian",
    statement=(
        "One whole number with sensitivity D and discrete Gaussian noise is dominated by that noise moved by D against "
        "not moved."
    ),
    citation=Citation("canonne2020discrete", "Theorem 7"),
    status=Status.AS_STATED,
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-gaussian"),
        within(
            lambda spec: _ratio(spec) * max(1.0, _ratio(spec)),
            "the squared sensitivity over the scale",
            {"algorithm.sensitivity": 1e6},
        ),
        Assumption("one value", "one value is answered", _one_dimensional, changed({"algorithm.dim": 2})),
        _few_atoms(
            lambda spec: _answer(spec).noise.scale,
            "the scale",
            {"algorithm.noise.scale": 2.0 * _MOST_ATOMS},
        ),
        BOUNDED,
    ),
    monotone=(_FALLS_WITH_NOISE,),
)
def discrete_gaussian(spec: Spec) -> Guarantee:
    """The noise is log-concave, so the largest move is the worst."""
    run = _answer(spec)
    return once(DiscreteGaussianPair(run.noise.scale, int(run.sensitivity)))


@theorem(
    id="mechanism.discrete-gaussian-renyi",
    statement=(
        "A vector of whole numbers with l2 sensitivity D and independent discrete Gaussian noise of parameter s has "
        "Rényi divergence at most order D^2 / (2 s^2) at every order."
    ),
    citation=Citation("canonne2020discrete", "Theorem 4, coordinate by coordinate"),
    status=Status.AS_STATED,
    scope=_ANSWERS,
    assumptions=(
        _has_noise("discrete-gaussian"),
        within(lambda spec: _ratio(spec) * _ratio(spec), "the squared ratio", {"algorithm.sensitivity": 1e6}),
        BOUNDED,
    ),
    monotone=(_FALLS_WITH_NOISE,),
)
def discrete_gaussian_renyi(spec: Spec) -> Guarantee:
    """Concentrated like the Gaussian that it is cut from."""
    square = up(_ratio(spec) ** 2, 2)
    return RenyiDP(ORDERS, tuple(up(order * square / 2, 2) for order in ORDERS))


def _sampled(spec: Spec) -> str | None:
    return None if _answer(spec).rate is not None else "is about a sample of the units, and algorithm.rate is absent"


def _continuous(spec: Spec) -> str | None:
    found = ANSWER_NOISES.word_of(_answer(spec).noise)
    return None if found in {"laplace", "gaussian"} else f"is about Laplace or Gaussian noise, and the noise is {found}"


@theorem(
    id="mechanism.sampled-answer",
    statement=(
        "An answer on a secret Poisson sample of rate q, with Laplace or Gaussian noise whose pair is (P, Q), is "
        "dominated by (1 - q) Q + q P against Q, and its reverse; every use draws its own sample."
    ),
    citation=Citation("zhu2022optimal", "Theorem 11, with the pairs of the whole answers"),
    status=Status.AS_STATED,
    scope=Scope({"noised-answer"}, SEEN, {Relation.ADD_REMOVE: frozenset()}),
    assumptions=(
        Assumption("sample", "algorithm.rate is given", _sampled, changed({"algorithm.rate": None})),
        Assumption(
            "noise",
            "the noise is laplace or gaussian",
            _continuous,
            changed({"algorithm.noise": {"kind": "discrete-laplace", "scale": 1.0}, "algorithm.sensitivity": 1.0}),
        ),
        within(
            lambda spec: _ratio(spec) * max(1.0, _ratio(spec)),
            "the squared sensitivity over the scale",
            {"algorithm.sensitivity": 1e6},
        ),
        BOUNDED,
        caller_checked("secret sample", "who takes part is drawn for each unit alone, and is never told"),
    ),
    monotone=(_FALLS_WITH_NOISE, RISES_WITH_SENSITIVITY, ("algorithm.rate", Monotone.RISES)),
)
def sampled_answer(spec: Spec) -> Guarantee:
    """Both pairs are their own mirror images, so they dominate in both directions, as the theorem asks."""
    run = _answer(spec)
    pair = PoissonRemovePair if ANSWER_NOISES.word_of(run.noise) == "gaussian" else PoissonLaplacePair
    return once(pair(promised(run.rate, "a rate"), _ratio(spec)))


def _response(spec: Spec) -> RandomisedResponse:
    run = spec.algorithm if isinstance(spec.algorithm, RandomisedResponse) else None
    return promised(run, "a randomised-response run", "another")


@theorem(
    id="mechanism.randomised-response",
    statement=(
        "A category told truly with probability p, else as one of the k - 1 others, has losses of "
        "+-ln(p (k - 1) / (1 - p)) with probabilities p and (1 - p) / (k - 1), and 0 else; this is exact."
    ),
    citation=Citation("kairouz2017composition", "Section 3, for k categories"),
    status=Status.OURS,
    scope=Scope({"randomised-response"}, SEEN, {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(caller_checked("own answer", "a unit's answer is its own, and depends on no other unit"),),
)
def randomised_response(spec: Spec) -> Guarantee:
    """Two units that replace each other swap the probabilities of two answers."""
    run = _response(spec)
    other = (1 - run.truth) / (run.categories - 1)
    loss = up(abs(math.log(run.truth) - math.log(other)), 4) if run.truth != other else 0.0
    if loss == 0.0:
        return LossDistribution(())
    large, small = max(run.truth, other), min(run.truth, other)
    rest = max(0.0, 1 - large - small)
    if run.categories == 2:
        return once(ExplicitPair((-loss, loss), (small, 1 - small), 0.0))
    return once(ExplicitPair((-loss, 0.0, loss), (small, rest, large), 0.0))


def _shift(spec: Spec) -> RandomShift:
    run = spec.algorithm if isinstance(spec.algorithm, RandomShift) else None
    return promised(run, "a random-shift run", "another")


def _largest_shift(spec: Spec) -> float:
    run = _shift(spec)
    return max(run.shifts) / run.scale


@theorem(
    id="mechanism.random-shift",
    statement=(
        "A Gaussian answer that a unit's presence moves by length s_j with probability w_j, j secret and independent "
        "of the data, is dominated by the mixture of N(s_j / sigma, 1) against N(0, 1), and its reverse."
    ),
    citation=Citation("choquette2024privacy", "mixture of Gaussians mechanisms"),
    status=Status.AS_STATED,
    scope=Scope({"random-shift"}, SEEN, {Relation.ADD_REMOVE: frozenset()}),
    assumptions=(
        within(
            lambda spec: _largest_shift(spec) * _largest_shift(spec),
            "the squared shift over the noise",
            {"algorithm.scale": 1e-6},
        ),
        caller_checked(
            "secret draw", "which length it is depends on nothing that is seen or private, and stays secret"
        ),
    ),
    monotone=(("algorithm.scale", Monotone.FALLS),),
)
def random_shift(spec: Spec) -> Guarantee:
    """Shifts along one line are the worst of all shifts of these lengths."""
    run = _shift(spec)
    total = math.fsum(run.weights)
    return once(
        RandomShiftPair(
            tuple(weight / total for weight in run.weights),
            tuple(up(shift / run.scale) if shift else 0.0 for shift in run.shifts),
        )
    )
