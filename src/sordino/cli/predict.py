"""`sordino predict RELEASE DATA`: mean, interval and predictive draws for each row, in memory or next to the parts."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer import Option

from sordino.cli import library
from sordino.cli.shared import EngineWord, OutFile, ReleaseFolder, RowsToPredict, command, json_text, put
from sordino.core.results import as_csv
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, printable, whole_number

if TYPE_CHECKING:  # these bring JAX: they are loaded by the functions that need them, so that commands start at once
    from sordino.data import Table
    from sordino.data.sources.registry import TablePart
    from sordino.engines.totals import PartAnswer
    from sordino.fitting.predictor import Predictor

INTERVALS = "intervals"  # the column that says how often intervals of this level held
_PARTS_AT_ONCE = 16  # parts that are asked at once: texts of so many wait for the one before them


@command(
    "predict",
    "Predict rows from a release; costs no budget.",
    "sordino predict release new-patients.csv --out predictions.csv",
)
def predict(
    release: ReleaseFolder,
    data: RowsToPredict,
    level: Annotated[float, Option(help="Nominal level of intervals, in (0, 1).")] = 0.9,
    draws: Annotated[int, Option(help="Predictive draws of each row.")] = 0,
    out: OutFile = None,
    seed: Annotated[int | None, Option(help="For reproducible draws.")] = None,
    engine: EngineWord = None,
    as_json: Annotated[bool, Option("--json", help="JSON instead of CSV.")] = False,
) -> None:
    """Predict from a release; this is post-processing and costs no budget.

    For a number the table has the mean, deviation and interval of a new value. For a class it has the probability, with
    an interval for that probability; for cox, the probability of the event by the end of the last time bin. A column
    gives the measured coverage of such intervals on simulated tables, which is often below the nominal level. There is
    no interval if coverage was not measured, nor for probabilities if only a constant was learned. A prediction is as
    sensitive as its row. In CSV, an apostrophe precedes a label that a spreadsheet would run as a formula, and control
    characters are spelled out; --json leaves labels unchanged. With --engine, rows are predicted where they are stored,
    a few at a time, and the CSV keeps their order.
    """
    number("level", level, OPEN_UNIT)
    whole_number("draws", draws, Interval(0, 10_000))

    predictor = library.Predictor(library.read_release(release))
    if engine not in (None, "memory"):
        if out is None or as_json or seed is not None:
            raise InputError("`--engine` requires `--out` and cannot be combined with `--json` or `--seed`.")
        rows, found = 0, texts_in_parts(predictor, data, engine, level, draws)

        def pieces() -> Iterator[bytes]:
            nonlocal rows
            for header, lines, many in found:
                if not rows and many:
                    yield header.encode()
                rows += many
                yield lines.encode()
            if not rows:
                raise InputError("The table has no rows to predict.")

        library.write_file(out, pieces())
    else:
        table = _table(predictor, data, level, draws, seed)
        text, rows = json_text(table) + "\n" if as_json else as_csv(table), len(next(iter(table.values())))
        put(text, out)
    if out is not None and not as_json:
        typer.echo(f"{printable(str(out))}: {rows} rows, as sensitive as the rows they were predicted from")


def _table(predictor: "Predictor", data: Any, level: float, draws: int, seed: int | None) -> dict[str, list[Any]]:
    import numpy as np  # noqa: PLC0415

    encoded = predictor.encode(data)
    if not len(encoded):
        raise InputError("The table has no rows to predict.")
    coverage = predictor.coverage(level)
    low, high = (None, None) if coverage is None else predictor.interval(encoded, level)
    columns: dict[str, Any] = predictor.task.table(predictor, encoded, low, high)
    # Of times to an event the interval is one of a chance, which is the mean.
    if "mean" in columns and predictor.knows_means and not predictor.task.several_rows:
        means = predictor.means(encoded, level)
        columns |= {"low of the mean": means.low, "high of the mean": means.high}
    columns = {name: values for name, values in columns.items() if values is not None}
    if coverage is not None:
        if "low of the mean" in columns:
            coverage = f"of new targets: {coverage}; of means: not measured"
        columns[INTERVALS] = np.full(len(encoded), coverage)
    if draws and predictor.task.outcome:
        drawn = predictor.sample(encoded, draws, np.random.default_rng(seed))
        columns |= {f"draw {place}": values for place, values in enumerate(drawn)}
    if not all(np.isfinite(values).all() for values in columns.values() if values.dtype.kind == "f"):
        raise InputError("Predictions of this release are not finite. Look at its numbers.")
    return {name: values.tolist() for name, values in columns.items()}


@dataclass(frozen=True, eq=False)
class PredictionWork:
    """Predictions as lines of CSV, made of a few rows at a time; travels to where rows are, as `Work` does."""

    adds: ClassVar[bool] = False
    asked: ClassVar[SimpleNamespace] = SimpleNamespace(name="predictions")

    release: Any
    level: float
    draws: int
    columns: tuple[str, ...]

    def answer(self, part: "TablePart", key: str) -> "PartAnswer":
        """The text of one part, and of how many rows it is."""
        header, pieces, rows, predictor = "", list[str](), 0, library.Predictor(self.release)

        def add(table: "Table") -> None:
            nonlocal header, rows
            if table.rows:
                made = _table(predictor, table, self.level, self.draws, None)
                header, rows = as_csv({name: [] for name in made}), rows + table.rows
                pieces.append(as_csv(made, header=False))

        library.for_each(part.tables(self.columns), add, part.name)
        return library.PartAnswer(key, json.dumps([header, "".join(pieces)]).encode(), rows, 0, "")


def texts_in_parts(
    predictor: "Predictor", data: Any, engine: Any, level: float, draws: int
) -> Iterator[tuple[str, str, int]]:
    """For every part, in order, the header of its predictions, their lines, and how many rows it has."""
    parts = library.parts_of(predictor.schema.source(data))
    if not parts:
        raise InputError("The table has no parts. Check the path.")
    loose = next((part.name for part in parts if not part.ordered), None)
    if loose is not None:
        raise InputError(f"Predictions need ordered rows; {loose} has none. Add an ORDER BY, or save it as Parquet.")
    columns = library.check_parts(predictor.schema, parts, predictor.columns_to_read(parts[0].names()))
    work: Any = PredictionWork(predictor.release, level, draws, columns)
    asking = library.engine_of(engine)
    try:
        asking.check(parts)
        for first in range(0, len(parts), _PARTS_AT_ONCE):
            named = {f"{place}": part for place, part in enumerate(parts[first : first + _PARTS_AT_ONCE])}
            found = {answer.part: answer for answer in library.each_once(asking, work, named)}
            for key in named:
                yield *json.loads(found[key].sums), found[key].units
    finally:
        asking.close()
