"""The wheel holds the package and the JSON Schemas that are made for it; an editable installation makes them itself."""

import zipfile
from pathlib import Path

import pytest

from sordino.core.spec.document import schema_text
from sordino.data.schema_check import json_schema_text
from sordino.report import dossier as evidence
from tests.scripts import script

ROOT = Path(__file__).parents[2]
SCHEMAS = {"sordino/core/spec/spec.schema.json": schema_text, "sordino/data/schema.schema.json": json_schema_text}
BUILDER = ("hatchling.builders.wheel", "the extra test installs hatchling")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    """The files of a wheel of this checkout."""
    wheel, folder = pytest.importorskip(BUILDER[0], reason=BUILDER[1]), tmp_path_factory.mktemp("wheel")
    (file,) = wheel.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_holds_every_file_of_the_package_and_the_schemas(unpacked) -> None:
    def files(folder: Path) -> set[str]:
        found = (path for path in (folder / "sordino").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(folder).as_posix() for path in found}

    assert files(unpacked) == files(ROOT / "src") | set(SCHEMAS)
    for name, text in SCHEMAS.items():
        assert (unpacked / name).read_text(encoding="utf-8") == text()


def test_a_wheel_has_the_digest_of_the_code_it_was_built_from(unpacked, monkeypatch) -> None:
    """So a dossier that a wheel writes names the tests that ran on its code."""
    digests = []
    for folder in (unpacked, ROOT / "src"):
        monkeypatch.setattr(evidence, "_PACKAGE", folder / "sordino")
        digests.append(evidence.source_digest.__wrapped__())
    assert digests[0] == digests[1]


def test_no_copy_lies_in_the_tree_and_an_editable_installation_gets_none() -> None:
    assert list((ROOT / "src").rglob("*.schema.json")) == []
    pytest.importorskip(BUILDER[0], reason=BUILDER[1])
    module = script(ROOT / "hatch_build.py")
    given: dict = {"force_include": {}}
    module.SchemaHook(str(ROOT), {}, None, None, "", "wheel").initialize("editable", given)
    assert given == {"force_include": {}}
