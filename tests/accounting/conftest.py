"""Grids of formulas have rows that are much alike: every third is fast, the others are slow."""

import pytest

# Tests whose rows differ in kind, or in which a planted mistake shows.
WHOLE = ("test_accountant", "test_counted_uses", "test_matrices_by_chance", "test_mechanisms")
WHOLE += ("test_never_below_the_truth", "test_random_allocation", "test_relation_and_divisor_rules")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the rows of a grid."""
    if item.path.stem not in WHOLE:
        item.add_marker(pytest.mark.every(3))
