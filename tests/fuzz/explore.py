"""How many files a test tries: a few in the fast suite, many in the slow one, the same ones every time."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy


def tried(few: int, many: int) -> pytest.MarkDecorator:
    """Run the test with `few` examples, and with `many` of them where slow tests run."""
    sizes = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("examples", sizes)


def explore(examples: int, strategy: SearchStrategy[Any], check: Callable[[Any], object]) -> None:
    """Call `check` with that many examples; a failure is shrunk and shown."""
    ours_to_judge = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    chosen = settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=ours_to_judge
    )

    def one(example: Any) -> None:
        check(example)

    chosen(given(example=strategy)(one))()
