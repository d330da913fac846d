"""The version stands in two files; they agree."""

import re
from pathlib import Path

import sordino

CITATION_FILE = Path(__file__).parents[1] / "CITATION.cff"


def test_the_citation_file_names_this_version():
    (stated,) = re.findall(r"^version: (\S+)$", CITATION_FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert stated == sordino.__version__
