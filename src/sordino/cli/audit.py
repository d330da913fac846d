"""`sordino audit RELEASE|SPEC.json|python:module:callable`: a lower bound on what leaks, against what is claimed."""

import importlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Argument, Option

from sordino.cli import library
from sordino.cli.certify import asked_at
from sordino.cli.shared import AsJson, among, check_ending, command, json_text, warn_of_open_scheduler, write_text
from sordino.core.spec import FileDataset, Spec, read_spec
from sordino.core.spec.document import parse, read_text
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.auditing.cluster import FitOnCluster
    from sordino.auditing.hunter.search import HunterOptions
    from sordino.auditing.replay.examine import Implementation

RELEASE_FILE = "release.json"
REPLAY = "replay"
# The exit code of an audit that contradicts the certificate.
VIOLATED = 4


_TARGET = "RELEASE|SPEC.json|python:MODULE:CALLABLE|program:PATH"
_METHODS = (
    "exact (reads the description, runs nothing), attack (trains models of it), fleet (many more in one program), "
    "one-run (trains one), one-run-guesses (one, any noise) or replay (runs the code and compares every noised call "
    "with its plan). Absent: fleet for a network, else exact; for a release replay as well."
)


def _methods() -> tuple[str, ...]:

    return *library.method_names(), REPLAY


