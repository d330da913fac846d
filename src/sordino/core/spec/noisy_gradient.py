"""The noisy gradient chain: SGLD, ULA, noisy GD and SGD, Gaussian or stable noise, in one description."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from sordino.core.spec.algorithm import RUNS, Algorithm, required
from sordino.core.spec.chain_parts import (
    NOISES,
    ORIGIN,
    PROJECTIONS,
    STARTS,
    Ball,
    Batch,
    Clipping,
    Keep,
    Keeping,
    Noise,
    PointStart,
    Scheme,
    Start,
    Thinning,
)
from sordino.core.spec.problem import Problem
from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.schedule import Schedule, Scheduled
from sordino.core.spec.section import Nested
from sordino.core.spec.shape import Whole
from sordino.core.view import View


@RUNS.register("noisy-gradient")
@dataclass(frozen=True)
class NoisyGradient(Algorithm):
    """The chain theta <- Proj[theta - eta * (sum of batch gradients / b + grad r) + tau * xi]."""

    views: ClassVar[frozenset[View]] = frozenset({View.LAST_ITERATE, View.ALL_ITERATES, View.AVERAGE})

    steps: Annotated[int, Whole()]
    step_size: Annotated[Schedule, Scheduled(), "eta, for the mean loss"]
    noise: Annotated[Noise, NOISES]
    batch: Annotated[Batch, Nested(Batch)]
    clipping: Annotated[Clipping | None, Nested(Clipping)] = None
    projection: Annotated[Ball | None, PROJECTIONS] = None
    start: Annotated[Start, STARTS] = ORIGIN
    chains: Annotated[int, Whole(), "independent chains released together"] = 1
    keep: Annotated[
        Keep | Thinning | None, Keeping(), "kept iterates; absent: last for view last-iterate, else all"
    ] = None

    def contradictions(self) -> Iterator[Contradiction]:
        """Schedules serve exactly `steps` steps; something is left after the burn-in."""
        yield from self.step_size.misfits(self.steps, "step_size")
        yield from self.noise.scale.misfits(self.steps, "noise.scale")
        if isinstance(self.keep, Thinning) and self.keep.burn_in >= self.steps:
            yield Contradiction("keep.burn_in", f"to be below the {self.steps} steps", self.keep.burn_in)

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """Sizes agree with the problem's, and what is kept agrees with what is seen."""
        yield from required(problem, "n", "dim")
        if problem is not None and problem.n is not None and problem.dim is not None:
            yield from self._size_misfits(problem.n)
            yield from self._start_misfits(problem.dim)
        if view == View.LAST_ITERATE and self.kept(view) != Keep.LAST:
            yield Contradiction("algorithm.keep", 'to be "last" when the view is last-iterate', _spelled(self.keep))

    def divisor(self, n: int) -> int:
        """The public constant b that every batch sum is divided by."""
        return n if self.batch.size is None else self.batch.size

    def rate(self, n: int) -> float:
        """The probability that a step uses a given record: the Poisson rate, or b / n."""
        return self.divisor(n) / n if self.batch.rate is None else self.batch.rate

    def batches_per_epoch(self, n: int) -> int:
        """How many batches one pass over n records takes, a partial last one included."""
        return -(-n // self.divisor(n))

    def kept(self, view: View) -> Keep | Thinning:
        """What is kept, the default resolved."""
        default = Keep.LAST if view == View.LAST_ITERATE else Keep.ALL
        return default if self.keep is None else self.keep

    def kept_iterates(self, view: View) -> range:
        """The positions of the kept iterates; step k = 0 makes iterate 1, the last one is `steps`."""
        kept = self.kept(view)
        if isinstance(kept, Thinning):
            return range(kept.burn_in + 1, self.steps + 1, kept.thin)
        return range(self.steps if kept == Keep.LAST else 1, self.steps + 1)

    def _size_misfits(self, n: int) -> Iterator[Contradiction]:
        size = self.divisor(n)
        if size > n:
            yield Contradiction("algorithm.batch.size", f"to be at most problem.n = {n}", size)
        if self.batch.scheme == Scheme.FULL and size != n:
            yield Contradiction("algorithm.batch.size", f"to be absent or problem.n = {n} for full batches", size)

    def _start_misfits(self, dim: int) -> Iterator[Contradiction]:
        if isinstance(self.start, PointStart) and self.start.values is not None and len(self.start.values) != dim:
            yield Contradiction(
                "algorithm.start.values", f"to have problem.dim = {dim} coordinates", len(self.start.values)
            )


def _spelled(keep: Keep | Thinning | None) -> object:
    return keep if keep is None else Keeping().write(keep)
