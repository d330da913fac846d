"""The concrete case an audit runs: a model, a dataset and a neighbour. Theorems never read it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sordino.core.spec.refusal import Contradiction
from sordino.core.spec.section import Nested, Section
from sordino.core.spec.settings import NO_SETTINGS, Settings, SettingValues
from sordino.core.spec.shape import COUNT, Number, Numbers, Text, Whole
from sordino.core.spec.tagged import Tagged
from sordino.core.validate import ANY_REAL, Interval

DATASETS = Tagged()
NEIGHBOURS = Tagged()

_FROM_ZERO = Interval(0, COUNT.high)
Position = Annotated[int, Whole(_FROM_ZERO), "the record that differs, counted from 0"]


@dataclass(frozen=True)
class NamedModel(Section):
    """A model by its registered name."""

    name: Annotated[str, Text(), "registered name, such as ridge or logistic"]
    parameters: Annotated[SettingValues, Settings(), "arguments of the model, such as weight_decay"] = NO_SETTINGS


@DATASETS.register("synthetic")
@dataclass(frozen=True)
class SyntheticDataset(Section):
    """Drawn records with a public schema that holds by construction."""

    generator: Annotated[str, Text(), "registered name, such as linear or logistic"]
    records: Annotated[int, Whole()]
    features: Annotated[int, Whole(), "number of features"]
    seed: Annotated[int, Whole(_FROM_ZERO)]
    parameters: Annotated[SettingValues, Settings(), "further arguments of the generator, such as noise"] = NO_SETTINGS


@DATASETS.register("file")
@dataclass(frozen=True)
class FileDataset(Section):
    """A CSV or Parquet file with its public schema; relative paths start at the folder of the spec."""

    path: Annotated[str, Text()]
    schema: Annotated[str, Text(), "path of the schema file"]


@NEIGHBOURS.register("worst")
@dataclass(frozen=True)
class WorstNeighbour(Section):
    """The record of the public domain that is easiest to tell apart, among the extreme ones."""

    position: Annotated[int | None, Whole(_FROM_ZERO), "the record that differs; absent: the audit chooses"] = None


@NEIGHBOURS.register("zero")
@dataclass(frozen=True)
class ZeroNeighbour(Section):
    """A record of zeros in place of one record, or added to the dataset under add-remove."""

    position: Position


@NEIGHBOURS.register("removed")
@dataclass(frozen=True)
class RemovedNeighbour(Section):
    """One record is missing; add-remove only."""

    position: Position


@NEIGHBOURS.register("given")
@dataclass(frozen=True)
class GivenNeighbour(Section):
    """This encoded record in place of one record, or added to the dataset under add-remove."""

    position: Position
    features: Annotated[tuple[float, ...], Numbers(Number(ANY_REAL)), "encoded features"]
    target: Annotated[float, Number(ANY_REAL), "encoded target"]


DatasetSource = SyntheticDataset | FileDataset
NeighbourChoice = WorstNeighbour | ZeroNeighbour | RemovedNeighbour | GivenNeighbour
WORST = WorstNeighbour()


@dataclass(frozen=True)
class Instance(Section):
    """What an audit trains: which model, on which data, against which neighbour."""

    model: Annotated[NamedModel, Nested(NamedModel)]
    dataset: Annotated[DatasetSource, DATASETS]
    neighbour: Annotated[NeighbourChoice, NEIGHBOURS, "absent: the worst of the public domain"] = WORST

    def contradictions(self) -> Iterator[Contradiction]:
        """The record that differs is one of the dataset's."""
        position = self.neighbour.position
        if isinstance(self.dataset, SyntheticDataset) and position is not None and position >= self.dataset.records:
            yield Contradiction("neighbour.position", f"to be below {self.dataset.records} records", position)
