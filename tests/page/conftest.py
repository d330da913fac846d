from collections.abc import Iterator
from pathlib import Path

import pytest

from sordino.auditing.lower_bound import AuditOptions, audit
from sordino.report.page import write_report
from sordino.report.subject import Subject, open_subject
from tests.page.browser import Browser, browser, chromium
from tests.report.example_releases import DELTA, kept_draws, last_iterate, written


@pytest.fixture(scope="session")
def tab(tmp_path_factory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium on this machine: install the package chromium to run the page tests")
    with browser(program, tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(scope="session")
def pages(tmp_path_factory) -> dict[str, Path]:
    """One page with a release and its audit, one with two releases, and the watermarked page of a third."""
    folder = tmp_path_factory.mktemp("pages")
    clinic = open_subject(written(folder, "clinic", kept_draws()))
    lower = audit(clinic.release.spec, "exact", AuditOptions(delta=DELTA))
    audited = Subject(clinic.name, clinic.release, clinic.explanation, lower)
    seeded = open_subject(written(folder, "seeded", last_iterate(private=False)))
    last = open_subject(written(folder, "last", last_iterate()))
    write_report([audited], folder / "one.html")
    write_report([audited, last, seeded], folder / "two.html")
    return {"one": folder / "one.html", "two": folder / "two.html", "seeded": folder / "two.NON-PRIVATE.html"}
