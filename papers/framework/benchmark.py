"""Benchmark sets from a data folder: five regression sets with their standard splits, Adult, and MNIST."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, overload
from zipfile import BadZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sordino.core.validate import InputError, one_of
from sordino.data import read_table
from sordino.data.raw_columns import NUMBER, TEXT
from sordino.data.sources.in_memory import from_arrays
from sordino.data.sources.registry import existing_file
from sordino.data.table import Table


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of the training and test records."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class TableBenchmark:
    """Raw values (nothing scaled), which columns are features, which is the target, and the standard splits."""

    name: str
    table: Table
    features: tuple[str, ...]
    target: str
    splits: tuple[Split, ...]


@dataclass(frozen=True, eq=False)
class ImageBenchmark:
    """Grey images as uint8 (records, height, width) and their labels, in the official split."""

    name: str
    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]


Benchmark = TableBenchmark | ImageBenchmark
# A set may also be a slice of this many generated records with its columns: what quick runs read in place of the data.
SLICE_ROWS = 200
BENCHMARKS: dict[str, Callable[[Path], Benchmark]] = {}


@overload
def load_benchmark(name: Literal["mnist"], data_dir: str | Path) -> ImageBenchmark: ...
@overload
def load_benchmark(
    name: Literal["kin8nm", "power", "wine_red", "protein", "naval", "adult"], data_dir: str | Path
) -> TableBenchmark: ...
@overload
def load_benchmark(name: str, data_dir: str | Path) -> Benchmark: ...
def load_benchmark(name: str, data_dir: str | Path) -> Benchmark:
    """Load a benchmark set by name from a folder that holds its Parquet or npz files.

    No schema comes with these sets: declare one, or infer one and accept that its certificates read private data.
    """
    folder = Path(data_dir)
    if not folder.is_dir():
        raise InputError(f"Expected the folder of benchmark data, got {str(data_dir)!r}; give an existing folder.")
    return BENCHMARKS[one_of("benchmark", name, BENCHMARKS)](folder)


def _regression(name: str, rows: int, width: int) -> Callable[[Path], Benchmark]:
    def load(folder: Path) -> Benchmark:
        table = read_table(folder / f"{name}.parquet")
        features = tuple(f"x{index}" for index in range(width))
        if table.names != (*features, "y") or table.rows not in (rows, SLICE_ROWS):
            raise InputError(
                f"Expected {rows} records of x0..x{width - 1} and y in {name}.parquet, got {table.rows} records and "
                f"{len(table.names)} columns; fetch the file again."
            )
        arrays = _arrays(folder / "splits" / f"{name}.npz", ("train", "test"))
        pairs = zip(arrays["train"], arrays["test"], strict=True)
        splits = tuple(Split(train.astype(np.intp), test.astype(np.intp)) for train, test in pairs)
        return TableBenchmark(name, table, features, "y", splits)

    return load


def _adult(folder: Path) -> Benchmark:
    table = read_table(folder / "adult.parquet")
    kinds = table.kinds
    if table.rows not in (48842, SLICE_ROWS) or (kinds.get("y"), kinds.get("split")) != (NUMBER, TEXT):
        raise InputError("Expected 48842 records with the columns y and split in adult.parquet; fetch the file again.")
    train = table.columns["split"].codes(lambda word: int(word == "train")) == 1
    split = Split(np.flatnonzero(train), np.flatnonzero(~train))
    kept = {name: column for name, column in table.columns.items() if name not in ("income", "split")}
    return TableBenchmark("adult", Table(kept), tuple(name for name in kept if name != "y"), "y", (split,))


def _mnist(folder: Path) -> Benchmark:
    arrays = _arrays(folder / "mnist.npz", ("x_train", "y_train", "x_test", "y_test"))
    return ImageBenchmark("mnist", arrays["x_train"], arrays["y_train"], arrays["x_test"], arrays["y_test"])


def _arrays(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    file = existing_file(path)
    try:
        with file.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
            return {name: archive[name] for name in names}
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise InputError(f"Expected the arrays {', '.join(names)} in {file.name}, got a bad file: {error}.") from None


# YearPredictionMSD.txt of the UCI repository: the year, then 90 numbers; the last 51,630 records are for testing.
_YEAR_ROWS, _YEAR_TRAINING, _YEAR_WIDTH = 515_345, 463_715, 90


def _year(folder: Path) -> Benchmark:
    file = existing_file(folder / "YearPredictionMSD.txt")
    try:
        numbers = np.loadtxt(file, delimiter=",", ndmin=2)
    except ValueError as error:
        raise InputError(f"Expected numbers between commas in {file.name}, got a bad file: {error}.") from None
    if numbers.shape[1:] != (_YEAR_WIDTH + 1,) or len(numbers) not in (_YEAR_ROWS, SLICE_ROWS):
        raise InputError(
            f"Expected {_YEAR_ROWS} records of a year and {_YEAR_WIDTH} numbers in {file.name}, got shape "
            f"{numbers.shape}; fetch the file again."
        )
    features = tuple(f"x{place}" for place in range(_YEAR_WIDTH))
    names = ("y", *features)
    table = from_arrays({name: numbers[:, place] for place, name in enumerate(names)})
    cut = _YEAR_TRAINING if len(numbers) == _YEAR_ROWS else len(numbers) * 9 // 10
    split = Split(np.arange(cut), np.arange(cut, len(numbers)))
    return TableBenchmark("year", table, features, "y", (split,))


# Records and features of the regression sets.
SHAPES = MappingProxyType(
    {"kin8nm": (8192, 8), "power": (9568, 4), "wine_red": (1599, 11), "protein": (45730, 9), "naval": (11934, 16)}
)
BENCHMARKS |= {name: _regression(name, *shape) for name, shape in SHAPES.items()}
BENCHMARKS |= {
    "adult": _adult,
    "mnist": _mnist,
    "year": _year,
}


# Generated files with the sets' columns, so that a quick run goes through the same readers, scalings and splits.


def write_slice(name: str, folder: Path, seed: int = 0) -> None:
    """Write a set of SLICE_ROWS generated records under the names and shapes that `load_benchmark` reads."""
    one_of("benchmark", name, ("mnist", *SHAPES))
    rng = np.random.default_rng([seed, sorted(BENCHMARKS).index(name)])  # "year" is last: others keep their places
    if name == "mnist":
        _write_images(folder / "mnist.npz", rng)
        return
    width = SHAPES[name][1]
    features = rng.standard_normal((SLICE_ROWS, width)) * rng.uniform(0.5, 20.0, width) + rng.uniform(-5.0, 5.0, width)
    scaled = (features - features.mean(0)) / features.std(0)
    target = np.sin(scaled @ rng.standard_normal(width) / np.sqrt(width)) + 0.3 * rng.standard_normal(SLICE_ROWS)
    columns = {f"x{place}": features[:, place] for place in range(width)} | {"y": target}
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    orders = np.stack([rng.permutation(SLICE_ROWS) for _ in range(10)])
    (folder / "splits").mkdir(exist_ok=True)
    cut = SLICE_ROWS * 9 // 10
    np.savez(folder / "splits" / f"{name}.npz", train=orders[:, :cut], test=orders[:, cut:])


def _write_images(path: Path, rng: np.random.Generator) -> None:
    """Ten classes, each a smooth pattern of its own, with noise; grey values as they are in MNIST."""
    waves = np.stack([np.cos(np.arange(28) * k * np.pi / 28) for k in range(1, 6)])
    patterns = np.einsum("cij,ih,jw->chw", rng.standard_normal((10, 5, 5)), waves, waves)
    patterns = 255 * (patterns > np.quantile(patterns, 0.8, axis=(1, 2), keepdims=True))

    def drawn() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        labels = rng.integers(0, 10, SLICE_ROWS)
        images = patterns[labels] + 40.0 * rng.standard_normal((SLICE_ROWS, 28, 28))
        return np.clip(images, 0, 255).astype(np.uint8), labels.astype(np.uint8)

    (x_train, y_train), (x_test, y_test) = drawn(), drawn()
    np.savez(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
