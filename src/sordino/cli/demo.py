"""`sordino demo`: the main job on public data; `sordino reproduce`: items in `papers/` of a checkout, not installed."""

import importlib
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sordino.cli import library
from sordino.cli.audit import VIOLATED
from sordino.cli.shared import AsJson, command, json_text, progress, write_text
from sordino.core.gaussian import show_down, show_up
from sordino.core.validate import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sordino.ledger import Ledger

    Say = Callable[[str], None]

EPSILON, DELTA = 1.0, 1e-6
BUDGET_EPSILON, BUDGET_DELTA = 3.0, 1e-5
MOST_VISITS = 20.0  # declared before looking: visits beyond this many in a year count as this many
AUDIT_FILE = "audit.json"


# What is asked, by the folder of its release.
_QUESTIONS = {
    "any-visit": "Is there a visit to a doctor in the year? (logistic regression)",
    "visits": f"How many visits, counted up to {MOST_VISITS:g}? (robust regression)",
}


@command("demo", "Do the main job on real data: fit, certify, audit, report.", "sordino demo --out my-first-run")
def demo(
    out: Annotated[Path | None, Option(help="New folder for the output. Default: a fresh one under out/.")] = None,
    seed: Annotated[int | None, Option(help="For a reproducible run; its output is NON-PRIVATE.")] = None,
    as_json: Annotated[bool, Option("--json", help="Machine-readable answer on stdout, and no other.")] = False,
) -> None:
    """Fit two private models to the RAND Health Insurance Experiment at epsilon 1, and write their report.

    Takes about a minute. The extra `demo` brings the data.
    """
    numbered = (Path("out") / f"demo-{number}" for number in count(1))
    folder = next(path for path in numbered if not path.exists()) if out is None else out
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise InputError(f"{str(folder)!r} exists already. Name a new folder for --out.") from None
    except OSError as error:
        raise InputError(f"Expected a writable place for {str(folder)!r}, got: {error.strerror}.") from None
    say: Say = (lambda _: None) if as_json else typer.echo
    say(
        f"RAND Health Insurance Experiment: {library.rand_health_schema().records} records, each one year of one "
        "person.\n"
        "Bounds and categories come from a public schema; no row is read to choose a setting.\n"
        "The certificate protects one record. A person may have several, up to 5, and the table does not say which\n"
        "ones belong together. The report therefore also bounds what 5 records together can reveal.\n"
    )
    ledger = library.Ledger.open(folder / "rand.ledger", "RAND HIE", "replace-one", BUDGET_EPSILON, BUDGET_DELTA)
    done = [_fitted(name, folder, ledger, seed, say) for name in _QUESTIONS]
    balance = ledger.balance()
    say(f"Ledger: {balance.sentence}.\n")
    with progress(len(_QUESTIONS)) as begin:
        subjects = [library.open_subject(folder / name, ledger=ledger) for name in _QUESTIONS]
        written = library.write_report(subjects, folder / "report.html", begin)
    if as_json:
        made = {"folder": folder, "releases": done, "ledger": balance.to_dict(), "report": written._asdict()}
        typer.echo(json_text(made))
    if written.private is not None:
        say(f"Report, may be published: {written.private}")
    if written.non_private is not None:
        say(f"Report, NON-PRIVATE because of --seed: {written.non_private}")
    say("Open it in a browser; it works offline. Next, your own table: sordino start YOUR.csv")
    if any(release["audit"] is not None and release["audit"]["verdict"] == "violated" for release in done):
        raise typer.Exit(VIOLATED)


