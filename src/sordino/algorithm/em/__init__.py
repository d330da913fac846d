"""Private expectation maximisation of a mixture of Gaussians."""

from sordino.algorithm.em.options import EmOptions as EmOptions
from sordino.algorithm.em.release import EmRelease as EmRelease
from sordino.algorithm.em.run import run_em as run_em
