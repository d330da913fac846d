"""Sums over all parts of a table, each part counted exactly once, whatever happens to workers on the way.

An engine may answer for a part twice (a retried task, a speculative twin): the first answer counts, the second has to
be the same, and neither is added again. It may lose a part: then there is no sum. Rows may change between two rounds:
then the fit is refused, because its rounds would be about different tables.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from tempfile import TemporaryFile
from typing import Any, BinaryIO, ClassVar

from sordino.algorithm.engines.spread import Spread, in_files
from sordino.algorithm.engines.work import Encode, PartAnswer, Question, Work
from sordino.algorithm.noise.wide_sums import Summed, WideSums
from sordino.core.validate import InputError, one_of
from sordino.data.sources.part import Part

# Told the name of a question, how many parts have answered, and of how many.
Progress = Callable[[str, int, int], None]


def untold(_name: str, _done: int, _parts: int) -> None:
    """Nobody wants to know how far a round is."""


class Engine(ABC):
    """Brings a question to every part and its answers back."""

    # Whether parts are read by other processes, so that they have to be such that these can read them.
    elsewhere: ClassVar[bool] = False
    # Frames that lie with those processes already; frames of another cluster have to be saved first.
    own_frames: ClassVar[tuple[type[Part], ...]] = ()
    _files: Sequence[BinaryIO] = ()

    def check(self, parts: Sequence[Part]) -> None:
        """Refuse parts that this engine cannot read; before anything is debited."""
        if self.elsewhere:
            own = next((part.name for part in parts if not (part.shared or isinstance(part, self.own_frames))), None)
            if own is not None:
                raise InputError(
                    f"Expected a table that other processes can read, such as files, for this engine, got {own}; save "
                    "it as Parquet, or use the engine 'streamed'."
                )

    @abstractmethod
    def answers(self, work: Work, parts: dict[str, Part]) -> Iterator[PartAnswer]:
        """The answers of parts, by their keys, in any order; a part may answer more than once."""

    def arranged(self, parts: Sequence[Part], spread: Spread | None) -> list[Part]:
        """The parts as this engine reads them, after the debit; with `spread`, such that none divides a unit."""
        if spread is None:
            return list(parts)
        Engine.close(self)
        # Without a name from the moment they are opened: however this process ends, no row stays behind.
        self._files = [TemporaryFile() for _ in range(spread.buckets)]  # noqa: SIM115  closed in `close`
        return in_files(spread, parts, self._files)

    def close(self) -> None:
        """Give back what the engine holds: rows that were brought together are deleted."""
        for file in self._files:
            file.close()
        self._files = []


_ENGINES: dict[str, Callable[[str], Engine]] = {}


def register_engine(word: str, make: Callable[[str], Engine]) -> None:
    """Add an engine: a word, or the scheme of an address such as ``dask://``; `make` is given the whole address."""
    _ENGINES[word] = make


def engine_of(given: Any) -> Engine:
    """The engine of that word or address."""
    if isinstance(given, Engine):
        return given
    scheme = given.split("://", 1)[0] if isinstance(given, str) else given
    return _ENGINES[one_of("engine", scheme, tuple(sorted(_ENGINES)))](given)


class Totals:
    """The sums that each question asks of a table in parts."""

    def __init__(
        self,
        engine: Engine,
        parts: Sequence[Part],
        encode: Encode,
        columns: tuple[str, ...],
        *,
        together: bool,
        told: Progress = untold,
        marks: dict[str, PartAnswer] | None = None,
    ) -> None:
        # `marks` are those of earlier rounds, by which rows that changed since are found; new ones are added to them.
        self._engine, self._encode, self._columns, self._together = engine, encode, columns, together
        self._parts = {f"{place}": part for place, part in enumerate(parts)}
        self._marks: dict[str, PartAnswer] = {} if marks is None else marks
        self._told = told

    def __call__(self, asked: Question) -> Summed:
        work = Work(asked, self._encode, self._columns, self._together)
        total, found = WideSums.zeros(asked.numbers), {}
        self._told(asked.name, 0, len(self._parts))
        for answer in self._engine.answers(work, dict(self._parts)):
            if answer.part in found:
                self._same(answer, found[answer.part])
                continue
            self._check(answer)
            found[answer.part] = answer
            total.add_wide(WideSums.from_bytes(answer.sums))
            self._told(asked.name, len(found), len(self._parts))
        lost = [part.name for key, part in self._parts.items() if key not in found]
        if lost:
            raise InputError(
                f"Expected an answer from every part, got none from {lost[0]}"
                + (f" and {len(lost) - 1} more" if len(lost) > 1 else "")
                + "; nothing of this round was used."
            )
        return Summed(total, asked.exponent, sum(answer.units for answer in found.values()))

    def _same(self, again: PartAnswer, first: PartAnswer) -> None:
        if again != first:
            raise InputError(
                f"Expected {self._parts[first.part].name} to answer alike whenever it is asked, got two different "
                "answers in one round; its rows change, or machines compute differently."
            )

    def _check(self, answer: PartAnswer) -> None:
        part = self._parts.get(answer.part)
        if part is None:
            raise InputError("Expected answers from the parts that were asked, got one from another.")
        # All machines are compared with the first that answered, and every part with its own first answer.
        reference = next(iter(self._marks.values()), answer)
        if answer.arithmetic != reference.arithmetic:
            raise InputError(
                f"Expected machines that compute alike to the last bit, got one that does not ({part.name}); use "
                "machines of one kind with the same versions of NumPy and SciPy."
            )
        known = self._marks.setdefault(answer.part, answer)
        if (known.rows_mark, known.units) != (answer.rows_mark, answer.units):
            raise InputError(
                f"Expected the same rows in every round, got others in {part.name} than in the first round; fit again "
                "when nobody writes to it."
            )
