"""The API reference lists what the package exports, whatever its modules are called, and says something about each."""

import re
from pathlib import Path

import pytest

import sordino
from tests.scripts import script

DOCS = Path(__file__).parents[2] / "docs"


API = script(DOCS / "api_pages.py")
PAGES = API.pages()
FACE = [name for name in sordino.__all__ if not name.startswith("_")]


def test_every_name_of_the_face_has_a_page_that_its_group_and_the_index_link_to():
    assert {name.name for name in API.face()} == set(FACE) - {"accounting", "explore"}
    for name in API.face():
        page = f"names/{API._stem(name)}.md"
        assert f":: sordino.{name.name}\n" in PAGES[page]
        for listing in (PAGES[f"{name.group}.md"], PAGES[API.LISTING]):
            assert f"| [`{name.name}`]({page}) |" in listing


@pytest.mark.parametrize("package", API.packages())
def test_every_name_of_a_package_is_documented_once(package):
    group = PAGES[f"{package.split('.')[1]}.md"]
    for name in API.exports(package):
        paths = {other.path for other in (*API.face(), *API.beside()) if other.value is name.value}
        pages = [text for text in PAGES.values() if any(f":: {path}\n" in text for path in paths)]
        assert len(pages) == 1, name.path
        assert pages[0] == group or name.value is getattr(sordino, name.name), name.path


def test_the_packages_of_the_layers_are_there():
    """Known today: none may be lost; a package that is renamed is found under its new name."""
    exporting = {path.parent.name for path in (DOCS.parent / "src" / "sordino").glob("*/__init__.py")
                 if re.search(r" as |lazy_exports\(", path.read_text(encoding="utf-8"))} - {API.PROGRAM}  # fmt: skip
    assert len(exporting) >= 4
    assert exporting <= {package.split(".")[1] for package in API.packages()}
    assert {"estimators", "accounting", "ledger"} <= set(API.groups())


def test_every_name_says_what_it_is():
    """A name without a sentence is a name nobody can use."""
    names = [*API.face(), *API.beside()]
    assert len(names) > 150
    assert [name.path for name in names if len(name.summary) < 6] == []
    assert [name.path for name in names if " at 0x" in name.summary] == []


def test_writing_leaves_the_index_removes_what_is_gone_and_touches_nothing_else(tmp_path):
    folder = tmp_path / "api"
    (folder / "names").mkdir(parents=True)
    for name in ("index.md", "names/gone.md"):
        (folder / name).write_text("kept")
    API.write(tmp_path)
    assert (folder / "index.md").read_text() == "kept"
    assert not (folder / "names" / "gone.md").exists()
    written = folder / "names" / "certify.md"
    before = written.stat().st_mtime_ns
    API.write(tmp_path)
    assert written.stat().st_mtime_ns == before
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.md")} == {*PAGES, "index.md"}
