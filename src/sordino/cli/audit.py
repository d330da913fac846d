"""`sordino audit RELEASE|SPEC.json|python:module:callable`: a lower bound on what leaks, against what is claimed."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sordino.cli import shared as completion
from sordino.cli.certify import asked_at, target_delta
from sordino.core.spec import FileDataset, Spec, read_spec
from sordino.core.spec.document import parse, read_text
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.auditing.cluster import FitOnCluster
    from sordino.auditing.lower_bound import LowerBound
    from sordino.auditing.replay.examine import Implementation
    from sordino.core.bound import Bound

RELEASE_FILE = "release.json"
REPLAY = "replay"
# The exit code of an audit that contradicts the certificate.
VIOLATED = 4
SHORT = "Find a lower bound on what a described run leaks."
EXAMPLES = (
    "sordino audit release",
    "sordino audit release --out release/audit.json",
    "sordino audit release --method replay --confidence 0.99",
    "sordino audit release --method replay --model mymodule:model",
    "sordino audit spec.json --method attack --models 1000 --confidence 0.95",
    "sordino audit spec.json --method attack --cluster local --workers 4",
    "sordino audit network.json --method fleet --models 2000",
    "sordino audit python:mymodule:mean --claim claim.json --script found.py",
)


def command(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE|SPEC.json|python:MODULE:CALLABLE|program:PATH",
            help="Release folder, description of a run, or a callable or program of which something is claimed.",
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="exact (reads the description, runs nothing), drawn (simulates the law of a description), attack "
            "(trains models of it), fleet (many more, all in one program, on a GPU where there is one), one-run "
            "(trains one), one-run-guesses (one, whatever its noise) or replay (runs the code and compares every "
            "noised call with its plan). Absent: fleet where the instance is a network, else exact; and for a release "
            "of an estimator replay as well.",
            autocompletion=completion.audit_methods,
        ),
    ] = None,
    models: Annotated[int, typer.Option(help="How many models an audit may train, all sides together.")] = 1000,
    delta: Annotated[float | None, typer.Option(help="Delta in (0, 1); wins over the spec's.")] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Joint confidence of an audit that samples; absent: 0.95, 0.999 with --claim, and 0.9999 for the test "
            "of an implementation."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For a reproducible audit; absent: a fresh one.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Fit the models of an attack or a fleet on processes of this machine (local), or on this dask "
            "scheduler, which must be trusted.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes of --cluster local.")] = 2,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the models fitted so far here, to go on after a stop; needs --seed."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH.svg", help="Draw the trade-off curves here.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the JSON answer here as well; `sordino report` looks for RELEASE/audit.json."),
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="What is claimed of the callable or program, as JSON or as the path of a JSON file: epsilon, delta, "
            "relation, and the domain of its tables. Absent: CLAIMS[name] in the callable's own module.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="With --claim: how long to look for a counterexample.")] = 60.0,
    call_seconds: Annotated[float, typer.Option(help="With --claim: a call that takes longer is ended.")] = 10.0,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="With --claim: the interpreter of the callable's own environment."),
    ] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="PATH.py", help="With --claim: write the counterexample here.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="For a release of `sordino.fit`: the model that was fitted, which a folder does not hold, or a "
            "mapping of what `sordino.reopen` takes (model, loss, params, constants).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")] = False,
) -> None:
    """Find out how much a described run leaks at least, and whether that contradicts its certificate.

    Of a release only the description is read. The method exact says how tight the certificate of that description is,
    and runs nothing: it is no test of the code. A release of an estimator is tested as well: its fit is planned again
    and run, by the code of this version, on tables drawn from the schema, and every noised call is compared with its
    plan on neighbouring tables (replay); so is a release of `sordino.fit`, with --model. Without a release, replay runs
    the described chain. The others run it, by this code, on the extremal quadratic of its constants or on the instance
    in the spec; the run that made a release is not repeated by any of them. A fleet trains the chain by code of its
    own, as large and as many models as the device can hold.

    The verdict is tightness of the description (exact), consistent, violated, inconclusive (this attack could not have
    found a violation) or not comparable, and --json names it; violated exits with code 4. No private row is read,
    unless the spec names a file of them.

    With --claim, what is audited is code: a callable (a list of records in, anything out) or a program (a line of JSON
    in, one out) is run on neighbouring tables of the declared domain until an event refutes the claim or time is up.
    Only tables made from that domain are used. A refuted claim comes with a script that counts the event again.
    """
    if claim is not None or _is_code(path):
        _hunt(str(path), claim, confidence, seconds, call_seconds, seed, python, script, out, as_json)
        return
    if plot is not None and plot.suffix.lower() != ".svg":
        raise InputError(f"Expected --plot to name a file that ends in .svg, got {str(plot)!r}; the figure is an SVG.")
    spec = described(path)
    # Imported here: models and their compiler are not needed to refuse bad input.
    from sordino.accounting.evaluate import tightest  # noqa: PLC0415
    from sordino.auditing.instance import usual_method  # noqa: PLC0415
    from sordino.auditing.lower_bound import AuditOptions, VerdictKind, audit, verdict  # noqa: PLC0415
    from sordino.auditing.replay.examine import CONFIDENCE  # noqa: PLC0415
    from sordino.cli import answers  # noqa: PLC0415
    from sordino.cli.shared import write_text  # noqa: PLC0415

    replayed = CONFIDENCE if confidence is None else confidence
    if method == REPLAY:
        if cluster is not None or keep is not None or plot is not None:
            raise InputError("Expected no --cluster, --keep or --plot with --method replay, got one; leave it out.")
        _answer_of_replay(path, spec, replayed, seed, model, out, as_json)
        return
    tested = _implementation(path, spec, replayed, seed, model) if method is None and os.path.isdir(path) else None
    method = usual_method(spec) if method is None else method
    fit_sides = _fit_elsewhere(method, cluster, workers, keep, seed)
    options = AuditOptions(
        delta=target_delta(spec, delta),
        confidence=0.95 if confidence is None else confidence,
        models=models,
        seed=seed,
        fit_sides=fit_sides,
    )
    lower = audit(spec, method, options)
    bound = tightest(asked_at(spec, options.delta), options.delta)
    if plot is not None:
        _draw(lower, bound, plot)
    both = answers.audit_as_json(lower, bound, spec.unit) | ({} if tested is None else {"implementation": tested.json})
    answer = json.dumps(both, indent=2, allow_nan=False)
    if out is not None:
        write_text(out, answer + "\n")
    if as_json:
        typer.echo(answer)
    else:
        answers.print_sandwich(lower, bound, spec.unit)
        if tested is not None:
            answers.print_implementation(tested.found, tested.reason)
        if plot is not None:
            typer.echo(f"\nTrade-off curves: {printable(str(plot))}")
    if verdict(bound, lower).kind is VerdictKind.VIOLATED or (tested is not None and tested.violated):
        raise typer.Exit(VIOLATED)


class _Tested(NamedTuple):
    """What a replay found, or why there is none."""

    found: "Implementation | None"
    reason: str = ""

    @property
    def json(self) -> dict[str, Any]:
        return {"not_replayable": self.reason} if self.found is None else self.found.as_json()

    @property
    def violated(self) -> bool:
        return self.found is not None and self.found.verdict.kind.value == "violated"


def _implementation(path: Path, spec: Spec, confidence: float, seed: int | None, model: str | None) -> _Tested | None:
    """The replay of the fit of a release, or why it cannot be replayed; None for a folder of another kind."""
    document = parse(read_text(path / RELEASE_FILE)) if os.path.isdir(path) else {}
    settings = document.get("settings") if isinstance(document, dict) else None
    own = _is_own(document)
    if not own and (not isinstance(settings, dict) or "task" not in settings or document.get("schema") is None):
        return None
    try:
        return _Tested(_replayed(path, spec, confidence, seed, model))
    except InputError as error:
        return _Tested(None, str(error))


def _is_own(document: Any) -> bool:
    """Whether a release is of a model of one's own."""
    return isinstance(document, dict) and str(document.get("kind")).startswith("own-model/")


