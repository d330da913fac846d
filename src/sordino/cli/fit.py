"""`sordino fit MODEL DATA`: a private posterior as a release folder; `sordino plan MODEL`: what to expect of one."""

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sordino.cli import library, shared
from sordino.cli.sign import PassphraseFile, signing_key
from sordino.core.bound import floating_point_answer
from sordino.core.validate import InputError, one_of, printable, refuse
from sordino.fitting.tasks.base import FALLBACK, MODELS

if TYPE_CHECKING:
    from sordino.ledger.release import StoredRelease
    from sordino.ledger.signing_keys import SigningKey

_MODELS = shared.among(lambda: MODELS)
OPTIONS = {one.name: one for task, _ in MODELS.values() for one in task.options}
_METHOD = "auto takes one with reliable intervals, else the least expected error. An unknown word prints the list."
_KEEP = "With --engine: file that keeps finished rounds, to resume without a second debit. As private as the rows."
_EFFECT = (
    "COLUMN=VALUE in the table's units, may be repeated: the power to detect it. A bare VALUE applies to every "
    "column; for a number it is the effect of half the declared range."
)


@shared.command(
    "fit",
    "Fit a private model to a CSV or Parquet file.",
    "sordino fit logistic patients.csv --schema schema.json --epsilon 1 --delta 1e-6 --relation replace-one "
    "--ledger clinic.ledger --out release",
)
@shared.with_options(OPTIONS.values())
def fit(
    model: Annotated[str, Argument(metavar="MODEL", help=f"One of {', '.join(MODELS)}.", autocompletion=_MODELS)],
    data: shared.PrivateRows,
    schema: shared.SchemaFile,
    epsilon: Annotated[float, Option(help="Epsilon of this fit, > 0.")],
    delta: shared.Delta,
    relation: shared.RelationWord,
    out: shared.OutFolder,
    method: Annotated[str, Option(help=_METHOD)] = "auto",
    or_constant: Annotated[bool, Option("--or-constant", help="Learn a constant if the budget is too small.")] = False,
    formula: Annotated[str | None, Option(help="Such as 'ill ~ age + ward + age:ward'. Default: all columns.")] = None,
    ledger: shared.LedgerFile = None,
    key: Annotated[Path | None, Option(metavar="KEY", help="Private key to sign the release with.")] = None,
    passphrase_file: PassphraseFile = None,
    engine: shared.EngineWord = None,
    keep: Annotated[Path | None, Option(metavar="FILE", help=_KEEP)] = None,
    whole_units: Annotated[bool, Option("--whole-units", help="Declare that no unit has rows in two files.")] = False,
    seed: shared.Seed = None,
    as_json: shared.AsJson = False,
    settings: Any = None,
) -> None:
    """Fit a private model: plan, certify, debit the ledger, read the rows, and write what may be published.

    Before the debit Sordino checks what is public: the header, the types and, under replace-one, the number of records
    or units. Cells are read after the debit. A cell that the schema refuses stops the fit then, so run `sordino schema
    check` first. If the declared numbers show that the budget is too small to learn from, the fit is refused and
    nothing is spent. With --or-constant it learns the best constant instead, warns on stderr, and the release says so.
    The unit of privacy is a record, or what the schema declares: all records that share a value of a column.
    """
    one_of("MODEL", model, MODELS)
    if keep is None or not keep.exists():
        shared.check_out(out)
    signer = None if key is None else signing_key(key, passphrase_file)  # read before anything is spent
    task, fixed = MODELS[model]
    for name in settings:
        if OPTIONS[name] not in task.options or name in fixed:
            taking = [word for word, (one, own) in MODELS.items() if OPTIONS[name] in one.options and name not in own]
            option = name.replace("_", "-")
            raise InputError(f"`--{option}` is for {' or '.join(taking)} only; omit it for {model!r}.")
    settings |= {"epsilon": epsilon, "delta": delta, "relation": relation, "method": method}
    if or_constant:
        if method != "auto":
            raise InputError(f"`--or-constant` needs `--method auto`; it cannot be combined with {method!r}.")
        if FALLBACK not in task.methods:
            raise InputError(f"The model {model} has no constant. Omit `--or-constant`.")
        settings["method"] = "auto-or-constant"
    if engine is not None:
        settings |= {"engine": engine, "whole_units": whole_units, "keep": keep}
    elif keep is not None or whole_units:
        alone = "--keep" if keep is not None else "--whole-units"
        raise InputError(f"`{alone}` needs `--engine`.")
    settings |= {"ledger": ledger, "seed": seed, "store": partial(_stored, out, signer, keep)}
    release = _fitted(model, data, schema, settings, formula)
    bound, floating, view = release.bound, floating_point_answer(release.bound), release.spec.view.value
    learned = {name: release.settings[name] for name in ("task", "method", library.EXPECTED_ERROR)}
    if as_json:
        more = {"view": view, "citation": str(bound.citation), "floating_point": floating}
        shared.answer(True, shared.charged_json(release, out) | learned | more)
        return
    found, compared = library.summary_of(release), "" if ledger is None else f" --ledger {ledger}"
    shared.answer(
        False,
        None,
        *release.cautions[:1],
        *([*library.text_table(*found.cells).splitlines(), ""] if found.lines else ()),
        f"fit       {learned['task']} by {learned['method']}",
        *shared.charged_lines(release, out, f", {view} ({bound.theorem}: {bound.citation})"),
        f"rounding  {floating['evidence']}: {floating['reason']}",
        f"read it   sordino show {out}; hand it over: sordino report {out}{compared}",
    )


