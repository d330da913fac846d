"""Benchmark sets load as their description says."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papers.framework.benchmark import (
    BENCHMARKS,
    SHAPES,
    SLICE_ROWS,
    ImageBenchmark,
    TableBenchmark,
    load_benchmark,
    write_slice,
)
from sordino.core.validate import InputError

REGRESSION = [
    ("naval", 16, 0.975000, 0.014720, 20),
    ("kin8nm", 8, 0.714283, 0.263591, 20),
    ("power", 4, 454.365009, 17.066103, 20),
    ("wine_red", 11, 5.636023, 0.807317, 20),
    ("protein", 9, 7.748528, 6.118245, 5),
]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of benchmark data, or a skip where there is none."""
    named = os.environ.get("SORDINO_DATA_DIR")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no benchmark data: set SORDINO_DATA_DIR to their folder")
    return folder


@pytest.mark.parametrize(("name", "width", "mean", "deviation", "splits"), REGRESSION)
def test_regression_sets(data_dir, name, width, mean, deviation, splits):
    loaded = load_benchmark(name, data_dir)
    assert isinstance(loaded, TableBenchmark)
    target = loaded.table.columns[loaded.target].numbers(())
    assert (len(loaded.features), len(loaded.splits)) == (width, splits)
    assert target.mean() == pytest.approx(mean, abs=1e-6)
    assert target.std() == pytest.approx(deviation, abs=1e-6)
    for split in loaded.splits:
        assert len(split.train) == round(0.9 * loaded.table.rows)
        together = np.sort(np.concatenate([split.train, split.test]))
        np.testing.assert_array_equal(together, np.arange(loaded.table.rows))


def test_adult(data_dir):
    loaded = load_benchmark("adult", data_dir)
    (split,) = loaded.splits
    assert (len(loaded.features), len(split.train), len(split.test)) == (14, 32561, 16281)
    assert loaded.table.columns["y"].numbers(()).mean() == pytest.approx(0.239282, abs=1e-6)
    assert set(loaded.table.names) == {*loaded.features, "y"}


def test_mnist(data_dir):
    loaded = load_benchmark("mnist", data_dir)
    assert isinstance(loaded, ImageBenchmark)
    assert loaded.train_images.shape == (60000, 28, 28)
    assert np.bincount(loaded.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_a_wrong_name_or_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match="benchmark to be one of adult, kin8nm"):
        load_benchmark("iris", tmp_path)
    with pytest.raises(InputError, match="folder of benchmark data"):
        load_benchmark("adult", tmp_path / "absent")


@pytest.mark.parametrize("name", sorted(BENCHMARKS))
def test_an_absent_or_broken_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="There is no file"):
        load_benchmark(name, tmp_path)
    for path in (tmp_path / f"{name}.parquet", tmp_path / f"{name}.npz"):
        path.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InputError):
        load_benchmark(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "columns"),
    [("power", ["x0", "y"]), ("power", ["x0", "x1", "x2", "x3", "y"]), ("adult", ["age", "split", "y"])],
)
def test_another_table_under_the_name_is_refused(tmp_path, name, columns):
    pq.write_table(pa.table({column: [1.0] for column in columns}), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=f"records .* in {name}.parquet"):
        load_benchmark(name, tmp_path)


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_generated_slice_is_read_like_the_set_it_stands_for(name, tmp_path):
    write_slice(name, tmp_path)
    loaded = load_benchmark(name, tmp_path)
    assert isinstance(loaded, TableBenchmark)
    assert (loaded.table.rows, len(loaded.features)) == (SLICE_ROWS, SHAPES[name][1])
    for split in loaded.splits:
        together = np.sort(np.concatenate([split.train, split.test]))
        np.testing.assert_array_equal(together, np.arange(SLICE_ROWS))
    target = loaded.table.columns["y"].numbers(())
    assert np.isfinite(target).all()
    assert target.std() > 0.3


def test_a_generated_slice_of_images_has_the_shapes_and_ten_classes(tmp_path):
    write_slice("mnist", tmp_path)
    images = load_benchmark("mnist", tmp_path)
    assert images.train_images.shape == images.test_images.shape == (SLICE_ROWS, 28, 28)
    assert images.train_images.dtype == np.uint8
    assert set(images.train_labels) == set(range(10))
    # Each class has a pattern of its own: the mean of a class is nearest to its own test images.
    means = np.stack([images.train_images[images.train_labels == k].mean(axis=0) for k in range(10)])
    gaps = ((images.test_images[:, None] - means[None]) ** 2).sum(axis=(2, 3))
    assert (gaps.argmin(axis=1) == images.test_labels).mean() > 0.9


def test_any_other_number_of_records_is_refused(tmp_path):
    write_slice("power", tmp_path)
    table = pq.read_table(tmp_path / "power.parquet")
    pq.write_table(table.slice(0, SLICE_ROWS - 1), tmp_path / "power.parquet")
    with pytest.raises(InputError, match="9568"):
        load_benchmark("power", tmp_path)
