"""Training a fleet in units on a cluster: a lost worker costs time and changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from sordino.audit.cluster.connection import ClusterOptions
from sordino.audit.cluster.units import UnitsDone, all_done
from sordino.audit.fleet.checkpoint import Checkpoints, Saved, fingerprint
from sordino.audit.fleet.engine import Fleet, train_fleet
from sordino.audit.fleet.members import FleetRecords, Members
from sordino.audit.fleet.plan import FleetPlan
from sordino.audit.fleet.probes import Probe
from sordino.model.base import Model


@dataclass(frozen=True, eq=False)
class FleetWork:
    """All that a unit of a fleet needs beside its members."""

    model: Model
    records: FleetRecords
    plan: FleetPlan
    probes: Mapping[str, Probe]

    def done(self, unit: Members) -> Saved:
        """Train some members, on whatever device the worker has."""
        fleet = train_fleet(self.model, self.records, self.plan, unit, self.probes)
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
    progress: UnitsDone | None = None,
) -> Fleet:
    """Train every member as `train_fleet` does, on the workers of a cluster; the result is the same, bit for bit.

    A member's numbers depend on its own seed alone, so a unit whose worker was lost is trained again elsewhere and
    comes out the same. With `partial_results` every finished unit is kept in that folder, for its owner only, until
    the fleet is complete: a run that was killed takes up where it was. `progress` is told units done and wanted.
    """
    work = FleetWork(model, records, plan, _on_host(probes or {}))
    units = [members.part(slice(first, first + options.unit)) for first in range(0, len(members), options.unit)]
    parts = all_done(work, units, options, _kept(partial_results, work, members, options.unit), progress)
    readings = {name: np.concatenate([part.readings[name] for part in parts], axis=1) for name in work.probes}
    return Fleet(members, np.concatenate([part.theta for part in parts]), readings)


def _on_host(probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """The arrays of probes travel to workers as NumPy arrays."""
    return {name: jax.tree.map(np.asarray, probe) for name, probe in probes.items()}


def _kept(folder: Path | None, work: FleetWork, members: Members, unit: int) -> Checkpoints | None:
    if folder is None:
        return None
    rows = work.records.rows_replaced
    described = {"model": work.model, "plan": work.plan, "members": members, "unit": unit, "rows": rows}
    return Checkpoints(folder, fingerprint(described, (work.records.stacked(), work.probes)))
