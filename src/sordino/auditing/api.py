"""`sordino.audit`: the largest lower bound that a method finds for a described run or a user's callable."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

from sordino.accounting.evaluate import at_delta
from sordino.auditing.hunter.processes import HunterOptions, HunterTarget
from sordino.auditing.hunter.search import HunterReport, hunt
from sordino.auditing.instance import on_table
from sordino.auditing.lower_bound import AuditOptions, LowerBound
from sordino.auditing.lower_bound import audit as audit_with
from sordino.core.spec import Spec
from sordino.core.validate import InputError


@overload
def audit(
    spec: Spec | str | Path,
    *,
    method: str = "exact",
    delta: float | None = None,
    confidence: float | None = None,
    models: int = 1000,
    seed: int | None = None,
    data: Any = None,
) -> LowerBound: ...


@overload
def audit(
    spec: Callable[..., Any] | str,
    *,
    claim: Mapping[str, Any] | str | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    seconds: float = 60.0,
    python: str | None = None,
) -> HunterReport: ...


def audit(
    spec: Any,
    *,
    method: str = "exact",
    delta: float | None = None,
    confidence: float | None = None,
    models: int = 1000,
    seed: int | None = None,
    claim: Any = None,
    seconds: float = 60.0,
    python: str | None = None,
    data: Any = None,
) -> LowerBound | HunterReport:
    """Look for the largest leak of a described run, or for a counterexample to what is claimed of a callable.

    Args:
        spec: a `Spec`, or the path of a SPEC.json; with a `claim` a function that takes a list of records, or
            "python:module:callable", "python:file.py:callable" or "program:path".
        method: "exact" (laws known from the description), "attack" (many models of two neighbours), "fleet" (many
            more in one program), "one-run" or "one-run-guesses" (canaries in a single run).
        delta: of the lower bound; absent: the spec's.
        confidence: of the whole statement, for methods that sample; absent: 0.95, and 0.999 for a claim.
        models: how many models an attack may train, all sides together.
        seed: for an audit that can be repeated; absent: from the operating system.
        claim: what its author says of the callable: epsilon, delta, relation and the domain of its tables; absent:
            what its module says in `CLAIMS`, under its name.
        seconds: how long to look for a counterexample to a claim.
        python: the interpreter of the environment that the callable lives in; absent: this one.
        data: rows in any source (a data frame of any kind, an address, a path) to train models on in place of the file
            that the spec's instance names; they are read into memory, and the schema is still the spec's.

    Returns:
        A `LowerBound`: its `epsilon` with delta, confidence, what was `examined` and the evidence. For a claim a
        `HunterReport`: whether it is `violated`, by which two tables and which event, with a `script` to run.

    Raises:
        InputError: for a run that the method cannot audit, with the reason, or an unknown method.

    Examples:
        >>> import sordino
        >>> from sordino.mechanisms import noisy_gd
        >>> from sordino.core.spec import Problem
        >>> problem = Problem(n=1000, dim=1, gradient_sensitivity=2.0, strong_convexity=0.1, smoothness=1.0)
        >>> spec = noisy_gd(
        ...     problem, step_size=0.5, noise_scale=0.01, steps=500, relation="replace-one", view="last-iterate"
        ... )
        >>> lower = sordino.audit(spec, delta=1e-5)
        >>> lower.method, lower.epsilon <= sordino.certify(spec, delta=1e-5).epsilon
        ('exact', True)

        A vendor claims that a mean of numbers between 0 and 1 is private:

        >>> domain = {"records": {"low": 0, "high": 1}, "size": [1, 8]}
        >>> claim = {"epsilon": 1, "delta": 1e-6, "relation": "replace-one", "domain": domain}
        >>> sordino.audit("python:statistics:mean", claim=claim, seconds=10).violated
        True
    """
    if claim is not None or callable(spec) or (isinstance(spec, str) and HunterTarget.named(spec)):
        if data is not None:
            raise InputError("An audit of a claim makes its own tables. Omit the data.")
        sure = 0.999 if confidence is None else confidence
        return hunt(spec, claim, HunterOptions(confidence=sure, seconds=seconds, seed=seed, python=python))
    run, asked = at_delta(spec, delta)
    run = run if data is None else on_table(run, data)
    sure = 0.95 if confidence is None else confidence
    return audit_with(run, method, AuditOptions(delta=asked, confidence=sure, models=models, seed=seed))
