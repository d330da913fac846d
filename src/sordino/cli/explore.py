"""`sordino look`, `sordino explore check|compare|choose`: private questions about a table, and about fits of it."""

from itertools import product
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from sordino.cli import library, shared
from sordino.core.validate import InputError

_QUESTIONS = (
    "count; describe: age; mean: age by ward; histogram: age [bins=20]; quantiles: age [levels=0.5,0.9]; table: ward, "
    "smoker; missing: age; correlation: age, days; test: age by ward; survival: days, died by ward; categories: ward "
    "[above=50]; bounds: days. May be repeated."
)
_PrivateFile = Annotated[Path, Argument(metavar="DATA", help="CSV or Parquet file with private rows.")]


@shared.command(
    "check",
    "Calibration and residuals of a release, on private rows (charged) or public ones (free).",
    "sordino explore check release patients.csv --epsilon 0.2 --delta 1e-6 --ledger clinic.ledger --out check",
    "sordino explore check release published-rows.csv --public",
)
def check(
    release: Annotated[Path, Argument(metavar="RELEASE", help="Release folder of a fit.")],
    data: Annotated[Path, Argument(metavar="DATA", help="CSV or Parquet file with rows and their targets.")],
    public: Annotated[bool, Option("--public", help="The rows are public: exact, and nothing is charged.")] = False,
    epsilon: Annotated[float | None, Option(help="Private rows only: epsilon of the check, > 0.")] = None,
    delta: Annotated[float | None, Option(help="Private rows only: delta in (0, 1).")] = None,
    ledger: shared.LedgerFile = None,
    out: Annotated[Path | None, Option(help="Private rows only: release folder to make.")] = None,
    bands: Annotated[int, Option(help="Number of prediction bands, 2 to 50.")] = 8,
    level: shared.Level = 0.95,
    seed: shared.Seed = None,
    as_json: shared.AsJson = False,
) -> None:
    """Compare the predictions of a release with rows, band by band.

    Classes: the observed share minus the predicted one. Numbers and counts: the mean residual in predicted standard
    deviations. On private rows this is one noised sum, charged under the relation of the release before the rows'
    values are used. On public rows it is exact. Predictions are those at the posterior's mean coefficients.
    """
    if out is not None:
        shared.check_out(out)
    if not public and out is None:
        raise InputError("A check of private rows needs `--out`, the release folder to make.")
    spent = {"epsilon": epsilon, "delta": delta, "ledger": ledger}
    how = {"public": public, "bands": bands, "level": level, "random_state": seed}
    found = library.check(library.read_release(release), str(data), **how, **spent)
    text = str(found).splitlines()
    if out is not None and found.release is not None:
        shared.released(as_json, out, found.release, found.as_dict(), *text)
    else:
        shared.answer(as_json, {"release": None} | found.as_dict(), *text)


@shared.command(
    "compare",
    "Compare released models on private rows, for one charge.",
    "sordino explore compare patients.csv small large --epsilon 0.2 --delta 1e-6 --ledger clinic.ledger "
    "--out comparison",
)
def compare(
    data: _PrivateFile,
    releases: Annotated[list[Path], Argument(metavar="RELEASE...", help="Release folders, two or more.")],
    epsilon: Annotated[float, Option(help="Epsilon of the comparison, > 0.")],
    delta: shared.Delta,
    out: shared.OutFolder,
    ledger: shared.LedgerFile = None,
    level: shared.Level = 0.95,
    seed: shared.Seed = None,
    as_json: shared.AsJson = False,
) -> None:
    """Compare released models by their loss on private rows.

    All losses together are one noised sum, charged under the relation of the releases before the rows' values are used.
    Differences from the first model have an interval about the table itself, and one for records like these.
    """
    shared.check_out(out)
    if len({str(one) for one in releases}) < len(releases):
        raise InputError("A release is named twice. Name each once.")
    given = {str(one): library.read_release(one) for one in releases}
    spent = {"epsilon": epsilon, "delta": delta, "ledger": ledger}
    found = library.compare(given, str(data), **spent, level=level, random_state=seed)
    shared.released(as_json, out, found.release, found.as_dict(), *str(found).splitlines())


