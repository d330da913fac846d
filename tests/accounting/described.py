"""Described chains, a line each."""

from typing import Any

from sordino.core.spec import Spec


def noisy_chain(steps: int, step: Any, noise: Any, batch: Any, problem: dict[str, Any], **others: Any) -> Spec:
    """A chain seen at its last iterate under replace-one, but for `others`; further keys of the run are `algorithm`.

    Noise is a Gaussian scale or an object, a batch its scheme or an object; there is one parameter unless stated.
    """
    algorithm = {
        "kind": "noisy-gradient",
        "steps": steps,
        "step_size": step,
        "noise": noise if isinstance(noise, dict) else {"kind": "gaussian", "scale": noise},
        "batch": {"scheme": batch} if isinstance(batch, str) else batch,
    }
    stated = {"relation": "replace-one", "view": "last-iterate"} | others
    run = algorithm | stated.pop("algorithm", {})
    return Spec.from_dict({"algorithm": run, "problem": {"dim": 1} | problem, **stated})
