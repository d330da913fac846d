"""A test of the implementation: the code runs on tables of extreme and varied records, beside its description.

Looked at on neighbouring tables, call by call:

- *scales*: the noise of a call has at least the scale of the plan, bound times multiplier.
- *shifts*: how far a record moves what is noised, against the plan that the certificate depends on. A call that moves
  further, or a run that asks for other calls, is a violation. All pairs of neighbours are compared; then records are
  varied towards those that move the call that is furthest from its plan.
- *release*: answered alike, neighbours leave the same release to the last bit: arrays, cautions, schema, every word.
- *noise*: what was added, over the scale that was stated, is standard normal (or Laplace) if the noise is what it is
  said to be. For all calls together and for each, an upper limit of its size below 1 is a violation.
- *participation*: in batches, the steps in which a record moves the sum are those it took part in (`participation`).
- *batches*: answered alike, the same rows in other batches must leave the same release to the last bit.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sordino.auditing.lower_bound import Examined, Verdict, VerdictKind
from sordino.auditing.replay import plan
from sordino.auditing.replay.plan import Replayed, compare, planned_calls
from sordino.auditing.replay.port import Recorder, Recording, Run
from sordino.core.results import Result, ResultTable
from sordino.core.spec import Scheme, Spec
from sordino.core.validate import OPEN_UNIT, InputError, SordinoError, number
from sordino.noise.randomness import Law

# A release may be audited many times, and sound code must not be called broken in one of twenty audits.
CONFIDENCE = 0.9999
SECONDS = 60.0
# A call that some pair moved so far needs no better pair. Records of a trial are varied so often in turn with those of
# other trials, and of all trials so often without moving the calls further by a hundredth.
REACHED, _AT_ONCE, _IDLE = 0.95, 10, 120
# Enough noise to distinguish half of it from all, at any confidence that is used; runs with little are recorded again.
_ENOUGH, _MOST_RECORDINGS, _FURTHER, _MOST_CALLS = 120, 120, 1000, 64
_LIMITS = (
    "The installed code ran on tables drawn from the schema or from the constants of the description. Other pairs "
    "may move further, and the replay does not test the theorems."
)


class ReplayTrial(NamedTuple):
    """Tables with words: the first is recorded, the others are replayed with its answers.

    Any two are neighbours where `alike`, else only the first and each other. `varied` makes a further table between and
    around two; `stretch` is how much larger than usual the noise of the recording is.
    """

    words: str
    tables: tuple[tuple[str, Run], ...]
    alike: bool = False
    varied: Callable[[int, int], tuple[str, Run]] | None = None
    stretch: float = 1.0


@dataclass(frozen=True)
class Implementation(Result):
    """What was found out about the code; `verdict` says what it means.

    `realised` and `planned` are totals of the calls of a `law`, of the `pair` that moved most. `reached` is the largest
    shift of every call over its plan, `ratio` the largest of these. `noise` is an upper limit of the size of the
    `drawn` numbers over the stated one. `complete` says whether all pairs were tried in the time there was.
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
    reached: tuple[float, ...] = ()
    checks: dict[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """Violated where the code does something else than its description; else consistent, for what was tried."""
        if self.refuted:
            return Verdict(VerdictKind.VIOLATED, "; ".join(self.refuted) + ".")
        much = "" if self.complete else ", and no more in the time there was"
        return Verdict(
            VerdictKind.CONSISTENT,
            f"on {self.pairs:,} pairs of neighbours{much}, no noised sum moved further than planned (at most "
            f"{self.ratio:.3f} times the plan), and there is no sign that the noise is smaller than stated.",
        )

    @property
    def shown(self) -> ResultTable:
        total = "root of squared shifts" if self.law is Law.GAUSSIAN else "sum of shifts"
        size = "not known" if math.isinf(self.noise) else f"{self.noise:.3f} times the stated scale"
        facts = (
            ("largest move of one sum", f"{self.ratio:.3f} times the plan"),
            ("combined move of all sums", f"{self.realised:.4g}; planned: {self.planned:.4g} ({total} over noise)"),
            ("pair that moved them most", self.pair),
            ("upper limit of the noise", f"{size} ({self.drawn:,} numbers, confidence {100 * self.confidence:g} %)"),
        )
        title, rows = f"{self.verdict.kind.words}: {self.verdict.evidence}", tuple(self.checks.items())
        columns = {"checked": list(self.checks), "how": list(self.checks.values())}
        return ResultTable(title, ((("checked", "how"), rows),), columns, facts, (), (_LIMITS,))

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
            "reached": list(self.reached),
            "checks": self.checks,
            "verdict": self.verdict.as_json(),
        }


