"""What tests of pages share."""

import pytest


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curves against steps, which take the time, have tests of their own."""
    monkeypatch.setattr("sordino.report.page.step_bounds", lambda spec, delta: "Left out.")
