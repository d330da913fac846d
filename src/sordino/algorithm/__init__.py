"""Noisy gradient chains: named specs, one compiled kernel, and releases that hold only what their view allows."""

from sordino.algorithm.lipschitz import LipschitzFunction as LipschitzFunction
from sordino.algorithm.lipschitz import coordinate as coordinate
from sordino.algorithm.lipschitz import parameters as parameters
from sordino.algorithm.named import clipped_sgld as clipped_sgld
from sordino.algorithm.named import cyclic_sgld as cyclic_sgld
from sordino.algorithm.named import dp_sgd as dp_sgd
from sordino.algorithm.named import heavy_tailed_sgd as heavy_tailed_sgd
from sordino.algorithm.named import noisy_gd as noisy_gd
from sordino.algorithm.named import noisy_sgd as noisy_sgd
from sordino.algorithm.named import sgld as sgld
from sordino.algorithm.named import ula as ula
from sordino.algorithm.randomness import Purpose as Purpose
from sordino.algorithm.randomness import Randomness as Randomness
from sordino.algorithm.randomness import SeededRandomness as SeededRandomness
from sordino.algorithm.release import ChainRelease as ChainRelease
from sordino.algorithm.release import KeptIterates as KeptIterates
from sordino.algorithm.release import LastIterate as LastIterate
from sordino.algorithm.release import NoisedAverage as NoisedAverage
from sordino.algorithm.run import run as run
