"""The hunt: look for two neighbours and an event that refute a claim, test them on fresh runs, and report.

Searching and testing never share a run: a pair and an event that a search picks are tested on fresh runs, at a share of
the failure probability that was fixed before the hunt began. So all tests together are wrong with at most that
probability, however much was looked at. The limits are those of Clopper and Pearson (1934), one for each table.
"""

import inspect
import math
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from sordino.auditing.confidence import ErrorCounts
from sordino.auditing.hunter import processes, worker
from sordino.auditing.hunter.domain import PrivacyClaim, TablePair, neighbours, variations
from sordino.auditing.hunter.features import Event, Sample, best_events, evidence
from sordino.auditing.hunter.processes import CallOutput, HunterOptions, HunterTarget, Table, Workers
from sordino.auditing.lower_bound import log_ratio
from sordino.core.gaussian import show_down
from sordino.core.validate import InputError

ROUNDS, FINALISTS = (0.12, 0.28, 0.6), 3  # shares of the work in each round; a round searches, then tests its finalists
SEARCHED, TEST_SHARES = 0.6, (0.6, 0.6, 1.0)  # of a round; of what is left for tests, one finalist after the other
TESTS = len(ROUNDS) * FINALISTS
START, SLOW, LEAST_TEST, MOST_TEST = 24, 3000, 32, 400_000
AskFor = Callable[[Sequence[Table]], list[CallOutput]]  # one output for each table, in order


@dataclass(frozen=True)
class Refutation:
    """One event on one pair of tables, counted on fresh runs, and the lower bound `epsilon` that the counts prove."""

    pair: tuple[Table, Table]
    event: Event
    hits: int
    runs: int
    other_hits: int
    epsilon: float


def proved_epsilon(hits: int, other_hits: int, runs: int, delta: float, failure: float) -> float:
    """ln((p - delta) / q) for the lower limit p and the upper limit q of the event on the two tables, rounded down."""
    missed = ErrorCounts(runs - hits, runs, other_hits, runs).point(1.0 - failure)
    return log_ratio(delta, missed.false_positive, missed.false_negative)


class Promising(NamedTuple):
    """An event chosen on one half of the runs of a pair: its evidence and its rates on the other half."""

    score: float
    event: Event
    rate: float
    other_rate: float


