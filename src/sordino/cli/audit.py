"""`sordino audit`: a lower bound on privacy loss against the claimed one; `certify` and `calibrate`: upper bounds."""

import importlib
import os
import secrets
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from sordino.cli import library, shared
from sordino.core.spec import FileDataset, Spec, read_spec
from sordino.core.spec.document import parse, read_text
from sordino.core.validate import InputError, printable

if TYPE_CHECKING:
    from sordino.auditing.experiment import FitOnCluster
    from sordino.auditing.hunter.processes import HunterOptions
    from sordino.auditing.replay.examine import Implementation
    from sordino.ledger.release import StoredRelease

RELEASE_FILE = "release.json"
REPLAY = "replay"
VIOLATED = 4  # the exit code of an audit that contradicts the certificate
_CUSTOM = "own-model/"  # how the kinds of releases begin that `sordino.fit` makes of a model of the caller's
_TARGET = "RELEASE|SPEC.json|python:MODULE:CALLABLE|program:PATH"
_METHODS = (
    "exact (reads the description, runs nothing), attack (trains models of it), fleet (many more in one program), "
    "one-run (trains one), one-run-guesses (one, any noise) or replay (runs the code and compares every noised sum "
    "with its plan). Absent: fleet for a network, else exact; for a release replay as well."
)
_KNOBS = shared.among(lambda: library.KNOBS)
_methods = shared.among(lambda: (*library.method_names(), REPLAY))


