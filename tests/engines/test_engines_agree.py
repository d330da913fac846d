# pyright: reportPrivateImportUsage=false
"""Every engine gives the sums of memory, to the last bit: all families, records and units, real engines."""

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.data.sources.registry import parts_of
from sordino.engines.totals import Engine, Totals, engine_of
from sordino.engines.unit_buckets import UnitSpread
from tests.engines.conftest import ROOT
from tests.engines.tables import COLUMNS, FAMILIES, asked_in_memory, planned, table, written


def totals(engine: Engine, source, family: str, relation: Relation, unit: bool, buckets: int = 3) -> Totals:
    _, encoded = planned(family, relation, unit=unit)
    parts = parts_of(source)
    spread = UnitSpread("who", (), COLUMNS, buckets) if unit and len(parts) > 1 else None
    return Totals(engine, engine.arranged(parts, spread), encoded, COLUMNS, together=unit)


def agree(engine: Engine, source, family: str, relation: Relation, unit: bool) -> None:
    total = totals(engine, source, family, relation, unit)
    for asked, summed in asked_in_memory(family, relation, unit):
        found = total(asked)
        assert found.sums.tolist() == summed.sums.tolist(), asked.name
        assert (found.exponent, found.units) == (summed.exponent, summed.units)


@pytest.mark.every(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_streamed_table_gives_the_sums_of_memory(tmp_path, family):
    relation = Relation.REPLACE_ONE if FAMILIES.index(family) % 2 else Relation.ADD_REMOVE
    agree(engine_of("streamed"), written(tmp_path, family), family, relation, unit=False)


@pytest.mark.parametrize(("family", "relation"), [("linear", Relation.REPLACE_ONE), ("poisson", Relation.ADD_REMOVE)])
def test_people_in_several_files_count_once(tmp_path, family, relation):
    asking = engine_of("streamed")
    agree(asking, written(tmp_path, family), family, relation, unit=True)
    files = asking._files
    assert files
    asking.close()
    assert all(file.closed for file in files)


def test_people_in_several_files_are_counted_wrongly_without_being_brought_together(tmp_path):
    """The test above can fail: files on their own count a person once for each of them."""
    family = "linear"
    _, encoded = planned(family, Relation.REPLACE_ONE, unit=True)
    parts = parts_of(written(tmp_path, family))
    found = Totals(engine_of("streamed"), parts, encoded, COLUMNS, together=True)
    asked, summed = asked_in_memory(family, Relation.REPLACE_ONE, True)[0]
    assert found(asked).units > summed.units


def test_no_bucket_divides_a_person_and_the_key_decides():
    (one,) = parts_of(table("linear"))[0].tables(COLUMNS)
    spread, other = (UnitSpread("who", (), COLUMNS, 5, key=bytes([k]) * 16) for k in (1, 2))
    places, who = spread.places(one), one.columns["who"].numbers(())
    assert all(len(set(places[who == person])) == 1 for person in np.unique(who))
    assert len(set(places)) == 5
    assert (places != other.places(one)).any()
    names = [f"{before}p{k}{after}" for k in range(20) for before in ("", " ", "\t") for after in ("", "  ")]
    (one,) = parts_of({"who": names})[0].tables(("who",))
    places = UnitSpread("who", (), ("who",), 5).places(one).reshape(20, 6)
    assert (places == places[:, :1]).all()  # blanks around a name are no part of it


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("unit", [False, True])
def test_all_families_relations_and_units_streamed(tmp_path, family, relation, unit):
    if family == "cox" and unit:
        pytest.skip("a subject of a survival fit is a record")
    asking = engine_of("streamed")
    agree(asking, written(tmp_path, family), family, relation, unit)
    asking.close()


@pytest.fixture(scope="module")
def dask_engine(dask):
    from distributed import Client

    from sordino.engines.clusters import DaskCluster

    with Client(dask.replace("dask://", "tcp://"), set_as_default=False) as client:
        client.run(_find_tests, ROOT)
        yield DaskCluster(client)


def _find_tests(root: str) -> None:
    import sys

    if root not in sys.path:
        sys.path.append(root)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_dask_cluster_gives_the_sums_of_memory(tmp_path, dask_engine, family, unit):
    if family == "cox" and unit:
        pytest.skip("a subject of a survival fit is a record")
    agree(dask_engine, written(tmp_path, family), family, Relation.REPLACE_ONE, unit)


@pytest.mark.slow
def test_a_dask_frame_gives_the_sums_of_memory(dask_engine):
    dask_frames = pytest.importorskip("dask.dataframe", reason="needs sordino[cluster]")
    frame = dask_frames.from_pandas(table("poisson").to_pandas(), npartitions=3)
    agree(dask_engine, frame, "poisson", Relation.ADD_REMOVE, unit=False)
    agree(engine_of("streamed"), frame, "poisson", Relation.ADD_REMOVE, unit=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning", "ignore::ResourceWarning")
def test_spark_gives_the_sums_of_memory(tmp_path, spark):
    from sordino.engines.clusters import SparkCluster

    for family in FAMILIES:
        folder = tmp_path / family
        folder.mkdir()
        agree(SparkCluster(spark), written(folder, family), family, Relation.REPLACE_ONE, unit=False)
    agree(SparkCluster(spark), spark.read.parquet(str(tmp_path / "cox")), "cox", Relation.REPLACE_ONE, False)
    agree(SparkCluster(spark), tmp_path / "linear", "linear", Relation.REPLACE_ONE, unit=True)


def test_an_address_without_a_place_is_refused():
    for word in ("dask", "dask://local", "tls://local"):
        with pytest.raises(InputError, match=r"tls://HOST:PORT or dask://HOST:PORT.*'streamed'"):
            engine_of(word)


@pytest.mark.parametrize(("address", "reached"), [("tls://h:8786", "tls://h:8786"), ("dask://h:8786", "tcp://h:8786")])
def test_the_address_of_a_scheduler_says_whether_tls_is_used(monkeypatch, address, reached):
    distributed = pytest.importorskip("distributed", reason="needs sordino[cluster]")
    asked = []
    monkeypatch.setattr(distributed, "Client", lambda place, **_: asked.append(place))
    engine_of(address)
    assert asked == [reached]


@pytest.mark.slow
def test_a_cluster_with_tls_gives_the_sums_of_memory_and_refuses_a_stranger(tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs sordino[cluster]")
    import dask

    security = distributed.Security.temporary()
    own = security.get_tls_config_for_role("client")
    files = {"ca-file": own["ca_file"], "client.cert": own["cert"], "client.key": own["key"]}
    folder = written(tmp_path, "linear")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, security=security, protocol="tls://"
    ) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        with pytest.raises(InputError, match="certificates"):
            engine_of(cluster.scheduler_address)
        with dask.config.set({f"distributed.comm.tls.{name}": text for name, text in files.items()}):
            engine = engine_of(cluster.scheduler_address)
            try:
                agree(engine, folder, "linear", Relation.REPLACE_ONE, unit=False)
            finally:
                engine.close()


def test_a_table_in_memory_is_refused_by_engines_of_other_processes():
    from sordino.engines.clusters import DaskCluster

    with pytest.raises(InputError, match="save it as Parquet"):
        DaskCluster(None).check(parts_of(table("linear")))


def test_a_frame_of_another_cluster_is_refused():
    from sordino.data.sources.in_memory import DaskPart, SparkRows
    from sordino.engines.clusters import DaskCluster, SparkCluster

    of_dask, of_spark = DaskPart(None, None, 0), SparkRows(None)
    DaskCluster(None).check([of_dask])
    SparkCluster(None).check([of_spark])
    for engine, part in ((DaskCluster(None), of_spark), (SparkCluster(None), of_dask)):
        with pytest.raises(InputError, match="save it as Parquet"):
            engine.check([part])
