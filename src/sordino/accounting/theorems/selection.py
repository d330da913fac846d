"""Choosing one of many: by a noisy score, against a noisy threshold, or as the best of a random number of runs."""

import math
from functools import lru_cache

import numpy as np

from sordino.accounting.assumptions import Assumption, caller_checked, changed, promised, run_of
from sordino.accounting.convert import to_renyi
from sordino.accounting.evaluate import Monotone, bounds_of, theorem, why_none
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.mechanisms import BOUNDED, EITHER, RISES_WITH_SENSITIVITY, SEEN, once, within
from sordino.core.bound import Certificate, Citation, Relation, Status, View
from sordino.core.gaussian import up
from sordino.core.guarantee import ORDERS, GaussianDP, Guarantee, LossDistribution, PureDP, RenyiDP
from sordino.core.loss.bounded_range import BoundedRangePair
from sordino.core.spec import RepeatAndSelect, Selection, SelectionMethod, SparseVector, Spec
from sordino.core.spec.document import NegativeBinomialTrials, PoissonTrials


def _range(spec: Spec) -> float:
    """2 D / s, or D / s where all scores move one way: under replace-one one unit goes and another comes."""
    run = run_of(spec, Selection)
    both_ways = not (run.monotone and spec.relation is Relation.ADD_REMOVE)
    return up((2.0 if both_ways else 1.0) * run.sensitivity / run.scale, 2)


_SELECTIONS = Scope({"selection"}, SEEN, EITHER)
_SELECTION_REACH = within(_range, "the range of the loss", {"algorithm.sensitivity": 1e6})
_SCORES = caller_checked("candidates", "the list of candidates is public, and only the chosen name is told")
_SELECTION_MONOTONE = (("algorithm.scale", Monotone.FALLS), RISES_WITH_SENSITIVITY)
_RANGED = frozenset({SelectionMethod.EXPONENTIAL, SelectionMethod.NOISY_MAX_GUMBEL})


def _unranged(spec: Spec) -> str | None:
    method = run_of(spec, Selection).method
    return (
        None
        if method in _RANGED
        else f"is about exponential and noisy-max-gumbel selection, and this is {method.value}"
    )


@theorem(
    id="selection.bounded-range",
    statement=(
        "The exponential mechanism with weights e^(score / s), or the largest score with Gumbel noise of scale s, has "
        "its loss in an interval of length r = 2 D / s (D / s for monotone scores under add-remove), so it is "
        "dominated by the pair whose loss has density e^(loss / 2) on [-r, r]; adaptive uses compose."
    ),
    citation=Citation(
        "dong2020optimal", "the optimal bound for one bounded-range mechanism, read as a dominating pair"
    ),
    status=Status.OURS,
    scope=_SELECTIONS,
    assumptions=(
        Assumption("method", "the choice is exponential", _unranged, changed({"algorithm.method": "permute-and-flip"})),
        _SELECTION_REACH,
        BOUNDED,
        _SCORES,
    ),
    monotone=_SELECTION_MONOTONE,
)
def bounded_range(spec: Spec) -> Guarantee:
    """The curve that every such mechanism stays below is the curve of a pair."""
    return once(BoundedRangePair(_range(spec)))


@theorem(
    id="selection.pure",
    statement=(
        "The exponential mechanism, permute-and-flip, and the largest score with Laplace, Gumbel or exponential noise "
        "of scale s are epsilon-DP with epsilon = 2 D / s; D / s for monotone scores under add-remove."
    ),
    citation=Citation("mckenna2020permute", "Theorem 1, with Dwork & Roth 2014, Theorem 3.10 and Claim 3.9"),
    status=Status.AS_STATED,
    scope=_SELECTIONS,
    assumptions=(_SELECTION_REACH, BOUNDED, _SCORES),
    monotone=_SELECTION_MONOTONE,
)
def pure(spec: Spec) -> Guarantee:
    """Permute-and-flip is the largest score with exponential noise."""
    return PureDP(_range(spec))


