"""Noisy gradient chains: named specs, one compiled kernel, and releases that hold only what their view allows."""

from sordino.mechanisms.chain.release import ChainRelease as ChainRelease
from sordino.mechanisms.chain.release import KeptIterates as KeptIterates
from sordino.mechanisms.chain.release import LastIterate as LastIterate
from sordino.mechanisms.chain.release import LipschitzFunction as LipschitzFunction
from sordino.mechanisms.chain.release import NoisedAverage as NoisedAverage
from sordino.mechanisms.chain.release import Progress as Progress
from sordino.mechanisms.chain.release import coordinate as coordinate
from sordino.mechanisms.chain.release import parameters as parameters
from sordino.mechanisms.chain.rows import ChainParallel as ChainParallel
from sordino.mechanisms.chain.rows import DataParallel as DataParallel
from sordino.mechanisms.chain.run import run as run
from sordino.mechanisms.chain.specs import dp_sgd as dp_sgd
from sordino.mechanisms.chain.specs import heavy_tailed_sgd as heavy_tailed_sgd
from sordino.mechanisms.chain.specs import noisy_gd as noisy_gd
from sordino.mechanisms.chain.specs import noisy_sgd as noisy_sgd
from sordino.mechanisms.chain.specs import sgld as sgld
from sordino.mechanisms.chain.specs import ula as ula
from sordino.mechanisms.checkpoint import Checkpoint as Checkpoint
from sordino.mechanisms.checkpoint_file import CheckpointError as CheckpointError
from sordino.mechanisms.checkpoint_file import CheckpointSummary as CheckpointSummary
from sordino.mechanisms.checkpoint_file import Interrupted as Interrupted
from sordino.mechanisms.checkpoint_file import checkpoint_summary as checkpoint_summary
from sordino.noise.randomness import Purpose as Purpose
from sordino.noise.randomness import Randomness as Randomness
from sordino.noise.randomness import SeededRandomness as SeededRandomness
from sordino.noise.secure import SecureRandomness as SecureRandomness
