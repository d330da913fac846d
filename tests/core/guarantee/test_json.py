"""Every kind of guarantee and of pair goes to JSON and comes back the same, bit for bit."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.bound import (
    GRADIENT_BOUND,
    Bound,
    Certificate,
    Citation,
    Evidence,
    Relation,
    Status,
    View,
    bibliography,
)
from sordino.core.guarantee import (
    KINDS,
    ApproxDP,
    BoundedRange,
    GaussianDP,
    LossDistribution,
    PureDP,
    RenyiDP,
    TotalVariation,
    guarantee_from_dict,
)
from sordino.core.loss.allocation import AllocationAddPair, AllocationPair
from sordino.core.loss.atomic_pairs import (
    BoundedRangePair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    ExplicitPair,
    LaplacePair,
    PoissonLaplaceAddPair,
    PoissonLaplacePair,
    ResponsePair,
)
from sordino.core.loss.mixture_pairs import (
    GaussianMixturePair,
    MixturePair,
    RandomShiftAddPair,
    RandomShiftPair,
    WithReplacementPair,
)
from sordino.core.loss.normal_pairs import (
    GaussianPair,
    PoissonAddPair,
    PoissonRemovePair,
    PoissonReplacePair,
    WithoutReplacementPair,
)
from sordino.core.loss.pair import KINDS as PAIR_KINDS
from sordino.core.loss.pair import pair_from_dict
from sordino.core.validate import InputError

positive = st.floats(1e-300, 1e6)
unit = st.floats(1e-9, 1 - 1e-9)
PAIRS = {
    "gaussian": st.builds(GaussianPair, positive),
    "poisson-remove": st.builds(PoissonRemovePair, unit, positive),
    "poisson-add": st.builds(PoissonAddPair, unit, positive),
    "poisson-replace": st.builds(PoissonReplacePair, unit, positive),
    "without-replacement": st.builds(WithoutReplacementPair, unit, positive),
    "response": st.builds(ResponsePair, st.floats(0, 1e6), st.floats(0, 1)),
    "laplace": st.builds(LaplacePair, positive),
    "explicit": st.sampled_from(
        [
            ExplicitPair((-0.1, 1 / 3), (0.25, 0.75), 0.0),
            ExplicitPair((0.1,), (0.9,), 0.1, (0.2, 0.3), (0.5, 0.25), 0.25),
        ]
    ),
}
PAIRS["gaussian-mixture"] = st.builds(
    lambda a, b, weight: GaussianMixturePair((weight, 1 - weight), (a, b)), positive, positive, unit
)
PAIRS["mixture"] = st.builds(
    lambda a, b, weight: MixturePair((weight, 1 - weight), (((a, 3),), ((b, 1), (a, 2)))),
    PAIRS["gaussian"],
    PAIRS["laplace"],
    unit,
)
PAIRS["bounded-range"] = st.builds(BoundedRangePair, st.floats(1e-6, 50))
PAIRS["discrete-laplace"] = st.builds(DiscreteLaplacePair, st.floats(0.01, 5), st.integers(1, 5))
PAIRS["discrete-gaussian"] = st.builds(DiscreteGaussianPair, st.floats(0.5, 50), st.integers(1, 5))
PAIRS["with-replacement"] = st.builds(WithReplacementPair, st.integers(1, 50), st.integers(2, 10**6), positive)
for _kind, _laplace in (("poisson-laplace", PoissonLaplacePair), ("poisson-laplace-add", PoissonLaplaceAddPair)):
    PAIRS[_kind] = st.builds(_laplace, unit, st.floats(1e-3, 20.0))
for _kind, _pair in (("random-shift", RandomShiftPair), ("random-shift-add", RandomShiftAddPair)):
    PAIRS[_kind] = st.builds(lambda a, weight, pair=_pair: pair((weight, 1 - weight), (a, 0.0)), positive, unit)
for _kind, _allocated in (("allocation", AllocationPair), ("allocation-add", AllocationAddPair)):
    PAIRS[_kind] = st.builds(_allocated, st.just(50), st.integers(1, 50), st.floats(0.1, 1.0))
any_pair = st.one_of(*PAIRS.values())
GUARANTEES = {
    "pure": st.builds(PureDP, st.floats(0, 1e6)),
    "approximate": st.builds(ApproxDP, st.floats(0, 1e6), st.floats(0, 1)),
    "total-variation": st.builds(TotalVariation, st.floats(0, 1)),
    "gaussian": st.builds(GaussianDP, st.floats(0, 1e6)),
    "bounded-range": st.builds(BoundedRange, st.floats(0, 1e6), st.integers(1, 10**6)),
    "renyi": st.builds(
        lambda orders, value, failure: RenyiDP(tuple(sorted(orders)), (value,) * len(orders), failure),
        st.sets(st.floats(1.001, 1e6), min_size=1, max_size=5),
        st.one_of(st.floats(0, 1e9), st.just(math.inf)),
        st.floats(0, 1),
    ),
    "loss-distribution": st.builds(
        lambda factors: LossDistribution(tuple(factors)),
        st.lists(st.tuples(any_pair, st.integers(1, 10**7)), max_size=4),
    ),
}


def test_every_registered_kind_is_covered():
    assert set(GUARANTEES) == set(KINDS.table)
    assert set(PAIRS) == set(PAIR_KINDS.table)


@pytest.mark.parametrize("kind", PAIRS)
def test_pairs(kind):
    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(pair=PAIRS[kind])
    def check(pair):
        back = pair_from_dict(json.loads(json.dumps(pair.to_dict(), allow_nan=False)))
        assert back == pair
        assert type(back) is type(pair)
        assert back.to_dict() == pair.to_dict()

    check()


@pytest.mark.parametrize("kind", GUARANTEES)
def test_guarantees(kind):
    @settings(derandomize=True, deadline=None, max_examples=25)
    @given(guarantee=GUARANTEES[kind])
    def check(guarantee):
        back = guarantee_from_dict(json.loads(json.dumps(guarantee.to_dict(), allow_nan=False)))
        assert back == guarantee
        assert type(back) is type(guarantee)
        assert hash(back) == hash(guarantee)

    check()


@pytest.mark.parametrize("data", [None, 3, {}, {"kind": "gdp"}, {"kind": 5}])
def test_unknown_guarantees_are_refused(data):
    with pytest.raises(InputError, match="guarantee"):
        guarantee_from_dict(data)


@pytest.mark.parametrize("data", [None, {}, {"kind": "normal"}])
def test_unknown_pairs_are_refused(data):
    with pytest.raises(InputError, match="pair"):
        pair_from_dict(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ExplicitPair((), (), 0.0),
        lambda: ExplicitPair((0.0, 1.0), (1.0,), 0.0),
        lambda: ExplicitPair((1.0, 0.0), (0.5, 0.5), 0.0),
        lambda: ExplicitPair((0.0,), (-1.0,), 0.0),
        lambda: ExplicitPair((0.0,), (math.nan,), 0.0),
        lambda: ExplicitPair((0.0,), (0.5,), 0.0),
        lambda: ExplicitPair((math.nan,), (1.0,), 0.0),
        lambda: ExplicitPair((math.inf,), (1.0,), 0.0),
        lambda: MixturePair((0.5, 0.6), ((), ())),
        lambda: MixturePair((math.nan, 1.0), ((), ())),
        lambda: MixturePair((1.0,), ((), ())),
        lambda: PoissonRemovePair(1.0, 1.0),
        lambda: PoissonRemovePair(0.5, 0.0),
        lambda: WithoutReplacementPair(0.0, 1.0),
        lambda: GaussianPair(math.nan),
        lambda: LaplacePair(0.0),
        lambda: ResponsePair(-0.1, 0.0),
    ],
)
def test_impossible_pairs_are_refused(make):
    with pytest.raises(InputError):
        make()


@pytest.mark.parametrize("count", [2.7, 0, "3"])
def test_counts_inside_a_mixture_are_checked(count):
    data = {
        "kind": "mixture",
        "weights": [1.0],
        "components": [[{"pair": GaussianPair(1.0).to_dict(), "count": count}]],
    }
    with pytest.raises(InputError, match="count"):
        pair_from_dict(data)


def test_a_bound_round_trips_and_knows_its_weakest_evidence():
    strong = Certificate(GRADIENT_BOUND, 1.0, Evidence.PROVED, "clipped")
    weak = Certificate(GRADIENT_BOUND, 2.0, Evidence.DECLARED, "stated")
    bound = Bound(
        GaussianDP(0.3),
        Relation.REPLACE_ONE,
        View.ALL_ITERATES,
        (strong, weak),
        "composition.gaussian",
        Citation(next(iter(bibliography())), "Theorem 1"),
        Status.AS_STATED,
    )
    assert Bound.from_dict(json.loads(json.dumps(bound.to_dict()))) == bound
    assert bound.evidence is Evidence.DECLARED
