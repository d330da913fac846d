"""A whole SPEC.json: its text, composites of several runs on the same data, and its JSON Schema."""

import errno
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import numpy as np

from sordino.core.bound import Relation, View
from sordino.core.spec import matrices, posterior  # noqa: F401  (their kinds register themselves)
from sordino.core.spec.fields import (
    ROOT,
    Contradiction,
    Nested,
    Number,
    Schema,
    Section,
    Several,
    TaggedUnion,
    Word,
    as_object,
    define,
    join,
    read_keys,
    write_keys,
)
from sordino.core.spec.instance import Instance
from sordino.core.spec.mechanisms import Mechanism
from sordino.core.spec.problem import ALGORITHMS, RUNS, Algorithm, AnyUnit, Average, Problem, Unit, column_of, required
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, Interval, Json, instance_of, refuse

LARGEST_FILE = 16 * 2**20
DEEPEST_NESTING = 32
LARGEST_INTEGER = 2**63


def read_bytes(path: str | Path, largest: int, *, owner_only: bool = False) -> bytes:
    """The content of a regular file of at most `largest` bytes; with `owner_only`, of one that nobody else may read."""
    name, kind = repr(str(path)), "key file" if owner_only else "file"
    content = None  # of pipes and devices, which may never end or begin
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if stat.S_ISREG(status.st_mode):
                with os.fdopen(handle, "rb", closefd=False) as file:
                    content = file.read(largest + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(f"Expected {name} to be a readable {kind}, got: {error.strerror}.") from None
    except MemoryError:
        raise InputError(f"{name} does not fit into the memory of this machine.") from None
    except ValueError:
        raise InputError(f"{name} contains a null character, so it is not a file name.") from None
    if content is None:
        raise InputError(f"{name} is a pipe or a device. Save its content to a file first.")
    if owner_only and os.name == "posix" and status.st_mode & 0o077:
        raise InputError(
            f"Expected {name} to be readable by its owner only, got mode {stat.S_IMODE(status.st_mode):04o}; run chmod "
            "600, or make another key if others may have read it."
        )
    if len(content) > largest:
        raise InputError(f"{name} is larger than {largest} bytes.")
    return content


def read_text(path: str | Path) -> str:
    """The text of a file of at most `LARGEST_FILE` bytes in UTF-8."""
    try:
        return read_bytes(path, LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        name = repr(str(path))
        raise InputError(f"Expected {name} to be UTF-8 text, got a stray byte at position {error.start}.") from None


def parse(text: str, root: str = ROOT) -> Any:
    """The JSON value in `text`; NaN, Infinity and repeated keys are not JSON here. Refusals name `root`."""

    def no_number(word: str) -> NoReturn:
        raise InputError(f"Expected every number of {root} to be finite, got {word}.")

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        keys: dict[str, object] = {}
        for name, entry in pairs:
            if name in keys:
                again = f"got {join('', name)} again; remove one of them"
                raise InputError(f"Expected each key once in an object, {again}.")
            keys[name] = entry
        return keys

    try:
        return json.loads(text, object_pairs_hook=unique, parse_constant=no_number)
    except json.JSONDecodeError as error:
        raise InputError(
            f"Expected {root} to be JSON, got: {error.msg} at line {error.lineno} column {error.colno}."
        ) from None
    except RecursionError:
        raise _too_deep("") from None
    except InputError:
        raise
    except ValueError:
        raise InputError(f"{root} has an integer with thousands of digits. Integers must be below 2^63.") from None


def check_plain(value: object) -> None:
    """Refuse what JSON cannot hold, before anything tries to print or compare it. Walks without recursion."""
    waiting: list[tuple[str, int, object]] = [("", 0, value)]
    while waiting:
        path, depth, item = waiting.pop()
        if depth > DEEPEST_NESTING:
            raise _too_deep(path)
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    raise refuse(path or ROOT, "to have only text keys", key)
            waiting.extend((join(path, key), depth + 1, entry) for key, entry in item.items())
        elif isinstance(item, list | tuple):
            plain = ((place, entry, type(entry) is float and math.isfinite(entry)) for place, entry in enumerate(item))
            waiting.extend((join(path, place), depth + 1, entry) for place, entry, finite in plain if not finite)
        elif isinstance(item, int) and abs(item) > LARGEST_INTEGER:
            raise InputError(f"{path or ROOT} has {item.bit_length()} bits. Integers must be at most 2^63.")
        elif not isinstance(item, str | int | float | np.integer | np.floating | None):
            raise InputError(f"Expected {path or ROOT} to be a JSON value, got a {type(item).__name__}.")
        elif isinstance(item, float) and not math.isfinite(item):
            raise refuse(path or ROOT, "to be a finite number", item)


def _too_deep(path: str) -> InputError:
    at = f" at {path}" if path else ""
    shown = at if len(at) <= 120 else at[:117] + "..."
    return InputError(f"{ROOT} is nested more than {DEEPEST_NESTING} deep{shown}.")


def updated(document: Json, values: Mapping[str, object]) -> Json:
    """A copy of `document` with the value at each dotted path replaced; objects on the way are made if absent."""
    copy = deepcopy(document)
    for path, value in values.items():
        place: Any = copy
        walked, words = "", instance_of("a path of with_values", path, str).split(".")
        for left, word in zip(range(len(words) - 1, -1, -1), words, strict=True):
            here = path if left == 0 else join(walked, word)
            if not isinstance(place, dict | list):
                raise refuse(walked, f"to be an object, so that {here} can be set", place)
            if isinstance(place, list) and (not word.isdecimal() or int(word) >= len(place)):
                raise InputError(f"Expected a position from 0 to {len(place) - 1} after {walked}, got {word!r}.")
            key: Any = int(word) if isinstance(place, list) else word
            if left == 0:
                place[key] = deepcopy(value)
            elif isinstance(place, dict) and place.get(word) is None:
                place[word] = {}
            place, walked = place[key], join(walked, word)
    return copy


# Parts that differ are certified one by one, some 15 ms each and up; releases beyond that belong into a ledger.
MOST_PARTS = 1000


@dataclass(frozen=True)
class Part(Section):
    """One run of a composite; relation and delta are stated once, outside."""

    algorithm: Annotated[Algorithm, RUNS]
    problem: Annotated[Problem | None, Nested(Problem)] = None
    average: Annotated[Average | None, Nested(Average)] = None
    view: Annotated[View | None, Word(View), "absent: the composite's view"] = None


TRIALS = TaggedUnion()


@TRIALS.register("poisson")
class PoissonTrials(Section):
    """A Poisson number of trials, maybe none."""

    mean: Annotated[float, POSITIVE]


@TRIALS.register("negative-binomial")
class NegativeBinomialTrials(Section):
    """A negative binomial number of trials, at least one; shape 1 is geometric, shape 0 logarithmic."""

    shape: Annotated[float, Number(Interval(-1.0, low_open=True))]
    stop: Annotated[float, OPEN_UNIT, "gamma: the smaller, the more trials"]

    @property
    def mean(self) -> float:
        lost = self.shape * math.log(self.stop)
        weight = self.shape / -math.expm1(lost) if abs(lost) > 1e-300 else -1 / math.log(self.stop)
        return weight * (1 - self.stop) / self.stop


Trials = PoissonTrials | NegativeBinomialTrials


@RUNS.register("repeat-and-select", kw_only=True)
class RepeatAndSelect(Mechanism):
    """A run repeated a secret random number of times, of which only the best output is released.

    A fixed or published number of trials has no such guarantee: it is a composite.
    """

    views: ClassVar[frozenset[View]] = frozenset(View)

    base: Annotated[Part, Nested(Part), "one trial, with all settings that are tried drawn inside of it"]
    trials: Annotated[Trials, TRIALS, "law of the number of trials, which stays secret"]

    @property
    def once(self) -> str:
        return f"the best of some trials ({self.trials.mean:.6g} expected), each: {self.base.algorithm.words}"

    @property
    def hidden(self) -> AnyUnit:
        return self.base.algorithm.hidden

    def misfits(self, problem: Problem | None, average: Average | None, view: View) -> Iterator[Contradiction]:
        yield from _misplaced(problem, average, "a selection", "state it in the base")
        for misfit in self.base.algorithm.misfits(self.base.problem, self.base.average, self.base.view or view):
            yield misfit.under("algorithm.base")


def _misplaced(problem: Problem | None, average: Average | None, what: str, remedy: str) -> Iterator[Contradiction]:
    for key, section in (("problem", problem), ("average", average)):
        if section is not None:
            yield Contradiction(key, f"to be absent for {what}", f"a {key}", remedy)


@ALGORITHMS.register("composite")
class Composite(Algorithm):
    """A list of runs; each part states its own problem, and its own view if it differs."""

    views: ClassVar[frozenset[View]] = frozenset(View)

    parts: Annotated[tuple[Part, ...], Several(Nested(Part), MOST_PARTS)]

    @property
    def words(self) -> str:
        return "; then ".join(part.algorithm.words for part in self.parts)

    @property
    def hidden(self) -> AnyUnit:
        return self.parts[0].algorithm.hidden

    def misfits(self, problem: Problem | None, average: Average | None, view: View) -> Iterator[Contradiction]:
        yield from _misplaced(problem, average, "a composite", "state it in each part")
        for position, part in enumerate(self.parts):
            for misfit in part.algorithm.misfits(part.problem, part.average, part.view or view):
                yield misfit.under(f"algorithm.parts.{position}")
        allowed = frozenset[View]().union(*(part.algorithm.views for part in self.parts))
        if view not in allowed:
            yield Contradiction("view", f"to be one of {', '.join(sorted(allowed))} for these parts", view.value)
        columns = sorted({column_of(part.algorithm.hidden) or Unit.RECORD.value for part in self.parts})
        if len(columns) > 1:
            # What parts about different units promise together is a promise to neither.
            yield Contradiction("algorithm.parts", "to be about one unit", columns, "state the same unit in every part")


@dataclass(frozen=True, kw_only=True)
class Spec(Section):
    """A described run: what is done, on what, and who sees which part of it. Relation and view have no default.

    It states the `algorithm`, the constants of the `problem` that it is run on, what is averaged (`average`, exactly
    when the view is that), the `relation` of neighbours, what is seen (`view`), the `delta` at which bounds are
    compared, and what an audit trains (`instance`, which no theorem reads). `together` is how many records come or go
    one by one; it is no key, `evaluate.for_group` states it.

    >>> from sordino.core.spec import BoundedPotential, PosteriorSample
    >>> draw = PosteriorSample(BoundedPotential(lipschitz=0.1, diameter=2.0))
    >>> spec = Spec(algorithm=draw, relation="replace-one", view="one-sample")
    >>> spec.from_json(spec.to_json()) == spec
    True
    >>> spec.with_values({"algorithm.draws": 10}).algorithm.draws
    10
    """

    algorithm: Annotated[Algorithm, ALGORITHMS]
    problem: Annotated[Problem | None, Nested(Problem)] = None
    average: Annotated[Average | None, Nested(Average), "given exactly when the view is average"] = None
    relation: Annotated[Relation, Word(Relation)]
    view: Annotated[View, Word(View)]
    delta: Annotated[float | None, OPEN_UNIT, "target delta; the command line may give it instead"] = None
    instance: Annotated[Instance | None, Nested(Instance), "what an audit trains; absent: the worst quadratic"] = None
    together: int = 1

    @classmethod
    def from_dict(cls, given: object) -> "Spec":
        """Read a spec from plain JSON values."""
        check_plain(given)
        return read_keys(cls, "", as_object("", given))

    @classmethod
    def from_json(cls, text: str) -> "Spec":
        """Read a spec from JSON text."""
        return cls.from_dict(parse(text))

    def to_dict(self) -> Json:
        """Plain JSON values, without the keys that hold their default."""
        return write_keys(self)

    def to_json(self) -> str:
        """JSON text that reads back to an equal spec."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def with_values(self, values: Mapping[str, object]) -> "Spec":
        """The same spec with the values at some dotted paths replaced, checked again as a whole.

        Paths look like ``algorithm.noise.scale`` or ``algorithm.parts.0.problem.n``; values are plain JSON values.
        """
        return self.from_dict(updated(self.to_dict(), values))

    @property
    def n(self) -> int:
        """The stated number of records of the problem."""
        return self._stated("n")

    @property
    def dim(self) -> int:
        """The stated number of parameters of the problem."""
        return self._stated("dim")

    @property
    def surplus(self) -> int:
        """By how many records the larger of two neighbours may exceed the stated number."""
        return self.together if self.relation is Relation.ADD_REMOVE else 0

    @property
    def unit(self) -> AnyUnit:
        """Whose presence is hidden: a record, or all records of a unit."""
        return self.algorithm.hidden

    @property
    def ran(self) -> tuple[str, ...]:
        """What runs, a line for each part."""
        return tuple(run.algorithm.words for run in self.runs())

    def runs(self) -> tuple["Spec", ...]:
        """The runs this spec is made of, each as a spec of its own: itself, or the parts of a composite."""
        return tuple(map(self._part, self.algorithm.parts)) if isinstance(self.algorithm, Composite) else (self,)

    def _part(self, part: Part) -> "Spec":
        own = {"algorithm": part.algorithm, "problem": part.problem, "average": part.average, "instance": None}
        return replace(self, **own, view=part.view or self.view)

    def base(self) -> "Spec":
        """One trial of a selection, as a spec of its own; any other run is its own."""
        return self._part(self.algorithm.base) if isinstance(self.algorithm, RepeatAndSelect) else self

    def contradictions(self) -> Iterator[Contradiction]:
        return self.algorithm.misfits(self.problem, self.average, self.view)

    def _stated(self, name: str) -> int:
        for misfit in required(self.problem, name):
            raise misfit
        return getattr(self.problem, name)


def read_spec(path: str | Path) -> Spec:
    """Read the SPEC.json file of this `path`.

    Returns: the `Spec`. Raises: `InputError` for a file that cannot be read, or that describes no run, in one sentence.

    >>> import pathlib, tempfile
    >>> import sordino
    >>> spec = sordino.accounting.gaussian(noise_multiplier=2.0, relation="add-remove").spec
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "spec.json"
    >>> _ = path.write_text(spec.to_json())
    >>> sordino.read_spec(path) == spec
    True
    """
    return Spec.from_json(read_text(path))


def json_schema() -> Schema:
    """JSON Schema, draft 2020-12. It accepts every spec the reader accepts; rules across keys are the reader's."""
    definitions: dict[str, Schema] = {}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Sordino SPEC.json"}
    return {**head, **define(Spec, definitions), "$defs": definitions}


def schema_text() -> str:
    """The text of spec.schema.json, which a wheel holds; `python -m sordino.core.spec` prints it."""
    return json.dumps(json_schema(), indent=2) + "\n"