def _sparse_epsilon(spec: Spec) -> float:
    run = run_of(spec, SparseVector)
    both_ways = 1.0 if run.monotone and spec.relation is Relation.ADD_REMOVE else 2.0
    told = 0.0 if run.answer_scale is None else run.positives * run.sensitivity / run.answer_scale
    asked = both_ways * run.positives * run.sensitivity / run.query_scale
    return up(run.sensitivity / run.threshold_scale + asked + told, 6)


@theorem(
    id="selection.sparse-vector",
    statement=(
        "Queries compared with one noised threshold until c are above are epsilon-DP with epsilon = D / s_threshold + "
        "2 c D / s_query (c D / s_query for monotone queries under add-remove), plus c D / s_answer where values are "
        "told."
    ),
    citation=Citation("lyu2017understanding", "Algorithm 7, with and without monotone queries"),
    status=Status.AS_STATED,
    scope=Scope({"sparse-vector"}, SEEN, EITHER),
    assumptions=(
        within(_sparse_epsilon, "epsilon", {"algorithm.sensitivity": 1e6}),
        BOUNDED,
        caller_checked("fresh noise", "every query gets fresh noise, told values get fresh noise again"),
    ),
    monotone=(
        ("algorithm.threshold_scale", Monotone.FALLS),
        ("algorithm.query_scale", Monotone.FALLS),
        ("algorithm.positives", Monotone.RISES),
        RISES_WITH_SENSITIVITY,
    ),
)
def sparse_vector(spec: Spec) -> Guarantee:
    """A moved threshold covers all answers below at once; each one above pays for itself."""
    return PureDP(_sparse_epsilon(spec))


_base_bounds = lru_cache(maxsize=16)(bounds_of)


def _base_certificates(spec: Spec) -> tuple[Certificate, ...]:
    return tuple(dict.fromkeys(used for bound in _base_bounds(spec.base()) for used in bound.certificates))


def _rests_on(spec: Spec) -> tuple[tuple[str, Spec], ...]:
    base = spec.base()
    return tuple((bound.theorem, base) for bound in _base_bounds(base))


def _largest_loss(guarantee: Guarantee) -> float:
    """The epsilon at which a guarantee is pure; infinite where it is not."""
    if isinstance(guarantee, PureDP):
        return guarantee.value
    if not isinstance(guarantee, LossDistribution):
        return math.inf
    ways = [
        [(one, count) for one, count in guarantee.factors],
        [(one.reversed(), count) for one, count in guarantee.factors],
    ]
    if any(one.infinite > 0 for way in ways for one, _ in way):
        return math.inf
    return up(max(math.fsum(count * one.largest_loss for one, count in way) for way in ways), 4)


@lru_cache(maxsize=16)
def _base_curve(base: Spec) -> RenyiDP | None:
    """The smallest Rényi values of one trial; curves that hold but for a failure are no use here."""
    said = [(bound.guarantee, _largest_loss(bound.guarantee)) for bound in _base_bounds(base)]
    usable = [
        found if isinstance(found, GaussianDP | RenyiDP) else PureDP(loss)
        for found, loss in said
        if loss < math.inf or isinstance(found, GaussianDP | RenyiDP)
    ]
    curves = [curve for curve in map(to_renyi, usable) if curve.failure == 0.0]
    common = [order for order in ORDERS if all(order in curve.orders for curve in curves)]
    if not curves or not common:
        return None
    return RenyiDP(tuple(common), tuple(min(curve.at(order) for curve in curves) for order in common))


def _no_curve(spec: Spec) -> str | None:
    return (
        None if _base_curve(spec.base()) is not None else f"needs a Rényi or pure bound on one trial{_why_none(spec)}"
    )


def _why_none(spec: Spec) -> str:
    return f", and there is none: {why_none(spec.base(), 'no theorem gives one')}"


_GONE = {"algorithm.base": {"algorithm": {"kind": "random-shift", "shifts": [1.0], "weights": [1.0], "scale": 1e-4}}}
_SELECTS = Scope({"repeat-and-select"}, frozenset(View), EITHER)
_SECRET = caller_checked(
    "secret trials", "the number of trials stays secret, and the best one is found from what the trials release"
)


