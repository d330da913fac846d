"""Look, predict and audit where the data lie: the answers of memory on every engine and from every source."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sordino
from sordino import InputError, write_release
from sordino.cli.main import app
from sordino.data import write_schema
from tests.engines.tables import paths
from tests.engines.test_fit_with_an_engine import fitted, schema

QUESTIONS = ("histogram: age", "mean: dose", "table: ill, age", "missing: age", "quantiles: dose", "bounds: dose")


def looked(source, unit=False, **others):
    asked = {"schema": schema(unit), "epsilon": 20.0, "delta": 1e-6, "relation": "replace-one", "random_state": 3}
    return sordino.explore.look(source, QUESTIONS, **(asked | others))


def same_answers(one, other):
    return one.release.arrays["answers"].tobytes() == other.release.arrays["answers"].tobytes()


@pytest.mark.parametrize("unit", [False, True])
def test_a_look_on_an_engine_is_the_look_of_memory(folder, unit):
    found = looked(folder, unit, engine="streamed")
    assert same_answers(found, looked(folder, unit))
    assert found.release.settings["where"]["engine"] == "streamed"


def test_a_look_that_lacks_a_column_in_one_file_is_refused_before_the_debit(folder, ledger):
    path = folder / "part-2.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["dose"]), path)
    with pytest.raises(InputError, match=r"'dose' in .*part-2"):
        looked(folder, engine="streamed", ledger=ledger)
    assert not ledger.entries()


def test_a_look_counts_rows_of_all_parts_under_replace_one(folder):
    (folder / "part-1.parquet").unlink()
    with pytest.raises(InputError, match="under replace-one the number is public"):
        looked(folder, engine="streamed")


def test_files_that_change_between_the_two_rounds_of_a_look_are_refused(folder, monkeypatch):
    from sordino.engines.totals import Totals

    asked, before = [], Totals.__call__

    def changed(self, question):
        if asked:
            path = folder / "part-2.parquet"
            rows = pq.read_table(path)
            rows = rows.set_column(0, "age", [[age + 1.0 for age in rows.column("age").to_pylist()]])
            pq.write_table(rows, path, row_group_size=64)
        asked.append(question)
        return before(self, question)

    monkeypatch.setattr(Totals, "__call__", changed)
    with pytest.raises(InputError, match=r"part-2.*changed between two rounds"):
        looked(folder, engine="streamed")


@pytest.fixture
def release(folder, tmp_path):
    write_release(tmp_path / "release", fitted(folder, schema()))
    return tmp_path / "release"


def predicted(release, source, out, *more):
    found = CliRunner().invoke(app, ["predict", str(release), str(source), "--out", str(out), *more])
    assert found.exit_code == 0, found.output
    return Path(out).read_bytes()


def test_predictions_on_an_engine_are_those_of_memory(release, folder, tmp_path):
    memory = predicted(release, folder, tmp_path / "memory.csv")
    assert predicted(release, folder, tmp_path / "engine.csv", "--engine", "streamed") == memory
    assert memory.count(b"\n") == 601


def test_predictions_of_a_bad_row_name_its_file_and_write_nothing(release, folder, tmp_path):
    path = folder / "part-3.parquet"
    rows = pq.read_table(path)
    ages = rows.column("age").to_pylist()
    pq.write_table(rows.set_column(0, "age", [[*ages[:-1], None]]), path, row_group_size=64)
    out = tmp_path / "out.csv"
    found = CliRunner().invoke(app, ["predict", str(release), str(folder), "--out", str(out), "--engine", "streamed"])
    assert isinstance(found.exception, InputError)  # the program tells it and ends with 2
    assert f"in row {len(rows)}" in str(found.exception)
    assert "part-3" in str(found.exception)
    assert list(tmp_path.glob("*out.csv*")) == []


def test_an_audit_reads_every_source(folder, tmp_path):
    """An audit trains models on two neighbouring tables, so it reads rows into memory, from wherever they lie."""
    write_schema(schema(), tmp_path / "schema.json")
    from sordino.auditing.instance import _load
    from sordino.core.bound import Relation
    from sordino.core.spec import FileDataset

    found = []
    for source in paths(folder, tmp_path).values():
        named = FileDataset(path="given", schema=str(tmp_path / "schema.json"))
        object.__setattr__(named, "table", source)  # as `sordino.audit(spec, data=source)` does
        found.append(_load(named, Relation.REPLACE_ONE)[1])
    assert all(one.features.tobytes() == found[0].features.tobytes() for one in found)
    assert all(one.target.tobytes() == found[0].target.tobytes() for one in found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_look_and_predict_on_a_cluster_are_those_of_memory(release, folder, tmp_path, engine, request):
    given = request.getfixturevalue(engine)
    address = given if engine == "dask" else "spark://local"
    assert same_answers(looked(folder, engine=address), looked(folder))
    assert same_answers(looked(folder, unit=True, engine=address), looked(folder, unit=True))
    if engine == "spark":
        assert same_answers(looked(given.read.parquet(str(folder)), engine=address), looked(folder))
    memory = predicted(release, folder, tmp_path / "memory.csv")
    assert predicted(release, folder, tmp_path / "cluster.csv", "--engine", address) == memory
