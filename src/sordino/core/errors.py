"""How Sordino says no, and the exit code of each way on the command line."""

from typing import ClassVar, NoReturn

from sordino.core.printable import printable


class SordinoError(Exception):
    """Base class of every error Sordino raises on purpose; its text is one printable line, whatever it quotes."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(SordinoError, ValueError):
    """Something given from outside is malformed.

    The message is one sentence: what was given, what is allowed, what to do. The command line prints it and exits
    with code 2. A run to which a theorem merely does not apply is *not* an error: see `Inapplicable`.
    """

    exit_code: ClassVar[int] = 2


def raise_alone(error: SordinoError) -> NoReturn:
    """Raise without the error being handled: not even as context, because a foreign library's text may quote a cell."""
    try:
        raise error
    finally:
        error.__context__ = None
