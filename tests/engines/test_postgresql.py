"""PostgreSQL by ADBC, against a server that the test starts."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sordino import InputError, Relation
from sordino.data import read_table
from sordino.data.sources.databases import PostgreSQLTable
from sordino.data.sources.registry import parts_of
from sordino.engines.totals import Totals, engine_of
from tests.data.odd_cells import STORED, arrow_table, odd_stored, records, schema, with_cells
from tests.data.test_one_cell import Others
from tests.engines.tables import COLUMNS, asked_in_memory, planned, table

FAMILY = "poisson"


def _program(name: str) -> str:
    found = shutil.which(name) or next(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), None)
    if found is None:
        pytest.skip(f"needs PostgreSQL's {name}")
    return found


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("adbc_driver_postgresql", reason="needs sordino[postgresql]")
    own = [] if os.geteuid() else ["runuser", "-u", "postgres", "--"]  # the server does not run as root
    if own and shutil.which("runuser") is None:
        pytest.skip("needs runuser to start PostgreSQL as another user")
    folder = subprocess.run([*own, "mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip()

    def run(*words: str) -> None:
        subprocess.run([*own, *words], check=True, capture_output=True, cwd="/")

    run(_program("initdb"), "-D", f"{folder}/data", "-A", "trust", "-U", "clinic")
    control = (_program("pg_ctl"), "-D", f"{folder}/data", "-l", f"{folder}/log", "-w")
    run(*control, "-o", f"-c listen_addresses='' -k {folder}", "start")
    try:
        yield f"postgresql://clinic@/postgres?host={folder}"
    finally:
        run(*control, "-m", "immediate", "stop")
        run("rm", "-r", folder)


@pytest.mark.slow
def test_a_table_of_postgresql_gives_the_sums_of_memory(server):
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("visits", table(FAMILY))
        connection.commit()
    _, encoded = planned(FAMILY, Relation.ADD_REMOVE, unit=False)
    for source in (f"{server}#visits", PostgreSQLTable(server, "SELECT * FROM visits WHERE age >= 0 ORDER BY dose")):
        asking = Totals(engine_of("streamed"), parts_of(source), encoded, COLUMNS, together=False)
        for asked, summed in asked_in_memory(FAMILY, Relation.ADD_REMOVE, False)[:3]:
            assert asking(asked).sums.tolist() == summed.sums.tolist()
    with pytest.raises(InputError, match="PostgreSQL cannot answer") as refused:
        parts_of(f"{server}#nothing")[0].names()
    assert "clinic" not in str(refused.value)


@pytest.mark.slow
def test_no_cell_changes_how_others_are_read_or_stops(server):
    """Types are those of the table; numeric, which Arrow has no type for, arrives as text and keeps every digit."""
    from adbc_driver_postgresql import dbapi

    stored = {name: "string" if kind == "dictionary" else kind for name, kind in STORED["numbers"].items()}
    declared, columns = schema(), records()

    def rows(cells):
        with dbapi.connect(server) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("odd", arrow_table(cells, stored), mode="replace")
            cursor.execute("ALTER TABLE odd ALTER COLUMN whole TYPE numeric, ALTER COLUMN who TYPE numeric")
            connection.commit()
        return read_table(f"{server}#odd")

    others = Others(declared, rows(columns))
    for place, odd in enumerate(odd_stored(stored, utf8=True)):
        cells = {name: "zero" if cell == "\0" else cell for name, cell in odd.items()}
        others.are_read_alike(rows(with_cells(columns, place, cells)), place)


def test_a_server_that_is_not_there_is_refused_without_its_address():
    pytest.importorskip("adbc_driver_postgresql", reason="needs sordino[postgresql]")
    with pytest.raises(InputError, match="PostgreSQL cannot answer") as refused:
        PostgreSQLTable("postgresql://somebody:password@localhost:1/none", "visits").names()
    assert "password" not in str(refused.value)