@command(
    "audit",
    "Find a lower bound on the privacy loss of a run.",
    "sordino audit release",
    "sordino audit release --out release/audit.json",
    "sordino audit release --method replay --confidence 0.99",
    "sordino audit release --method replay --model mymodule:model",
    "sordino audit spec.json --method attack --models 1000 --confidence 0.95",
    "sordino audit spec.json --method attack --cluster local --workers 4",
    "sordino audit network.json --method fleet --models 2000",
    "sordino audit python:mymodule:mean --claim claim.json --script found.py",
)
def audit(
    path: Annotated[Path, Argument(metavar=_TARGET, help="Release folder, description of a run, or claimed code.")],
    method: Annotated[str | None, Option(help=_METHODS, autocompletion=among(_methods))] = None,
    models: Annotated[int, Option(help="How many models an audit may train in total.")] = 1000,
    delta: Annotated[float | None, Option(help="Delta in (0, 1); overrides the spec's.")] = None,
    confidence: Annotated[float | None, Option(help="Default: 0.95; 0.999 for a claim, 0.9999 for a replay.")] = None,
    seed: Annotated[int | None, Option(help="For a reproducible audit. Default: a fresh seed.")] = None,
    cluster: Annotated[str | None, Option(metavar="ADDRESS", help="Fit on processes (local), or dask.")] = None,
    workers: Annotated[int, Option(min=1, help="Processes of --cluster local.")] = 2,
    keep: Annotated[Path | None, Option(metavar="DIR", help="Keep models here, to resume; needs --seed.")] = None,
    plot: Annotated[Path | None, Option(metavar="PATH.svg", help="Draw the trade-off curves here.")] = None,
    out: Annotated[Path | None, Option(help="Write the JSON here as well; `report` reads RELEASE/audit.json.")] = None,
    claim: Annotated[str | None, Option(metavar="JSON", help="Claim, or a file. Default: CLAIMS[name].")] = None,
    seconds: Annotated[float, Option(help="How long to search; for a replay, of processor time.")] = 60.0,
    call_seconds: Annotated[float, Option(help="With --claim: a call that takes longer is ended.")] = 10.0,
    python: Annotated[str | None, Option(metavar="PATH", help="With --claim: the interpreter of the callable.")] = None,
    script: Annotated[Path | None, Option(metavar="PATH.py", help="With --claim: write a counterexample here.")] = None,
    model: Annotated[str | None, Option(metavar="MODULE:NAME", help="The model behind a `sordino.fit`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute a lower bound on the privacy loss of a described run, and compare it with the certificate.

    The method exact says how tight the certificate of the description is. It runs nothing, so it is no test of the
    code. For a release, replay tests the installed code too: it plans the fit again, runs it on tables drawn from the
    schema, and compares every noised call with its plan on neighbouring tables. A release of `sordino.fit` needs
    --model for that. Without a release, replay runs the described chain. The other methods run the chain on the
    worst-case quadratic of its constants, or on the instance in the spec. A fleet has its own training code. No method
    repeats the run that made a release.

    The verdict is tightness of the description (exact), consistent, violated, inconclusive (this attack could not have
    found a violation) or not comparable; --json names it. Violated exits with code 4. A release folder that contradicts
    itself exits with code 2. No private row is read, unless the spec names a file of them.

    With --claim, Sordino audits code: a callable (a list of records in, anything out) or a program (a line of JSON in,
    one out). The claim is JSON with epsilon, delta, relation and the domain of tables. The code runs on neighbouring
    tables of that domain until an event refutes the claim or time is up. A refuted claim comes with a script that
    counts the event again. A dask scheduler must be trusted.
    """
    if claim is not None or str(path).startswith(("python:", "program:")):
        sure = 0.999 if confidence is None else confidence
        options = library.HunterOptions(
            confidence=sure, seconds=seconds, call_seconds=call_seconds, seed=seed, python=python
        )
        _hunt(str(path), claim, options, script, out, as_json)
        return
    check_ending("--plot", plot, ".svg")
    spec = described(path)

    replay = _Replay(
        path, _document(path), spec, library.CONFIDENCE if confidence is None else confidence, seed, model, seconds
    )
    if method == REPLAY:
        if cluster is not None or keep is not None or plot is not None:
            raise InputError("`--method replay` cannot be combined with `--cluster`, `--keep` or `--plot`.")
        tested = _Tested(replay.run())
        if not _kept(tested.json, out, as_json):
            typer.echo(tested.text)
        if tested.violated:
            raise typer.Exit(VIOLATED)
        return
    contradicted = _contradicted(path)
    tested = replay.of_release() if method is None and os.path.isdir(path) else None
    method = library.usual_method(spec) if method is None else method
    fit_sides = _fit_elsewhere(method, cluster, workers, keep, seed)
    certified, delta = asked_at(spec, delta)
    options = library.AuditOptions(
        delta=delta,
        confidence=0.95 if confidence is None else confidence,
        models=models,
        seed=seed,
        fit_sides=fit_sides,
    )
    lower = library.audit(spec, method, options)
    bound = library.tightest(certified, delta)
    if plot is not None:
        write_text(plot, library.trade_off_figure(lower, bound))
    both = lower.answer(bound, spec.unit) | ({} if tested is None else {"implementation": tested.json})
    both |= {"contradicted": [f"{title} {words}" for title, words in contradicted]} if contradicted else {}
    if not _kept(both, out, as_json):
        typer.echo(str(lower.beside(bound, spec.unit)))
        if tested is not None:
            typer.echo(f"\nTest of the implementation\n\n{tested.text}")
        for title, words in contradicted:
            typer.echo("\n" + typer.style(printable(title), fg="red", bold=True) + printable(f" {words}"))
        if plot is not None:
            typer.echo(f"\nTrade-off curves: {printable(str(plot))}")
    if library.verdict(bound, lower).kind is library.VerdictKind.VIOLATED or (tested is not None and tested.violated):
        raise typer.Exit(VIOLATED)
    if contradicted:
        raise InputError(f"The release {str(path)!r} contradicts itself. See the findings.")


def _contradicted(path: Path) -> tuple[tuple[str, str], ...]:
    """What contradicts a release that was stored whole; a changed file is refused."""
    if "bound" not in _document(path):
        return ()

    return library.contradictions(path)


def _kept(answer: dict[str, Any], out: Path | None, as_json: bool) -> bool:
    """Write the answer where it is kept; whether it was printed for a machine, too."""
    text = json_text(answer)
    if out is not None:
        write_text(out, text + "\n")
    if as_json:
        typer.echo(text)
    return as_json


class _Tested(NamedTuple):
    """What a replay found, or why there is none."""

    found: "Implementation | None"
    reason: str = ""

    @property
    def json(self) -> dict[str, Any]:
        return {"not_replayable": self.reason} if self.found is None else self.found.as_json()

    @property
    def text(self) -> str:
        return printable(f"not replayable: {self.reason}") if self.found is None else str(self.found)

    @property
    def violated(self) -> bool:
        return self.found is not None and self.found.verdict.kind.value == "violated"


class _Replay(NamedTuple):
    """How the code of a release, or the kernel of a described chain, is tested."""

    path: Path
    document: dict[str, Any]
    spec: Spec
    confidence: float
    seed: int | None
    model: str | None
    seconds: float

    @property
    def custom(self) -> bool:
        """Whether it is a release of `sordino.fit` with a model of the caller's."""
        return str(self.document.get("kind")).startswith("own-model/")

    def of_release(self) -> _Tested | None:
        """The replay of the fit of a release, or why it cannot be replayed; None for a folder of another kind."""
        settings = self.document.get("settings")
        fitted = isinstance(settings, dict) and "task" in settings and self.document.get("schema") is not None
        if not fitted and not self.custom:
            return None
        try:
            return _Tested(self.run())
        except InputError as error:
            return _Tested(None, str(error))

    def run(self) -> "Implementation":
        """The test of the code: of the fit behind a release, or of the kernel of a described chain."""
        drawn = secrets.randbits(32) if self.seed is None else self.seed
        options: dict[str, Any] = {"confidence": self.confidence, "seed": drawn, "seconds": self.seconds}
        if self.custom:
            given = None if self.model is None else library.reopen(self.path, **_named_model(self.model))
            return library.replay_custom_release(
                given or library.with_model(library.read_release(self.path), None), **options
            )
        if self.model is not None:
            raise InputError("`--model` works only with a release of `sordino.fit`; omit it.")
        if "settings" in self.document and "task" in (release := library.read_release(self.path)).settings:
            return library.replay_release(release, **options)

        return library.replay_chain(self.spec, **options)


def _named_model(name: str) -> dict[str, Any]:
    """What MODULE:NAME holds, looked for in the working folder as well: a model, or a mapping with one."""
    module, _, attribute = name.removeprefix("python:").partition(":")
    if not module or not attribute:
        raise InputError(f"Expected --model MODULE:NAME, got {printable(name)!r}; name a module and what it holds.")
    sys.path.insert(0, os.getcwd())
    try:
        named = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Expected --model to name something that can be imported, got: {error}.") from None
    finally:
        sys.path.pop(0)
    given = dict(named) if isinstance(named, dict) else {"model": named}
    unknown = sorted(set(given) - {"model", "loss", "params", "constants"})
    if "model" not in given or unknown:
        raise InputError(
            "Expected --model to name a model, or a mapping with model and, where needed, loss, params and constants, "
            f"got {', '.join(map(str, unknown)) or 'one without a model'}."
        )
    return given


def _hunt(
    target: str, claim: str | None, options: "HunterOptions", script: Path | None, out: Path | None, as_json: bool
) -> None:
    """Run the code until a counterexample to its claim is found or the time is up."""
    if claim is not None and not claim.lstrip().startswith("{"):
        claim = read_text(Path(claim))

    report = library.hunt(target, claim, options)
    if script is not None and report.violated:
        write_text(script, report.script)
    if not _kept(report.as_json(), out, as_json):
        typer.echo(report.sentence)
        if report.violated:
            where = "" if script is None else f" It is in {printable(str(script))}."
            typer.echo(f"\nCounterexample, ready to run.{where}\n")
            if script is None:
                typer.echo(report.script)
    if report.violated:
        raise typer.Exit(VIOLATED)


def _fit_elsewhere(
    method: str, cluster: str | None, workers: int, keep: Path | None, seed: int | None
) -> "FitOnCluster | None":
    """How an audit fits its models, if not simply here; refused before any data are read."""
    if cluster is None and keep is None:
        return None

    if not library.fits_models(method):
        option = "--keep" if cluster is None else "--cluster"
        raise InputError(f"Expected {option} with --method attack or fleet, got {method!r}, which fits no two models.")
    if keep is not None and seed is None:
        raise InputError("`--keep` needs `--seed`: a fresh seed would make other models every time.")

    options = None if cluster is None else library.ClusterOptions(cluster, workers=workers)
    if options is not None and not options.authenticated:
        warn_of_open_scheduler()
    return library.FitOnCluster(options, keep)


def described(path: Path) -> Spec:
    """The spec of a file or of a release folder; files that its instance names are found from there."""
    is_folder = os.path.isdir(path)  # pathlib's own test raises for a name that is too long
    spec = Spec.from_dict(_document(path)["spec"]) if is_folder else read_spec(path)
    folder = path if is_folder else path.parent
    if spec.instance is None or not isinstance(spec.instance.dataset, FileDataset):
        return spec
    data = spec.instance.dataset
    return spec.with_values(
        {"instance.dataset.path": str(folder / data.path), "instance.dataset.schema": str(folder / data.schema)}
    )


def _document(path: Path) -> dict[str, Any]:
    """What release.json of a folder says, which has a spec; empty for anything else."""
    if not os.path.isdir(path):
        return {}

    broken, place = library.broken_signature(path), path / RELEASE_FILE
    if broken:
        raise InputError(broken)
    document = parse(read_text(place), str(place))
    if not isinstance(document, dict) or "spec" not in document:
        raise InputError(f"{place} has no spec.")
    return document
