"""What a theorem answers: a bound with everything that makes it checkable, or why it does not apply."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sordino.core.certificate import Certificate, Evidence
from sordino.core.citation import Citation
from sordino.core.constants import constant_named
from sordino.core.guarantee import Guarantee, guarantee_from_dict
from sordino.core.relation import Relation
from sordino.core.view import View


class Status(StrEnum):
    """How a theorem relates to the paper it comes from."""

    AS_STATED = "as-stated"
    CORRECTED = "corrected"
    OURS = "ours"


@dataclass(frozen=True)
class Bound:
    """A guarantee with its relation, view, certificates, theorem and citation; without these no number is printed."""

    guarantee: Guarantee
    relation: Relation
    view: View
    certificates: tuple[Certificate, ...]
    theorem: str
    citation: Citation
    status: Status

    @property
    def evidence(self) -> Evidence:
        """The weakest evidence among the certificates used."""
        return min((certificate.evidence for certificate in self.certificates), default=Evidence.PROVED)

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `Bound.from_dict` reads it back exactly."""
        return {
            "guarantee": self.guarantee.to_dict(),
            "relation": self.relation.value,
            "view": self.view.value,
            "certificates": [certificate.to_dict() for certificate in self.certificates],
            "theorem": self.theorem,
            "citation": {"key": self.citation.key, "locator": self.citation.locator},
            "status": self.status.value,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Bound":
        """Read the JSON form."""
        certificates = tuple(
            Certificate(
                constant_named(item["constant"]),
                item["value"],
                Evidence.from_word("evidence", item["evidence"]),
                item["reason"],
                item["reads_private_data"],
            )
            for item in data["certificates"]
        )
        return cls(
            guarantee_from_dict(data["guarantee"]),
            Relation(data["relation"]),
            View(data["view"]),
            certificates,
            data["theorem"],
            Citation(data["citation"]["key"], data["citation"]["locator"]),
            Status(data["status"]),
        )


@dataclass(frozen=True)
class Inapplicable:
    """Why a theorem says nothing about a run: the condition and both sides of the inequality that fails."""

    theorem: str
    reason: str
