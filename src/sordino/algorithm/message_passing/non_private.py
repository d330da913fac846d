"""Results that are not private say so: no spec, no certificate, and a label that every print shows."""

from dataclasses import dataclass

from sordino.algorithm.message_passing.release import Repairs
from sordino.algorithm.posterior.gaussian import GaussianPosterior

NOT_PRIVATE = "NOT PRIVATE"


@dataclass(frozen=True, eq=False)
class NonPrivateResult:
    """A posterior computed without a privacy guarantee; it must not be released as if it had one."""

    posterior: GaussianPosterior
    repairs: Repairs
    reason: str

    @property
    def label(self) -> str:
        """The warning, with its reason."""
        return f"{NOT_PRIVATE}: {self.reason}"

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"NonPrivateResult({self.label})"
