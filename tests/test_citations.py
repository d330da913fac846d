"""The packaged bibliography is complete, unambiguous and readable by `sordino.core.bound`."""

import re
from collections import Counter
from importlib import resources

import pytest

from sordino.core.bound import Citation, bibliography
from sordino.core.validate import InputError

TEXT = resources.files("sordino").joinpath("references.bib").read_text(encoding="utf-8")
KEYS_IN_TEXT = re.findall(r"^@\w+\{([^,\s]+),$", TEXT, re.MULTILINE)


def test_every_entry_of_the_file_is_parsed():
    assert len(re.findall(r"^\s*@", TEXT, re.MULTILINE)) == len(KEYS_IN_TEXT)
    assert sorted(bibliography()) == sorted(KEYS_IN_TEXT)


def test_every_field_of_the_file_is_parsed():
    fields_in_text = re.findall(r"^  (\w+) = \{.*\},$", TEXT, re.MULTILINE)
    parsed = [name for entry in bibliography().values() for name in entry if name != "type"]
    assert Counter(parsed) == Counter(fields_in_text)


def test_keys_are_unique():
    repeated = [key for key, count in Counter(KEYS_IN_TEXT).items() if count > 1]
    assert repeated == []


def test_titles_are_unique():
    titles = Counter(entry["title"].lower() for entry in bibliography().values())
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_entry_says_who_what_when_and_where():
    for key, entry in bibliography().items():
        for field in ("author", "title", "year"):
            assert entry.get(field), f"{key} has no {field}"
        assert any(entry.get(field) for field in ("journal", "booktitle", "publisher", "note")), f"{key} has no venue"
        assert re.fullmatch(r"(19|20)\d\d", entry["year"]), key
        assert all("," in name for name in entry["author"].split(" and ")), f"{key}: write authors as Family, Given"
        assert "\\" not in "".join(entry.values()), f"{key}: write UTF-8 letters instead of LaTeX commands"
        assert re.fullmatch(r"[a-z]+(19|20)\d\d[a-z]+", key), f"{key} is not family name, year and word"
        assert entry["year"] in key


def test_a_citation_prints_authors_year_and_locator():
    assert str(Citation("ye2022differentially", "Theorem 3.3")) == "Ye & Shokri 2022, Theorem 3.3"
    assert str(Citation("bok2024shifted", "Theorem 4.2")) == "Bok et al. 2024, Theorem 4.2"


def test_a_citation_without_a_locator_or_an_entry_is_refused():
    with pytest.raises(InputError, match="locator"):
        Citation("mironov2017renyi", " ")
    with pytest.raises(InputError, match=r"references\.bib"):
        Citation("nobody1900nothing", "Theorem 1")
