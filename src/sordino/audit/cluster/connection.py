"""Which cluster: the address of a scheduler, or worker processes on this machine."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import COUNT, whole_number

LOCAL = "local"
# A unit that loses its worker is tried again this often before the fleet gives up.
_LOSSES = 20


@dataclass(frozen=True)
class ClusterOptions:
    """How to reach the workers and how to cut the work.

    Attributes:
        address: of a dask scheduler such as tcp://host:8786, or "local" for processes on this machine.
        workers: how many processes a local cluster has.
        unit: how many models one piece of work trains; what is repeated when a worker is lost.
    """

    address: str
    workers: int = 2
    unit: int = 64

    def __post_init__(self) -> None:
        if not isinstance(self.address, str) or not self.address:
            raise InputError(f"Expected the address of a scheduler or {LOCAL!r}, got {self.address!r}.")
        object.__setattr__(self, "workers", whole_number("workers", self.workers, COUNT))
        object.__setattr__(self, "unit", whole_number("unit", self.unit, COUNT))


@contextmanager
def connected(options: ClusterOptions) -> Iterator[Any]:
    """A client of the cluster; a local cluster lives as long as it."""
    dask, distributed = _dask()
    # Workers that end with their cluster tell of closed connections, which is no news.
    quiet = {"logging.distributed": "critical"} if options.address == LOCAL else {}
    with dask.config.set({"distributed.scheduler.allowed-failures": _LOSSES, **quiet}):
        if options.address == LOCAL:
            with (
                distributed.LocalCluster(
                    n_workers=options.workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    host="127.0.0.1",
                    silence_logs=logging.CRITICAL,
                ) as cluster,
                distributed.Client(cluster) as client,
            ):
                yield client
        else:
            try:
                client = distributed.Client(options.address, timeout="10s")
            except (OSError, ValueError) as error:
                reason = str(error).partition("\n")[0][:120]
                message = f"Expected a dask scheduler at {options.address!r}, got: {reason}; start it, or use local."
                raise InputError(message) from None
            with client:
                yield client


def _dask() -> tuple[Any, Any]:
    try:
        return import_module("dask"), import_module("distributed")
    except ImportError:
        raise InputError("Expected dask to be installed, got none; install sordino[cluster].") from None
