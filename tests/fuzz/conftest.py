"""What is done once, when a thing is first used, is done before anybody watches."""

from pathlib import Path

import pytest

from sordino.core.spec import read_spec

SPECS = Path(__file__).parents[2] / "examples" / "specs"


@pytest.fixture(autouse=True, scope="session")
def every_section_was_read():
    """Type hints are evaluated when a section is first read; that is no business of a file's."""
    for path in SPECS.glob("*.json"):
        read_spec(path)
