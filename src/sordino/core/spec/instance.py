"""The concrete case an audit runs: a model, a dataset and a neighbour. Theorems never read it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sordino.core.spec import fields
from sordino.core.validate import ANY_REAL, Interval, number, refuse

Setting = bool | int | float | str | tuple[int | float, ...]
SettingValues = tuple[tuple[str, Setting], ...]
NO_SETTINGS: SettingValues = ()


class Settings(fields.Shape):
    """A JSON object of words to numbers, flags, lines of text or lists of numbers; held as a tuple of pairs."""

    def read(self, path: str, value: object) -> tuple[tuple[str, object], ...]:
        given: Mapping[str, object] = dict(value) if isinstance(value, tuple) else fields.as_object(path, value)
        for name in given:
            if not isinstance(name, str) or not name.isascii() or not name.isidentifier():
                raise refuse(path, "to have names made of letters, digits and _", name)
        return tuple((name, self.read_entry(fields.join(path, name), entry)) for name, entry in given.items())

    def read_entry(self, path: str, value: object) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            return fields.Text().read(path, value)
        if isinstance(value, list | tuple) and value:
            return tuple(_number(fields.join(path, place), entry) for place, entry in enumerate(value))
        return _number(path, value)

    def write(self, value: tuple[tuple[str, object], ...]) -> dict[str, object]:
        return {name: self.write_entry(entry) for name, entry in value}

    def write_entry(self, value: object) -> object:
        return list(value) if isinstance(value, tuple) else value

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        numbers = {"type": "array", "minItems": 1, "items": {"type": "number"}}
        allowed = [{"type": "boolean"}, {"type": "number"}, fields.Text().schema(definitions), numbers]
        names = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
        return {"type": "object", "propertyNames": names, "additionalProperties": {"anyOf": allowed}}


class FilePath(fields.Text):
    """The path of a file: a spec may come from anybody, so it names no query and no server."""

    def read(self, path: str, value: object) -> str:
        found = super().read(path, value)
        if "#" in found or "://" in found:
            remedy = "name a file; a database you choose yourself goes to sordino.audit(spec, data=...)"
            raise refuse(path, "to be the path of a plain file, without '#' and '://'", value, remedy)
        return found

    def schema(self, definitions: dict[str, fields.Schema]) -> fields.Schema:
        return super().schema(definitions) | {"pattern": "^(?!.*://)[^#]*$"}


def _number(path: str, value: object) -> int | float:
    """A finite number, kept whole where it is written whole: a count must not become a measurement."""
    checked = number(path, value)
    return int(value) if isinstance(value, int) else checked


DATASETS = fields.TaggedUnion()
NEIGHBOURS = fields.TaggedUnion()

_FROM_ZERO = Interval(0, fields.COUNT.high)
Position = Annotated[int, fields.Whole(_FROM_ZERO), "the record that differs, counted from 0"]
Chosen = Annotated[int | None, fields.Whole(_FROM_ZERO), "the record that differs; absent: the audit chooses"]


@dataclass(frozen=True)
class NamedModel(fields.Section):
    """A model by its registered name."""

    name: Annotated[str, fields.Text(), "registered name, such as ridge or logistic"]
    parameters: Annotated[SettingValues, Settings(), "arguments of the model, such as weight_decay"] = NO_SETTINGS


@DATASETS.register("synthetic")
class SyntheticDataset(fields.Section):
    """Drawn records with a public schema that holds by construction."""

    generator: Annotated[str, fields.Text(), "registered name, such as linear or logistic"]
    records: Annotated[int, fields.Whole()]
    features: Annotated[int, fields.Whole(), "number of features"]
    seed: Annotated[int, fields.Whole(_FROM_ZERO)]
    parameters: Annotated[SettingValues, Settings(), "further arguments of the generator, such as noise"] = NO_SETTINGS


@DATASETS.register("file")
class FileDataset(fields.Section):
    """A CSV, Parquet or Arrow file with its public schema; relative paths start at the folder of the spec."""

    path: Annotated[str, FilePath()]
    schema: Annotated[str, FilePath(), "path of the schema file"]


@NEIGHBOURS.register("worst")
class WorstNeighbour(fields.Section):
    """The record of the public domain that is easiest to distinguish, among the extreme ones."""

    position: Chosen = None


@NEIGHBOURS.register("zero")
class ZeroNeighbour(fields.Section):
    """A record of zeros in place of one record, or added to the dataset under add-remove."""

    position: Position


@NEIGHBOURS.register("removed")
class RemovedNeighbour(fields.Section):
    """One record is missing; add-remove only."""

    position: Position


@NEIGHBOURS.register("given")
class GivenNeighbour(fields.Section):
    """This encoded record in place of one record, or added to the dataset under add-remove."""

    position: Position
    features: Annotated[tuple[float, ...], fields.Numbers(fields.Number(ANY_REAL)), "encoded features"]
    target: Annotated[float, fields.Number(ANY_REAL), "encoded target"]


@NEIGHBOURS.register("deepfool")
class DeepFoolNeighbour(fields.Section):
    """A record pushed over the boundary of an ensemble of classifiers, with its label; replace-one only."""

    position: Chosen = None


DatasetSource = SyntheticDataset | FileDataset
NeighbourChoice = WorstNeighbour | ZeroNeighbour | RemovedNeighbour | GivenNeighbour | DeepFoolNeighbour
WORST = WorstNeighbour()


@dataclass(frozen=True)
class Instance(fields.Section):
    """What an audit trains: which model, on which data, against which neighbour."""

    model: Annotated[NamedModel, fields.Nested(NamedModel)]
    dataset: Annotated[DatasetSource, DATASETS]
    neighbour: Annotated[NeighbourChoice, NEIGHBOURS, "absent: the worst of the public domain"] = WORST

    def contradictions(self) -> Iterator[fields.Contradiction]:
        position = self.neighbour.position
        if isinstance(self.dataset, SyntheticDataset) and position is not None and position >= self.dataset.records:
            yield fields.Contradiction("neighbour.position", f"to be below {self.dataset.records} records", position)
