"""The version stands in three files; they agree. The changelog says what a user needs, and no more."""

import re
from pathlib import Path

import sordino

ROOT = Path(__file__).parents[1]


def test_the_citation_file_names_this_version():
    (stated,) = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated == sordino.__version__


def test_the_changelog_has_this_version_a_place_for_the_next_and_few_lines_a_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## \[([^\]]+)\].*$", text, flags=re.MULTILINE)
    versions, sections = parts[1::2], parts[2::2]
    assert versions[:2] == ["Unreleased", sordino.__version__]
    assert "### Numbers" in sections[0]
    assert all("### Numbers" in section and len(section.splitlines()) <= 80 for section in sections)