@shared.command(
    "audit",
    "Find a lower bound on the privacy loss of a run.",
    "sordino audit release",
    "sordino audit release --method replay --model mymodule:model",
    "sordino audit spec.json --method attack --models 1000 --confidence 0.95",
    "sordino audit network.json --method fleet --models 2000",
    "sordino audit python:mymodule:mean --claim claim.json --script found.py",
)
def audit(
    path: Annotated[Path, Argument(metavar=_TARGET, help="Release folder, description of a run, or claimed code.")],
    method: Annotated[str | None, Option(help=_METHODS, autocompletion=_methods)] = None,
    models: Annotated[int, Option(help="How many models an audit may train in total.")] = 1000,
    delta: Annotated[float | None, Option(help="Delta in (0, 1); overrides the spec's.")] = None,
    confidence: Annotated[float | None, Option(help="Default: 0.95; 0.999 for a claim, 0.9999 for a replay.")] = None,
    seed: Annotated[int | None, Option(help="For a reproducible audit. Default: a fresh seed.")] = None,
    cluster: shared.ClusterWord = None,
    workers: Annotated[int, Option(min=1, help="Processes of --cluster local.")] = 2,
    keep: Annotated[Path | None, Option(metavar="DIR", help="Keep models here, to resume; needs --seed.")] = None,
    plot: Annotated[Path | None, Option(metavar="PATH.svg", help="Draw the trade-off curves here.")] = None,
    out: Annotated[Path | None, Option(help="Write the JSON here as well; `report` reads RELEASE/audit.json.")] = None,
    claim: Annotated[str | None, Option(metavar="JSON", help="Claim, or a file. Default: CLAIMS[name].")] = None,
    seconds: Annotated[float, Option(help="Seconds to search; for a replay, of processor time.")] = 60.0,
    call_seconds: Annotated[float, Option(help="With --claim: a call that takes longer is ended.")] = 10.0,
    python: Annotated[str | None, Option(metavar="PATH", help="With --claim: the interpreter of the callable.")] = None,
    script: Annotated[Path | None, Option(metavar="PATH.py", help="With --claim: write a counterexample here.")] = None,
    model: Annotated[str | None, Option(metavar="MODULE:NAME", help="The model behind a `sordino.fit`.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Compute a lower bound on the privacy loss of a described run, and compare it with the certificate.

    The method exact says how tight the certificate of the description is. It runs nothing, so it is no test of the
    code. For a release, replay tests the installed code too: it plans the fit again, runs it on tables drawn from the
    schema, and compares every noised sum with its plan on neighbouring tables. A release of `sordino.fit` needs
    --model for that. Without a release, replay runs the described chain. The other methods run the chain on the
    worst-case quadratic of its constants, or on the instance in the spec. A fleet has its own training code. No method
    repeats the run that made a release.

    The verdict is tightness of the description (exact), consistent, violated, inconclusive (this attack could not have
    found a violation) or not comparable; --json names it. Violated exits with code 4. A release folder that contradicts
    itself exits with code 2. No private row is read, unless the spec names a file of them.

    With --claim, Sordino audits code: a callable (a list of records in, anything out) or a program (a line of JSON in,
    one out). The claim is JSON with epsilon, delta, relation and the domain of tables. The code runs on neighbouring
    tables of that domain until an event refutes the claim or time is up. A refuted claim comes with a script that
    counts the event again. Use a Dask scheduler only if you trust it.
    """
    if claim is not None or str(path).startswith(("python:", "program:")):
        how = {"seconds": seconds, "call_seconds": call_seconds, "seed": seed, "python": python}
        options = library.HunterOptions(confidence=0.999 if confidence is None else confidence, **how)
        _hunt(str(path), claim, options, script, out, as_json)
        return
    shared.check_ending("--plot", plot, ".svg")
    spec, document = described(path)
    # A folder of another program may hold a spec alone. A release is read whole, and once.
    release = library.stored_at(path) if {"bound", "settings"} & document.keys() else None

    how = {"confidence": library.CONFIDENCE if confidence is None else confidence, "seconds": seconds}
    replayed = partial(_replayed, path, release, spec, model, secrets.randbits(32) if seed is None else seed, **how)
    if method == REPLAY:
        if cluster is not None or keep is not None or plot is not None:
            raise InputError("`--method replay` cannot be combined with `--cluster`, `--keep` or `--plot`.")
        tested = replayed()
        kind = tested.verdict.kind
        _finish(tested.as_json(), str(tested), out, as_json, violated=kind is library.VerdictKind.VIOLATED)
        return
    contradicted = () if release is None else library.contradictions(release)
    code: dict[str, Any] = {}
    words, violated = "", False
    if method is None:
        fitted = release is not None and "task" in release.settings and release.schema is not None
        if release is not None and (fitted or release.kind.startswith(_CUSTOM)):
            words = "\n\nTest of the implementation\n\n"
            try:
                tested = replayed()
            except InputError as error:
                words += printable(f"not replayable: {error}")
                code = {"implementation": {"not_replayable": str(error)}}
            else:
                words, code = f"{words}{tested}", {"implementation": tested.as_json()}
                violated = tested.verdict.kind is library.VerdictKind.VIOLATED
        method = "exact" if spec.instance is None else library.usual_method(spec)
    elsewhere = cluster is not None or keep is not None
    asked, delta = library.at_delta(spec, delta)
    sides = _elsewhere(method, cluster, workers, keep, seed) if elsewhere else None
    sure = 0.95 if confidence is None else confidence
    options = library.AuditOptions(delta=delta, confidence=sure, models=models, seed=seed, fit_sides=sides)
    lower = library.audit(spec, method, options)
    bound = library.explain(asked, delta).tightest
    answer = lower.answer(bound, spec.unit) | code
    words = f"{lower.beside(bound, spec.unit)}{words}"
    for title, why in contradicted:
        answer.setdefault("contradicted", []).append(f"{title} {why}")
        words += "\n\n" + typer.style(printable(title), fg="red", bold=True) + printable(f" {why}")
    if plot is not None:
        shared.write_text(plot, library.trade_off_figure(lower, bound))
        words += f"\n\nTrade-off curves: {printable(str(plot))}"
    violated |= library.verdict(bound, lower).kind is library.VerdictKind.VIOLATED
    _finish(answer, words, out, as_json, violated=violated)
    if contradicted:
        raise InputError(f"The release {str(path)!r} contradicts itself. See the findings.")


def _finish(answer: dict[str, Any], words: str, out: Path | None, as_json: bool, *, violated: bool) -> None:
    """Write the answer where it is kept, print it for a machine or a person, and end with 4 where it is a violation."""
    text = shared.json_text(answer)
    if out is not None:
        shared.write_text(out, text + "\n")
    typer.echo(text if as_json else words)
    if violated:
        raise typer.Exit(VIOLATED)


def _replayed(
    path: Path, release: "StoredRelease | None", spec: Spec, model: str | None, seed: int, **how: Any
) -> "Implementation":
    """The test of the code: of the fit behind a release, or of the kernel of a described chain."""
    if release is not None and release.kind.startswith(_CUSTOM):
        own = library.with_model(release, None) if model is None else library.reopen(path, **_named_model(model))
        return library.replay_custom_release(own, seed=seed, **how)
    if model is not None:
        raise InputError("`--model` works only with a release of `sordino.fit`; omit it.")
    if release is not None and "task" in release.settings:
        return library.replay_release(release, seed=seed, **how)
    return library.replay_chain(spec, seed=seed, **how)


def _named_model(name: str) -> dict[str, Any]:
    """What MODULE:NAME holds, looked for in the working folder as well: a model, or a mapping with one."""
    module, _, attribute = name.removeprefix("python:").partition(":")
    if not module or not attribute:
        raise InputError(f"Expected --model MODULE:NAME, got {printable(name)!r}; name a module and the model in it.")
    sys.path.append(os.getcwd())
    try:
        named = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"Expected --model to name something that can be imported, got: {error}.") from None
    finally:
        sys.path.pop()
    given = dict(named) if isinstance(named, dict) else {"model": named}
    unknown = sorted(set(given) - {"model", "loss", "params", "constants"})
    if "model" not in given or unknown:
        got = ", ".join(map(str, unknown)) or "one without a model"
        raise InputError(f"--model names a model, or a mapping of model, loss, params and constants; got {got}.")
    return given


def _hunt(
    target: str, claim: str | None, options: "HunterOptions", script: Path | None, out: Path | None, as_json: bool
) -> None:
    """Run the code until a counterexample to its claim is found or the time is up."""
    if claim is not None and not claim.lstrip().startswith("{"):
        claim = read_text(Path(claim))
    report = library.hunt(target, claim, options)
    if script is not None and report.violated:
        shared.write_text(script, report.script)
    words = [report.sentence]
    if report.violated:
        where = "" if script is None else f" It is in {printable(str(script))}."
        words += ["", f"Counterexample, ready to run.{where}", "", *([report.script] if script is None else [])]
    _finish(report.as_json(), "\n".join(words), out, as_json, violated=report.violated)


def _elsewhere(method: str, cluster: str | None, workers: int, keep: Path | None, seed: int | None) -> "FitOnCluster":
    """How an audit fits its models, if not simply here; refused before any data are read."""
    if not library.fits_models(method):
        option = "--keep" if cluster is None else "--cluster"
        raise InputError(f"Expected {option} with --method attack or fleet, got {method!r}, which fits no two models.")
    if keep is not None and seed is None:
        raise InputError("`--keep` needs `--seed`: a fresh seed would make different models every time.")
    if cluster in (None, "local"):
        beside = library.Streamed(1 if cluster is None else workers, patience=0.0, replaces=True)
        return library.FitOnCluster(beside, keep)
    return library.FitOnCluster(library.engine_of(shared.engine_address(cluster)), keep)


def described(path: Path) -> tuple[Spec, dict[str, Any]]:
    """The spec of a file or of a release folder, and what release.json says; files are found from the spec."""
    document: Any = {}
    if os.path.isdir(path):  # pathlib's own test raises for a name that is too long
        place = path / RELEASE_FILE
        if broken := library.broken_signature(path):
            raise InputError(broken)
        document = parse(read_text(place), str(place))
        if not isinstance(document, dict) or "spec" not in document:
            raise InputError(f"{place} has no spec.")
    spec = Spec.from_dict(document["spec"]) if document else read_spec(path)
    if spec.instance is None or not isinstance(spec.instance.dataset, FileDataset):
        return spec, document
    folder, data = path if document else path.parent, spec.instance.dataset
    found = {"instance.dataset.path": str(folder / data.path), "instance.dataset.schema": str(folder / data.schema)}
    return spec.with_values(found), document


@shared.command("certify", "Bound the privacy loss of a described run.", "sordino certify spec.json --plot steps.svg")
def certify(
    spec_path: shared.SpecPath,
    delta: shared.TargetDelta = None,
    plot: Annotated[Path | None, Option(metavar="PATH.svg", help="Draw epsilon against steps here.")] = None,
    everything: Annotated[bool, Option("--all", help="Also list theorems about other runs, with the reasons.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Bound the privacy loss of a described run with every theorem that applies; the tightest wins.

    No data are read. Near misses are theorems that would apply with another constant or assumption. If no theorem gives
    a finite epsilon, the command says so and still exits with code 0; with --json the tightest is then null.
    """
    shared.check_ending("--plot", plot, ".svg")
    spec, delta = library.at_delta(spec_path, delta)
    explanation = library.explain(spec, delta)
    value, lines = library.as_json(explanation) if as_json else {}, str(explanation).split("\n")
    if everything:
        lines += ["", "Did not apply:", *(f"  {one.theorem}: {one.reason}" for one in explanation.inapplicable)]
    if plot is not None:
        with shared.progress(library.POINTS) as begin:
            begin("epsilon against steps")
            curves = library.steps_curves(spec, delta, lambda: begin("epsilon against steps"))
        shared.write_text(plot, library.steps_figure(curves))
        lines += ["", f"Epsilon against steps: {plot}", *(f"  {sentence}" for sentence in curves.remarks)]
        value["crossings"] = [dict(zip(("steps", "from", "to"), one, strict=True)) for one in curves.crossings]
    shared.answer(as_json, value, *lines)


@shared.command(
    "calibrate",
    "Change one number of a run to meet (epsilon, delta).",
    "sordino calibrate spec.json --epsilon 1 --delta 1e-5 --out calibrated.json",
)
def calibrate(
    spec_path: shared.SpecPath,
    epsilon: Annotated[float, Option(help="Target epsilon; 0 asks for a total variation of at most delta.")],
    delta: shared.TargetDelta = None,
    over: Annotated[str, Option(help="What to change: noise, steps or batch.", autocompletion=_KNOBS)] = "noise",
    output: shared.OutFile = None,
    as_json: shared.AsJson = False,
) -> None:
    """Change one number of a run until its tightest bound meets (epsilon, delta).

    Sordino finds the least noise, the most steps, the smallest batch of a chain, or the largest batch of rounds.
    """
    spec, delta = library.at_delta(spec_path, delta)
    found = library.calibrate(spec, epsilon, delta, over)
    if output is not None:
        shared.write_text(output, found.spec.to_json())
    target = {"epsilon": found.target_epsilon, "delta": found.explanation.delta}
    what = {"over": found.knob, "value": found.value, "target": target, "spec": found.spec.to_dict()}
    text = f"{found.knob} = {found.value!r} gives epsilon at most {found.target_epsilon:g}\n\n{found.explanation}"
    shared.answer(as_json, what | {"certificate": library.as_json(found.explanation)}, *text.split("\n"))