@dataclass
class _Found:
    """What pairs have shown so far, each call against its plan."""

    spec: Spec
    end: float
    refuted: dict[str, None]
    pairs: int = 0
    worst: tuple[float, str, Replayed] | None = None
    reached: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    taken: list[NDArray[np.float64]] = field(default_factory=list)
    idle: int = 0
    moved: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing further need be tried: what was refuted once needs no other pair, and time may be up."""
        return self.pairs > 0 and (bool(self.refuted) or time.process_time() > self.end)

    def call_to_vary(self, known: Iterable[int], turn: int) -> int | None:
        """One of the three calls that are furthest from their plans; none where all are near, or trying is in vain."""
        total = float(self.reached.sum())
        self.idle, self.moved = (0, total) if total > self.moved + 0.01 else (self.idle + 1, self.moved)
        far = [call for call in sorted(known, key=self.reached.__getitem__) if self.reached[call] < REACHED]
        return far[turn % min(len(far), 3)] if far and not self.over and self.idle <= _IDLE else None

    def note(self, faults: Iterable[str], words: str) -> None:
        """What contradicts the description, and where it was seen."""
        self.refuted |= dict.fromkeys(f"{fault} {words}".strip() for fault in faults)

    def add(self, pair: str, found: Replayed) -> NDArray[np.float64]:
        self.pairs += 1
        self.note(found.faults, f"({pair})")
        for at, shift in islice(found.excesses().items(), 1):
            moved = f"noised call {at} moved {shift.ratio:.3f} times as far as planned"
            self.note([moved], f"({pair}): the code exceeds the sensitivity that the certificate uses")
        ratios = np.array([0.0 if one.planned is None else one.realised / one.planned for one in found.shifts])
        if len(ratios) >= len(self.reached):
            self.reached = np.maximum(ratios, np.pad(self.reached, (0, len(ratios) - len(self.reached))))
        _, realised, planned = found.total
        over = realised / planned if planned > 0 else 0.0
        if self.worst is None or over > self.worst[0]:
            self.worst = over, pair, found
        return ratios


def examine(
    spec: Spec,
    trials: Iterable[ReplayTrial],
    *,
    confidence: float,
    seed: int,
    recorder: Recorder | None = None,
    seconds: float = SECONDS,
    checks: dict[str, str] | None = None,
    faults: Sequence[str] = (),
) -> Implementation:
    """Record and replay every trial, and hold it against the description; `checks` and `faults` came before."""
    failure = (1.0 - number("confidence", confidence, OPEN_UNIT)) * (0.5 if plan.hidden_batches(spec) else 1.0)
    recorder = Recorder() if recorder is None else recorder
    begin = time.process_time()
    found, drawn, size, complete = _Found(spec, begin + seconds, dict.fromkeys(faults)), 0, math.inf, True
    tried: list[_Pairs] = []
    for place, trial in enumerate(trials):
        if found.over:
            complete = False
            break
        run = trial.tables[0][1]
        try:
            first = recorder.record(run, seed + place, trial.stretch)
        except (SordinoError, np.linalg.LinAlgError):
            if trial.stretch == 1.0:
                raise
            continue  # answers that no fit gets
        if place == 0:
            # A recording adds noise by code of its own; the code that adds it otherwise must give the same bits.
            unlike = recorder.unlike_production(first, run)
            found.note((f"{name} is not what the recorded noise gives" for name in unlike), "")
            if _sampled(spec):
                found.note(recorder.rebatched(first, run), "(the same rows in other batches)")
        tried.append(_Pairs(found, recorder, trial, first))
        if place == 0 and not found.refuted:
            noise = [first]
            while _few(noise) and len(noise) < _MOST_RECORDINGS and time.process_time() - begin < seconds / 4:
                noise.append(recorder.record(run, seed + _FURTHER + len(noise)))
            drawn, size, too_small = _noise(noise, failure)
            found.note(too_small, f"with confidence {confidence:g}")
    if found.worst is None:
        raise InputError("A replay needs at least one pair of neighbours.")
    while any([pairs.vary() for pairs in tried]):
        pass
    law, realised, planned = found.worst[2].total
    found.note(plan.participation_faults(spec, found.taken, failure), "")
    reached, sampled = tuple(float(one) for one in found.reached), _sampled(spec)
    looked_at = {
        "scales": f"noise scale of {len(reached)} sums, compared with the plan (bound times multiplier)",
        "noise": f"size of {drawn:,} noise draws, in total and for each sum",
        "shifts": f"{sum(one >= REACHED for one in reached)} of {len(reached)} sums moved at least {REACHED:g} times "
        f"the plan; smallest: {min(reached, default=0.0):.2f}"
        + ("" if sampled else plan.unreached(spec, REACHED, reached)),
        "release": "all arrays and texts of the release, which must be the same for all neighbours",
    } | ({"batches": "who takes part in which step; other batches must give the same release"} if sampled else {})
    return Implementation(
        spec=spec,
        confidence=confidence,
        pairs=found.pairs,
        calls=len(tried[0].first.calls),
        law=law,
        realised=realised,
        planned=planned,
        ratio=max(reached, default=0.0),
        pair=found.worst[1],
        drawn=drawn,
        noise=size,
        refuted=tuple(found.refuted),
        complete=complete,
        reached=reached,
        checks=looked_at | (checks or {}),
    )


class _Pairs:
    """The pairs of a trial: its tables, and then records varied from the best pair of the call that is furthest off."""

    def __init__(self, found: _Found, recorder: Recorder, trial: ReplayTrial, first: Recording) -> None:
        self.first, self._found, self._recorder, self._trial = first, found, recorder, trial
        self._replays = [(trial.tables[0][0], first)]
        self._points = [[point] for point in _points(first)]
        self._bounds = [planned.bound for planned in planned_calls(found.spec)]
        self._best: dict[int, tuple[float, int, int]] = {}
        for name, run in trial.tables[1:]:
            if not found.over:
                self._try(name, run)

    def vary(self) -> bool:
        """A few further records, as long as some call is far from its plan and they move calls further."""
        for turn in range(_AT_ONCE):
            call = self._found.call_to_vary(self._best, turn)
            if call is None or self._trial.varied is None:
                return False
            _, one, other = self._best[call]
            self._try(*self._trial.varied(*((one, other) if turn % 2 else (other, one))))
        return True

    def _try(self, name: str, run: Run) -> None:
        """Replay a table and compare it with the first, and where all are neighbours with those it is furthest from."""
        replay, place = self._recorder.replay(self.first, run), len(self._replays)
        ratios = self._compare(0, replay, name)
        for call, ratio in enumerate(ratios):
            self._note(call, float(ratio), 0, place)
        if not self._trial.alike:
            self._found.taken.append(ratios)
        elif not self._found.refuted:
            self._found.pairs += place - 1
            partners = set[int]()
            for call, (known, point, bound) in enumerate(
                zip(self._points, _points(replay), self._bounds, strict=False)
            ):
                known.append(point)
                if bound:
                    order = 2 if self.first.calls[call].call.law is Law.GAUSSIAN else 1
                    apart = np.linalg.norm(np.array(known[:-1]) - point, order, axis=1) / bound
                    at = int(np.argmax(apart))
                    self._note(call, float(apart[at]), at, place)
                    if at and apart[at] > self._found.reached[call]:  # further than between any two before
                        partners.add(at)
            for at in sorted(partners):
                self._compare(at, replay, name)
        self._replays.append((name, replay))

    def _note(self, call: int, ratio: float, at: int, place: int) -> None:
        if ratio > self._best.get(call, (-1.0, 0, 0))[0]:
            self._best[call] = ratio, at, place

    def _compare(self, at: int, replay: Recording, name: str) -> NDArray[np.float64]:
        known, earlier = self._replays[at]
        return self._found.add(f"{self._trial.words}: {known} or {name}", compare(self._found.spec, earlier, replay))


def _points(recording: Recording) -> list[NDArray[np.float64]]:
    """What every call noised, in its scales; a wrong shape is a fault that was noted."""
    return [
        np.asarray(seen.call.unit * seen.call.statistic.astype(np.float64) / np.asarray(seen.call.scale)).ravel()
        for seen in recording.calls
    ]


def _sampled(spec: Spec) -> bool:
    """Whether some part of the run draws batches."""
    runs = [part.algorithm for part in spec.runs()]
    batches = [getattr(run, "batch", None) or getattr(run, "sampling", None) for run in runs]
    return any(batch is not None and batch.scheme is not Scheme.FULL for batch in batches)


class _Drawn(NamedTuple):
    """The law and the deviations of a call, and the distance of two values that a whole number may have."""

    law: Law
    deviations: NDArray[np.float64]
    cell: float


def _drawn(recordings: Sequence[Recording]) -> list[_Drawn]:
    """What every call added, in all recordings."""
    found = []
    for seen in zip(*(recording.calls for recording in recordings), strict=False):
        call, deviations = seen[0].call, np.concatenate([one.deviations for one in seen])
        whole = call.law is Law.LAPLACE and call.statistic.dtype.kind in "iuO"
        found.append(_Drawn(call.law, deviations, float(call.unit / np.min(call.scale)) if whole else 0.0))
    return found


def _few(recordings: Sequence[Recording]) -> bool:
    """Whether one call, or all of them if there are many, have too few numbers to detect noise of half the size."""
    sizes = [len(one.deviations) for one in _drawn(recordings)]
    return bool(sizes) and 0 < (min(sizes) if len(sizes) <= _MOST_CALLS else sum(sizes)) < _ENOUGH


def _noise(recordings: Sequence[Recording], failure: float) -> tuple[int, float, list[str]]:
    """How many numbers were drawn, the upper limit of their size over the stated one, and calls with too little."""
    calls = _drawn(recordings)
    if not calls:
        return 0, math.inf, []
    law = Law.GAUSSIAN if any(one.law is Law.GAUSSIAN for one in calls) else Law.LAPLACE
    own = [one for one in calls if one.law is law]
    together = _Drawn(law, np.concatenate([one.deviations for one in own]), max(one.cell for one in own))
    size = _largest_size(together, failure / 2)
    if size < 1.0:
        return len(together.deviations), size, [f"noise is at most {size:.3f} of the stated scale"]
    limits = [_largest_size(one, failure / 2 / len(calls)) for one in calls]
    small = [(limit, place) for place, limit in enumerate(limits, 1) if limit < 1.0][:1]
    too_small = [f"noise is at most {limit:.3f} of the stated scale in noised call {place}" for limit, place in small]
    return len(together.deviations), size, too_small


def _largest_size(drawn: _Drawn, failure: float) -> float:
    """The upper limit of the size of noise over the stated one; infinite where there is none."""
    count = len(drawn.deviations)
    if not count:
        return math.inf
    if drawn.law is Law.GAUSSIAN:
        least = float(stats.chi2.ppf(failure, count))
        return math.sqrt(float(np.square(drawn.deviations).sum()) / least) if least > 0 else math.inf
    # P(sum <= x) <= e^(t x) M(-t)^count for every t: M is that of the size of a Laplace number, or of a whole one.
    t = np.geomspace(1e-3, 1e3, 400)
    decay = np.exp(-t * drawn.cell)
    kept = math.exp(-drawn.cell)
    moments = (1 - kept) / (1 + kept) * (1 + 2 * kept * decay / (1 - kept * decay)) if drawn.cell else 1 / (1 + t)
    least = float(np.max((math.log(failure) - count * np.log(moments)) / t))
    return float(np.abs(drawn.deviations).sum()) / least if least > 0 else math.inf
