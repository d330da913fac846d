"""A test of the implementation: the code runs on tables that may hold any record, and is held against its description.

Three things are looked at, call by call, on pairs of neighbouring tables (`auditing.replay`):

- *shifts*: how far a record moves what is noised, against the plan that the certificate rests on. Exact, no statistics:
  a call that moves further, a run that asks for other calls, or a release that depends on rows in another way than
  through the noised answers is a violation, with the pair named.
- *noise*: what was added, over the scale that was stated, is standard normal (or Laplace) if the noise is what it is
  said to be. An upper limit of its size below 1, with the stated confidence, is a violation.
- *participation*: in batches, the steps in which a record moves the sum are those it took part in. Passes are checked
  exactly, independent draws by binomial tails that share the failure probability; where a record may be drawn several
  times for a batch, so is how far it moves all sums together.
- *batches*: answered alike, the same rows in other batches must leave the same release to the last bit.

What this shows: the sensitivities, the noise and the sampler of this code, on the pairs that were tried. What it does
not: that no other pair moves further, that the theorems are right, or that this code made the release.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.algorithm.noise.randomness import Law
from sordino.auditing.lower_bound import Examined, Verdict, VerdictKind
from sordino.auditing.replay import Recorder, Recording, Replayed, Run, compare
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import OPEN_UNIT, InputError, number

# A test that cannot find more is not worth more of a person's time.
# A release is audited as often as somebody likes, and sound code must not be called broken in one of twenty audits.
CONFIDENCE = 0.9999
SECONDS = 100.0
# Drawn once a step, whatever the other steps draw.
_INDEPENDENT = frozenset(
    {Scheme.POISSON, Scheme.WITHOUT_REPLACEMENT, Scheme.WITH_REPLACEMENT, Scheme.TRUNCATED_POISSON}
)
_PASSES = frozenset({Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED})


Table = TypeVar("Table")


class Trial(NamedTuple):
    """A table that is recorded, and neighbours of it that are replayed: each with words and a run on it."""

    words: str
    run: Run
    others: tuple[tuple[str, Run], ...]


def trials_on(
    fit: Callable[[Table], Run], drawn: Iterable[tuple[str, Table, list[tuple[str, Table]]]]
) -> Iterator[Trial]:
    """Trials of whole fits, each made when its turn comes: words, a table, and neighbours of it with words."""
    for words, table, others in drawn:
        yield Trial(words, fit(table), tuple((other, fit(neighbour)) for other, neighbour in others))


@dataclass(frozen=True)
class Implementation:
    """What was found out about the code; `verdict` says what it means.

    Attributes:
        spec: the description that the code was held against.
        confidence: of what is statistical: noise and participation.
        pairs: neighbouring tables that were tried.
        calls: noised calls of one run.
        law: of the calls whose totals are given.
        realised: of the pair that moved most: the root of the sum of squared shifts over scales (the sum, where
            noise is Laplace).
        planned: the same of the plan.
        ratio: the largest shift of any call over its plan.
        pair: the pair it was found on.
        drawn: numbers that were added as noise and looked at.
        noise: the upper limit of their size over the stated one; infinite where there are none.
        refuted: what else contradicts the description, one sentence each.
        complete: whether all pairs were tried in the time there was.
    """

    spec: Spec
    confidence: float
    pairs: int
    calls: int
    law: Law
    realised: float
    planned: float
    ratio: float
    pair: str
    drawn: int
    noise: float
    refuted: tuple[str, ...]
    complete: bool

    @property
    def verdict(self) -> Verdict:
        """Violated where the code does something else than its description; else consistent, for what was tried."""
        if self.refuted:
            return Verdict(VerdictKind.VIOLATED, "; ".join(self.refuted) + ".")
        much = "" if self.complete else ", and no more in the time there was"
        return Verdict(
            VerdictKind.CONSISTENT,
            f"on {self.pairs} pairs of neighbours{much}, no noised call moved further than planned (at most "
            f"{self.ratio:.3f} of it), and nothing says that the noise is smaller than stated.",
        )

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; a size of noise that nothing is known of is null."""
        return {
            "method": "replay",
            "examined": Examined.RUN.value,
            "relation": self.spec.relation.value,
            "view": self.spec.view.value,
            "confidence": self.confidence,
            "counts": {"pairs of neighbours": self.pairs, "noised calls": self.calls, "noise drawn": self.drawn},
            "shift": {
                "noise": self.law.value,
                "realised": self.realised,
                "planned": self.planned,
                "largest_over_plan": self.ratio,
                "neighbours": self.pair,
            },
            "noise_at_most": None if math.isinf(self.noise) else self.noise,
            "complete": self.complete,
            "verdict": self.verdict.as_json(),
        }


