"""What is seen of an output, and that the script sees the same."""

import math

import numpy as np
import pytest

from sordino.auditing.hunter.domain import PrivacyClaim, TablePair, neighbours
from sordino.auditing.hunter.features import (
    TEXTS,
    Event,
    Sample,
    best_events,
    evidence,
    features_of,
    lowest_bit,
    texts_of,
    trailing_zeros,
    values_of,
)
from sordino.auditing.hunter.processes import CallOutput
from sordino.auditing.hunter.report import _BITS

ODD = (0.0, -0.0, 1.0, -2.5, 1e300, 5e-324, math.inf, -math.inf, math.nan, 0.1, 3.0, 2.0**-1022)


def regular(seed, count=60):
    rng = np.random.default_rng(seed)
    pair = [rng.normal(shift, 1.0, (count, 3)) for shift in (0.0, 1.0)]
    return [Sample([CallOutput("list", tuple(map(float, row)), ()) for row in one]) for one in pair]


def samples(seed, count=60):
    rng = np.random.default_rng(seed)
    found = []
    for shift in (0.0, 1.0):
        outputs = []
        for _ in range(count):
            numbers = rng.normal(shift, 1.0, int(rng.integers(2, 5)))
            numbers[rng.random(len(numbers)) < 0.1] = rng.choice(ODD)
            outputs.append(CallOutput("list", tuple(float(one) for one in numbers), ("a",) * int(rng.integers(2))))
        failed = [CallOutput("raised ValueError: no", (), ())] * (20 if shift else 1)
        found.append(Sample([*outputs, *failed, CallOutput("list", ODD, ("b",))]))
    return found


SCRIPT = compile(_BITS, "script", "exec")


def by_the_script(code, output):
    space = {
        "math": math,
        "nan": math.nan,
        "inf": math.inf,
        "shape": output.shape,
        "numbers": list(output.numbers),
        "texts": list(output.texts),
    }
    exec(SCRIPT, space)
    try:
        return bool(eval(code, space))
    except (IndexError, ValueError):
        return False


RAGGED = {"number", "distance", "low-bit", "zeros", "difference", "largest", "shape", "count", "count-texts", "atoms"}


@pytest.mark.parametrize(("make", "expected"), [(samples, RAGGED), (regular, {"direction", "spread", "number"})])
def test_an_event_holds_for_the_same_outputs_here_and_in_the_script(make, expected):
    pair = make(1)
    events = [event for _, event in best_events(*pair, 0.1, 0.0)]
    assert expected <= {event.feature.kind for event in events}
    for event in events:
        code = compile(event.code, "event", "eval")
        for sample in pair:
            here = event.holds(sample)
            for output, holds in zip(sample.outputs, here, strict=True):
                # Sums of floats in another order may fall on the other side of a threshold that is one of them.
                if event.feature.kind in {"direction", "spread"} and _near(event, output, sample):
                    continue
                assert by_the_script(code, output) == holds, (event.words, output)


def _near(event, output, sample):
    value = values_of(event.feature, Sample([output]))[0] if output.numbers else math.nan
    short = len(output.numbers) != len(event.feature.places)
    return short or not abs(value - event.value) > 1e-9 * max(1.0, abs(event.value))


def test_the_lowest_bit_and_the_zeros_of_known_numbers():
    values = np.array([1.0, 0.5, 1.5, 1 + 2.0**-52, 3.0, 0.0, 5e-324, math.nan])
    assert lowest_bit(values).tolist()[:7] == [0.0, -1.0, -1.0, -52.0, 0.0, 2000.0, -1074.0]
    assert trailing_zeros(values).tolist()[:4] == [52.0, 52.0, 51.0, 0.0]
    assert math.isnan(lowest_bit(values)[7])


def test_a_difference_of_means_is_seen_in_the_best_event():
    pair = [
        Sample([CallOutput("float", (float(x),), ()) for x in np.random.default_rng(3).normal(m, 1, 400)])
        for m in (0, 3)
    ]
    score, event = best_events(*pair, 1.0, 0.0, bits=False)[0]
    assert score > 5.0
    rates = [event.holds(one).mean() for one in pair]
    assert rates[event.likelier] > math.e * rates[1 - event.likelier]


def test_bits_are_left_aside_where_the_claim_is_about_real_numbers():
    pair = samples(1)
    assert {"low-bit", "zeros"} <= {feature.kind for feature in features_of(*pair, bits=True)}
    assert not {"low-bit", "zeros"} & {feature.kind for feature in features_of(*pair, bits=False)}


def test_evidence_is_negative_for_what_the_claim_allows():
    assert evidence(272, 1000, 100, 1000, 1.0, 0.0) < 0.5
    assert evidence(900, 1000, 100, 1000, 1.0, 0.0) > 10.0
    assert evidence(900, 1000, 100, 1000, 1.0, 0.7) < 0.0


def test_exceptions_and_types_are_texts_of_an_output():
    sample = Sample([CallOutput("raised ValueError: x", (), ()), CallOutput("float", (math.nan,), ())])
    assert texts_of(TEXTS[0], sample) == ["raised ValueError: x", "float"]
    assert texts_of(TEXTS[1], sample) == ["", "n"]
    event = Event(TEXTS[0], "in", frozenset({"float"}), 1)
    assert event.holds(sample).tolist() == [False, True]


def test_a_number_is_looked_at_among_outputs_of_one_type_alone():
    """As in a sparse vector: low values are telling after two refusals, and not otherwise."""
    rng = np.random.default_rng(4)
    pair = []
    for mean in (0.0, 2.5):
        plain = [CallOutput("list[1](float)", (float(x),), ()) for x in rng.normal(0, 1, 400)]
        after = [CallOutput("list[3](None, None, float)", (float(x),), ()) for x in rng.normal(mean, 1, 200)]
        pair.append(Sample([*plain, *after]))
    given = [event for _, event in best_events(*pair, 1.0, 0.0, bits=False) if event.feature.given]
    assert given[0].feature.given == "list[3](None, None, float)"
    for sample in pair:
        here = [bool(one) for one in given[0].holds(sample)]
        assert here == [by_the_script(given[0].code, output) for output in sample.outputs]


def test_values_that_come_up_again_and_again_are_told_apart():
    """Cut to [0, 1]: which numbers are at an end is a pattern."""
    rng = np.random.default_rng(5)
    pair = [
        Sample(
            [
                CallOutput("list", tuple(map(float, np.clip(row, 0.0, 1.0))), ())
                for row in rng.normal(0.5, width, (300, 2))
            ]
        )
        for width in (0.1, 3.0)
    ]
    [event] = [one for _, one in best_events(*pair, 0.5, 0.0) if one.feature.kind == "atoms" and one.likelier == 0]
    assert event.value == {".."}
    assert event.feature.weights == (0.0, 1.0)
    assert [by_the_script(event.code, output) for output in pair[1].outputs] == event.holds(pair[1]).tolist()


def test_tables_in_twos_differ_at_their_beginning():
    claim = PrivacyClaim.parse(
        {"epsilon": 1, "relation": "add-remove", "domain": {"records": {"low": 0, "high": 1}, "size": [5, 6]}}
    )
    pairs = neighbours(claim, np.random.default_rng(0))[:20]
    assert TablePair((0.0, 0.0, 1.0, 1.0, 0.0), (1.0, 0.0, 0.0, 1.0, 1.0, 0.0)) in pairs
