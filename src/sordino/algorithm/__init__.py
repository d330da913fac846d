"""Noisy gradient chains: named specs, one compiled kernel, and releases that hold only what their view allows."""

from sordino.algorithm.chain.named import dp_sgd as dp_sgd
from sordino.algorithm.chain.named import heavy_tailed_sgd as heavy_tailed_sgd
from sordino.algorithm.chain.named import noisy_gd as noisy_gd
from sordino.algorithm.chain.named import noisy_sgd as noisy_sgd
from sordino.algorithm.chain.named import sgld as sgld
from sordino.algorithm.chain.named import ula as ula
from sordino.algorithm.chain.release import ChainRelease as ChainRelease
from sordino.algorithm.chain.release import KeptIterates as KeptIterates
from sordino.algorithm.chain.release import LastIterate as LastIterate
from sordino.algorithm.chain.release import LipschitzFunction as LipschitzFunction
from sordino.algorithm.chain.release import NoisedAverage as NoisedAverage
from sordino.algorithm.chain.release import Progress as Progress
from sordino.algorithm.chain.release import coordinate as coordinate
from sordino.algorithm.chain.release import parameters as parameters
from sordino.algorithm.chain.rows import ChainParallel as ChainParallel
from sordino.algorithm.chain.rows import DataParallel as DataParallel
from sordino.algorithm.chain.run import run as run
from sordino.algorithm.io.checkpoint import Checkpoint as Checkpoint
from sordino.algorithm.io.checkpoint_file import CheckpointError as CheckpointError
from sordino.algorithm.io.checkpoint_file import CheckpointSummary as CheckpointSummary
from sordino.algorithm.io.checkpoint_file import Interrupted as Interrupted
from sordino.algorithm.io.checkpoint_file import checkpoint_summary as checkpoint_summary
from sordino.algorithm.noise.randomness import Purpose as Purpose
from sordino.algorithm.noise.randomness import Randomness as Randomness
from sordino.algorithm.noise.randomness import SeededRandomness as SeededRandomness
from sordino.algorithm.noise.secure import SecureRandomness as SecureRandomness
