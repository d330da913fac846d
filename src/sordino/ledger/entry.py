"""One release as the ledger remembers it."""

from dataclasses import dataclass
from typing import Any

from sordino.core.bound import Bound
from sordino.core.spec import Spec, json_text
from sordino.ledger.errors import LedgerError
from sordino.ledger.filters import Charge


@dataclass(frozen=True)
class Entry:
    """A debit.

    Attributes:
        sequence: 1, 2, 3, ...; the order of debits. Times are informational, clocks may go backwards.
        time: when, in UTC, by the clock of the machine that debited.
        theorem: id of the theorem behind the bound.
        epsilon: epsilon of this release alone, at the budget's delta; infinite when it has none.
        charge: the dominating curve that was debited.
        spec_text: the run, as SPEC.json.
        bound_text: the bound with its certificates, as JSON.
        versions: the software that computed it.
        digest: of the entry and all before it, keyed with the ledger's own key; ties a release to its debit.
    """

    sequence: int
    time: str
    theorem: str
    epsilon: float
    charge: Charge
    spec_text: str
    bound_text: str
    versions: tuple[tuple[str, str], ...]
    digest: str

    @property
    def spec(self) -> Spec:
        """The run that was described."""
        return Spec.from_json(self.spec_text)

    @property
    def bound(self) -> Bound:
        """The bound that was charged."""
        try:
            return Bound.from_dict(json_text.parse(self.bound_text))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise LedgerError(
                f"Expected entry {self.sequence} to hold a bound, got one that cannot be read."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "sequence": self.sequence,
            "time": self.time,
            "theorem": self.theorem,
            "epsilon": None if self.epsilon == float("inf") else self.epsilon,
            "charge": self.charge.to_dict(),
            "spec": json_text.parse(self.spec_text),
            "bound": json_text.parse(self.bound_text),
            "versions": dict(self.versions),
            "digest": self.digest,
        }
