"""How many models a compiled program trains at once on one device.

The number depends on what is trained and on the kind of device, never on how many models there are: all programs of a
fleet then have the same shapes, and a model comes out the same bit for bit whoever is trained with it.
"""

from sordino.audit.fleet.device import Device
from sordino.audit.fleet.network import FleetNetwork
from sordino.audit.fleet.plan import FleetPlan

# A step's numbers should stay in the cache of a processor, and fit the memory of an accelerator with room to spare.
_ON_PROCESSOR, _MOST_ON_PROCESSOR = 2**23, 64
_ON_ACCELERATOR, _MOST_ON_ACCELERATOR = 2**33, 1024
_LEAST = 4
_COPIES = 6  # parameters: old, new, gradients, noise, and two of the compiler's


def models_at_once(network: FleetNetwork, plan: FleetPlan, records: int, device: Device) -> int:
    """A power of two."""
    on_processor = device.platform == "cpu"
    room, most = (_ON_PROCESSOR, _MOST_ON_PROCESSOR) if on_processor else (_ON_ACCELERATOR, _MOST_ON_ACCELERATOR)
    batch = plan.batch_size(records) * (network.features + network.floats_per_example)
    fitting = room // (4 * (_COPIES * network.dim + batch))
    return min(most, max(_LEAST, 1 << max(0, fitting.bit_length() - 1)))
