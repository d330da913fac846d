"""The soundness of every theorem on yet more instances; two files, so that two processes share the work."""

import pytest

from tests.soundness.registry import generator_names
from tests.soundness.suite import MORE, assert_sound


@pytest.mark.slow
@pytest.mark.parametrize("name", generator_names())
def test_no_bound_is_below_the_truth(name: str) -> None:
    assert_sound(name, MORE)
