"""Training a fleet in units on a cluster: a lost worker costs time and changes nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sordino.audit.cluster.connection import ClusterOptions, connected
from sordino.audit.fleet.checkpoint import Checkpoints, Saved, fingerprint
from sordino.audit.fleet.engine import Fleet, train_fleet
from sordino.audit.fleet.members import FleetRecords, Members
from sordino.audit.fleet.plan import FleetPlan
from sordino.audit.fleet.probes import Probe
from sordino.core.errors import SordinoError
from sordino.model.base import Model


@dataclass(frozen=True, eq=False)
class FleetWork:
    """All that a unit of work needs beside its members; sent to every worker once."""

    model: Model
    records: FleetRecords
    plan: FleetPlan
    probes: Mapping[str, Probe]

    def train(self, members: Members) -> Saved:
        """Train some members, on whatever device the worker has."""
        fleet = train_fleet(self.model, self.records, self.plan, members, self.probes)
        return Saved(self.plan.epochs, fleet.theta, dict(fleet.readings))


def train_on_cluster(
    model: Model,
    records: FleetRecords,
    plan: FleetPlan,
    members: Members,
    probes: Mapping[str, Probe] | None = None,
    *,
    options: ClusterOptions,
    partial_results: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fleet:
    """Train every member as `train_fleet` does, on the workers of a cluster; the result is the same, bit for bit.

    A member's numbers depend on its own seed alone, so a unit whose worker was lost is trained again elsewhere and
    comes out the same. With `partial_results` every finished unit is kept in that folder, for its owner only, until
    the fleet is complete: a run that was killed takes up where it was. `progress` is told units done and wanted.
    """
    work = FleetWork(model, records, plan, _on_host(probes or {}))
    units = [members.part(slice(first, first + options.unit)) for first in range(0, len(members), options.unit)]
    kept = _kept(partial_results, work, members, options.unit)
    found: dict[int, Saved] = {}
    for number in range(len(units)):
        saved = None if kept is None else kept.load(number)
        if saved is not None:
            found[number] = saved
    if len(found) < len(units):
        _train_missing(work, units, found, kept, options, progress)
    if kept is not None:
        kept.remove(len(units))
    parts = [found[number] for number in range(len(units))]
    readings = {name: np.concatenate([part.readings[name] for part in parts], axis=1) for name in work.probes}
    return Fleet(members, np.concatenate([part.theta for part in parts]), readings)


def _train_missing(
    work: FleetWork,
    units: list[Members],
    found: dict[int, Saved],
    kept: Checkpoints | None,
    options: ClusterOptions,
    progress: Callable[[int, int], None] | None,
) -> None:
    from distributed import as_completed  # noqa: PLC0415  (an extra: loaded only with a cluster)

    with connected(options) as client:
        held = client.scatter(work, broadcast=True, hash=False)
        missing = [number for number in range(len(units)) if number not in found]
        futures = {client.submit(_train, held, units[number], pure=False): number for number in missing}
        for future in as_completed(futures):
            if future.status != "finished":
                raise SordinoError(f"A unit of the fleet failed on its worker: {_told(future)}")
            saved: Saved = future.result()
            number = futures[future]
            if kept is not None:
                kept.save(number, saved)
            found[number] = saved
            future.release()
            if progress is not None:
                progress(len(found), len(units))


def _train(work: FleetWork, members: Members) -> Saved:
    return work.train(members)


def _told(future: Any) -> str:
    return str(future.exception()).partition("\n")[0][:200]


def _on_host(probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """The arrays of probes travel to workers as NumPy arrays."""
    return {name: jax.tree.map(np.asarray, probe) for name, probe in probes.items()}


def _kept(folder: Path | None, work: FleetWork, members: Members, unit: int) -> Checkpoints | None:
    if folder is None:
        return None
    described = {"model": work.model, "plan": work.plan, "members": members, "unit": unit, "row": work.records.row}
    return Checkpoints(folder, fingerprint(described, (work.records.stacked(), work.probes)))