def _fitted(model: str, data: str, schema: Path, settings: dict[str, Any], formula: str | None) -> "StoredRelease":
    declared = library.read_schema(schema)
    if formula is not None:
        declared = library.with_formula(declared, formula)
    shown = (library.BudgetWarning, library.DeltaWarning, library.ContentWarning)
    with warnings.catch_warnings(record=True) as caught:
        for category in shown:
            warnings.simplefilter("always", category)
        with shared.progress(len(library.STAGES)) as begin:
            how: dict[str, Any] = {"begin": lambda stage: begin(f"{model}: {stage}")} | settings
            release = library.fit_table(model, data, schema=declared, **how)
    # For the person at the terminal only: what was seen in private rows stays out of the answer and of the release.
    for sentence in [str(warning.message) for warning in caught if issubclass(warning.category, shown)]:
        typer.echo(printable(f"sordino: WARNING: {sentence}"), err=True)
    return release


def _stored(out: Path, signer: "SigningKey | None", keep: Path | None, release: "StoredRelease") -> Path:
    """Write the release. What was paid for is not lost where that fails: its rounds are kept, or it lies elsewhere."""
    there = out / library.DOCUMENT
    if keep is not None and there.is_file() and there.read_bytes() == library.release_files(release)[library.DOCUMENT]:
        return out  # the command was stopped after it had written the folder
    try:
        return library.write_release(out, release, signer)
    except InputError as error:
        if keep is not None:
            kept = f"Nothing is lost: {str(keep)!r} contains every paid answer"
            raise InputError(f"{error} {kept}. Repeat the command when there is room, or with another --out.") from None
        spare = library.write_release(Path(tempfile.mkdtemp(prefix="sordino-")) / out.name, release, signer)
        raise InputError(f"{error} The paid release is in {str(spare)!r} instead; move it.") from None


REGRESSIONS = tuple(word for word, (task, _) in MODELS.items() if task.linear)


@shared.command(
    "plan",
    "Expected widths and power; reads no row, spends nothing.",
    "sordino plan logistic --schema schema.json --records 5000 --epsilon 1 --delta 1e-6 --relation replace-one",
    "sordino plan linear --schema schema.json --epsilon 1 --delta 1e-6 --relation add-remove "
    "--effect treated=2.5 --width treated=1",
)
@shared.with_options({one.name: one for word in REGRESSIONS for one in MODELS[word][0].options}.values())
def plan(
    model: Annotated[str, Argument(metavar="MODEL", help=f"One of {', '.join(REGRESSIONS)}.")],
    schema: shared.SchemaFile,
    epsilon: Annotated[float, Option(help="Epsilon of the fit, > 0.")],
    delta: shared.Delta,
    relation: shared.RelationWord,
    records: Annotated[int | None, Option(help="Number of records or units. Default: the schema's number.")] = None,
    effect: Annotated[list[str] | None, Option(help=_EFFECT)] = None,
    width: Annotated[list[str] | None, Option(help="Like --effect: the epsilon for an interval of this width.")] = None,
    power: Annotated[float, Option(help="Power for the minimum detectable effect.")] = 0.8,
    level: Annotated[float, Option(help="Level of intervals, in (0, 1).")] = 0.95,
    plot: Annotated[Path | None, Option(help="Write the curve over epsilon here, as SVG.")] = None,
    as_json: shared.AsJson = False,
    settings: Any = None,
) -> None:
    """Predict the precision of a private regression: standard errors, widths, power, and a curve over epsilon.

    It uses declared numbers only: no row is read and nothing is spent. Figures are expectations for columns of
    typical spread. If the budget is too small, the answer names the epsilon you need.
    """
    one_of("MODEL", model, REGRESSIONS)
    shared.check_ending("--plot", plot, ".svg")
    effects, widths = (_by_column(name, given) for name, given in (("--effect", effect), ("--width", width)))
    budget = {"records": records, "epsilon": epsilon, "delta": delta, "relation": relation}
    made = library.plan(model, schema, **budget, **settings, level=level, effect=effects, width=widths, power=power)
    if plot is not None:
        shared.write_text(plot, library.widths_figure(made))
    drawn = () if plot is None else ("", f"curve: {plot}")
    shared.answer(as_json, made.as_dict() | {"plot": plot}, *str(made).split("\n"), *drawn)


def _by_column(option: str, given: list[str] | None) -> dict[str, float] | float | None:
    if not given:
        return None
    found: dict[str, float] = {}
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise refuse(option, "to be COLUMN=VALUE or VALUE", text) from None
    if "" not in found:
        return found
    if len(given) > 1:
        raise refuse(option, "to be one VALUE for all columns, or COLUMN=VALUE for each", given)
    return found[""]
