"""The whole SPEC.json: one description that is executed, certified, audited and stored."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from sordino.core.relation import Relation
from sordino.core.spec import json_text
from sordino.core.spec.algorithm import ALGORITHMS, Algorithm, required
from sordino.core.spec.average import Average
from sordino.core.spec.composite import Composite
from sordino.core.spec.instance import Instance
from sordino.core.spec.problem import Problem
from sordino.core.spec.refusal import Contradiction, as_object
from sordino.core.spec.section import Nested, Section, read_keys, write_keys
from sordino.core.spec.shape import Number, Word
from sordino.core.spec.update import updated
from sordino.core.validate import OPEN_UNIT
from sordino.core.view import View


@dataclass(frozen=True, kw_only=True)
class Spec(Section):
    """A described run: what is done, on what, and who sees which part of it. Relation and view have no default."""

    algorithm: Annotated[Algorithm, ALGORITHMS]
    problem: Annotated[Problem | None, Nested(Problem)] = None
    average: Annotated[Average | None, Nested(Average), "given exactly when the view is average"] = None
    relation: Annotated[Relation, Word(tuple(Relation))]
    view: Annotated[View, Word(tuple(View))]
    delta: Annotated[float | None, Number(OPEN_UNIT), "target delta; the command line may give it instead"] = None
    instance: Annotated[
        Instance | None, Nested(Instance), "what an audit trains; absent: the extremal quadratic; no theorem reads it"
    ] = None

    @classmethod
    def from_dict(cls, given: Any) -> "Spec":
        """Read a spec from plain JSON values."""
        json_text.check_plain(given)
        return read_keys(cls, "", as_object("", given))

    @classmethod
    def from_json(cls, text: str) -> "Spec":
        """Read a spec from JSON text."""
        return cls.from_dict(json_text.parse(text))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the keys that hold their default."""
        return write_keys(self)

    def to_json(self) -> str:
        """JSON text that reads back to an equal spec."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def with_values(self, values: Mapping[str, Any]) -> "Spec":
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

    def runs(self) -> tuple["Spec", ...]:
        """The runs this spec is made of, each as a spec of its own: itself, or the parts of a composite."""
        if not isinstance(self.algorithm, Composite):
            return (self,)
        return tuple(
            Spec(
                algorithm=part.algorithm,
                problem=part.problem,
                average=part.average,
                relation=self.relation,
                view=part.view or self.view,
                delta=self.delta,
            )
            for part in self.algorithm.parts
        )

    def contradictions(self) -> Iterator[Contradiction]:
        """Rules across sections; the algorithm knows them."""
        return self.algorithm.misfits(self.problem, self.average, self.view)

    def _stated(self, name: str) -> int:
        for misfit in required(self.problem, name):
            raise misfit
        return getattr(self.problem, name)


def read_spec(path: str | Path) -> Spec:
    """Read a SPEC.json file."""
    return Spec.from_json(json_text.read_text(path))
