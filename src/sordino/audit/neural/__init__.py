"""A network audited from end to end, as Heller & Fetaya 2023 do in Section V: canary, two fleets, an attack per epoch.

Importing this package imports JAX and SciPy and nothing else that is heavy, so that it runs wherever a fleet does.
"""

from sordino.audit.neural.attack import EpochFinding as EpochFinding
from sordino.audit.neural.attack import Halves as Halves
from sordino.audit.neural.attack import attack_epoch as attack_epoch
from sordino.audit.neural.audit import attack_canary as attack_canary
from sordino.audit.neural.audit import audit_network as audit_network
from sordino.audit.neural.audit import canary_against_ensemble as canary_against_ensemble
from sordino.audit.neural.canary import Canary as Canary
from sordino.audit.neural.canary import find_canaries as find_canaries
from sordino.audit.neural.described import described_chain as described_chain
from sordino.audit.neural.findings import NeuralFindings as NeuralFindings
from sordino.audit.neural.findings import findings_of as findings_of
from sordino.audit.neural.pilot import Piloted as Piloted
from sordino.audit.neural.setting import Claimed as Claimed
from sordino.audit.neural.setting import NeuralData as NeuralData
from sordino.audit.neural.setting import NeuralSetting as NeuralSetting
from sordino.audit.neural.setting import PilotRound as PilotRound