@theorem(
    id="selection.repeated",
    statement=(
        "The best of K trials, each with Rényi divergence e(order): for K negative binomial of shape h and stop g, "
        "e'(a) = e(a) + (1 + h)(1 - 1/b) e(b) + (1 + h) ln(1/g) / b + ln(E K) / (a - 1), any b; for K Poisson of mean "
        "m, e'(a) = ln(e^-m + m e^((a - 1)(e(a) + m d))) / (a - 1), where a trial is (ln(1 + 1/(a - 1)), d)-DP."
    ),
    citation=Citation("papernot2022hyperparameter", "Theorems 2 and 6, with the chance of no trial at all counted"),
    status=Status.OURS,
    scope=_SELECTS,
    assumptions=(Assumption("trial", "one trial has a Rényi curve", _no_curve, changed(_GONE)), _SECRET),
    certificates=_base_certificates,
    rests_on=_rests_on,
)
def repeated(spec: Spec) -> Guarantee:
    """The smallest value at every order."""
    run, base = run_of(spec, RepeatAndSelect), promised(_base_curve(spec.base()), "a trial with a Rényi curve")
    bounds = _base_bounds(spec.base())
    orders, values = np.asarray(base.orders), np.asarray(base.values)
    if isinstance(run.trials, PoissonTrials):
        # What is told without any trial has the same probability e^-m either way.
        mean = run.trials.mean
        fails = [min(bound.guarantee.delta(math.log1p(1 / (a - 1)) * (1 - 1e-15)) for bound in bounds) for a in orders]
        some = math.log(mean) + (orders - 1) * (values + mean * np.array(fails))
        found = np.logaddexp(-mean, some) / (orders - 1)
        slack = np.abs(some) / (orders - 1)
    else:
        shape, stop = run.trials.shape, run.trials.stop
        others = (1 + shape) * ((1 - 1 / orders) * values - math.log(stop) / orders)
        found = values + float(others.min()) + math.log(run.trials.mean) / (orders - 1)
        slack = abs(math.log(run.trials.mean)) / (orders - 1) + float(others.min())
    raised = np.maximum(found, 0.0) + 1e-14 * (1 + values + slack)
    return RenyiDP(base.orders, tuple(raised.tolist()))


def _pure_base(spec: Spec) -> float | None:
    losses = [_largest_loss(bound.guarantee) for bound in _base_bounds(spec.base())]
    return min((loss for loss in losses if loss < math.inf), default=None)


def _not_pure(spec: Spec) -> str | None:
    if not isinstance(run_of(spec, RepeatAndSelect).trials, NegativeBinomialTrials):
        return "is about a negative binomial number of trials, and it is Poisson"
    return None if _pure_base(spec) is not None else f"needs a pure bound on one trial{_why_none(spec)}"


@theorem(
    id="selection.repeated-pure",
    statement="The best of K epsilon-DP trials, K negative binomial of shape h, is (2 + h) epsilon-DP.",
    citation=Citation("papernot2022hyperparameter", "Theorem 2 at infinite orders; Liu & Talwar 2019 for h = 1"),
    status=Status.AS_STATED,
    scope=_SELECTS,
    assumptions=(
        Assumption(
            "trial",
            "one trial is pure, their number negative binomial",
            _not_pure,
            changed({"algorithm.trials": {"kind": "poisson", "mean": 3.0}}),
        ),
        _SECRET,
    ),
    certificates=_base_certificates,
    rests_on=_rests_on,
)
def repeated_pure(spec: Spec) -> Guarantee:
    """A ratio of probabilities pays once for the best value and 1 + h times for being the best."""
    run, epsilon = run_of(spec, RepeatAndSelect), promised(_pure_base(spec), "a pure trial")
    shape = run.trials.shape if isinstance(run.trials, NegativeBinomialTrials) else math.inf
    return PureDP(up((2 + shape) * epsilon, 2))