def _named_model(name: str) -> dict[str, Any]:
    """What MODULE:NAME holds, looked for in the working folder as well: a model, or a mapping with one."""
    import importlib  # noqa: PLC0415
    import sys  # noqa: PLC0415

    module, _, attribute = name.removeprefix("python:").partition(":")
    if not module or not attribute:
        raise InputError(f"Expected --model MODULE:NAME, got {printable(name)!r}; name a module and what it holds.")
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Expected --model to name something that can be imported, got: {error}.") from None
    finally:
        sys.path.pop(0)
    given = dict(found) if isinstance(found, dict) else {"model": found}
    unknown = sorted(set(given) - {"model", "loss", "params", "constants"})
    if "model" not in given or unknown:
        raise InputError(
            "Expected --model to name a model, or a mapping with model and, where needed, loss, params and constants, "
            f"got {', '.join(map(str, unknown)) or 'one without a model'}."
        )
    return given


def _replayed(path: Path, spec: Spec, confidence: float, seed: int | None, model: str | None) -> "Implementation":
    """The test of the code: of the fit behind a release, or of the kernel of a described chain."""
    import secrets  # noqa: PLC0415

    drawn = secrets.randbits(32) if seed is None else seed
    own = os.path.isdir(path) and _is_own(parse(read_text(path / RELEASE_FILE)))
    if model is not None and not own:
        raise InputError("Expected --model with a release of `sordino.fit`, got another path; leave it out.")
    if own:
        from sordino.estimators.own_release import reopen, with_model  # noqa: PLC0415
        from sordino.estimators.replayed_own import replay_own_release  # noqa: PLC0415
        from sordino.ledger.release import read_release  # noqa: PLC0415

        release = with_model(read_release(path), None) if model is None else reopen(path, **_named_model(model))
        return replay_own_release(release, confidence=confidence, seed=drawn)
    if not os.path.isdir(path) or "settings" not in parse(read_text(path / RELEASE_FILE)):
        from sordino.auditing.replay.chain import replay_chain  # noqa: PLC0415

        return replay_chain(spec, confidence=confidence, seed=drawn)
    from sordino.estimators.replayed import replay_release  # noqa: PLC0415
    from sordino.ledger.release import read_release  # noqa: PLC0415

    release = read_release(path)
    if "task" not in release.settings:
        from sordino.auditing.replay.chain import replay_chain  # noqa: PLC0415

        return replay_chain(spec, confidence=confidence, seed=drawn)
    return replay_release(release, confidence=confidence, seed=drawn)


