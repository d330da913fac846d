"""Specs, schema files and release folders: whatever a JSON document says, it is read or refused in one line."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino import InputError, read_spec
from sordino.accounting.evaluate import explain
from sordino.auditing.instance import audit_instance
from sordino.cli.audit import described
from sordino.core.spec.instance import NamedModel
from sordino.data import declared_lines, read_schema, schema_to_dict
from sordino.fitting.fit import fit_table
from sordino.fitting.predictor import Predictor
from sordino.inference.summary import summary_of
from sordino.ledger.release import StoredRelease, posterior_of, read_release, write_release
from sordino.ledger.release.folder import to_bytes
from sordino.report.subject import read_audit
from tests.cli.test_audit import with_instance
from tests.fuzz.explore import explore, tried
from tests.fuzz.mutations import TROUBLE, changed_bytes, changed_json
from tests.fuzz.test_tables import SCHEMA
from tests.fuzz.watch import read_or_refused
from tests.report.handed_over import patients

SPECS = Path(__file__).parents[2] / "examples" / "specs"
SPEC = json.loads((SPECS / "full-last-iterate.json").read_text())
KINDS = [json.loads(path.read_text()) for path in sorted(SPECS.glob("*.json"))]


def refused(folder: Path, name: str, content: bytes, read) -> str | None:
    (folder / name).write_bytes(content)
    return read_or_refused(lambda: read(folder / name), folder)


def text(document: Any) -> bytes:
    """JSON; also NaN and lone surrogates, which a strict reader refuses."""
    return json.dumps(document).encode()


AUDIT = {
    "relation": "replace-one",
    "view": "last-iterate",
    "delta": 1e-5,
    "method": "attack",
    "examined": "run",
    "confidence": 0.95,
    "counts": {"models": 1000},
    "lower_bound": {"epsilon": 0.3, "evidence": "An attack on 1000 models.", "curve": [[0.1, 0.8], [0.5, 0.2]]},
    "seed_policy": "fresh",
    "cap": 4.0,
}
DOCUMENTS = {
    "specs": (st.sampled_from(KINDS).flatmap(changed_json).map(text), read_spec),
    "damaged specs": (changed_bytes(text(SPEC)), read_spec),
    "schemas": (changed_json(schema_to_dict(SCHEMA)).map(text), read_schema),
    "damaged schemas": (changed_bytes(text(schema_to_dict(SCHEMA))), read_schema),
    "audits": (changed_json(AUDIT).map(text), read_audit),
}


@tried(100, 1500)
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_changed_documents(tmp_path, kind, examples):
    changed, read = DOCUMENTS[kind]
    explore(examples, changed, lambda content: refused(tmp_path, "a.json", content, read))


@pytest.fixture
def with_rows(tmp_path, monkeypatch) -> dict[str, Any]:
    """A spec whose instance names a file, which is there, and a database beside it."""
    monkeypatch.chdir(tmp_path)
    spec = with_instance(tmp_path, "rows.csv")
    with pytest.importorskip("duckdb").connect(str(tmp_path / "t.duckdb")) as made:
        made.sql("CREATE TABLE t AS SELECT * FROM 'rows.csv'")
    return spec


@tried(30, 500)
def test_changed_specs_that_name_files(tmp_path, with_rows, examples):
    """What an audit does first: the files are read, and nothing else is opened, run, written or asked."""

    def use(path: Path) -> None:
        audit_instance(described(path)[0])

    (tmp_path / "a.json").write_bytes(text(with_rows))
    use(tmp_path / "a.json")  # whatever is imported late is imported by then
    assert refused(tmp_path, "a.json", text(with_rows), use) is None
    instance = with_rows["instance"]
    for name in ("path", "schema"):
        for word in TROUBLE:
            dataset = instance["dataset"] | {name: word}
            assert refused(tmp_path, "a.json", text(with_rows | {"instance": instance | {"dataset": dataset}}), use)
    files = changed_json(instance["dataset"])
    odd = files.map(lambda dataset: with_rows | {"instance": instance | {"dataset": dataset}})
    both = st.one_of(odd, changed_json(with_rows))
    explore(examples, both, lambda document: refused(tmp_path, "a.json", text(document), use))


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    spec = read_spec(SPECS / "full-last-iterate.json")
    bound = explain(spec, 1e-5).tightest
    assert bound is not None
    draws = np.zeros((1, 1, spec.dim))
    model = NamedModel("logistic", ())
    stored = StoredRelease("last-iterate", spec, bound, 1e-5, True, {"draws": draws}, model=model, schema=SCHEMA)
    folder = tmp_path_factory.mktemp("release") / "one"
    write_release(folder, stored)
    posterior_of(read_release(folder))
    return folder


def use(folder: Path) -> None:
    """What `predict`, `report` and `audit` begin with."""
    found = read_release(folder)
    assert found.epsilon >= 0
    posterior_of(found)


@tried(80, 1500)
def test_changed_release_documents(tmp_path, release, examples):
    document = json.loads((release / "release.json").read_text())
    (tmp_path / "arrays.safetensors").write_bytes((release / "arrays.safetensors").read_bytes())
    changed = changed_json(document)
    explore(
        examples, changed, lambda found: refused(tmp_path, "release.json", text(found), lambda path: use(path.parent))
    )


@tried(60, 500)
def test_damaged_release_folders(tmp_path, release, examples):
    """Any byte of either file; the digest that ties them is what refuses most arrays."""
    files = {name: (release / name).read_bytes() for name in ("release.json", "arrays.safetensors")}

    def check(change: tuple[str, bytes]) -> None:
        for name, content in (files | dict([change])).items():
            (tmp_path / name).write_bytes(content)
        read_or_refused(lambda: use(tmp_path), tmp_path)

    damaged = [changed_bytes(content).map(lambda new, name=name: (name, new)) for name, content in files.items()]
    explore(examples, st.one_of(damaged), check)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("fitted")
    patients(place / "patients.csv")
    lines = "records = 1200\nage: 18..95\nward: maternity|medicine|surgery\ndose: 0..5\nreadmitted: no|yes [target]"
    settings = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one", "schema": declared_lines(lines), "seed": 0}
    return write_release(place / "release", fit_table("logistic", str(place / "patients.csv"), **settings))


@tried(30, 500)
def test_changed_releases_of_a_fit(tmp_path, fitted, examples):
    """What `show` and `predict` do with it."""
    document = json.loads((fitted / "release.json").read_text())
    (tmp_path / "arrays.safetensors").write_bytes((fitted / "arrays.safetensors").read_bytes())

    def read(path: Path) -> None:
        found = read_release(path.parent)
        assert summary_of(found).shown.to("text")
        predictor = Predictor(found)
        predictor.interval(predictor.encode(str(fitted.parent / "patients.csv")), 0.9)

    (tmp_path / "release.json").write_bytes(text(document))
    read(tmp_path / "release.json")
    assert refused(tmp_path, "release.json", text(document), read) is None
    explore(examples, changed_json(document), lambda found: refused(tmp_path, "release.json", text(found), read))


@st.composite
def safetensors_file(draw: st.DrawFn, header: dict[str, Any], body: bytes) -> bytes:
    said = text(draw(changed_json(header)))
    length = draw(st.sampled_from((len(said), len(said) + 1, 0, 2**32, 2**63 - 1, 2**64 - 1)))
    return length.to_bytes(8, "little") + said + body


@tried(80, 1500)
def test_safetensors_headers_that_lie(tmp_path, release, examples):
    """The digest in the document is made to agree, so the arrays' own reader is what refuses."""
    document = json.loads((release / "release.json").read_text())
    whole = (release / "arrays.safetensors").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header, body = json.loads(whole[8 : 8 + length]), whole[8 + length :]

    def check(content: bytes) -> None:
        (tmp_path / "release.json").write_bytes(text(document | {"arrays_sha256": hashlib.sha256(content).hexdigest()}))
        refused(tmp_path, "arrays.safetensors", content, lambda path: use(path.parent))

    explore(examples, safetensors_file(header, body), check)


def test_arrays_under_names_that_are_paths_are_refused(tmp_path, release):
    from safetensors.numpy import save

    for name in ("../draws", "/draws", "a b", "draws\n", ""):
        (tmp_path / "arrays.safetensors").write_bytes(save({name: np.zeros(3)}))
        (tmp_path / "release.json").write_bytes((release / "release.json").read_bytes())
        with pytest.raises(InputError, match=r"named numbers|safetensors"):
            read_release(tmp_path)
    assert to_bytes({"draws": np.zeros(3)})
