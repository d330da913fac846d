"""What a network's audit is given, and its canary: a record of D pushed until a whole ensemble gets it wrong.

The label is kept. A model that has not seen such a record misclassifies it; one that has learns it, as nothing else in
the data asks for the same. Candidates are ranked by how far their gradient moves their own log-odds in one visit, as a
multiple of how much these vary from model to model. The ensemble is never part of the fleet that is attacked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from papers.heller_fetaya.canaries import inside_domain
from papers.heller_fetaya.fleet import FleetRecords, Replacement
from papers.heller_fetaya.lenet import scores_of
from sordino.auditing.fleet import FleetNetwork, FleetPlan, network_for
from sordino.auditing.instance import deepfool, visit
from sordino.core.guarantee import check_delta
from sordino.core.validate import OPEN_UNIT, Interval, instance_of, number, refuse, whole_number
from sordino.data.neighbours import EncodedRecord
from sordino.models.base import Model
from sordino.models.facts import Domain


@dataclass(frozen=True, eq=False)
class NeuralData:
    """D as rows and class codes, rows to measure accuracy on, and the public domain that a canary stays in."""

    features: NDArray[np.float32]
    target: NDArray[np.float32]
    test_features: NDArray[np.float32]
    test_target: NDArray[np.float32]
    domain: Domain

    def __post_init__(self) -> None:
        for prefix in ("", "test_"):
            checked = FleetRecords(getattr(self, f"{prefix}features"), getattr(self, f"{prefix}target"))
            object.__setattr__(self, f"{prefix}features", checked.features)
            object.__setattr__(self, f"{prefix}target", checked.target)
        if instance_of("domain", self.domain, Domain).classes is None:
            raise refuse("the domain", "to name the number of classes", None)


@dataclass(frozen=True)
class Claimed:
    """The delta of all lower bounds, and the confidence: of each bound alone, and of all joint ones together."""

    delta: float
    confidence: float

    def __post_init__(self) -> None:
        check_delta(self.delta)
        number("confidence", self.confidence, OPEN_UNIT)


@dataclass(frozen=True, kw_only=True)
class PilotRound:
    """A trial of candidates: models of D, models of each candidate's neighbour, and how long they are trained."""

    candidates: int
    of_d: int
    each: int
    epochs: int

    def __post_init__(self) -> None:
        for name in ("candidates", "epochs"):
            whole_number(name, getattr(self, name))
        for name in ("of_d", "each"):
            whole_number(name, getattr(self, name), Interval(2), "a deviation needs two models at least")


@dataclass(frozen=True, kw_only=True)
class NeuralSetting:
    """The chain and the sizes of the experiment.

    Attributes:
        plan: how every model is trained.
        learning: models that teach the attack, those of D and of its neighbour together; A_1 of the paper.
        testing: models that the attack is counted on; A_2 of the paper.
        ensemble: models of D that the canary is made against; M of the paper.
        ensemble_epochs: how long these are trained.
        tries: how many records a canary is made of before the one that pulls hardest is taken.
        claimed: the delta and the confidence of what is found.
        beyond: how far each record is pushed, as multiples of the shortest push that fools the whole ensemble.
        pilot: rounds of trial that the canary is chosen by, each with the best of the one before; none: by its pull.
    """

    plan: FleetPlan
    learning: int
    testing: int
    ensemble: int
    ensemble_epochs: int
    tries: int
    claimed: Claimed
    beyond: tuple[float, ...] = (1.0,)
    pilot: tuple[PilotRound, ...] = ()

    def __post_init__(self) -> None:
        instance_of("plan", self.plan, FleetPlan)
        for name in ("learning", "testing"):
            count = whole_number(name, getattr(self, name), Interval(2))
            if count % 2:
                raise refuse(name, "to be even, half of the models on either side", count)
        for name in ("ensemble", "ensemble_epochs", "tries"):
            whole_number(name, getattr(self, name))
        instance_of("claimed", self.claimed, Claimed)
        if not self.beyond:
            raise refuse("beyond", "to hold at least one multiple", self.beyond)
        for multiple in self.beyond:
            number("a multiple of the push", multiple, Interval(1.0))


