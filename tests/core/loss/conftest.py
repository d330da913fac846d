"""Grids of pairs have rows that are much alike: every third is fast, the others are slow."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the rows of a grid."""
    item.add_marker(pytest.mark.every(3))