def examine(
    spec: Spec,
    trials: Iterable[Trial],
    *,
    confidence: float,
    seed: int,
    recorder: Recorder | None = None,
    seconds: float = SECONDS,
) -> Implementation:
    """Record and replay every trial, and hold what was seen against the description."""
    number("confidence", confidence, OPEN_UNIT)
    recorder = Recorder() if recorder is None else recorder
    begin, complete, calls, pairs = time.monotonic(), True, 0, 0
    worst: tuple[float, str, Replayed] | None = None
    largest, drawn, size = 0.0, 0, math.inf
    refuted: dict[str, None] = {}
    taken: list[NDArray[np.float64]] = []
    failure = (1.0 - confidence) * (0.5 if _hidden(spec) else 1.0)
    for place, trial in enumerate(trials):
        # What was refuted once needs no further pair.
        if refuted or (worst is not None and time.monotonic() - begin > seconds):
            complete = False
            break
        first = recorder.record(trial.run, seed + place)
        if place == 0:
            calls = len(first.calls)
            refuted |= dict.fromkeys(_as_in_production(recorder, first, trial.run))
            if _sampled(spec):
                refuted |= dict.fromkeys(
                    f"{fault} (the same rows in other batches)" for fault in recorder.rebatched(first, trial.run)
                )
            noise = [first]
            while _few(noise) and len(noise) < _MOST_RECORDINGS and time.monotonic() - begin < seconds / 4:
                noise.append(recorder.record(trial.run, seed + _FURTHER + len(noise)))
            drawn, size = _noise(noise, failure)
            if size < 1.0:
                refuted |= {f"noise is at most {size:.3f} of the stated scale, with confidence {confidence:g}": None}
        for words, run in trial.others:
            found = compare(spec, first, recorder.replay(first, run))
            pairs += 1
            pair = f"{trial.words}, {words}"
            refuted |= dict.fromkeys(f"{fault} ({pair})" for fault in found.faults)
            for at, shift in islice(found.excesses().items(), 1):
                refuted |= {
                    f"noised call {at} moved {shift.ratio:.3f} times as far as planned ({pair}): the sensitivity that "
                    "the certificate rests on does not hold for this code": None
                }
            taken.append(np.array([shift.ratio for shift in found.shifts]))
            largest = max(largest, found.ratio)
            total = _total(found)
            over = total[1] / total[2] if total[2] > 0 else 0.0
            if worst is None or over > worst[0]:
                worst = over, pair, found
            if refuted:
                break
    if worst is None:
        raise InputError("Expected at least one pair of neighbours for a replay, got none.")
    law, realised, planned = _total(worst[2])
    refuted |= dict.fromkeys(_participation(spec, taken, failure))
    return Implementation(
        spec, confidence, pairs, calls, law, realised, planned, largest, worst[1], drawn, size, tuple(refuted), complete
    )


def _hidden(spec: Spec) -> bool:
    """Whether it is not known beforehand which records a step uses, so that participation is tested, too."""
    return isinstance(spec.algorithm, NoisyGradient) and spec.algorithm.batch.scheme is not Scheme.FULL


def _sampled(spec: Spec) -> bool:
    """Whether some part of the run draws batches."""
    schemes = [
        getattr(part.algorithm, "batch", None) or getattr(part.algorithm, "sampling", None) for part in spec.runs()
    ]
    return any(batch is not None and batch.scheme is not Scheme.FULL for batch in schemes)


def _as_in_production(recorder: Recorder, first: Recording, run: Run) -> list[str]:
    """A recording adds noise by code of its own; the code that adds it otherwise must give the same bits."""
    return [f"{name} is not what the recorded noise gives" for name in recorder.unlike_production(first, run)]


def _total(found: Replayed) -> tuple[Law, float, float]:
    """Of the law with calls; Gaussian where there are several."""
    for law in (Law.GAUSSIAN, Law.LAPLACE, Law.SELECTION):
        realised, planned = found.total(law)
        if planned > 0.0:
            return law, realised, planned
    return Law.GAUSSIAN, 0.0, 0.0


# Enough noise to tell half of it from all of it, at any confidence that is used; runs with little are recorded again.
_ENOUGH, _MOST_RECORDINGS, _FURTHER = 120, 120, 1000


def _few(recordings: Sequence[Recording]) -> bool:
    drawn = [len(recording.deviations(law)) for recording in recordings for law in (Law.GAUSSIAN, Law.LAPLACE)]
    return 0 < sum(drawn) < _ENOUGH


