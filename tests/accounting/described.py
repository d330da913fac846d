"""Described runs, a line each, and what theorems say of them."""

from collections.abc import Callable
from typing import Any

import pytest

from sordino.accounting.evaluate import Theorem, evaluate, theorem_named
from sordino.core.bound import Bound, Inapplicable
from sordino.core.guarantee import GaussianDP, Guarantee
from sordino.core.spec import Spec, read_spec
from tests.conformance.examples import FOLDER


def described(kind: str, relation: str = "add-remove", view: str = "all-iterates", **algorithm: Any) -> Spec:
    """A run of a kind; `problem` and `delta` are stated beside its algorithm."""
    outside = {key: algorithm.pop(key) for key in ("problem", "delta") if key in algorithm}
    return Spec.from_dict({"algorithm": {"kind": kind} | algorithm, "relation": relation, "view": view, **outside})


def noised_sums(records: int, rounds: int, noise: float, sampling: dict[str, Any], **others: Any) -> Spec:
    """Rounds of sums of contributions of length 1."""
    sums = {"query": "sums", "contribution": 1.0, "records": records, "rounds": rounds, "sampling": sampling}
    return described("noised-sums", noise_multiplier=noise, **sums, **others)


def noisy_chain(steps: int, step: Any, noise: Any, batch: Any, problem: dict[str, Any], **others: Any) -> Spec:
    """A chain seen at its last iterate under replace-one, but for `others`; further keys of the run are `algorithm`.

    Noise is a Gaussian scale or an object, a batch its scheme or an object; there is one parameter unless stated.
    """
    added = noise if isinstance(noise, dict) else {"kind": "gaussian", "scale": noise}
    drawn = {"scheme": batch} if isinstance(batch, str) else batch
    algorithm = {"kind": "noisy-gradient", "steps": steps, "step_size": step, "noise": added, "batch": drawn}
    stated = {"relation": "replace-one", "view": "last-iterate"} | others
    run = algorithm | stated.pop("algorithm", {})
    return Spec.from_dict({"algorithm": run, "problem": {"dim": 1} | problem, **stated})


def curved(curvature: float) -> dict[str, float]:
    """One curvature in every direction."""
    return {"strong_convexity": curvature, "smoothness": curvature}


def composite(*parts: dict[str, Any], relation: str = "replace-one", view: str = "all-iterates", **stated: Any) -> Spec:
    """Runs one after another."""
    return described("composite", relation, view, parts=list(parts), **stated)


def example(name: str, values: dict[str, Any] | None = None) -> Spec:
    """An example spec, with other values."""
    return read_spec(FOLDER / f"{name}.json").with_values(values or {})


def guarantee(theorem: str | Theorem, spec: Spec) -> Any:
    """What a theorem that applies to a run says of it."""
    answer = evaluate(theorem_named(theorem) if isinstance(theorem, str) else theorem, spec)
    assert isinstance(answer, Bound), answer
    assert isinstance(answer.guarantee, Guarantee)
    return answer.guarantee


def mu(theorem: str | Theorem, spec: Spec) -> float:
    """The same where it is Gaussian."""
    found = guarantee(theorem, spec)
    assert isinstance(found, GaussianDP)
    return found.mu


def refusal(theorem: str | Theorem, spec: Spec) -> str:
    """Why a theorem does not apply to a run."""
    answer = evaluate(theorem_named(theorem) if isinstance(theorem, str) else theorem, spec)
    assert isinstance(answer, Inapplicable)
    return answer.reason


def few_and_many(few: tuple[int, int], many: tuple[int, int]) -> Callable[..., Any]:
    """(seed, number) of random cases: a few fast, many slow."""
    return pytest.mark.parametrize(("seed", "number"), [few, pytest.param(*many, marks=pytest.mark.slow)])
