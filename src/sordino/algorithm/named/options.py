"""What every named chain takes besides its paper's own parameters."""

from typing import Any, Required, TypedDict, Unpack

from sordino.core.relation import Relation
from sordino.core.spec import (
    Average,
    Ball,
    Batch,
    Clipping,
    Keep,
    Noise,
    NoisyGradient,
    Problem,
    Schedule,
    Scheme,
    Spec,
    Start,
    Thinning,
)
from sordino.core.validate import instance_of, whole_number
from sordino.core.view import View


class ChainOptions(TypedDict, total=False):
    """Relation, view and number of steps have no default; the rest is that of a spec."""

    steps: Required[int]
    relation: Required[Relation]
    view: Required[View]
    projection: Ball | None
    start: Start
    chains: int
    keep: Keep | Thinning | None
    average: Average | None
    delta: float | None


def chain(
    problem: Problem,
    step_size: Schedule,
    noise: Noise,
    batch: Batch,
    clipping: Clipping | None = None,
    **options: Unpack[ChainOptions],
) -> Spec:
    """The spec of a chain in the library's own terms; every named chain ends here."""
    given: dict[str, Any] = dict(options)
    of_spec = {name: given.pop(name) for name in ("relation", "view", "average", "delta") if name in given}
    algorithm = NoisyGradient(step_size=step_size, noise=noise, batch=batch, clipping=clipping, **given)
    return Spec(algorithm=algorithm, problem=problem, **of_spec)


def records_of(problem: Problem) -> int:
    """The public number of records, which the papers' step sizes are scaled with."""
    return whole_number("problem.n", instance_of("problem", problem, Problem).n)


FULL_BATCH = Batch(Scheme.FULL)
