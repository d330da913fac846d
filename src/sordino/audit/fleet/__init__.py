"""Thousands of models trained at once, on a dataset and on its neighbour.

Importing this package imports JAX and nothing else that is heavy.
"""

from sordino.audit.fleet.compiled import Compiled as Compiled
from sordino.audit.fleet.cuda.trainer import LeNetOnCuda as LeNetOnCuda
from sordino.audit.fleet.dense import DenseFleet as DenseFleet
from sordino.audit.fleet.engine import Fleet as Fleet
from sordino.audit.fleet.engine import Performance as Performance
from sordino.audit.fleet.engine import Progress as Progress
from sordino.audit.fleet.engine import Watch as Watch
from sordino.audit.fleet.engine import train_fleet as train_fleet
from sordino.audit.fleet.lenet import LeNetFleet as LeNetFleet
from sordino.audit.fleet.members import FleetRecords as FleetRecords
from sordino.audit.fleet.members import Members as Members
from sordino.audit.fleet.members import Replacement as Replacement
from sordino.audit.fleet.network import FleetNetwork as FleetNetwork
from sordino.audit.fleet.network import fleet_network as fleet_network
from sordino.audit.fleet.network import network_for as network_for
from sordino.audit.fleet.plan import FanInStart as FanInStart
from sordino.audit.fleet.plan import FleetPlan as FleetPlan
from sordino.audit.fleet.plan import plan_of as plan_of
from sordino.audit.fleet.probes import Accuracy as Accuracy
from sordino.audit.fleet.probes import Probabilities as Probabilities
from sordino.audit.fleet.probes import Probe as Probe
from sordino.audit.fleet.probes import Scores as Scores
from sordino.audit.fleet.probes import canary_probabilities as canary_probabilities
