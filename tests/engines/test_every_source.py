"""Fit, look, predict and audit from every source on every engine: the answers of memory, or a refusal before the debit.

Files, databases and frames hold the same rows. Dask, Spark and PostgreSQL are started by the slow tests, and where one
cannot be, its tests say what they would have needed. A test compares the table in `docs/how-to/scale.md`.
"""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino
from sordino import InputError, Ledger
from sordino.auditing.instance import audit_instance, on_table
from sordino.cli.predict import _table, texts_in_parts
from sordino.core.results import as_csv
from sordino.data import read_table, write_schema
from sordino.fitting.predictor import Predictor
from tests.auditing.chains import chain
from tests.data.odd_cells import STORED, arrow_table, odd_stored, records, with_cells
from tests.data.odd_cells import schema as odd_schema
from tests.data.test_one_cell import Others
from tests.engines.tables import ROWS, frames, paths, rows_of
from tests.engines.test_fit_with_an_engine import fitted, schema, with_events
from tests.engines.test_other_verbs import looked, predicted, release, same_answers
from tests.engines.test_postgresql import server

__all__ = ["release", "server"]  # fixtures

FILES = (
    "Parquet folder",
    "Parquet folder with columns in names",
    "Parquet pattern",
    "Parquet file",
    "CSV files by a pattern, `visits-*.csv`",
    "Arrow IPC file",
    "Arrow IPC stream",
    "DuckDB table",
    "DuckDB query",
)
IN_MEMORY = ("Arrow table", "Arrow C stream", "pandas frame", "Polars frame")
ON_SERVERS = ("PostgreSQL table", "PostgreSQL query")
OWN = {"dask": "Dask frame", "spark": "Spark frame"}
SOURCES = (*FILES, *ON_SERVERS, *IN_MEMORY, *OWN.values())
ENGINES = ("memory", "streamed", "dask", "spark")
# Rows without a promised order: nobody could tell predictions of them apart.
LOOSE = ("DuckDB table", "PostgreSQL table", "Spark frame")


def works(source: str, engine: str, verb: str) -> bool:
    """Whether a verb works; where it does not it is refused, before anything is debited."""
    if verb == "predict" and engine != "memory" and source in LOOSE:
        return False
    return engine not in OWN or source in (*FILES, *ON_SERVERS, OWN[engine])


def page() -> str:
    """The table of the page."""
    lines = ["| rows | " + " | ".join(f"`{engine}`" for engine in ENGINES) + " |", "| --- " * 5 + "|"]
    for source in SOURCES:
        cells = []
        for engine in ENGINES:
            verbs = [verb for verb in ("fit", "look", "predict") if works(source, engine, verb)]
            cells.append(", ".join(verbs + ["audit"] * (engine == "memory")) or "refused")
        lines.append(f"| {source} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_what_works():
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "scale.md").read_text()
    assert page() in text


def test_every_source_is_looked_at_in_parts(folder, tmp_path):
    memory = looked(folder)
    for name, source in (paths(folder, tmp_path) | frames(folder)).items():
        assert same_answers(looked(source, engine="streamed"), memory), name


def test_predictions_are_made_of_every_file(release, folder, tmp_path):
    memory = predicted(release, folder, tmp_path / "memory.csv")
    for name, source in paths(folder, tmp_path).items():
        if works(name, "streamed", "predict"):
            assert predicted(release, source, tmp_path / "streamed.csv", "--engine", "streamed") == memory, name


def test_engines_of_this_process_fit_frames(folder):
    memory = fitted(folder, schema())
    for source in list(frames(folder).values())[1:]:
        assert same_fit(fitted(source, schema(), engine="streamed"), memory)


def same_fit(one, other) -> bool:
    return all(one.arrays[name].tobytes() == other.arrays[name].tobytes() for name in other.arrays)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return with_events(tmp_path_factory.mktemp("visits"))


@pytest.fixture(scope="module")
def given(files, tmp_path_factory) -> dict[str, Any]:
    """Sources that need nobody else."""
    return paths(files, tmp_path_factory.mktemp("given")) | frames(files)