def _fitted(name: str, folder: Path, ledger: "Ledger", seed: int | None, say: "Say") -> dict[str, Any]:
    """Fit, store and show one model, with how tight its certificate is."""
    say(_QUESTIONS[name])
    loaded, kind = library.rand_health(name), library.PrivateLogisticRegression
    schema = loaded.schema
    if name == "visits":
        kind = library.PrivateRobustRegression
        schema = schema.with_target(library.Target("mdvis", library.Number(0.0, MOST_VISITS)))
    paid: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "relation": "replace-one", "ledger": ledger}
    model = kind(schema=schema, **paid, random_state=seed).fit(loaded.table)
    release = model.release_
    library.write_release(folder / name, release)
    say(f"  certified epsilon <= {show_up(release.epsilon)} at delta {DELTA:g}, replace-one ({release.bound.theorem})")
    if release.protected.group is not None:
        say(f"  {release.protected.group.sentence}")
    done: dict[str, Any] = {"name": name, "method": model.method_, "epsilon": release.epsilon, "delta": DELTA}
    done |= release.protected.to_dict() | {"theorem": release.bound.theorem, "private": release.private, "audit": None}
    try:
        lower = library.audit(release.spec, "exact", library.AuditOptions(delta=DELTA))
    except InputError as refused:
        say(f"  tightness of the description not known: {refused}")
    else:
        answer = lower.answer(release.bound, release.spec.unit)
        write_text(folder / name / AUDIT_FILE, json_text(answer) + "\n")
        epsilon, kind = answer["lower_bound"]["epsilon"], answer["verdict"]["kind"]
        done["audit"] = {"epsilon": epsilon, "verdict": kind, "examined": answer["examined"]}
        words = library.VerdictKind(kind).words
        say(f"  described epsilon >= {show_down(lower.epsilon)} ({words}; the code was not run)")
    for caution in model.cautions_:
        say(f"  {caution}")
    lines = library.summary_of(release)
    say(f"  method {model.method_}; coefficients in the units of the table")
    table = library.text_table(*lines.cells) if lines.lines else ""
    say("\n".join(f"    {line}" for line in table.splitlines()) + "\n")
    return done


@command("reproduce", "Reproduce figures and tables of the papers.", "sordino reproduce heller-fetaya-fig1 --quick")
def reproduce(
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Items to run; see --list.")] = None,
    every: Annotated[bool, Option("--all", help="Run every item whose data are available.")] = False,
    listed: Annotated[bool, Option("--list", help="List the items and what they reproduce.")] = False,
    out: Annotated[Path | None, Option(metavar="DIR", help="Default: papers/; with --quick, results/.")] = None,
    data_dir: Annotated[Path | None, Option(metavar="DIR", help="Folder of benchmark data.")] = None,
    quick: Annotated[bool, Option("--quick", help="Fewer points and smaller runs.")] = False,
    checked: Annotated[bool, Option("--check", help="Write nothing; list differences from --out.")] = False,
    afresh: Annotated[bool, Option("--afresh", help="Also repeat the recorded runs: hours, some on a GPU.")] = False,
    seed: Annotated[int, Option(min=0, help="Seed of everything random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Reproduce figures and tables of the papers, and compare them with the printed numbers."""
    if sum((bool(names), every, listed)) != 1:
        raise InputError("Give one of NAME..., --all and --list. See sordino reproduce --help.")
    if listed and checked:
        raise InputError("`--check` cannot be combined with `--list`.")
    if afresh and (listed or quick):
        raise InputError("`--afresh` cannot be combined with `--list` or `--quick`.")
    if data_dir is not None and not data_dir.is_dir():
        raise InputError(f"{str(data_dir)!r} is not a folder. Give an existing one as --data-dir.")
    papers = _papers_command()
    if listed:
        papers.list_items(as_json)
    else:
        run = papers.check if checked else papers.reproduce
        target = out or (Path("results") if quick else papers_folder())
        run(None if every else tuple(names or ()), papers.Options(quick, data_dir, seed), target, as_json, afresh)


def papers_folder() -> Path | None:
    """The folder `papers/` of the checkout this package runs from, or None where it is installed without one."""
    folder = Path(__file__).resolve().parents[3] / "papers"
    return folder if (folder / "framework" / "item.py").is_file() else None


def _papers_command() -> Any:
    """The module of the checkout that runs items, or a refusal that says where the papers are."""
    root = papers_folder()
    if root is None:
        raise InputError("There is no folder papers/. Get the source tree and run pip install -e '.[reproduce]' there.")
    if str(root.parent) not in sys.path:
        sys.path.insert(0, str(root.parent))
    return importlib.import_module("papers.framework.command")
