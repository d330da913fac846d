"""`sordino show RELEASE`: what a release says, post-processing and so free; `sordino report`: the page to hand over."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sordino.cli import library, shared
from sordino.core.results import FORMATS, MOST_ROWS
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, one_of, printable, refuse, whole_number

if TYPE_CHECKING:
    from sordino.core.results import Result
    from sordino.ledger.release import StoredRelease


@shared.command(
    "show",
    "Show coefficients, margins or answers, with intervals; costs no budget.",
    "sordino show release",
    "sordino show release --level 0.9 --contrast age=1,dose=-1 --wald age,dose",
    "sordino show release --margins age --format latex --out margins.tex",
    "sordino show release --plot forest.svg --json",
)
def show(
    release: shared.ReleaseFolder,
    level: Annotated[float, Option(help="Level of intervals, in (0, 1).")] = 0.95,
    contrast: Annotated[shared.Words, Option(help="A sum of coefficients, age=1,dose=-1; may be repeated.")] = None,
    wald: Annotated[shared.Words, Option(help="Names age,dose: the test that all are 0; may be repeated.")] = None,
    margins: Annotated[shared.Words, Option(help="Mean outcomes by a column's values, or all; repeatable.")] = None,
    effects: Annotated[bool, Option("--effects", help="Effects as differences of mean outcomes.")] = False,
    at: Annotated[shared.Words, Option(help="With --margins or --effects: fix ward=surgery; may be repeated.")] = None,
    over: Annotated[Path | None, Option(help="With --margins or --effects: average over this public table.")] = None,
    draws: Annotated[int | None, Option(help="Print so many draws of the coefficients instead: CSV or JSON.")] = None,
    seed: Annotated[int | None, Option(help="With --draws: a seed that repeats them.")] = None,
    plot: Annotated[Path | None, Option(help="Write a forest plot here, as SVG.")] = None,
    form: Annotated[str | None, Option("--format", help=f"One of {', '.join(FORMATS)}; absent: text.")] = None,
    out: shared.OutFile = None,
    as_json: shared.AsJson = False,
) -> None:
    """Show a release in the units of the table.

    A fit by bounded influence has estimates, standard errors, intervals, z, p-values, odds or rate ratios, and the
    shares of each variance: sampling, privacy and prior. Other methods have estimates, intervals only if their
    coverage was measured, and no tests. --margins and --effects show mean outcomes: probabilities, rates or means
    in the units of the target. The command reads the folder and no private row, and costs no budget.
    """
    number("level", level, OPEN_UNIT)
    shared.check_ending("--plot", plot, ".svg")
    shape = "json" if as_json else one_of("--format", form or "text", FORMATS)
    if as_json and form not in (None, "json"):
        raise InputError(f"`--json` cannot be combined with `--format {form}`.")
    if draws is not None:
        whole_number("--draws", draws, Interval(1, 1_000_000))
        one_of("--format with --draws", shape if form or as_json else "csv", ("csv", "json"))
    outcomes = bool(margins or effects)
    if (at or over is not None) and not outcomes:
        raise InputError("`--at` and `--over` need `--margins` or `--effects`.")
    if outcomes + (draws is not None) + bool(contrast or wald or plot) > 1 or (margins and effects):
        raise InputError("--margins, --effects, --draws, and --contrast with --wald and --plot cannot be combined.")
    from sordino.inference.release import read_release  # noqa: PLC0415

    stored = read_release(release)
    if library.task_of(stored.settings) is None:
        if contrast or wald or plot is not None or outcomes or draws is not None:
            raise InputError(f"This release is a {stored.kind}. Omit these options, which are about fits.")
        table, names = stored.summary(level), ("answers", "bands", "models", "about", "level")
        kept = {name: stored.settings[name] for name in names if name in stored.settings}
        answer = table.as_dict() if isinstance(table, library.Summary) else kept
        _answer({"release": str(release)} | answer, table, shape, out)
    elif draws is not None:
        drawn = {name: values.tolist() for name, values in library.named_draws(stored, draws, seed).items()}
        _print(shared.json_text(drawn) + "\n" if shape == "json" else library.as_csv(drawn), out)
    elif outcomes:
        names = None if effects or "all" in (margins or ()) else margins
        fixed = dict(map(_fixed, at or ()))
        kept = {"at": fixed, "over": None if over is None else str(over), "level": level}
        made = library.effects(stored, names, **kept) if effects else library.margins(stored, names, **kept)
        _answer({"release": str(release)} | made.as_dict(), made, shape, out)
    else:
        _coefficients(stored, release, level, contrast or [], wald or [], plot, shape, out)


def _answer(answer: dict[str, Any], shown: "Result", form: str, out: Path | None, more: str = "") -> None:
    """A table in one of the forms, to stdout or to a file."""
    if form == "text":
        text = shown.text(MOST_ROWS if out is None else None) + more
    else:
        text = shared.json_text(answer) if form == "json" else shown.to(form)
    _print(text.rstrip("\n") + "\n", out)


def _print(text: str, out: Path | None) -> None:
    shared.put(text, out)
    if out is not None:
        typer.echo(printable(f"written: {out}"))


def _fixed(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark or not name.strip():
        raise refuse("--at", "to read like ward=surgery", text)
    return name.strip(), value.strip()


def _coefficients(
    stored: "StoredRelease",
    folder: Path,
    level: float,
    contrast: list[str],
    wald: list[str],
    plot: Path | None,
    form: str,
    out: Path | None,
) -> None:
    found = library.summary_of(stored, level)
    sums, tests = [], []
    if contrast or wald:
        known = library.coefficients_of(stored)
        sums = [library.contrast(known, library.parsed_contrast(words), level) for words in contrast]
        tests = [library.wald(known, library.parsed_names(known, words)) for words in wald]
    if form not in ("text", "json") and (sums or tests):
        raise InputError(f"`--contrast` and `--wald` have no format {form}. Use text or json.")
    if plot is not None:
        if not found.tested or not library.forest_rows(found.lines, ratio=False):
            raise InputError("`--plot` needs a release with intervals; this one has none. Omit `--plot`.")
        target = None if stored.schema is None or stored.schema.target is None else stored.schema.target.name
        shared.write_text(plot, library.forest_figure(found, target or ""))
    extra = {"contrasts": [one.as_dict() for one in sums], "wald": [one.as_dict() for one in tests]}
    answer = {"release": str(folder)} | found.as_dict() | extra | {"plot": plot}
    more = "\n\n" + library.lines_as_text(found, sums) if sums else ""
    more += "".join(f"\n\n{one}" for one in tests)
    more += f"\n\nforest plot: {printable(str(plot))}" if plot is not None else ""
    _answer(answer, found, form, out, more)


@shared.command(
    "report",
    "Write an HTML page about releases, to hand over.",
    "sordino report release --ledger clinic.ledger --out clinic.html",
    "sordino report first-release second-release --out both.html",
)
def report(
    releases: Annotated[list[Path], Argument(metavar="RELEASE", help="Release folders.")],
    audit: Annotated[Path | None, Option(help="Output of `sordino audit --json`. Default: RELEASE/audit.json.")] = None,
    ledger: Annotated[Path | None, Option(help="Ledger that was charged, to compare with.")] = None,
    out: Annotated[Path, Option(metavar="PATH.html", help="The page to write.")] = Path("report.html"),
    as_json: shared.AsJson = False,
) -> None:
    """Write one self-contained page that opens offline in any browser.

    What must not be published goes to a second, watermarked page beside it. Certificates are recomputed from the
    folders. The page says No, and the command exits with code 2, if anything contradicts a release: a different
    certificate or plan, a changed file, an invalid signature, an audit above the certificate or, with --ledger, a
    charge that differs.
    """
    shared.check_ending("--out", out, ".html", ".htm")
    if audit is not None and len(releases) != 1:
        raise InputError(f"`--audit` is for one release; there are {len(releases)}. Put audit.json into each folder.")
    book = None if ledger is None else library.Ledger.at(ledger)
    with shared.progress(2 * len(releases)) as begin:
        subjects = []
        for folder in releases:
            begin(f"certifying {printable(str(folder))} again")
            subjects.append(library.open_subject(folder, audit, book))
        subjects = library.paid_once(subjects)
        written = library.write_report(subjects, out, begin)
    listed = [
        {name: getattr(one, name) for name in ("name", "may_leave", "understated", "unverified")}
        | {"epsilon": library.finite(one.epsilon), "delta": one.release.delta}
        | {"as_charged": None if book is None else not one.not_as_charged}
        | {"discrepancies": [words for _, words in one.discrepancies]}
        | {"verdict": None if one.verdict is None else one.verdict.kind.value}
        for one in subjects
    ]
    compared = "" if ledger is not None else "; the charge was not compared with a ledger (--ledger)"
    said = {written.private: f"may be published{compared}", written.non_private: "NON-PRIVATE, must not be published"}
    lines = [f"{page}: {words}" for page, words in said.items() if page is not None]
    lines += [f"{subject.name}: {subject.unverified}" for subject in subjects if subject.unverified]
    shared.answer(as_json, written._asdict() | {"releases": listed}, *lines)
    for subject in subjects:
        if subject.discrepancies:
            raise InputError(f"{subject.name} must not be published: {subject.discrepancy}")
