"""The concrete case an audit runs: a model, a dataset and a neighbour. Theorems never read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sordino.core.spec import fields
from sordino.core.spec.mechanisms import NO_SETTINGS, Settings, SettingValues
from sordino.core.validate import ANY_REAL, Interval, refuse


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


DATASETS = fields.TaggedUnion()
NEIGHBOURS = fields.TaggedUnion()

_FROM_ZERO = Interval(0, fields.COUNT.high)
Position = Annotated[int, _FROM_ZERO, "the record that differs, counted from 0"]
Chosen = Annotated[int | None, _FROM_ZERO, "the record that differs; absent: the audit chooses"]


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
    seed: Annotated[int, _FROM_ZERO]
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
    target: Annotated[float, ANY_REAL, "encoded target"]


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
