"""Every kind of guarantee and of pair goes to JSON and comes back the same, bit for bit."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sordino.core.loss.allocation  # noqa: F401  (registers its pairs)
from sordino.core import bound as claims
from sordino.core.guarantee import KINDS, GaussianDP, LossDistribution, RenyiDP, guarantee_from_dict
from sordino.core.loss.atomic_pairs import ExplicitPair, LaplacePair, ResponsePair
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair
from sordino.core.loss.normal_pairs import GaussianPair, PoissonRemovePair, WithoutReplacementPair
from sordino.core.loss.pair import KINDS as PAIR_KINDS
from sordino.core.loss.pair import pair_from_dict
from sordino.core.validate import InputError

positive, unit, epsilons = st.floats(1e-300, 1e6), st.floats(1e-9, 1 - 1e-9), st.floats(0, 1e6)
# Arguments of every pair; those of several numbers by functions below.
ARGUMENTS = {
    "gaussian": [positive],
    "laplace": [positive],
    "bounded-range": [st.floats(1e-6, 50)],
    "response": [epsilons, st.floats(0, 1)],
    "discrete-laplace": [st.floats(0.01, 5), st.integers(1, 5)],
    "discrete-gaussian": [st.floats(0.5, 50), st.integers(1, 5)],
    "with-replacement": [st.integers(1, 50), st.integers(2, 10**6), positive],
    **dict.fromkeys(["poisson-remove", "poisson-add", "poisson-replace", "without-replacement"], (unit, positive)),
    **dict.fromkeys(["poisson-laplace", "poisson-laplace-add"], (unit, st.floats(1e-3, 20.0))),
    **dict.fromkeys(["allocation", "allocation-add"], (st.just(50), st.integers(1, 50), st.floats(0.1, 1.0))),
}
PAIRS = {kind: st.builds(PAIR_KINDS.table[kind], *arguments) for kind, arguments in ARGUMENTS.items()}
PAIRS["explicit"] = st.sampled_from([ExplicitPair((-0.1, 1 / 3), (0.25, 0.75), 0.0), ExplicitPair((0.1,), (0.9,), 0.1)])
PAIRS["gaussian-mixture"] = st.builds(
    lambda a, b, weight: GaussianMixturePair((weight, 1 - weight), (a, b)), positive, positive, unit
)
PAIRS["mixture"] = st.builds(
    lambda a, b, weight: MixturePair((weight, 1 - weight), (((a, 3),), ((b, 1), (a, 2)))),
    PAIRS["gaussian"],
    PAIRS["laplace"],
    unit,
)
for _kind in ("random-shift", "random-shift-add"):
    _pair: Any = PAIR_KINDS.table[_kind]
    PAIRS[_kind] = st.builds(lambda a, weight, pair=_pair: pair((weight, 1 - weight), (a, 0.0)), positive, unit)
_GUARANTEES = {
    "pure": [epsilons],
    "approximate": [epsilons, st.floats(0, 1)],
    "total-variation": [st.floats(0, 1)],
    "gaussian": [epsilons],
    "bounded-range": [epsilons, st.integers(1, 10**6)],
    "loss-distribution": [
        st.lists(st.tuples(st.one_of(*PAIRS.values()), st.integers(1, 10**7)), max_size=4).map(tuple)
    ],
}
GUARANTEES = {kind: st.builds(KINDS.table[kind], *arguments) for kind, arguments in _GUARANTEES.items()}
GUARANTEES["renyi"] = st.builds(
    lambda orders, value, failure: RenyiDP(tuple(sorted(orders)), (value,) * len(orders), failure),
    st.sets(st.floats(1.001, 1e6), min_size=1, max_size=5),
    st.one_of(st.floats(0, 1e9), st.just(math.inf)),
    st.floats(0, 1),
)


def test_every_registered_kind_is_covered():
    assert set(GUARANTEES) == set(KINDS.table)
    assert set(PAIRS) == set(PAIR_KINDS.table)


@pytest.mark.parametrize("kind", [*PAIRS, *(f"guarantee {kind}" for kind in GUARANTEES)])
def test_what_is_written_is_read_back(kind):
    values = PAIRS[kind] if kind in PAIRS else GUARANTEES[kind.removeprefix("guarantee ")]
    read = pair_from_dict if kind in PAIRS else guarantee_from_dict

    @settings(derandomize=True, deadline=None, max_examples=15)
    @given(value=values)
    def check(value):
        back = read(json.loads(json.dumps(value.to_dict(), allow_nan=False)))
        assert back == value
        assert type(back) is type(value)
        assert hash(back) == hash(value)
        assert back.to_dict() == value.to_dict()

    check()


@pytest.mark.parametrize("data", [None, 3, {}, {"kind": "gdp"}, {"kind": 5}])
def test_unknown_kinds_are_refused(data):
    for read, word in ((guarantee_from_dict, "guarantee"), (pair_from_dict, "pair")):
        with pytest.raises(InputError, match=word):
            read(data)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (ExplicitPair, ((), (), 0.0)),
        (ExplicitPair, ((0.0, 1.0), (1.0,), 0.0)),
        (ExplicitPair, ((1.0, 0.0), (0.5, 0.5), 0.0)),
        (ExplicitPair, ((0.0,), (-1.0,), 0.0)),
        (ExplicitPair, ((0.0,), (math.nan,), 0.0)),
        (ExplicitPair, ((0.0,), (0.5,), 0.0)),
        (ExplicitPair, ((math.nan,), (1.0,), 0.0)),
        (ExplicitPair, ((math.inf,), (1.0,), 0.0)),
        (MixturePair, ((0.5, 0.6), ((), ()))),
        (MixturePair, ((math.nan, 1.0), ((), ()))),
        (MixturePair, ((1.0,), ((), ()))),
        (PoissonRemovePair, (1.0, 1.0)),
        (PoissonRemovePair, (0.5, 0.0)),
        (WithoutReplacementPair, (0.0, 1.0)),
        (GaussianPair, (math.nan,)),
        (LaplacePair, (0.0,)),
        (ResponsePair, (-0.1, 0.0)),
        (MixturePair, ((1.0,), (((GaussianPair(1.0), 2.7),),))),
        (MixturePair, ((1.0,), (((GaussianPair(1.0), 0),),))),
        (MixturePair, ((1.0,), (((GaussianPair(1.0), "3"),),))),
        *((LossDistribution, (((GaussianPair(1.0), count),),)) for count in (0, -1, 2.0, True, "3")),
        (LossDistribution, (((GaussianDP(1.0), 1),),)),
    ],
)
def test_impossible_pairs_and_counts_are_refused(kind, arguments):
    with pytest.raises(InputError):
        kind(*arguments)


def test_a_bound_round_trips_and_knows_its_weakest_evidence():
    strong = claims.Certificate(claims.GRADIENT_BOUND, 1.0, claims.Evidence.PROVED, "clipped")
    weak = claims.Certificate(claims.GRADIENT_BOUND, 2.0, claims.Evidence.DECLARED, "stated")
    citation = claims.Citation(next(iter(claims.bibliography())), "Theorem 1")
    claim = (claims.Relation.REPLACE_ONE, claims.View.ALL_ITERATES, (strong, weak), "composition.gaussian", citation)
    bound = claims.Bound(GaussianDP(0.3), *claim, claims.Status.AS_STATED)
    assert claims.Bound.from_dict(json.loads(json.dumps(bound.to_dict()))) == bound
    assert bound.evidence is claims.Evidence.DECLARED