@pytest.fixture(scope="module")
def tables_there(files, server) -> dict[str, str]:
    """Tables of a PostgreSQL server."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("visits", rows_of(files).append_column("place", pa.array(range(ROWS), pa.int64())))
        connection.commit()
    return {"PostgreSQL table": f"{server}#visits", "PostgreSQL query": f"{server}#SELECT * FROM visits ORDER BY place"}


def source_of(name: str, request) -> Any:
    files = request.getfixturevalue("files")
    if name in ON_SERVERS:
        return request.getfixturevalue("tables_there")[name]
    if name == OWN["dask"]:
        request.getfixturevalue("dask")
        return pytest.importorskip("dask.dataframe").from_pandas(rows_of(files).to_pandas(), npartitions=3)
    if name == OWN["spark"]:
        return request.getfixturevalue("spark").read.parquet(str(files))
    return request.getfixturevalue("given")[name]


def address_of(engine: str, request) -> str:
    if engine == "spark":
        request.getfixturevalue("spark")
        return "spark://local"
    return request.getfixturevalue("dask") if engine == "dask" else engine


class Memory:
    """What the verbs say of the folder when it is read into memory."""

    def __init__(self, files: Path, place: Path) -> None:
        self.place = place
        write_schema(schema(), place / "schema.json")
        self.fit, self.look = fitted(files, schema()), looked(files)
        self.predictor = Predictor(self.fit)
        dataset = {"kind": "file", "path": str(files), "schema": str(place / "schema.json")}
        instance = {"model": {"name": "ridge"}, "dataset": dataset, "neighbour": {"kind": "zero", "position": 4}}
        self.spec = chain(step_size=0.1, instance=instance, n=ROWS, dim=3, gradient_sensitivity=2.0)
        self.predictions = self.predict(files, "memory")
        self.audit = sordino.audit(self.spec, delta=1e-5)
        assert self.audit.epsilon > 0.0

    def predict(self, source: Any, engine: str) -> list[str]:
        """The lines, in their order."""
        if engine == "memory":
            return as_csv(_table(self.predictor, source, 0.9, 0, None)).splitlines()
        found = list(texts_in_parts(self.predictor, source, engine, 0.9, 0))
        return [*found[0][0].splitlines(), *(line for _, lines, _ in found for line in lines.splitlines())]


@pytest.fixture(scope="module")
def memory(files, tmp_path_factory) -> Memory:
    return Memory(files, tmp_path_factory.mktemp("memory"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", SOURCES)
def test_every_verb_works_with_every_source_on_every_engine(name, engine, memory, tmp_path, request):
    source, address = source_of(name, request), address_of(engine, request)
    ledger = Ledger.open(
        tmp_path / f"{uuid4().hex}.ledger", dataset="visits", relation="replace-one", epsilon=50.0, delta=1e-5
    )
    if works(name, engine, "fit"):
        assert same_fit(fitted(source, schema(), engine=address, ledger=ledger), memory.fit)
        assert same_answers(looked(source, engine=address, ledger=ledger), memory.look)
        assert len(ledger.entries()) == 2
    else:
        with pytest.raises(InputError, match="save it as Parquet"):
            fitted(source, schema(), engine=address, ledger=ledger)
        with pytest.raises(InputError, match="save it as Parquet"):
            looked(source, engine=address, ledger=ledger)
        assert not ledger.entries()
    if works(name, engine, "predict"):
        found, right = memory.predict(source, address), memory.predictions
        # Rows without an order come in any.
        assert (sorted(found) == sorted(right)) if name in LOOSE else (found == right)
    else:
        with pytest.raises(InputError, match="save it as Parquet"):
            memory.predict(source, address)
    if engine == "memory":
        # Of rows without an order another one may stand where the neighbours differ.
        lower = sordino.audit(memory.spec, delta=1e-5, data=source).epsilon
        assert lower > 0.0 if name in LOOSE else lower == memory.audit.epsilon
        there, here = (audit_instance(spec).pair.first for spec in (on_table(memory.spec, source), memory.spec))
        assert sorted(there.features.tolist()) == sorted(here.features.tolist())
        assert sum(there.target) == sum(here.target)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("stored", ["numbers", "whole", "texts"])
@pytest.mark.parametrize("library", ["dask", "spark"])
def test_no_cell_of_a_frame_elsewhere_changes_how_others_are_read_or_stops(library, stored, tmp_path, request):
    """Frames of Dask and Spark, of which a record is added with cells that its types can hold."""
    kinds = {name: "string" if kind == "dictionary" else kind for name, kind in STORED[stored].items()}
    declared, columns = odd_schema(), records()
    request.getfixturevalue(library)

    def rows(cells) -> Any:
        table = arrow_table(cells, kinds)
        if library == "dask":
            frame = table.to_pandas(types_mapper=pd.ArrowDtype)
            return read_table(pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3))
        pq.write_table(table, tmp_path / "rows.parquet")
        return read_table(request.getfixturevalue("spark").read.parquet(str(tmp_path / "rows.parquet")))

    others = Others(declared, rows(columns))
    for turn, odd in enumerate(odd_stored(kinds, utf8=True)):
        others.are_read_alike(rows(with_cells(columns, turn, odd)), turn)
