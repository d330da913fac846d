"""`sordino predict RELEASE DATA`: mean, interval and predictive draws for each row, as CSV or JSON."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared import EngineWord, RowsToPredict, json_text, write_text
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, printable, whole_number

if TYPE_CHECKING:
    from sordino.estimators import Predictor

SHORT = "Predict rows from a release; costs no budget."
EXAMPLES = (
    "sordino predict release new-patients.csv --out predictions.csv",
    "sordino predict release new-patients.csv --level 0.95 --draws 100 --json",
)

# The column that says how often intervals of this level held.
INTERVALS = "intervals"


def command(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    data: RowsToPredict,
    level: Annotated[
        float, typer.Option(help="Nominal level of intervals, in (0, 1); what was measured is printed beside them.")
    ] = 0.9,
    draws: Annotated[int, typer.Option(help="Predictive draws of each row.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the table here instead of to stdout.")] = None,
    seed: Annotated[int | None, typer.Option(help="For reproducible draws.")] = None,
    engine: EngineWord = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of CSV.")] = False,
) -> None:
    """Predict from a release; this is post-processing and costs no budget.

    For a number the table has mean, deviation and interval of a new value; for a class its probability, with the
    posterior's interval for that probability; for cox the chance of the event up to the end of the last time bin. A
    column says how often such intervals held on drawn tables, which is often below their level; intervals are left out
    where that was not measured, and intervals of probabilities also where only a constant was learned. A prediction is
    as sensitive as the row it was made from. In CSV, a label that a spreadsheet would run as a formula has an
    apostrophe before it, and control characters are spelled out; --json has labels as they are. With --engine rows are
    predicted where they lie, a few at a time, and CSV is written in their order.
    """
    number("level", level, OPEN_UNIT)
    whole_number("draws", draws, Interval(0, 10_000))
    # Imported here: bad input is refused without them.
    from sordino.estimators import Predictor  # noqa: PLC0415
    from sordino.estimators.shown_table import as_csv  # noqa: PLC0415
    from sordino.ledger.release import read_release  # noqa: PLC0415

    predictor = Predictor(read_release(release))
    if engine not in (None, "memory"):
        if out is None or as_json or seed is not None:
            raise InputError("Expected --engine with --out and without --json and --seed, got others; correct them.")
        rows = _in_parts(predictor, data, engine, level, draws, out)
        typer.echo(f"{printable(str(out))}: {rows} rows, as sensitive as those they were predicted from")
        return
    table = _table(predictor, data, level, draws, seed)
    text = json_text(table) + "\n" if as_json else as_csv(table)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        if not as_json:
            rows = len(next(iter(table.values())))
            typer.echo(f"{printable(str(out))}: {rows} rows, as sensitive as those they were predicted from")


@dataclass(frozen=True, eq=False)
class RowsAsText:
    """Lines of CSV of some rows; travels to where rows are."""

    release: Any
    level: float
    draws: int

    def __call__(self, table: Any) -> tuple[str, str]:
        from sordino.estimators import Predictor  # noqa: PLC0415  on whoever has the rows
        from sordino.estimators.shown_table import as_csv  # noqa: PLC0415

        found = _table(Predictor(self.release), table, self.level, self.draws, None)
        return as_csv({name: [] for name in found}), as_csv(found, header=False)


def _in_parts(predictor: "Predictor", data: str, engine: str, level: float, draws: int, out: Path) -> int:
    """Write predictions part by part; how many rows there were."""
    from sordino.core.whole_files import write_file  # noqa: PLC0415
    from sordino.estimators.predict_in_parts import texts_in_parts  # noqa: PLC0415

    found = texts_in_parts(
        predictor.schema, data, engine, predictor.columns_to_read, RowsAsText(predictor.release, level, draws)
    )
    rows = 0

    def pieces() -> Iterator[bytes]:
        nonlocal rows
        for header, lines, many in found:
            if not rows and many:
                yield header.encode()
            rows += many
            yield lines.encode()
        if not rows:
            raise InputError("Expected a table with rows to predict, got one without; add them.")

    write_file(out, pieces())
    return rows


def _table(predictor: "Predictor", data: Any, level: float, draws: int, seed: int | None) -> dict[str, list[Any]]:
    """Columns by name."""
    import numpy as np  # noqa: PLC0415

    from sordino.estimators.situation import Task  # noqa: PLC0415

    encoded = predictor.encode(data)
    if not len(encoded):
        raise InputError("Expected a table with rows to predict, got one without; add them.")
    if predictor.task is Task.MIXTURE:
        shares = predictor.component_shares(encoded)
        columns: dict[str, Any] = {"component": shares.argmax(axis=1)}
        columns |= {f"probability of {code}": shares[:, code] for code in range(shares.shape[1])}
        return {name: values.tolist() for name, values in columns.items()}
    coverage = predictor.coverage(level)
    low, high = (None, None) if coverage is None else predictor.interval(encoded, level)
    if predictor.classifies:
        shares = predictor.probabilities(encoded)
        columns = {"prediction": predictor.labels[shares.argmax(axis=1)]}
        for code, label in enumerate(predictor.labels):
            named = {"probability": shares, "low": low, "high": high}
            columns |= {f"{part} of {label}": values[:, code] for part, values in named.items() if values is not None}
    else:
        predicted = predictor.regression(encoded)
        named = {"mean": predicted.mean, "deviation": np.sqrt(predicted.variance), "low": low, "high": high}
        # Of times to an event the interval is one of a chance, which is the mean.
        means = None if predictor.task is Task.SURVIVAL else predictor.means(encoded, level)
        if means is not None:
            named |= {"low of the mean": means.low, "high of the mean": means.high}
        columns = {name: values for name, values in named.items() if values is not None}
    if coverage is not None:
        if "low of the mean" in columns:
            coverage = f"of new targets: {coverage}; of means: not measured"
        columns[INTERVALS] = np.full(len(encoded), coverage)
    if draws:
        drawn = predictor.sample(encoded, draws, np.random.default_rng(seed))
        columns |= {f"draw {place}": values for place, values in enumerate(drawn)}
    if not all(np.isfinite(values).all() for values in columns.values() if values.dtype.kind == "f"):
        raise InputError("Expected a release whose predictions are finite, got one with numbers too large; look at it.")
    return {name: values.tolist() for name, values in columns.items()}