class Hunt:
    """One hunt of one mechanism; `check` is called before tests, and refuses a mechanism that cannot be audited."""

    def __init__(
        self, run: AskFor, claim: PrivacyClaim, options: HunterOptions, check: Callable[[], None] = lambda: None
    ) -> None:
        self.claim, self._asked, self._options, self._check = claim, run, options, check
        self._rng = np.random.default_rng(options.seed)
        self._outputs: dict[Table, list[CallOutput]] = defaultdict(list)
        self._share = (1.0 - options.confidence) / TESTS
        self._begin = time.monotonic()
        # When, and after how many calls, the speed of calls began to be counted: the first ones load libraries.
        self._warm = self._begin, 0
        self.calls = 0
        self.tests: list[Refutation] = []
        self._waiting = neighbours(claim, self._rng)
        self.first_table = self._waiting[0].tables[1]  # the larger one of the pair that is tried first
        self._ranked: dict[TablePair, float] = {}

    @property
    def pairs(self) -> int:
        return len(self._ranked)

    @property
    def only_failure(self) -> str:
        """The exception that every call so far has ended with; empty when some call has not, or ended otherwise."""
        shapes = {output.shape for outputs in self._outputs.values() for output in outputs}
        only = shapes.pop() if len(shapes) == 1 else ""
        return only if only.startswith(("raised ", "died ", "hung")) else ""

    def run(self) -> Refutation | None:
        """Hunt until the claim is refuted or the budget is used."""
        self._extend(self._waiting[0].tables, 2)
        self._warm = time.monotonic(), self.calls
        for place, share in enumerate(ROUNDS):
            allowed = int(self._left() * share / sum(ROUNDS[place:]))
            end = self.calls + allowed
            while self.calls < end - int((1 - SEARCHED) * allowed):
                before = self.calls
                self._search(int(SEARCHED / 2 * allowed))
                if self._clear(self._best[0], (end - self.calls) // 2) or self.calls == before:
                    break
            self._check()
            # The events to test are at most two of one pair.
            found = [(one.score, pair, one.event) for pair in self._best[:6] for one in self._promising(pair)[:2]]
            finalists = sorted(found, key=lambda one: -one[0])[:FINALISTS]
            for share_of_rest, (_, pair, event) in zip(TEST_SHARES, finalists, strict=False):
                tested = self._tested(pair, event, int(share_of_rest * (end - self.calls) / 2))
                if tested is not None and tested.epsilon > self.claim.epsilon:
                    return tested
        return None

    def _left(self) -> int:
        """How many calls are left: by count, or by the time that is left and the speed so far, all work included."""
        if self._options.calls is not None:
            return max(0, self._options.calls - self.calls)
        now, (since, counted) = time.monotonic(), self._warm
        rate = max(self.calls - counted, 1) / (now - since + 1e-6)
        return max(0, int((self._options.seconds - (now - self._begin)) * rate))

    def _extend(self, tables: Sequence[Table], wanted: int) -> None:
        """Run each table until it has so many outputs, all in random order."""
        self._run([table for table in dict.fromkeys(tables) for _ in range(wanted - len(self._outputs[table]))])

    def _run(self, tables: Sequence[Table]) -> dict[Table, list[CallOutput]]:
        """The outputs of fresh runs; what a test has counted may serve later searches."""
        order = [tables[int(place)] for place in self._rng.permutation(len(tables))]
        found: dict[Table, list[CallOutput]] = defaultdict(list)
        for table, output in zip(order, self._asked(order), strict=True):
            found[table].append(output)
        for table, outputs in found.items():
            self._outputs[table] += outputs
        self.calls += len(order)
        return found

    def _search(self, budget: int) -> None:
        """Successive halving: many pairs a few times each, the best third three times as often, and so on."""
        start = START if self._left() > SLOW else START // 2
        width = int(np.clip(0.3 * budget / (1.6 * start), 4, 120))
        each = max(2, width // (12 if self._waiting else 6))
        best = self._best
        near = [one for pair in best[:6] for one in variations(pair, self.claim, self._rng, each)]
        pool = list(dict.fromkeys([*best[: width // 4], *near]))
        new = max(0, width - len(pool))
        pool, self._waiting = pool + self._waiting[:new], self._waiting[new:]
        end, wanted = self.calls + budget, start
        while pool:
            tables = list(dict.fromkeys(table for pair in pool for table in pair.tables))
            lacking = sum(max(0, wanted - len(self._outputs[table])) for table in tables)
            if self.calls + lacking > end and wanted > start:
                return
            self._extend(tables, wanted)
            scores = {pair: max((one.score for one in self._promising(pair)), default=-math.inf) for pair in pool}
            self._ranked |= scores
            pool = sorted(pool, key=lambda pair: -scores[pair])[: max(3, len(pool) // 3)]
            if self._clear(pool[0], 2 * wanted):
                return  # testing it costs less than looking on
            wanted *= 3

    @property
    def _best(self) -> list[TablePair]:
        return sorted(self._ranked, key=lambda pair: -self._ranked[pair])

    def _promising(self, pair: TablePair, most: int = 6) -> list[Promising]:
        """Events chosen on one half of the runs and judged on the other, the most informative first."""
        samples = [Sample(self._outputs[table]) for table in pair.tables]
        choosing, judging = ([one.half(which) for one in samples] for which in (0, 1))
        claim, found = self.claim, []
        chosen = best_events(choosing[0], choosing[1], claim.epsilon, claim.delta, bits=claim.arithmetic == "exact")
        for _, event in chosen[:most]:
            sides = judging[event.likelier], judging[1 - event.likelier]
            hits, sizes = [int(event.holds(one).sum()) for one in sides], [len(one) for one in sides]
            score = float(evidence(hits[0], sizes[0], hits[1], sizes[1], claim.epsilon, claim.delta))
            rate, other = ((count + 0.5) / (size + 1) for count, size in zip(hits, sizes, strict=True))
            found.append(Promising(score, event, rate, other))
        return sorted(found, key=lambda one: -one.score)

    def _clear(self, pair: TablePair, most: int) -> bool:
        """Whether so many fresh runs a side would probably refute the claim."""
        return any(self._needed(one.rate, one.other_rate, most) is not None for one in self._promising(pair)[:1])

    def _tested(self, pair: TablePair, event: Event, most: int) -> Refutation | None:
        """Fresh runs on both tables, as many as seem to be needed and not more than allowed; None when hopeless."""
        tables, claim = pair.tables, self.claim
        samples = [Sample(self._outputs[table]) for table in tables]
        rates = [(event.holds(one).sum() + 0.5) / (len(one) + 1.0) for one in samples]
        rate, other = rates[event.likelier], rates[1 - event.likelier]
        most = min(most, MOST_TEST)
        runs = self._needed(rate, other, most)
        if runs is None and (most < LEAST_TEST or rate <= math.exp(claim.epsilon) * other + claim.delta):
            return None
        runs = runs or most
        own = self._run([table for table in tables for _ in range(runs)])
        counts = [int(event.holds(Sample(own[table])).sum()) for table in tables]
        hits, other_hits = counts[event.likelier], counts[1 - event.likelier]
        bound = proved_epsilon(hits, other_hits, runs, claim.delta, self._share)
        self.tests.append(Refutation(tables, event, hits, runs, other_hits, bound))
        return self.tests[-1]

    def _needed(self, rate: float, other: float, most: int) -> int | None:
        """Runs with which counts a little worse than expected would refute the claim, twice over where allowed."""
        runs = LEAST_TEST
        while runs <= most:
            low = max(0.0, rate - math.sqrt(rate * (1 - rate) / runs))
            high = min(1.0, other + math.sqrt(other * (1 - other) / runs))
            proved = proved_epsilon(math.floor(low * runs), math.ceil(high * runs), runs, self.claim.delta, self._share)
            if proved > self.claim.epsilon:
                return min(2 * runs, most)
            runs = 3 * runs // 2
        return None


@dataclass(frozen=True, kw_only=True)
class HunterReport:
    """What a hunt found out about a claim.

    `epsilon` is the lower bound at the claim's delta that the counts prove, with joint `confidence` over every pair and
    event that was tried. If the claim is refuted, `refutation` says how, and `script` is a program that counts the
    event again. `tests` events were counted on fresh runs. Seconds of the processor are those of all processes.
    """

    target: str
    claim: PrivacyClaim
    epsilon: float
    confidence: float
    refutation: Refutation | None
    script: str
    pairs: int
    tests: int
    calls: int
    wall_seconds: float
    cpu_seconds: float

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted."""
        return self.refutation is not None

    @property
    def sentence(self) -> str:
        """The verdict and its evidence."""
        claimed = f"epsilon {self.claim.epsilon:g}, delta {self.claim.delta:g} ({self.claim.relation.value})"
        if self.refutation is None:
            return (
                f"Not refuted: {self.pairs} pairs of neighbours and {self.calls} calls of {self.target} show nothing "
                f"against {claimed}. This proves nothing about other neighbours and rarer events."
            )
        found = self.refutation
        return (
            f"Violated: {self.target} claims {claimed}, and has epsilon at least {show_down(self.epsilon)} with "
            f"confidence {100 * self.confidence:g} %: {found.event.words} in {found.hits} of {found.runs} runs on one "
            f"table and {found.other_hits} of {found.runs} on its neighbour."
        )

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; cells that are NaN or infinite are texts."""
        found = self.refutation
        counterexample = None if found is None else {
            "tables": [_plain(found.pair[place]) for place in (found.event.likelier, 1 - found.event.likelier)],
            "event": found.event.words,
            "hits": found.hits,
            "other_hits": found.other_hits,
            "runs": found.runs,
            "script": self.script,
        }  # fmt: skip
        return {
            "target": self.target,
            "method": "hunter",
            "examined": "run",
            "claim": {
                "epsilon": self.claim.epsilon,
                "delta": self.claim.delta,
                "relation": self.claim.relation.value,
                "arithmetic": self.claim.arithmetic,
            },
            "verdict": {"kind": "violated" if self.violated else "consistent", "evidence": self.sentence},
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "counts": {"pairs": self.pairs, "tests": self.tests, "calls": self.calls},
            "seconds": {"wall": round(self.wall_seconds, 2), "cpu": round(self.cpu_seconds, 2)},
            "counterexample": counterexample,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and value - value != 0 else value


def hunt(mechanism: Callable[..., Any] | str, claim: Any, options: HunterOptions) -> HunterReport:
    """Try to refute a claim, or that of the module's `CLAIMS`."""
    parsed = None if claim is None else PrivacyClaim.parse(claim)
    target = HunterTarget.parse(mechanism) if isinstance(mechanism, str) else HunterTarget.of(mechanism)
    begin, before = time.monotonic(), _cpu()
    # Two processes at least, to compare what they begin with.
    with Workers(target, replace(options, processes=max(2, options.processes))) as workers:
        if parsed is None:
            if (declared := workers.processes[0].declared) is None:
                raise InputError("This callable has no claim. Give --claim, or define CLAIMS in its module.")
            parsed = PrivacyClaim.parse(declared)
        hunter = Hunt(workers.run, parsed, options, lambda: processes.refuse_dependent(workers, target.words))
        processes.refuse_seeded(workers, hunter.first_table, target.words)
        found = hunter.run()
        processes.refuse_dependent(workers, target.words)
    if hunter.only_failure:
        raise InputError(f"Of {target.words} every call failed in the same way: {hunter.only_failure}.")
    return HunterReport(
        target=target.words,
        claim=parsed,
        epsilon=max((test.epsilon for test in hunter.tests), default=0.0) if found is None else found.epsilon,
        confidence=options.confidence,
        refutation=found,
        script="" if found is None else script(target, parsed, found, options.python),
        pairs=hunter.pairs,
        tests=len(hunter.tests),
        calls=hunter.calls,
        wall_seconds=time.monotonic() - begin,
        cpu_seconds=_cpu() - before,
    )


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


_SCRIPT = '''"""Counterexample: {words} claims epsilon {claim.epsilon:g} and delta {claim.delta:g}.

On two neighbouring tables ({claim.relation.value}) the event below happens at rates that the claim does not allow.
Seen when this file was made: {found.hits} of {found.runs} runs on the first table, {found.other_hits} on the second,
so epsilon is at least {found.epsilon:.4g}, with the confidence of the hunt. {python}Run it from the folder of the hunt.
"""

import importlib, importlib.util, json, math, os, subprocess, sys

nan, inf = math.nan, math.inf
FIRST = {first!r}
SECOND = {second!r}
EPSILON, DELTA, RUNS = {claim.epsilon!r}, {claim.delta!r}, {found.runs}
# {event_words}


def event(shape, numbers, texts):
    try:
        return {found.event.code}
    except (IndexError, ValueError, OverflowError):  # the output has no such number
        return False


MOST_LEAVES, MOST_DEPTH = {worker.MOST_LEAVES}, {worker.MOST_DEPTH}


{quoted}


def limit(hits, runs, failure):
    """The largest rate that gives so few hits with probability `failure` or more (Clopper & Pearson 1934)."""
    low, high = hits / runs, 1.0
    for _ in range(60):
        rate = (low + high) / 2
        terms = [
            math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
            + k * math.log(rate) + (runs - k) * math.log1p(-rate)
            for k in range(hits + 1)
        ] if 0 < rate < 1 else [0.0]
        low, high = (rate, high) if sum(map(math.exp, terms)) > failure else (low, rate)
    return high


sys.path.insert(0, os.getcwd())
mechanism = resolve({target!r})
counts = [sum(bool(event(*outcome(mechanism, table))) for _ in range(RUNS)) for table in (FIRST, SECOND)]
low, high = 1 - limit(RUNS - counts[0], RUNS, 5e-4), limit(counts[1], RUNS, 5e-4)
print("event on the first table:", counts[0], "of", RUNS, "- on the second:", counts[1], "of", RUNS)
print("rates with confidence 99.9 %: at least", low, "and at most", high)
print("claimed epsilon:", EPSILON, "- proved:", math.log((low - DELTA) / high) if low > DELTA else 0.0)
'''


def script(target: HunterTarget, claim: PrivacyClaim, found: Refutation, python: str | None) -> str:
    """A program that needs the mechanism and the standard library only, and counts the event on both tables."""
    source = inspect.getsource(worker)
    begin, end = source.index("# The counterexample script"), source.index("# End of what the script quotes.")
    tables = [list(found.pair[place]) for place in (found.event.likelier, 1 - found.event.likelier)]
    return _SCRIPT.format(
        words=target.words,
        claim=claim,
        found=found,
        worker=worker,
        python="" if python is None else f"The interpreter was {python}. ",
        first=tables[0],
        second=tables[1],
        event_words=" ".join(found.event.words.split()),
        quoted=source[begin:end].split("\n", 1)[1].strip(),
        target=[target.place, target.where, target.attribute],
    )
