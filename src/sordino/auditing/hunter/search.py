"""The hunt: look for two neighbours and an event that refute a claim, then test them on runs that nobody has seen.

Searching and testing never share a run. A search may be as greedy as it likes: it picks a pair and an event on its own
runs. Each pick is tested on fresh runs at a share of the failure probability that was fixed before the hunt began, so
that all tests together are wrong with at most that probability, however many pairs and events were looked at. The
limits are those of Clopper and Pearson (1934), one for each table.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sordino.auditing.confidence import lower_end, upper_end
from sordino.auditing.hunter.domain import PrivacyClaim, TablePair, neighbours, simpler, variations
from sordino.auditing.hunter.features import Event, Sample, best_events, evidence
from sordino.auditing.hunter.processes import CallOutput, Runner, Table
from sordino.core.gaussian import down, up
from sordino.core.validate import OPEN_UNIT, POSITIVE, Interval, number, whole_number

# Shares of the work in each round; a round searches, then tests its finalists.
ROUNDS, FINALISTS = (0.12, 0.28, 0.6), 3
TEST_SHARES = (0.6, 0.6, 1.0)  # of what is left for tests in a round, for one finalist after the other
TESTS = len(ROUNDS) * FINALISTS + 1  # one more for the pair that is printed
START, SLOW, LEAST_TEST, MOST_TEST = 24, 3000, 32, 400_000


@dataclass(frozen=True, kw_only=True)
class HunterOptions:
    """How long and how surely to hunt.

    Attributes:
        confidence: that a claim said to be refuted is false; joint over everything that is tried.
        seconds: of wall time for the whole hunt, when `calls` is absent.
        calls: how many calls to make at most; a hunt that is the same on every machine.
        seed: of the hunt's own choices; the mechanism draws its own random numbers.
        processes: side by side.
        call_seconds: a call that takes longer is ended.
        python: the interpreter of the environment that the callable lives in; None: this one.
        folders: searched for modules before all others, for instance another version of a library.
    """

    confidence: float = 0.999
    seconds: float = 60.0
    calls: int | None = None
    seed: int | None = None
    processes: int = 2
    call_seconds: float = 10.0
    python: str | None = None
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        number("confidence", self.confidence, OPEN_UNIT)
        number("seconds", self.seconds, POSITIVE)
        number("call_seconds", self.call_seconds, POSITIVE)
        whole_number("processes", self.processes, Interval(1, 64))
        if self.calls is not None:
            whole_number("calls", self.calls, Interval(100))
        if self.seed is not None:
            whole_number("seed", self.seed, Interval(0, 2**128 - 1))


@dataclass(frozen=True)
class Refutation:
    """One event on one pair, counted on fresh runs.

    `epsilon` is the lower bound that the counts prove at the claim's delta with limits at `failure`; 0 proves nothing.
    """

    pair: TablePair
    event: Event
    hits: int
    runs: int
    other_hits: int
    failure: float
    epsilon: float


def proved_epsilon(hits: int, other_hits: int, runs: int, delta: float, failure: float) -> float:
    """ln((p - delta) / q) for the lower limit p and the upper limit q of the event on the two tables, rounded down."""
    low = float(lower_end(hits, runs, failure / 2))
    high = float(upper_end(other_hits, runs, failure / 2))
    power = down(low - delta)
    if power <= high:
        return 0.0
    return max(0.0, down(down(math.log(power), 2) - up(math.log(high), 2), 2))


class _Budget:
    """How many calls are left: by count, or by the time that is left and the speed so far, all work included."""

    def __init__(self, options: HunterOptions) -> None:
        self._begin, self._options = time.monotonic(), options
        self._since, self._counted, self.made = self._begin, 0, 0

    def note(self, calls: int) -> None:
        self.made, self._counted = self.made + calls, self._counted + calls

    def warm(self) -> None:
        """Forget how long the first calls took: they load libraries."""
        self._since, self._counted = time.monotonic(), 0

    def left(self) -> int:
        if self._options.calls is not None:
            return max(0, self._options.calls - self.made)
        now = time.monotonic()
        rate = max(self._counted, 1) / (now - self._since + 1e-6)
        return max(0, int((self._options.seconds - (now - self._begin)) * rate))


class Hunt:
    """One hunt of one mechanism: its runs so far, its budget, and the tests it has made.

    `check` is called between searching and testing, and refuses a mechanism that cannot be audited.
    """

    def __init__(
        self, runner: Runner, claim: PrivacyClaim, options: HunterOptions, check: Callable[[], None] = lambda: None
    ) -> None:
        self.claim, self._runner, self._options, self._check = claim, runner, options, check
        self._rng = np.random.default_rng(options.seed)
        self._outputs: dict[Table, list[CallOutput]] = defaultdict(list)
        self._samples: dict[Table, Sample] = {}
        self._budget = _Budget(options)
        self._share = (1.0 - options.confidence) / TESTS
        self.tests: list[Refutation] = []
        self.pairs: list[TablePair] = []
        self._waiting = neighbours(claim, self._rng)

    @property
    def calls(self) -> int:
        """Calls made so far."""
        return self._budget.made

    @property
    def first_table(self) -> Table:
        """The largest table of the pair that is tried first."""
        return max(self._waiting[0], key=len)

    @property
    def only_failure(self) -> str:
        """The exception that every call so far has ended with; empty when some call has not, or ended otherwise."""
        shapes = {output.shape for outputs in self._outputs.values() for output in outputs}
        only = shapes.pop() if len(shapes) == 1 else ""
        return only if only.startswith(("raised ", "died ", "hung")) else ""

    def run(self) -> Refutation | None:
        """Hunt until something is refuted or the budget is used; the refutation of the pair to print."""
        waiting = self._waiting
        self._extend(waiting[0], 2)
        self._budget.warm()
        self._extend(waiting[0], 6)
        ranked: list[tuple[float, TablePair]] = []
        for place, share in enumerate(ROUNDS):
            allowed = int(self._budget.left() * share / sum(ROUNDS[place:]))
            end = self.calls + allowed
            while self.calls < end - int(0.4 * allowed):
                before = self.calls
                ranked = self._searched(waiting, ranked, int(0.3 * allowed))
                if self._clear(ranked[0][1], (end - self.calls) // 2) or self.calls == before:
                    break
            self._check()
            for share_of_rest, (pair, event) in zip(TEST_SHARES, self._finalists(ranked), strict=False):
                tested = self._tested(pair, event, int(share_of_rest * (end - self.calls) / 2))
                if tested is not None and tested.epsilon > self.claim.epsilon:
                    return self._printed(tested)
        return None

    def _extend(self, tables: Sequence[Table], wanted: int) -> None:
        """Run each table until it has so many outputs, all in random order."""
        lacking = [table for table in dict.fromkeys(tables) for _ in range(wanted - len(self._outputs[table]))]
        for table, output in zip(*self._run(lacking), strict=True):
            self._outputs[table].append(output)
            self._samples.pop(table, None)

    def _run(self, tables: Sequence[Table]) -> tuple[list[Table], list[CallOutput]]:
        order = [tables[int(place)] for place in self._rng.permutation(len(tables))]
        outputs = self._runner.run(order)
        self._budget.note(len(order))
        return order, outputs

    def _sample(self, table: Table) -> Sample:
        if table not in self._samples:
            self._samples[table] = Sample(self._outputs[table])
        return self._samples[table]

    def _searched(
        self, waiting: list[TablePair], ranked: list[tuple[float, TablePair]], budget: int
    ) -> list[tuple[float, TablePair]]:
        """Successive halving: many pairs a few times each, the best third three times as often, and so on."""
        start = START if self._budget.left() > SLOW else START // 2
        width = int(np.clip(0.3 * budget / (1.6 * start), 4, 120))
        each = max(2, width // 12) if waiting else max(2, width // 6)
        near = [one for _, pair in ranked[:6] for one in variations(pair, self.claim, self._rng, each)]
        pool = [*(pair for _, pair in ranked[: width // 4]), *near]
        while waiting and len(pool) < width:
            pool.append(waiting.pop(0))
        self.pairs.extend(pair for pair in pool if pair not in self.pairs)
        end, wanted = self.calls + budget, start
        known = {id(pair): score for score, pair in ranked}
        while pool:
            lacking = sum(max(0, wanted - len(self._outputs[one])) for one in {t for pair in pool for t in pair})
            if self.calls + lacking > end and wanted > start:
                break
            self._extend([table for pair in pool for table in pair], wanted)
            scored = sorted(((self._score(pair), pair) for pair in pool), key=lambda one: -one[0])
            known.update({id(pair): score for score, pair in scored})
            pool = [pair for _, pair in scored[: max(3, len(scored) // 3)]]
            if self._clear(pool[0], 2 * wanted):
                break  # testing it costs less than looking on
            wanted *= 3
        everything = {id(pair): pair for pair in [*(pair for _, pair in ranked), *self.pairs]}
        return sorted(
            ((known[name], pair) for name, pair in everything.items() if name in known), key=lambda one: -one[0]
        )

    def _clear(self, pair: TablePair, most: int) -> bool:
        """Whether so many fresh runs a side would probably refute the claim."""
        best = self._promising(pair)[:1]
        return bool(best) and self._needed(*best[0][2], most=most) is not None

    def _score(self, pair: TablePair) -> float:
        return max((score for score, _, _ in self._promising(pair)), default=-math.inf)

    def _best(self, samples: Sequence[Sample]) -> list[tuple[float, Event]]:
        claim, (first, second) = self.claim, samples
        return best_events(first, second, claim.epsilon, claim.delta, bits=claim.arithmetic == "exact")

    def _promising(self, pair: TablePair, most: int = 6) -> list[tuple[float, Event, tuple[float, float]]]:
        """Events chosen on one half of the runs, with their evidence and their rates on the other half."""
        samples = [self._sample(table) for table in pair]
        choosing, judging = ([one.half(which) for one in samples] for which in (0, 1))
        claim, found = self.claim, []
        for _, event in self._best(choosing)[:most]:
            sides = judging[event.likelier], judging[1 - event.likelier]
            hits = [int(event.holds(one).sum()) for one in sides]
            sizes = [len(one) for one in sides]
            score = float(evidence(hits[0], sizes[0], hits[1], sizes[1], claim.epsilon, claim.delta))
            rates = (hits[0] + 0.5) / (sizes[0] + 1), (hits[1] + 0.5) / (sizes[1] + 1)
            found.append((score, event, rates))
        return sorted(found, key=lambda one: -one[0])

    def _finalists(self, ranked: list[tuple[float, TablePair]]) -> list[tuple[TablePair, Event]]:
        """The events to test, at most two of one pair; thresholds are set anew on all runs of the search."""
        found = []
        for _, pair in ranked[:6]:
            anew = self._best([self._sample(table) for table in pair])
            for score, event, _ in self._promising(pair)[:2]:
                same = [
                    other
                    for _, other in anew
                    if (other.feature.words, other.test, other.likelier)
                    == (event.feature.words, event.test, event.likelier)
                ]
                found.append((score, pair, same[0] if same else event))
        found.sort(key=lambda one: -one[0])
        return [(pair, event) for _, pair, event in found[:FINALISTS]]

    def _tested(self, pair: TablePair, event: Event, most: int) -> Refutation | None:
        """Fresh runs on both tables, as many as seem to be needed and not more than allowed; None when hopeless."""
        samples = [self._sample(table) for table in pair]
        rates = [(event.holds(one).sum() + 0.5) / (len(one) + 1.0) for one in samples]
        runs = self._needed(rates[event.likelier], rates[1 - event.likelier], min(most, MOST_TEST), hopeful=True)
        if runs is None:
            return None
        order, outputs = self._run([table for table in pair for _ in range(runs)])
        own = {table: Sample([one for place, one in zip(order, outputs, strict=True) if place == table])
               for table in pair}  # fmt: skip
        counts = [int(event.holds(own[table]).sum()) for table in pair]
        hits, other = counts[event.likelier], counts[1 - event.likelier]
        bound = proved_epsilon(hits, other, runs, self.claim.delta, self._share)
        tested = Refutation(pair, event, hits, runs, other, self._share, bound)
        self.tests.append(tested)
        # What a test has counted may serve later searches: later tests have runs of their own.
        for table, output in zip(order, outputs, strict=True):
            self._outputs[table].append(output)
            self._samples.pop(table, None)
        return tested

    def _needed(self, rate: float, other: float, most: int, *, hopeful: bool = False) -> int | None:
        """Runs with which counts a little worse than expected would refute the claim; all there are when hopeful."""
        runs = LEAST_TEST
        while runs <= most:
            low = max(0.0, rate - math.sqrt(rate * (1 - rate) / runs))
            high = min(1.0, other + math.sqrt(other * (1 - other) / runs))
            proved = proved_epsilon(math.floor(low * runs), math.ceil(high * runs), runs, self.claim.delta, self._share)
            if proved > self.claim.epsilon:
                return min(2 * runs, most)
            runs = 3 * runs // 2
        excess = rate > math.exp(self.claim.epsilon) * other + self.claim.delta
        return most if hopeful and most >= LEAST_TEST and excess else None

    def _printed(self, found: Refutation) -> Refutation:
        """A smaller pair that refutes the claim as well, if there is one; else the pair found."""
        pair, tried = found.pair, 0
        enough = min(found.runs, 4000)
        progress = True
        while progress and tried < 24 and self._budget.left() > 4 * enough:
            progress = False
            for candidate in simpler(pair, self.claim):
                tried += 1
                if tried > 24 or self._budget.left() < 4 * enough:
                    break
                self._extend(candidate, min(enough, 1000))
                best = self._promising(candidate)[:1]
                if best and self._would_refute(best[0], enough):
                    pair, progress = candidate, True
                    break
        if pair == found.pair:
            return found
        event = self._finalists([(0.0, pair)])[0][1]
        again = self._tested(pair, event, max(found.runs, LEAST_TEST))
        return again if again is not None and again.epsilon > self.claim.epsilon else found

    def _would_refute(self, promising: tuple[float, Event, tuple[float, float]], runs: int) -> bool:
        _, _, (rate, other) = promising
        needed = self._needed(rate, other, runs)
        return (
            needed is not None
            and proved_epsilon(math.floor(rate * runs), math.ceil(other * runs), runs, self.claim.delta, self._share)
            > self.claim.epsilon
        )
