"""Specs that tests of mechanisms run: what is not said is a short run on all records."""

from typing import Any

from papers.round_words import stated_spec
from sordino.core.spec import Spec


def chain_spec(
    n: int, dim: int, *, relation: str = "replace-one", view: str = "last-iterate", problem: Any = (), **algorithm: Any
) -> Spec:
    """A noisy gradient chain on `n` records and `dim` parameters."""
    noise = {"kind": "gaussian", "scale": 0.1}
    chain = {"kind": "noisy-gradient", "steps": 20, "step_size": 0.1, "noise": noise, "batch": {"scheme": "full"}}
    constants = {"n": n, "dim": dim} | dict(problem)
    given = {"algorithm": chain | algorithm, "problem": constants, "relation": relation, "view": view, "delta": 1e-5}
    return Spec.from_dict(given)


def rounds_spec(
    kind: str, records: int, *, relation: str = "replace-one", view: str = "posterior-parameters", **algorithm: Any
) -> Spec:
    """Rounds of noised sums in the words of the papers."""
    rounds = {"kind": kind, "records": records, "steps": 1, "sampling": "full", "clip": 1.0, "noise_multiplier": 1e-9}
    return stated_spec({"algorithm": rounds | algorithm, "relation": relation, "view": view, "delta": 1e-5})


def training_spec(records: int, clip: float, *, relation: str = "add-remove", **algorithm: Any) -> Spec:
    """Clipped gradients of a network."""
    training = {
        "kind": "noised-sums",
        "query": "clipped gradients of a network",
        "records": records,
        "rounds": 3,
        "sampling": {"scheme": "full"},
        "contribution": clip,
        "noise_multiplier": 1.0,
    }
    given = {"algorithm": training | algorithm, "relation": relation, "view": "all-iterates", "delta": 1e-5}
    return Spec.from_dict(given)