def _answer_of_replay(
    path: Path, spec: Spec, confidence: float, seed: int | None, model: str | None, out: Path | None, as_json: bool
) -> None:
    tested = _Tested(_replayed(path, spec, confidence, seed, model))
    from sordino.cli import answers  # noqa: PLC0415
    from sordino.cli.shared import write_text  # noqa: PLC0415

    answer = json.dumps(tested.json, indent=2, allow_nan=False)
    if out is not None:
        write_text(out, answer + "\n")
    typer.echo(answer) if as_json else answers.print_implementation(tested.found, tested.reason)
    if tested.violated:
        raise typer.Exit(VIOLATED)


def _is_code(path: Path) -> bool:
    """Whether the argument names code to run, and no file."""
    return str(path).startswith(("python:", "program:"))


def _hunt(
    target: str,
    claim: str | None,
    confidence: float | None,
    seconds: float,
    call_seconds: float,
    seed: int | None,
    python: str | None,
    script: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Run somebody's code until a counterexample to its claim is found or the time is up."""
    if claim is not None and not claim.lstrip().startswith("{"):
        claim = read_text(Path(claim))
    from sordino.auditing.hunter.report import hunt  # noqa: PLC0415
    from sordino.auditing.hunter.search import HunterOptions  # noqa: PLC0415
    from sordino.cli.shared import write_text  # noqa: PLC0415

    options = HunterOptions(
        confidence=0.999 if confidence is None else confidence,
        seconds=seconds,
        call_seconds=call_seconds,
        seed=seed,
        python=python,
    )
    report = hunt(target, claim, options)
    answer = json.dumps(report.as_json(), indent=2, allow_nan=False)
    if out is not None:
        write_text(out, answer + "\n")
    if script is not None and report.violated:
        write_text(script, report.script)
    if as_json:
        typer.echo(answer)
    else:
        typer.echo(report.sentence)
        if report.violated:
            where = "" if script is None else f" It is in {printable(str(script))}."
            typer.echo(f"\nCounterexample, to be run as it is.{where}\n")
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
    from sordino.auditing.lower_bound import fits_models  # noqa: PLC0415

    if not fits_models(method):
        option = "--keep" if cluster is None else "--cluster"
        raise InputError(f"Expected {option} with --method attack or fleet, got {method!r}, which fits no two models.")
    if keep is not None and seed is None:
        raise InputError("Expected --keep with --seed, got no seed; a fresh one would make other models every time.")
    # Imported here: dask is an extra, and only for those who name a cluster.
    from sordino.auditing.cluster import ClusterOptions, FitOnCluster  # noqa: PLC0415

    options = None if cluster is None else ClusterOptions(cluster, workers=workers)
    if options is not None and not options.authenticated:
        completion.warn_of_open_scheduler()
    return FitOnCluster(options, keep)


def described(path: Path) -> Spec:
    """The spec of a file or of a release folder; files that its instance names are found from there."""
    is_folder = os.path.isdir(path)  # pathlib's own test raises for a name that is too long
    spec = _released(path) if is_folder else read_spec(path)
    folder = path if is_folder else path.parent
    if spec.instance is None or not isinstance(spec.instance.dataset, FileDataset):
        return spec
    data = spec.instance.dataset
    return spec.with_values(
        {
            "instance.dataset.path": str(folder / data.path),
            "instance.dataset.schema": str(folder / data.schema),
        }
    )


def _released(folder: Path) -> Spec:
    from sordino.ledger.signing.folder import broken_signature  # noqa: PLC0415

    broken = broken_signature(folder)
    if broken:
        raise InputError(broken)
    place = folder / RELEASE_FILE
    text = read_text(place)
    try:
        document = parse(text)
    except InputError as error:
        raise InputError(f"In {place}: {error}") from None
    if not isinstance(document, dict) or "spec" not in document:
        raise InputError(f"Expected {place} to hold a spec, got none.")
    return Spec.from_dict(document["spec"])


def _draw(lower: "LowerBound", bound: "Bound | None", path: Path) -> None:
    from sordino.cli.shared import write_text  # noqa: PLC0415
    from sordino.report.figures import trade_off_figure  # noqa: PLC0415

    write_text(path, trade_off_figure(lower, bound))
