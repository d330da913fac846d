"""The result of a hunt: refuted or not, after how many calls, with a counterexample that anyone can run."""

import inspect
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sordino.auditing.hunter import worker
from sordino.auditing.hunter.domain import PrivacyClaim
from sordino.auditing.hunter.processes import HunterOptions, HunterTarget, Workers, refuse_dependent, refuse_seeded
from sordino.auditing.hunter.search import Hunt, Refutation
from sordino.core.gaussian import show_down
from sordino.core.validate import InputError


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
        hunter = Hunt(workers.run, parsed, options, lambda: refuse_dependent(workers, target.words))
        refuse_seeded(workers, hunter.first_table, target.words)
        found = hunter.run()
        refuse_dependent(workers, target.words)
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
