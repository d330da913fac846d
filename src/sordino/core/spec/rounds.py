"""Algorithms that release noisy natural or variational parameters in rounds over sampled records."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar

from sordino.core.bound import View
from sordino.core.spec.chain import Schedule, Scheduled
from sordino.core.spec.fields import Contradiction, Number, Whole, Word
from sordino.core.spec.problem import RUNS, Algorithm, Problem
from sordino.core.validate import POSITIVE


class Sampling(StrEnum):
    """Which records a round uses; passes visit every record once an epoch, in permuted order."""

    FULL = "full"
    WITHOUT_REPLACEMENT = "without-replacement"
    POISSON = "poisson"
    PASSES = "passes"


@dataclass(frozen=True, kw_only=True)
class Rounds(Algorithm):
    """What every such algorithm has: records, rounds, a clip, and noise relative to the round's sensitivity."""

    views: ClassVar[frozenset[View]] = frozenset({View.POSTERIOR_PARAMETERS, View.ALL_ITERATES})

    records: Annotated[int, Whole(), "number of records N, a public constant"]
    steps: Annotated[int, Whole(), "number of rounds"]
    sampling: Annotated[Sampling, Word(tuple(Sampling))]
    batch: Annotated[int | None, Whole(), "records a round (poisson: expected); absent only for full"] = None
    clip: Annotated[float, Number(POSITIVE), "norm bound C on each record's contribution"]
    noise_multiplier: Annotated[
        Schedule, Scheduled(), "noise standard deviation over the round's sensitivity under the stated relation"
    ]

    def contradictions(self) -> Iterator[Contradiction]:
        """Batches fit into the records; schedules serve exactly `steps` rounds."""
        if self.batch is None and self.sampling != Sampling.FULL:
            yield Contradiction("batch", f"to be given for sampling {self.sampling.value}", None)
        if self.batch_size > self.records:
            yield Contradiction("batch", f"to be at most records = {self.records}", self.batch)
        if self.sampling == Sampling.FULL and self.batch_size != self.records:
            yield Contradiction("batch", f"to be absent or records = {self.records} for sampling full", self.batch)
        yield from self.noise_multiplier.misfits(self.steps, "noise_multiplier")

    def needs(self, problem: Problem | None, view: View) -> Iterator[Contradiction]:
        """The number of records is stated once, or twice alike."""
        if problem is not None and problem.n not in (None, self.records):
            yield Contradiction("problem.n", f"to be absent or algorithm.records = {self.records}", problem.n)

    @property
    def batch_size(self) -> int:
        """Records a round, the default resolved."""
        return self.records if self.batch is None else self.batch

    @property
    def rate(self) -> float:
        """The probability that a round uses a given record."""
        return self.batch_size / self.records

    @property
    def batches_per_epoch(self) -> int:
        """How many batches one pass over the records takes, a partial last one included."""
        return -(-self.records // self.batch_size)


@RUNS.register("message-passing")
@dataclass(frozen=True, kw_only=True)
class MessagePassing(Rounds):
    """Private stochastic expectation propagation."""

    damping: Annotated[Schedule, Scheduled(), "step size gamma, shared by the step and its noise"]

    def contradictions(self) -> Iterator[Contradiction]:
        """The damping schedule serves exactly `steps` rounds too."""
        yield from super().contradictions()
        yield from self.damping.misfits(self.steps, "damping")


@RUNS.register("variational")
@dataclass(frozen=True, kw_only=True)
class Variational(Rounds):
    """Private variational inference by clipped noisy gradients."""

    step_size: Annotated[Schedule, Scheduled()]

    def contradictions(self) -> Iterator[Contradiction]:
        """The step size schedule serves exactly `steps` rounds too."""
        yield from super().contradictions()
        yield from self.step_size.misfits(self.steps, "step_size")


@RUNS.register("em")
@dataclass(frozen=True, kw_only=True)
class ExpectationMaximisation(Rounds):
    """Private expectation maximisation of a mixture, noise on the expected sufficient statistics."""

    components: Annotated[int, Whole(), "number of mixture components"]
    sampling: Annotated[Sampling, Word((Sampling.FULL, Sampling.WITHOUT_REPLACEMENT, Sampling.POISSON))]
