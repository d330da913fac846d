"""What is certified is about a record, or about a unit that is declared: no text says that it is about a person."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from sordino.accounting.evaluate import explain
from sordino.cli.main import app
from sordino.core.bound import Relation
from sordino.core.spec import ColumnUnit, Unit
from sordino.data import DeclaredUnit
from sordino.report import decision as plain_words
from sordino.report.page import report_page
from sordino.report.subject import open_subject
from tests.report.example_releases import gaussians, kept_draws, spec_named, written

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in {"api", "names", "developer"}),
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
    "if a person can have several rows",
    "identifies the person",
    "if you declare no unit, ten visits of one patient",
    "for the person who decides",
    "person who ran the fit",
    "two keys for one person",
)


def test_no_page_promises_anything_to_a_person():
    for page in PAGES:
        text = " ".join(page.read_text(encoding="utf-8").replace("**", "").split())
        for found in ONE.finditer(text):
            around = text[max(0, found.start() - 60) : found.end() + 60]
            assert any(words in around.lower() for words in SAID), (page.name, around)


def test_no_help_does_either():
    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="sordino")
    texts = [command.get_help(context)]
    for name, inner in command.commands.items():
        texts.append(inner.get_help(typer.Context(inner, info_name=name, parent=context)))
    assert len(texts) > 8
    assert [found.group() for text in texts for found in ONE.finditer(" ".join(text.split()))] == []


@pytest.mark.parametrize("relation", list(Relation))
def test_with_a_declared_unit_the_words_are_about_units(relation):
    unit = ColumnUnit("patient", 3)
    for words in (plain_words.tables, plain_words.question):
        assert "unit" in words(relation, unit)
        assert not re.search(r"person|people|your|somebody", words(relation, unit))
        assert "unit" not in words(relation, Unit.RECORD)


def sums_of_units(**changes):
    """A release whose spec states a unit."""
    spec = spec_named("message-passing-rounds").with_values(
        {"algorithm.sampling": {"scheme": "full"}, "algorithm.unit": {"column": "patient", "most_records": 3}}
    )
    return gaussians(spec=spec, bound=explain(spec, 1e-5).tightest, **changes)


def test_the_page_of_a_release_with_a_unit_says_unit(tmp_path):
    page = report_page([open_subject(written(tmp_path, "clinic", sums_of_units()))])
    certificate = page.split('id="r1-certificate"')[1].split("</section>")[0]
    assert "<dt>unit</dt><dd>one unit: all records with one value of &#39;patient&#39;" in certificate
    assert "tries to learn about one unit" in certificate
    assert "every other unit" in certificate
    assert "It protects one unit" in certificate
    assert "person" not in certificate
    assert json.loads((tmp_path / "clinic" / "release.json").read_text())["unit"] == {
        "column": "patient",
        "most_records": 3,
    }


def test_the_page_says_what_a_group_of_records_gives_away(tmp_path):
    release = kept_draws()
    assert release.schema is not None
    grouped = replace(release, schema=replace(release.schema, unit=DeclaredUnit(most_records=5)))
    page = report_page([open_subject(written(tmp_path, "clinic", grouped))])
    assert "<dt>unit</dt><dd>one record</dd>" in page
    assert "tries to learn about one record" in page
    assert "person" not in page.split('id="r1-certificate"')[1].split("</section>")[0]
    assert "Up to 5 records are declared to belong together: for 5 of them epsilon is" in page
    document = json.loads((tmp_path / "clinic" / "release.json").read_text())
    assert document["unit"] == "record"
    assert document["group"]["records"] == 5
    assert document["group"]["epsilon"] > release.epsilon


def test_releases_about_different_units_are_not_added_up(tmp_path):
    both = [written(tmp_path, "a", gaussians()), written(tmp_path, "b", sums_of_units())]
    assert "together, if of one dataset" not in report_page([open_subject(folder) for folder in both])
    alike = [written(tmp_path, "c", gaussians()), both[0]]
    assert "together, if of one dataset" in report_page([open_subject(folder) for folder in alike])
