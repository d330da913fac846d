"""Noisy gradient chains that tests of audits describe."""

from typing import Any

from sordino.core.spec import Spec


def chain(
    scheme: str = "full",
    size: int | None = None,
    *,
    steps: int = 10,
    step_size: float = 0.4,
    noise: float | dict[str, Any] = 0.1,
    relation: str = "replace-one",
    view: str = "last-iterate",
    algorithm: dict[str, Any] | None = None,
    instance: dict[str, Any] | None = None,
    average: dict[str, Any] | None = None,
    **problem: Any,
) -> Spec:
    """A chain with this problem; `algorithm` has what else its steps do."""
    described = {
        "kind": "noisy-gradient",
        "steps": steps,
        "step_size": step_size,
        "noise": noise if isinstance(noise, dict) else {"kind": "gaussian", "scale": noise},
        "batch": {"scheme": scheme} | ({} if size is None else {"size": size}),
    } | (algorithm or {})
    more = {name: value for name, value in (("instance", instance), ("average", average)) if value is not None}
    problem = {"n": 6, "dim": 1} | problem
    return Spec.from_dict({"algorithm": described, "problem": problem, "relation": relation, "view": view} | more)
