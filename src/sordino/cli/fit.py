"""`sordino fit MODEL DATA`: a private posterior from a CSV or Parquet file, as a release folder."""

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli import shared
from sordino.cli.key import PassphraseFile, signing_key
from sordino.cli.shared import (
    AsJson,
    Delta,
    EngineWord,
    LedgerFile,
    OutFolder,
    PrivateRows,
    RelationWord,
    SchemaFile,
    Seed,
    charged_json,
    check_out,
    print_charged,
    print_json,
    progress,
)
from sordino.core.bound import floating_point_answer
from sordino.core.validate import InputError, one_of, printable

if TYPE_CHECKING:
    from sordino.ledger.release import StoredRelease
    from sordino.ledger.signing.keys import SigningKey

MODELS = (
    "linear",
    "logistic",
    "robust",
    "poisson",
    "negative-binomial",
    "cox",
    "network-regressor",
    "network-classifier",
    "mixture",
)
SHORT = "Fit a private model to a CSV or Parquet file."
EXAMPLES = (
    "sordino fit logistic patients.csv --schema schema.json --epsilon 1 --delta 1e-6 --relation replace-one "
    "--ledger clinic.ledger --out release",
)


def command(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help=f"One of {', '.join(MODELS)}.", autocompletion=shared.models),
    ],
    data: PrivateRows,
    schema: SchemaFile,
    epsilon: Annotated[float, typer.Option(help="Epsilon of this fit, > 0.")],
    delta: Delta,
    relation: RelationWord,
    out: OutFolder,
    method: Annotated[
        str,
        typer.Option(
            help="How to fit; auto rehearses on data drawn from the schema and takes the method whose intervals hold, "
            "or that of least predicted error. An unknown word is answered with the list of methods.",
            autocompletion=shared.methods,
        ),
    ] = "auto",
    or_constant: Annotated[
        bool,
        typer.Option(
            "--or-constant",
            help="Where the budget is too small to learn from, learn the best constant, and say so; without it the "
            "fit is refused before anything is spent.",
        ),
    ] = False,
    components: Annotated[int | None, typer.Option(help="Components of a mixture; absent: 2.")] = None,
    exposure: Annotated[
        str | None, typer.Option(help="Of counts: the declared column that says how long a record was watched.")
    ] = None,
    overdispersed: Annotated[
        bool, typer.Option("--overdispersed", help="Of poisson: the same as the model negative-binomial.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(help="Of cox: the declared column of times; the target says whether the event happened then."),
    ] = None,
    bins: Annotated[
        str | None,
        typer.Option(help="Of cox: time bins, as a number of equal ones, or edges such as 0,1,2,4; absent: 4."),
    ] = None,
    effect_scale: Annotated[
        float | None,
        typer.Option(
            help="Of regressions: how large effects are taken to be before the data speak, as a standard deviation; "
            "absent: 1 for log odds, log rates and log hazards, a twentieth of the target's range otherwise."
        ),
    ] = None,
    formula: Annotated[
        str | None,
        typer.Option(
            help="Target and columns of the schema that the model takes, such as 'ill ~ age + ward + age:ward'; "
            "absent: all of them. Needs sordino[formula]."
        ),
    ] = None,
    ledger: LedgerFile = None,
    key: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Private key file that signs the release; absent: not signed.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    engine: EngineWord = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --engine: keep every round here until the release is made. The same command after a stop goes "
            "on from there and is not debited again. As private as the rows.",
        ),
    ] = None,
    whole_units: Annotated[
        bool,
        typer.Option("--whole-units", help="Declare that no unit has records in two files, so that none are moved."),
    ] = False,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Fit a private model: plan, certify, debit the ledger, read the rows, and write what may leave.

    What is public is checked before the ledger is debited: header, types and, under replace-one, how many records or
    units there are. Cells are read after the debit, and one that the schema refuses stops the fit then: run `sordino
    schema check` first. Where the declared numbers say that the budget is too small to
    learn from, the fit is refused and nothing is spent; with --or-constant the best constant is learned instead, a
    warning goes to stderr, and the release says so. The unit of privacy is a record, or
    what the schema declares as unit: all records that share a value of a column.
    """
    one_of("MODEL", model, MODELS)
    if keep is None or not keep.exists():
        check_out(out)
    # Read before anything is spent.
    signer = None if key is None else signing_key(key, passphrase_file)
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "relation": relation, "method": method}
    if or_constant:
        settings["method"] = _or_constant(model, method)
    given = {
        "components": components,
        "exposure": exposure,
        "overdispersed": overdispersed or None,
        "time": time,
        "bins": None if bins is None else shared.time_bins(bins),
        "effect_scale": effect_scale,
    }
    settings |= {name: _for_model(model, name, value) for name, value in given.items() if value is not None}
    if engine is not None:
        settings |= {"engine": engine, "whole_units": whole_units, "keep": keep}
    elif keep is not None:
        raise InputError("Expected --keep with --engine, got it alone; leave it out.")
    elif whole_units:
        raise InputError("Expected --whole-units with --engine, got it alone; leave it out.")
    settings |= {"ledger": ledger, "seed": seed, "store": partial(_stored, out, signer, keep)}
    release = _fitted(model, data, schema, settings, formula)
    print_json(_answer(release, out)) if as_json else _print(release, out, ledger)


# Options that are for some models only.
_FOR = {
    "components": ("mixture",),
    "exposure": ("poisson", "negative-binomial"),
    "overdispersed": ("poisson",),
    "time": ("cox",),
    "bins": ("cox",),
    "effect_scale": ("linear", "logistic", "robust", "poisson", "negative-binomial", "cox"),
}


def _for_model(model: str, name: str, value: Any) -> Any:
    if model not in _FOR[name]:
        option, words = name.replace("_", "-"), " or ".join(_FOR[name])
        raise InputError(f"Expected --{option} for {words} only, got it for {model!r}; leave it out.")
    return value


def _or_constant(model: str, method: str) -> str:
    if method != "auto":
        raise InputError(f"Expected --or-constant with method auto, got it with {method!r}; leave one of them out.")
    if model in ("mixture", "poisson", "negative-binomial", "cox"):
        raise InputError(f"Expected --or-constant for a model that has a constant, got it for {model}; leave it out.")
    return "auto-or-constant"


def _fitted(model: str, data: str, schema: Path, settings: dict[str, Any], formula: str | None) -> "StoredRelease":
    from sordino.data import read_schema, with_formula  # noqa: PLC0415
    from sordino.data.sources.csv_files import existing_table  # noqa: PLC0415

    declared = read_schema(schema)
    if formula is not None:
        declared = with_formula(declared, formula)
    existing_table(data)
    from sordino.estimators.bare_arrays import DeltaWarning  # noqa: PLC0415
    from sordino.estimators.fitting import STAGES, BudgetWarning, fit_table  # noqa: PLC0415
    from sordino.ledger import ContentWarning  # noqa: PLC0415

    shown = (BudgetWarning, DeltaWarning, ContentWarning)
    with warnings.catch_warnings(record=True) as caught:
        for category in shown:
            warnings.simplefilter("always", category)
        with progress(len(STAGES)) as begin:
            release = fit_table(
                model, data, schema=declared, begin=lambda stage: begin(f"{model}: {stage}"), **settings
            )
    # For the person at the terminal only: what was seen in private rows stays out of the answer and of the release.
    for sentence in [str(warning.message) for warning in caught if issubclass(warning.category, shown)]:
        typer.echo(printable(f"sordino: WARNING: {sentence}"), err=True)
    return release


def _stored(out: Path, signer: "SigningKey | None", keep: Path | None, release: "StoredRelease") -> Path:
    """Write the release. What was paid for is not lost where that fails: its rounds are kept, or it lies elsewhere."""
    from sordino.ledger.release import write_release  # noqa: PLC0415
    from sordino.ledger.release.folder import DOCUMENT, release_files  # noqa: PLC0415

    there = out / DOCUMENT
    if keep is not None and there.is_file() and there.read_bytes() == release_files(release)[DOCUMENT]:
        return out  # the command was stopped after it had written the folder
    try:
        return write_release(out, release, signer)
    except InputError as error:
        if keep is not None:
            raise InputError(
                f"{error} Nothing is lost: {str(keep)!r} holds every answer that was paid for. Repeat the command when "
                "there is room, or with another --out."
            ) from None
        spare = write_release(Path(tempfile.mkdtemp(prefix="sordino-")) / out.name, release, signer)
        raise InputError(f"{error} The release that was paid for lies in {str(spare)!r} instead; move it.") from None


def _answer(release: "StoredRelease", out: Path) -> dict[str, Any]:
    return charged_json(release, out) | {
        "task": release.settings["task"],
        "method": release.settings["method"],
        "view": release.spec.view.value,
        "citation": str(release.bound.citation),
        "floating_point": floating_point_answer(release.bound),
        "predicted_error": release.settings["predicted_error"],
        "predicted_error_of_constant": release.settings["predicted_error_of_constant"],
    }


def _print(release: "StoredRelease", out: Path, ledger: Path | None) -> None:
    """What was learned, what it cost, and what to type next."""
    from sordino.estimators.inference import summary_of  # noqa: PLC0415
    from sordino.estimators.inference_table import text_table  # noqa: PLC0415

    for caution in release.cautions[:1]:
        typer.echo(printable(caution))
    found = summary_of(release)
    if found.lines:
        typer.echo(text_table(found.header, found.rows) + "\n")
    typer.echo(f"fit       {release.settings['task']} by {release.settings['method']}")
    print_charged(release, out, f", {release.spec.view.value} ({release.bound.theorem}: {release.bound.citation})")
    line = floating_point_answer(release.bound)
    typer.echo(f"floating  {line['evidence']}: {line['reason']}")
    rest = "" if ledger is None else f" --ledger {ledger}"
    typer.echo(printable(f"read it   sordino show {out}; hand it over: sordino report {out}{rest}"))