# How far a push is prolonged, as multiples of DeepFool's, until every member of the ensemble is wrong.
_LENGTHS = np.linspace(1.0, 4.0, 31)
# Rows looked at for each record that is tried: most are classified alike by all models.
_ROWS_FOR_A_TRY = 4
_ROWS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Canary:
    """The record (x_zero, label) of D at `row`, and what it is replaced by in D': x_star with the same label.

    `length` is the push as a multiple of DeepFool's; `pull` what candidates are ranked by.
    """

    row: int
    label: int
    x_zero: NDArray[np.float32]
    x_star: NDArray[np.float32]
    length: float
    pull: float

    def records(self, data: NeuralData) -> FleetRecords:
        """D and D'."""
        return FleetRecords(data.features, data.target, (Replacement(self.row, self.x_star, float(self.label)),))


def find_canaries(
    model: Model,
    data: NeuralData,
    ensemble: NDArray[np.float32],
    clip_norm: float | None,
    tries: int,
    beyond: Sequence[float] = (1.0,),
) -> tuple[Canary, ...]:
    """Canaries against these models of D, the rows of `ensemble`; gradients count as clipped to `clip_norm`.

    Of each record that is tried there is one for every multiple in `beyond` of the shortest push that fools all
    models, as long as it still does. Records come in the order of the hardest pull among their canaries.
    """
    network = network_for(model, data.features.shape[1])
    # A search in many small steps: a processor is as fast as an accelerator, and gives the same canary beside any.
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        thetas = jnp.asarray(np.asarray(ensemble, np.float32))
        by_record = list(_of_records(network, data, thetas, clip_norm, tries, np.asarray(beyond, float)))
    if not by_record:
        remedy = "train the ensemble longer, or try more records"
        raise refuse("the ensemble", "to agree on a record that a push makes all of it misclassify", "none", remedy)
    ranked = sorted(by_record, key=lambda of_record: -max(canary.pull for canary in of_record))
    return tuple(canary for of_record in ranked for canary in of_record)


def _of_records(
    network: FleetNetwork,
    data: NeuralData,
    thetas: Array,
    clip_norm: float | None,
    tries: int,
    beyond: NDArray[np.float64],
) -> Iterator[list[Canary]]:
    """The canaries of each record that has some."""
    rows = data.features[: _ROWS_FOR_A_TRY * tries]
    wanted = data.target[: len(rows)].astype(int)
    agreed = np.flatnonzero((_decisions(network, thetas, rows) == wanted).all(axis=0))
    for row in agreed[:tries]:
        record = EncodedRecord(data.features[row].astype(float), float(wanted[row]))
        push = inside_domain(deepfool(network.model, thetas, record), data.domain).features - record.features
        fooling = partial(_fooling, network, data, thetas, record, push)
        shortest = next(fooling(_LENGTHS), None)
        made: list[Canary] = []
        for length, x_star in fooling(shortest[0] * beyond) if shortest else ():
            gained, odds = visit(network.model, clip_norm, thetas, jnp.asarray(x_star), jnp.float32(record.target))
            pull = float(np.mean(np.asarray(gained)) / (np.std(np.asarray(odds)) + 1e-6))
            made.append(Canary(int(row), int(record.target), data.features[row], x_star, length, pull))
        if made:
            yield made


def _fooling(
    network: FleetNetwork,
    data: NeuralData,
    thetas: Array,
    record: EncodedRecord,
    push: NDArray[np.float64],
    lengths: NDArray[np.float64],
) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """The lengths of a push after which every model is wrong, each with the image it leads to."""
    longer = [
        inside_domain(EncodedRecord(record.features + length * push, record.target), data.domain) for length in lengths
    ]
    points = np.stack([each.features for each in longer]).astype(np.float32)
    wrong = (_decisions(network, thetas, points) != int(record.target)).all(axis=0)
    return ((float(lengths[place]), points[place]) for place in np.flatnonzero(wrong))


def _decisions(network: FleetNetwork, thetas: Array, rows: NDArray[np.float32]) -> NDArray[np.intp]:
    """What every model decides for every row, shape (models, rows); in whole blocks, so that one shape is compiled."""
    spare = -len(rows) % _ROWS_AT_ONCE
    padded = np.concatenate([rows, np.zeros((spare, rows.shape[1]), np.float32)])
    blocks = padded.reshape(-1, _ROWS_AT_ONCE, rows.shape[1])
    chosen = [np.asarray(_chosen(network, thetas, jnp.asarray(block))) for block in blocks]
    return np.concatenate(chosen, axis=1)[:, : len(rows)]


@partial(jax.jit, static_argnums=0)
def _chosen(network: FleetNetwork, thetas: Array, rows: Array) -> Array:
    return jnp.argmax(scores_of(network, network.split(thetas), rows), axis=2)
