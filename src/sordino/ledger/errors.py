"""How the ledger says no: refused, or unusable."""

from typing import TYPE_CHECKING, ClassVar

from sordino.core.errors import InputError, SordinoError

if TYPE_CHECKING:
    from sordino.ledger.balance import Balance


class LedgerError(InputError):
    """The ledger file cannot be used: missing, foreign, damaged, locked or not writable. One sentence says which."""


class LedgerRefusal(SordinoError):
    """A release would exceed the budget. Nothing was recorded and nothing may be read; exit code 3 on the command line.

    `balance` says what is spent and the largest release that still fits.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, balance: "Balance") -> None:
        super().__init__(message)
        self.balance = balance


class ContentWarning(UserWarning):
    """The rows are not those of an earlier release charged to the same budget. NON-PRIVATE: seen in private rows."""
