"""Private message passing: stochastic expectation propagation with noised averages."""

from sordino.algorithm.message_passing.coordinates import CentredCoordinates as CentredCoordinates
from sordino.algorithm.message_passing.coordinates import Coordinates as Coordinates
from sordino.algorithm.message_passing.coordinates import NaturalCoordinates as NaturalCoordinates
from sordino.algorithm.message_passing.damping import DampedSteps as DampedSteps
from sordino.algorithm.message_passing.damping import linear_decay as linear_decay
from sordino.algorithm.message_passing.options import Prior as Prior
from sordino.algorithm.message_passing.options import Refinement as Refinement
from sordino.algorithm.message_passing.release import MessagePassingRelease as MessagePassingRelease
from sordino.algorithm.message_passing.release import Repairs as Repairs
from sordino.algorithm.message_passing.repair import RaiseEigenvalues as RaiseEigenvalues
from sordino.algorithm.message_passing.repair import Repair as Repair
from sordino.algorithm.message_passing.repair import ShiftSpectrum as ShiftSpectrum
from sordino.algorithm.message_passing.repair import SkipRound as SkipRound
from sordino.algorithm.message_passing.run import run_message_passing as run_message_passing