def _noise(recordings: Sequence[Recording], failure: float) -> tuple[int, float]:
    """How many numbers were drawn, and the upper limit of their size over the stated one."""
    gaussian = np.concatenate([recording.deviations() for recording in recordings])
    laplace = np.concatenate([recording.deviations(Law.LAPLACE) for recording in recordings])
    if len(gaussian):
        least = float(stats.chi2.ppf(failure, len(gaussian)))
        return len(gaussian), math.sqrt(float(np.square(gaussian).sum()) / least) if least > 0 else math.inf
    least = float(stats.gamma.ppf(failure, len(laplace))) if len(laplace) else 0.0
    return len(laplace), float(np.abs(laplace).sum()) / least if least > 0 else math.inf


def _participation(spec: Spec, moved: Sequence[NDArray[np.float64]], failure: float) -> list[str]:
    """What the steps that records moved say against the described batches; nothing for full ones.

    `moved` has for each pair and noised call how far the record moved it, over the plan.
    """
    algorithm = spec.algorithm
    if not isinstance(algorithm, NoisyGradient) or not _hidden(spec):
        return []
    steps, n, batch = algorithm.steps, spec.n, algorithm.batch
    moved = [one[:steps] for one in moved if len(one) >= steps]
    if not moved:
        return []
    seen = [one > 0.0 for one in moved]
    length = algorithm.batches_per_epoch(n)
    epochs = [one[: steps - steps % length].reshape(-1, length) for one in seen]
    if batch.scheme in _PASSES:
        return _in_passes(batch.scheme, epochs, length, failure)
    if batch.scheme is Scheme.RANDOM_ALLOCATION:
        uses = batch.uses or 1
        odd = any((one.sum(axis=1) != uses).any() for one in epochs)
        return [f"a record was not used {uses} times in every round of allocated batches"] if odd else []
    if batch.scheme is Scheme.MIN_SEPARATION:
        apart = batch.apart(n)
        near = any((np.diff(np.flatnonzero(one)) < apart).any() for one in seen)
        return [f"a record was used again after fewer than {apart} steps"] if near else []
    if batch.scheme is Scheme.WITH_REPLACEMENT:
        failure /= 2
        found = _many_times(moved, algorithm.divisor(n), n, failure)
        if found:
            return found
    return _independent(batch.scheme, seen, epochs, algorithm.rate(n), failure) if batch.scheme in _INDEPENDENT else []


def _in_passes(scheme: Scheme, epochs: Sequence[NDArray[np.bool_]], length: int, failure: float) -> list[str]:
    if any((one.sum(axis=1) != 1).any() for one in epochs):
        return [f"a record did not take part once in every pass of {scheme.value} batches"]
    where = [one.argmax(axis=1) for one in epochs]
    if scheme is not Scheme.RESHUFFLED:
        moved = any((places != places[:1]).any() for places in where)
        return [f"a record changed its place between passes of {scheme.value} batches"] if moved else []
    still = all((places == places[:1]).all() for places in where)
    chance = length ** -float(sum(len(places) - 1 for places in where))
    return ["records kept their places in passes that are said to be shuffled"] if still and chance < failure else []


def _many_times(moved: Sequence[NDArray[np.float64]], size: int, n: int, failure: float) -> list[str]:
    """Places of a batch are drawn one by one, and plans are for a record in all of them; so all sums are looked at."""
    for one in moved:
        times, draws = math.floor(float(one.sum()) * size * (1 - 1e-6)), len(one) * size
        if stats.binom.sf(times - 1, draws, 1.0 / n) < failure / len(moved):
            return [
                f"a record moved {len(one)} sums as far as {times} draws of it, where about {draws / n:.3g} are "
                "described: the sensitivity that the certificate rests on does not hold for this code"
            ]
    return []


def _independent(
    scheme: Scheme, seen: Sequence[NDArray[np.bool_]], epochs: Sequence[NDArray[np.bool_]], rate: float, failure: float
) -> list[str]:
    each, refuted = failure / (2 * len(seen)), []
    for one, passes in zip(seen, epochs, strict=True):
        count, uses = int(one.sum()), passes.sum(axis=1)
        low, high = stats.binom.cdf(count, len(one), rate), stats.binom.sf(count - 1, len(one), rate)
        # A cap that is rarely reached lowers the rate a little: fewer uses say nothing there.
        if high < each / 2 or (low < each / 2 and scheme is not Scheme.TRUNCATED_POISSON):
            refuted.append(
                f"a record was in {count} of {len(one)} steps where {scheme.value} batches have the rate {rate:.3g}"
            )
        once = passes.shape[1] * rate * (1 - rate) ** (passes.shape[1] - 1)
        if len(uses) and stats.binom.sf(int((uses == 1).sum()) - 1, len(uses), once) < each:
            refuted.append(f"a record takes part once in every pass, as {scheme.value} batches do not")
    return refuted[:1]
