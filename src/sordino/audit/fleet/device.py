"""What the fleet asks of a JAX device."""

from typing import Protocol


class Device(Protocol):
    """A device of `jax.devices()`."""

    @property
    def platform(self) -> str:
        """cpu, gpu or tpu."""
        ...

    @property
    def local_hardware_id(self) -> int | None:
        """Its number on this machine, where it has one."""
        ...