@shared.command(
    "choose",
    "Choose among models by their loss on private rows, for one charge.",
    "sordino explore choose logistic patients.csv --candidate 'ill ~ age' --candidate 'ill ~ age + ward' "
    "--schema schema.json --epsilon 1 --delta 1e-6 --relation replace-one --ledger clinic.ledger --out chosen",
)
def choose(
    model: Annotated[str, Argument(metavar="MODEL", help="A regression; an unknown word is answered with the list.")],
    data: _PrivateFile,
    schema: shared.SchemaFile,
    epsilon: Annotated[float, Option(help="Epsilon of the choice and the resulting fit, > 0.")],
    delta: shared.Delta,
    relation: shared.RelationWord,
    out: shared.OutFolder,
    candidate: Annotated[shared.Words, Option(metavar="FORMULA", help="'ill ~ age'; may be repeated.")] = None,
    effect_scale: Annotated[list[float] | None, Option(help="Try each with this effect size; may be repeated.")] = None,
    trials: Annotated[float | None, Option(help="Expected number of trials. Default: eight per candidate.")] = None,
    ledger: shared.LedgerFile = None,
    seed: shared.Seed = None,
    as_json: shared.AsJson = False,
) -> None:
    """Choose among models, or settings of one, by their loss on private rows, and keep the best fit.

    Each trial draws a candidate, fits it with noise and scores it with fresh noise. The number of trials is random and
    secret, and only the best trial is released. So the whole choice costs little more than one trial: one charge,
    before anything is computed from the rows' values. Trials get less of the budget than a single fit would. Intervals
    ignore the choice. The running time reveals something about the number of trials: keep it to yourself.
    """
    shared.check_out(out)
    if not candidate and not effect_scale:
        raise InputError("Give `--candidate` or `--effect-scale`: what to choose from.")
    given = []
    for formula, scale in product(candidate or [None], effect_scale or [None]):
        name = (formula or "all columns") + ("" if scale is None else f" [effect scale {scale:g}]")
        given.append(library.Candidate(name, formula, None if scale is None else {"effect_scale": scale}))
    spent = {"epsilon": epsilon, "delta": delta, "relation": relation, "ledger": ledger}
    found = library.choose(model, str(data), given, schema=schema, trials=trials, random_state=seed, **spent)
    library.write_release(out, found.release)
    chosen = found.release.settings[library.CHOSEN]
    shared.answer(
        as_json,
        shared.charged_json(found.release, out) | dict(chosen),
        f"chosen    {found.name}",
        f"loss      {found.loss:.4g} of 1 on average, noise {chosen['loss_noise']:.2g}",
        f"trials    {chosen['expected_trials']:.3g} expected; a candidate is never drawn with a chance of "
        f"{100 * chosen['chance_of_no_trial']:.1f} %",
        *shared.charged_lines(found.release, out),
        f"read it   sordino show {out}",
    )


@shared.command(
    "look",
    "Private summary statistics of a table, for one charge.",
    "sordino look patients.csv --ask 'bounds: days' --records 600 --epsilon 0.1 --delta 1e-6 --relation replace-one "
    "--ledger clinic.ledger --out first-look",
    "sordino look patients.csv --schema schema.json --describe --epsilon 0.5 --delta 1e-6 --relation replace-one "
    "--ledger clinic.ledger --out description",
)
def look(
    data: shared.PrivateRows,
    epsilon: Annotated[float, Option(help="Epsilon of the whole list, > 0.")],
    delta: shared.Delta,
    relation: shared.RelationWord,
    out: shared.OutFolder,
    ask: Annotated[shared.Words, Option(metavar="QUESTION", help=_QUESTIONS)] = None,
    describe: Annotated[bool, Option("--describe", help="Describe every declared column: `--ask describe`.")] = False,
    schema: Annotated[Path | None, Option(help="Public schema file; not needed if you ask only for bounds.")] = None,
    records: Annotated[int | None, Option(help="Number of records, if there is no schema.")] = None,
    ledger: shared.LedgerFile = None,
    level: shared.Level = 0.95,
    lines: Annotated[Path | None, Option(help="Write suggested bounds here, for `schema new --declare`.")] = None,
    seed: shared.Seed = None,
    engine: shared.EngineWord = None,
    as_json: shared.AsJson = False,
) -> None:
    """Answer a list of questions about a private table with noise, for one charge.

    Questions are checked against the header and the schema before anything is spent. The ledger is debited before
    anything is computed from the rows' values. The charge is exactly the cost of all answers together. No cell of a
    file stops a look: one that cannot be read counts as missing, and an undeclared word as other. If the schema has a
    unit, each unit counts once, spread over its records. Suggested bounds are charged, so they may go into a schema.
    """
    shared.check_out(out)
    spent = {"epsilon": epsilon, "delta": delta, "relation": relation, "ledger": ledger}
    how = {"level": level, "random_state": seed, "engine": engine}
    questions = [*(("describe",) if describe else ()), *(ask or ())]
    found = library.look(data, questions, schema=schema, records=records, **spent, **how)
    if lines is not None:
        shared.write_text(lines, "".join(f"{line}\n" for line in found.lines()))
    own = {"level": level, "answers": found.release.settings["answers"], "lines": list(found.lines())}
    shared.released(as_json, out, found.release, own, *str(found).splitlines())


app = shared.group("Check a fit, compare fits, or choose among models, privately.", check, compare, choose)
