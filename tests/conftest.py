"""What every run of the tests shares."""

import gc

import pytest


def pytest_collection_finish(session: pytest.Session) -> None:
    """Ten thousand collected tests stay until the end: the garbage collector need not walk them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
