"""The search ends on the true side, next to the false one."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.gaussian import least_true


@settings(derandomize=True, deadline=None, max_examples=60)
@given(threshold=st.floats(1e-300, 1e300), high=st.floats(1e-300, 1e300))
def test_the_answer_is_true_and_a_little_less_is_false(threshold, high):
    answer = least_true(lambda x: x >= threshold, 0.0, high)
    assert answer >= threshold
    assert answer * (1 - 3e-15) < threshold


def test_a_predicate_true_at_once_answers_the_low_end():
    assert least_true(lambda x: True, 0.25, 1.0) == 0.25


def test_a_predicate_true_nowhere_answers_infinity():
    assert least_true(lambda x: False, 0.0, 1.0) == math.inf
