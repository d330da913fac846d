"""A fit on an engine: the release of memory bit for bit, one debit, and refusals before it where names suffice."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sordino import InputError, write_release
from sordino.cli import main
from sordino.cli.main import app
from sordino.data import Boolean, DeclaredUnit, DeclaredWeight, Feature, Number, Schema, Target, write_schema
from sordino.engines import clusters
from sordino.fitting.fit import fit_table
from tests.engines.tables import ROWS, table, written

PEOPLE = len(set(table("logistic").column("who").to_pylist()))


def schema(unit: bool = False) -> Schema:
    return Schema(
        records=PEOPLE if unit else ROWS,
        features=(Feature("age", Number(0, 100)), Feature("dose", Number(-4, 4))),
        target=Target("ill", Boolean()),
        intercept=True,
        extra_columns="ignore",
        unit=DeclaredUnit(column="who", most_records=3) if unit else None,
    )


def with_events(place):
    """Files of the logistic table whose target is true or false."""
    found = written(place, "logistic")
    for path in found.glob("*.parquet"):
        rows = pq.read_table(path)
        ill = [value > 0.5 for value in rows.column("y").to_pylist()]
        pq.write_table(rows.drop_columns(["y"]).append_column("ill", [ill]), path, row_group_size=64)
    return found


def fitted(source, declared, **others):
    asked = {"epsilon": 8.0, "delta": 1e-6, "relation": "replace-one", "schema": declared, "seed": 4}
    return fit_table("logistic", source, **(asked | {"method": "bounded-influence"} | others))


@pytest.mark.parametrize("unit", [False, True])
def test_a_streamed_fit_is_the_fit_of_memory(folder, unit):
    memory, streamed = (fitted(folder, schema(unit), engine=engine) for engine in (None, "streamed"))
    assert memory.arrays.keys() == streamed.arrays.keys()
    assert all(memory.arrays[name].tobytes() == streamed.arrays[name].tobytes() for name in memory.arrays)
    assert streamed.settings["where"]["engine"] == "streamed"


@pytest.mark.every(2)
@pytest.mark.parametrize("unit", [True, False])
def test_a_streamed_fit_with_weights_is_the_fit_of_memory(folder, unit):
    for path in folder.glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.append_column("w", [[0.3 + place % 7 / 2 for place in range(len(rows))]]), path)
    weighted = replace(schema(unit), weight=DeclaredWeight(column="w", low=0.2, high=3.5, mean=1.8))
    memory, streamed = (fitted(folder, weighted, engine=engine) for engine in (None, "streamed"))
    assert all(memory.arrays[name].tobytes() == streamed.arrays[name].tobytes() for name in memory.arrays)
    plain = fitted(folder, schema(unit), engine="streamed")
    assert any(plain.arrays[name].tobytes() != streamed.arrays[name].tobytes() for name in plain.arrays)


def test_the_ledger_is_debited_once_and_before_a_row_is_read(folder, ledger):
    entries = []

    def told(name, done, parts):
        entries.append(len(ledger.entries()))

    fitted(folder, schema(), engine="streamed", ledger=ledger, told=told)
    assert set(entries) == {1}
    assert len(ledger.entries()) == 1


def test_what_names_and_types_tell_is_refused_before_the_debit(folder, ledger):
    with pytest.raises(InputError, match="bounded-influence"):
        fitted(folder, schema(), engine="streamed", ledger=ledger, method="ridge")
    with pytest.raises(InputError, match="whole-units"):
        fitted(folder, schema(), engine="streamed", ledger=ledger, whole_units=True)
    path = folder / "part-2.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["dose"]), path)
    with pytest.raises(InputError, match=r"'dose' in .*part-2"):
        fitted(folder, schema(), engine="streamed", ledger=ledger)
    assert not ledger.entries()


def _without_dose(rows):
    return rows.drop_columns(["dose"])


def _dose_as_text(rows):
    return rows.set_column(rows.schema.get_field_index("dose"), "dose", rows.column("dose").cast("string"))


def test_one_file_of_many_that_does_not_match_is_refused_with_its_name_and_without_a_debit(folder, tmp_path, ledger):
    many = tmp_path / "many"
    many.mkdir()
    whole = pq.read_table(folder / "part-3.parquet")
    pq.write_table(whole.slice(0, 1), many / "0000.parquet")
    for place in range(1, 300):
        os.link(many / "0000.parquet", many / f"{place:04}.parquet")
    for changed in (_without_dose, _dose_as_text):
        (many / "0217.parquet").unlink()
        pq.write_table(changed(whole.slice(0, 1)), many / "0217.parquet")
        with pytest.raises(InputError, match=r"'dose'.*0217\.parquet"):
            fitted(many, schema(), engine="streamed", ledger=ledger)
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("engine", "told"),
    [
        ("flink", "dask, spark, streamed, tls"),
        ("dask://localhost:1", "No Dask scheduler answers at 'dask://localhost:1'"),
        ("spark", "'spark' has no address"),
    ],
)
def test_an_engine_that_is_not_there_debits_nothing(folder, monkeypatch, engine, told, ledger):
    if engine.startswith("dask"):
        pytest.importorskip("distributed", reason="needs sordino[cluster]")
        monkeypatch.setattr(clusters, "_CONNECT", 0.3)
    if engine == "spark":
        pytest.importorskip("pyspark", reason="needs sordino[spark]")
    with pytest.raises(InputError, match=told):
        fitted(folder, schema(), engine=engine, ledger=ledger)
    assert not ledger.entries()


@pytest.mark.every(5)
@pytest.mark.parametrize(("address", "warned"), [("dask://localhost:1", True), ("tls://localhost:1", False)])
@pytest.mark.parametrize("verb", ["fit", "look", "predict"])
def test_the_command_line_warns_of_a_scheduler_without_tls(
    folder, tmp_path, monkeypatch, capsys, verb, address, warned
):
    pytest.importorskip("distributed", reason="needs sordino[cluster]")
    monkeypatch.setattr(clusters, "_CONNECT", 0.3)
    write_schema(schema(), tmp_path / "schema.json")
    budget = ["--epsilon", "8", "--delta", "1e-6", "--relation", "replace-one"]
    budget += ["--schema", str(tmp_path / "schema.json")]
    asked = {
        "fit": ["logistic", str(folder), *budget],
        "look": [str(folder), "--ask", "mean: age", *budget],
        "predict": [str(tmp_path / "release"), str(folder)],
    }
    if verb == "predict":
        write_release(tmp_path / "release", fitted(folder, schema()))
    assert main([verb, *asked[verb], "--out", str(tmp_path / "out"), "--engine", address]) == 2
    said = capsys.readouterr().err
    assert f"No Dask scheduler answers at {address!r}" in said
    assert ("WARNING: anyone who can reach this scheduler" in said) == warned


def test_spark_on_one_machine_obeys_nobody_else(monkeypatch):
    asked: dict[str, str] = {}

    class Builder:
        master = appName = lambda self, _: self  # noqa: N815  the name of Spark

        def config(self, name, value):
            asked[name] = value
            return self

        def getOrCreate(self):
            return dict(asked)

    pyspark = SimpleNamespace(SparkSession=SimpleNamespace(builder=Builder()))
    monkeypatch.setattr(clusters, "needed", lambda *_: pyspark)
    found = clusters.own_session("local[*]")
    assert found["spark.driver.bindAddress"] == found["spark.driver.host"] == "127.0.0.1"
    assert found["spark.authenticate"] == "true"
    assert found["spark.ui.enabled"] == "false"
    asked.clear()
    assert "spark.authenticate" not in clusters.own_session("spark://host:7077")  # the site's own setting


def test_the_wrong_number_of_people_is_refused_under_replace_one(folder):
    """A declared guarantee that does not hold counts people twice, which a public number of people shows."""
    with pytest.raises(InputError, match="163 units as the schema declares, got 377"):
        fitted(folder, schema(unit=True), engine="streamed", whole_units=True)


def test_the_command_line_takes_a_folder_and_an_engine(folder, tmp_path):
    write_schema(schema(), tmp_path / "schema.json")
    asked = ["fit", "logistic", str(folder), "--schema", str(tmp_path / "schema.json"), "--epsilon", "8", "--delta"]
    asked += ["1e-6", "--relation", "replace-one", "--seed", "4", "--json"]
    found = CliRunner().invoke(app, [*asked, "--engine", "streamed", "--out", str(tmp_path / "release")])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["method"] == "bounded-influence"
