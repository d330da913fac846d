"""Refusals in one clear sentence, the checks that make them, and values that check themselves and name their kind.

A message says what was expected, what was given and what to do; it never quotes a cell.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar, NoReturn, TypeVar, get_args

import numpy as np

Json = dict[str, Any]  # an object of a JSON file, as it is read or written
Checked = TypeVar("Checked")


def printable(text: str) -> str:
    r"""Spell out what does not print, such as escape sequences, directional marks and lone surrogates in a file's name.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def without_password(text: str) -> str:
    r"""Cut the password out of addresses, so that no message and no log has it.

    >>> without_password("postgresql://ann:secret@host/clinic?password=other#visits")
    'postgresql://ann:***@host/clinic?password=***#visits'
    """
    named = re.sub(r"(/[^\s:/@'\"]*:)[^\s'\"]*@", r"\1***@", text)
    return re.sub(r"(password=)[^&#\s'\"]*", r"\1***", named)


class SordinoError(Exception):
    """Base class of every error Sordino raises on purpose; its text is one printable line, whatever it quotes.

    >>> import sordino
    >>> issubclass(sordino.InputError, sordino.SordinoError)
    True
    """

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return printable(without_password(super().__str__()))


class InputError(SordinoError, ValueError):
    """Something given from outside is malformed.

    The message is one sentence: what was given, what is allowed, what to do. The command line prints it and exits
    with code 2. A run to which a theorem merely does not apply is *not* an error: see `Inapplicable`.

    >>> import sordino
    >>> try:
    ...     sordino.accounting.PureDP(-1.0)
    ... except sordino.InputError as error:
    ...     print(error)
    Expected epsilon in [0, inf), got -1.0.
    """

    exit_code: ClassVar[int] = 2


def raise_alone(error: SordinoError) -> NoReturn:
    """Raise without the error being handled: not even as context, because a foreign library's text may quote a cell."""
    try:
        raise error
    finally:
        error.__context__ = None


class Mistakes(InputError):
    """Several mistakes at once, each in its own sentence, in the order in which they were met."""

    shown = 20

    def __init__(self, errors: Sequence[InputError]) -> None:
        self.errors = tuple(errors)
        rest = [f"There are {len(errors) - self.shown} more mistakes."] if len(errors) > self.shown else []
        super().__init__(" ".join([*map(str, errors[: self.shown]), *rest]))


class Checks(list[InputError]):
    """Checks that all run, whatever each of them refuses; what was refused is raised together."""

    def attempt(self, check: Callable[..., Checked], *arguments: object) -> Checked | None:
        """What a check answers, or None where it refuses."""
        try:
            return check(*arguments)
        except InputError as error:
            self.refused(error)
        return None

    def refused(self, *errors: InputError) -> None:
        for error in errors:
            self.extend(error.errors if isinstance(error, Mistakes) else (error,))

    def finish(self) -> None:
        """Raise what was refused: nothing, the one error itself, or all of them as `Mistakes`."""
        if self:
            raise_alone(self[0] if len(self) == 1 else Mistakes(self))


@dataclass(frozen=True)
class Interval:
    """An interval of real numbers; validity written as data next to the field it constrains."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below

    def __str__(self) -> str:
        left = "(" if self.low_open or self.low == -math.inf else "["
        right = ")" if self.high_open or self.high == math.inf else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


POSITIVE = Interval(0.0, low_open=True)
NON_NEGATIVE = Interval(0.0)
PROBABILITY = Interval(0.0, 1.0)
SHARE = Interval(0.0, 1.0, low_open=True)
OPEN_UNIT = Interval(0.0, 1.0, low_open=True, high_open=True)
ANY_REAL = Interval()
COUNT = Interval(1)


def refuse(name: str, allowed: str, given: object, remedy: str = "") -> InputError:
    """The one kind of message, ``Expected NAME in RANGE, got VALUE; REMEDY.``; callers `raise refuse(...)`."""
    tail = f"; {remedy}" if remedy else ""
    return InputError(f"Expected {name} {allowed}, got {_shown(given)}{tail}.")


def number(name: str, value: object, allowed: Interval = ANY_REAL, remedy: str = "") -> float:
    """Return `value` as a finite float inside `allowed`; a bool or a numeric string is not a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise refuse(name, f"to be a number in {allowed}", value, remedy)
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    if not math.isfinite(as_float):
        raise refuse(name, f"to be a finite number in {allowed}", value, remedy)
    if as_float not in allowed:
        raise refuse(name, f"in {allowed}", value, remedy)
    return as_float


def own_arrays(record: Any) -> None:
    """Turn the arrays of a frozen dataclass into copies of its own that cannot be written to."""
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray):
            own = np.array(value)
            own.setflags(write=False)
            object.__setattr__(record, field.name, own)


def whole_number(name: str, value: object, allowed: Interval = COUNT, remedy: str = "") -> int:
    """Return `value` as an int inside `allowed`; 3.0 is refused, because a count is not a measurement."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise refuse(name, f"to be a whole number in {allowed}", value, remedy)
    as_int = int(value)
    if not allowed.low <= as_int <= allowed.high:
        raise refuse(name, f"in {allowed}", value, remedy)
    return as_int


def one_of(name: str, value: object, allowed: Collection[str], remedy: str = "") -> str:
    """Return `value` if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise refuse(name, "to be one of " + ", ".join(sorted(allowed)), value, remedy)
    return value


def instance_of(name: str, value: object, kind: type, remedy: str = "") -> Any:
    """Return `value` if it is a `kind`."""
    if not isinstance(value, kind):
        raise refuse(name, f"to be a {kind.__name__}", value, remedy)
    return value


def _shown(value: object) -> str:
    if getattr(value, "shape", ()) != () or hasattr(value, "__dataframe__"):
        return f"a {type(value).__name__}"  # rows in the wrong place are rows all the same
    try:
        text = without_password(repr(value))  # before it is cut
    except (ValueError, RecursionError):  # integers of more than 4300 digits, and lists inside lists inside lists
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= 80 else text[:77] + "..."


def shown_names(names: Iterable[str]) -> str:
    """The first few names, quoted, and how many more there are."""
    every = list(names)
    first = ", ".join(repr(name if len(name) <= 60 else name[:57] + "...") for name in every[:5])
    return first if len(every) <= 5 else f"{first} and {len(every) - 5} more"


@cache
def _declared(kind: type) -> list[tuple[str, Callable[[str, object, Interval], float], Interval, bool]]:
    """The name, check and interval of each field with one, and whether it may be None."""
    hints = ((name, get_args(hint)) for one in kind.__mro__[::-1] for name, hint in get_annotations(one).items())
    return [
        (name, whole_number if parts[0] in (int, int | None) else number, part, NoneType in get_args(parts[0]))
        for name, parts in hints
        for part in parts
        if isinstance(part, Interval)
    ]


class Declared:
    """A frozen dataclass whose fields `Annotated[float, Interval]` are finite floats inside it, those of int whole."""

    def __post_init__(self) -> None:
        for name, check, allowed, optional in _declared(type(self)):
            if not optional or getattr(self, name) is not None:
                object.__setattr__(self, name, check(name, getattr(self, name), allowed))
