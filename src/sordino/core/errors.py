"""How Sordino says no, and the exit code of each way on the command line."""

from typing import ClassVar


class SordinoError(Exception):
    """Base class of every error Sordino raises on purpose."""

    exit_code: ClassVar[int] = 1


class InputError(SordinoError, ValueError):
    """Something given from outside is malformed.

    The message is one sentence: what was given, what is allowed, what to do. The command line prints it and exits
    with code 2. A run to which a theorem merely does not apply is *not* an error: see `Inapplicable`.
    """

    exit_code: ClassVar[int] = 2
