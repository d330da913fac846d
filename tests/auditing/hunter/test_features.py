"""What is seen of an output, and that the script of a counterexample sees the same."""

import math
import re

import numpy as np
import pytest

from sordino.auditing.hunter.domain import PrivacyClaim
from sordino.auditing.hunter.features import Sample, best_events, features_of
from sordino.auditing.hunter.processes import CallOutput, HunterTarget
from sordino.auditing.hunter.search import Refutation, script
from sordino.auditing.hunter.worker import lowest_bit, trailing_zeros

ODD = (0.0, -0.0, 1.0, -2.5, 1e300, 5e-324, math.inf, -math.inf, math.nan, 0.1, 3.0, 2.0**-1022)
CLAIM = PrivacyClaim.parse({"epsilon": 1, "relation": "add-remove", "domain": {"records": {}, "size": [5, 6]}})


def drawn(means, *, spread=1.0, width=1, shape="float", count=400, cut=math.inf):
    """Samples of normal numbers with these means."""
    rng = np.random.default_rng(3)
    pair = []
    for mean, deviation in zip(means, np.broadcast_to(spread, 2), strict=True):
        rows = np.clip(rng.normal(mean, deviation, (count, width)), 1 - cut, cut)
        pair.append(Sample([CallOutput(shape, tuple(map(float, row)), ()) for row in rows]))
    return pair


def ragged():
    """Outputs of all kinds: numbers of every sort, more or fewer of them, texts and exceptions."""
    rng, found = np.random.default_rng(1), []
    for shift in (0.0, 1.0):
        outputs = []
        for _ in range(60):
            numbers = rng.normal(shift, 1.0, int(rng.integers(2, 5)))
            numbers[rng.random(len(numbers)) < 0.1] = rng.choice(ODD)
            outputs.append(CallOutput("list", tuple(map(float, numbers)), ("a",) * int(rng.integers(2))))
        failed = [CallOutput("raised ValueError: no", (), ())] * (20 if shift else 1)
        found.append(Sample([*outputs, *failed, CallOutput("list", ODD, ("b",))]))
    return found


KINDS = {"number", "distance", "low-bit", "zeros", "difference", "largest", "shape", "count", "count-texts", "atoms"}


@pytest.mark.parametrize(
    ("pair", "expected"), [(ragged(), KINDS), (drawn((0, 1), width=3, count=60), {"direction", "spread", "number"})]
)
def test_an_event_holds_for_the_same_outputs_here_and_in_the_script(pair, expected):
    events = [event for _, event in best_events(*pair, 0.1, 0.0)]
    assert expected <= {event.feature.kind for event in events}
    for event in events:
        found = Refutation(((), (1.0,)), event, 9, 10, 1, 1.0)
        text = script(HunterTarget("a", "module", "math", "fsum"), CLAIM, found, None)
        space: dict = {}
        exec(re.sub(r"\nsys\.path.*", "", text, flags=re.DOTALL), space)
        for sample in pair:
            assert [bool(space["event"](*output)) for output in sample.outputs] == event.holds(sample).tolist()


def test_the_lowest_bit_and_the_zeros_of_known_numbers():
    values = [1.0, 0.5, 1.5, 1 + 2.0**-52, 3.0, 0.0, 5e-324]
    assert [lowest_bit(value) for value in values] == [0.0, -1.0, -1.0, -52.0, 0.0, 2000.0, -1074.0]
    assert [trailing_zeros(value) for value in values[:4]] == [52.0, 52.0, 51.0, 0.0]
    assert math.isnan(lowest_bit(math.nan))


def test_bits_are_left_aside_where_the_claim_is_about_real_numbers():
    kinds = [{feature.kind for feature in features_of(*ragged(), bits=bits)} & {"low-bit", "zeros"} for bits in (0, 1)]
    assert kinds == [set(), {"low-bit", "zeros"}]


def test_a_number_is_looked_at_among_outputs_of_one_type_alone():
    """As in a sparse vector: low values are telling after two refusals, and not otherwise."""
    plain, after = drawn((0, 0)), drawn((0, 2.5), shape="list[3](None, None, float)", count=200)
    pair = [Sample([*one.outputs, *other.outputs]) for one, other in zip(plain, after, strict=True)]
    found = [event for _, event in best_events(*pair, 1.0, 0.0, bits=False) if event.feature.kind == "inside"]
    assert "list[3](None, None, float)" in found[0].words
    assert not found[0].holds(plain[1]).any()


def test_values_that_come_up_again_and_again_are_told_apart():
    """Cut to [0, 1]: which numbers are at an end is a pattern."""
    pair = drawn((0.5, 0.5), spread=(0.1, 3.0), width=2, count=300, cut=1.0)
    [event] = [one for _, one in best_events(*pair, 0.5, 0.0) if one.feature.kind == "atoms" and one.likelier == 0]
    assert event.value == {".."}
    assert event.feature.code == "atoms(numbers, [0.0, 1.0])"
