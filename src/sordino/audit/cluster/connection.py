"""Which cluster: worker processes of this machine, or the address of a dask scheduler.

Whoever can reach a scheduler without authentication can run code on its workers, and what workers answer is unpickled
by the auditor: client, scheduler and workers are one trust boundary. Processes of this machine have no address.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from sordino.core.errors import InputError
from sordino.core.validate import COUNT, whole_number

LOCAL = "local"
AUTHENTICATED = "tls://"
# A unit that loses its worker is tried again this often before the fleet gives up.
_LOSSES = 20


@dataclass(frozen=True)
class ClusterOptions:
    """How to reach the workers and how to cut the work.

    Attributes:
        address: of a dask scheduler such as tls://host:8786, or "local" for processes on this machine.
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

    @property
    def local(self) -> bool:
        """Whether the workers are processes of this machine."""
        return self.address == LOCAL

    @property
    def authenticated(self) -> bool:
        """Whether nobody but the parties can give the workers something to run."""
        return self.local or self.address.startswith(AUTHENTICATED)


@contextmanager
def connected(options: ClusterOptions) -> Iterator[Any]:
    """A client of the scheduler; its certificates, for a tls:// address, are those of dask's own configuration."""
    dask, distributed = _dask()
    with dask.config.set({"distributed.scheduler.allowed-failures": _LOSSES}), _silent("distributed"):
        try:
            client = distributed.Client(options.address, timeout="10s")
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).partition("\n")[0][:120]
            message = f"Expected a dask scheduler at {options.address!r}, got: {reason}; start it, or use local."
            raise InputError(message) from None
        with client:
            yield client


@contextmanager
def _silent(package: str) -> Iterator[None]:
    """What dask logs about lost connections is said once, in a sentence, by whoever loses one."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == package]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _dask() -> tuple[Any, Any]:
    try:
        return import_module("dask"), import_module("distributed")
    except ImportError:
        raise InputError("Expected dask to be installed, got none; install sordino[cluster].") from None
