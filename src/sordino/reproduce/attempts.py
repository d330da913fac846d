"""Running many items one after the other: a failure is noted, and the others still run."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sordino.core.errors import SordinoError
from sordino.reproduce.item import Item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome
from sordino.reproduce.run import run_item


@dataclass(frozen=True)
class Attempt:
    """One item that was run: what came of it, or why nothing did, and how long that took."""

    item: Item
    result: Outcome | Exception
    seconds: float

    @property
    def outcome(self) -> Outcome | None:
        """What came of it."""
        return self.result if isinstance(self.result, Outcome) else None

    @property
    def exit_code(self) -> int:
        """0 where it worked, the code of a refusal, or 1."""
        if isinstance(self.result, Outcome):
            return 0
        return self.result.exit_code if isinstance(self.result, SordinoError) else 1

    @property
    def verdict(self) -> str:
        """The verdict's word; `failed` where there is none."""
        return "failed" if self.outcome is None else self.outcome.verdict.kind.value

    @property
    def because(self) -> str:
        """The verdict's sentence, or what went wrong, in one line."""
        if isinstance(self.result, Outcome):
            return self.result.verdict.because
        kind = "" if isinstance(self.result, SordinoError) else f"{type(self.result).__name__}: "
        return " ".join(f"{kind}{self.result}".split())


def attempt_items(
    wanted: Iterable[Item], options: Options, out: Path, starting: Callable[[Item], None] = lambda _: None
) -> tuple[Attempt, ...]:
    """Run each item and write its folder; `starting` is told before each one."""
    done = []
    for one in wanted:
        starting(one)
        begun = time.perf_counter()
        try:
            result: Outcome | Exception = run_item(one.name, options, out)
        except Exception as error:  # whatever an experiment dies of, the others are not to die with it
            result = error
        done.append(Attempt(one, result, time.perf_counter() - begun))
    return tuple(done)
