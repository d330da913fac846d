"""What is certified is about a record: no text says that it is about a person, until a unit can be declared."""

import re
from pathlib import Path

import pytest
import typer

from sordino.cli.main import app
from sordino.core.bound import Relation
from sordino.report import plain_words
from sordino.report.page import private_page
from sordino.report.subject import open_subject
from tests.report.example_releases import kept_draws, written

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "src" / "sordino" / "report" / "templates").glob("*.html")),
    ROOT / "src" / "sordino" / "cli" / "demo.py",
]
ONE = re.compile(
    r"\b(?:one|an?|any|each|every|the|that|this|of|about) (?:single )?(person|individual|patient|people)\b", re.I
)
# Sentences that say what is not promised, or are about something else.
SAID = (
    "one person, several records",
    "ten records of one person",
    "one person with several records",
    "a person may have several",
    "each one year of one person",
    "the same person in two datasets",
    "what is true of people in general",
    "a patient has ten visits",
    "truth about people in general",
    "plan with a deductible for each person",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_promises_anything_to_a_person(page):
    text = " ".join(page.read_text(encoding="utf-8").replace("**", "").split())
    for found in ONE.finditer(text):
        around = text[max(0, found.start() - 60) : found.end() + 60]
        assert any(words in around.lower() for words in SAID), around


def test_no_help_does_either():
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="sordino")
    texts = [command.get_help(context)]
    for name, inner in command.commands.items():
        texts.append(inner.get_help(typer.Context(inner, info_name=name, parent=context)))
    assert len(texts) > 8
    assert [found.group() for text in texts for found in ONE.finditer(" ".join(text.split()))] == []


@pytest.mark.parametrize("relation", list(Relation))
def test_the_certificate_in_words_is_about_a_record(relation):
    assert "record" in plain_words.TABLES[relation]
    assert "record" in plain_words.QUESTION[relation]
    for text in (plain_words.TABLES[relation], plain_words.QUESTION[relation]):
        assert not re.search(r"person|people|your|somebody", text)


def test_the_page_names_its_unit(tmp_path):
    page = private_page([open_subject(written(tmp_path, "clinic", kept_draws()))])
    certificate = page.split('id="r1-certificate"')[1].split("</section>")[0]
    assert "<dt>unit</dt><dd>one record</dd>" in certificate
    assert "something about one record in this dataset" in certificate
    assert "person" not in certificate
