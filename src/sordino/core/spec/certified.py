"""Constants in a spec: a plain number, or an object that also says how the value is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sordino.core import validate
from sordino.core.certificate import Certificate, Constant, Evidence
from sordino.core.spec.refusal import join
from sordino.core.spec.section import Section, object_schema, read_keys, write_keys
from sordino.core.spec.shape import Flag, Number, Schema, Shape, Text
from sordino.core.validate import refuse

PLAIN_REASON = "given in the spec"
_WORDS = tuple(evidence.word for evidence in Evidence if evidence is not Evidence.ASSUMED)


class EvidenceWord(Shape):
    """The spelling of an `Evidence`."""

    def read(self, path: str, value: Any) -> Evidence:
        """Read the spelling."""
        if isinstance(value, Evidence):
            return value
        return Evidence.from_word(path, validate.one_of(path, value, _WORDS))

    def write(self, value: Evidence) -> str:
        """Write the spelling."""
        return value.word

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """An enumeration of the spellings, strongest last."""
        return {"enum": list(_WORDS)}


@dataclass(frozen=True)
class StatedConstant(Section):
    """The long form of a constant."""

    value: Annotated[float, Number()]
    evidence: Annotated[Evidence, EvidenceWord()]
    reason: Annotated[str, Text()]
    reads_private_data: Annotated[bool, Flag()] = False


@dataclass(frozen=True)
class Certified(Shape):
    """A certificate for one named constant."""

    constant: Constant

    def read(self, path: str, value: Any) -> Certificate:
        """Read a number as declared, an object with the evidence it states."""
        if isinstance(value, Certificate):
            if value.constant != self.constant:
                raise refuse(path, f"to be a certificate of {self.constant.name}", value)
            Text().read(join(path, "reason"), value.reason)  # a spec that is accepted can always be written
            return value
        if not isinstance(value, Mapping):
            number = validate.number(path, value, self.constant.allowed)
            return Certificate(self.constant, number, Evidence.DECLARED, PLAIN_REASON)
        stated: StatedConstant = read_keys(StatedConstant, path, value)
        number = validate.number(join(path, "value"), stated.value, self.constant.allowed)
        return Certificate(self.constant, number, stated.evidence, stated.reason, stated.reads_private_data)

    def write(self, value: Certificate) -> float | dict[str, Any]:
        """Write a number if nothing but the number was given, else the object."""
        if value == Certificate(self.constant, value.value, Evidence.DECLARED, PLAIN_REASON):
            return value.value
        return write_keys(StatedConstant(value.value, value.evidence, value.reason, value.reads_private_data))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """A number, or the object around it, both in the constant's range."""
        number = Number(self.constant.allowed).schema(definitions)
        stated = object_schema(StatedConstant, definitions, {})
        stated["properties"]["value"] = number
        return {
            "description": f"{self.constant.meaning} ({self.constant.direction} bound)",
            "anyOf": [number, stated],
        }
