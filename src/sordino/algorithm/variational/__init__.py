"""Variational inference by clipped noisy gradients, for any model with a differentiable loss."""

from sordino.algorithm.variational.family import FactorisedGaussian as FactorisedGaussian
from sordino.algorithm.variational.family import PointMass as PointMass
from sordino.algorithm.variational.optimiser import Adam as Adam
from sordino.algorithm.variational.optimiser import Descent as Descent
from sordino.algorithm.variational.options import VariationalOptions as VariationalOptions
from sordino.algorithm.variational.release import VariationalRelease as VariationalRelease
from sordino.algorithm.variational.run import run_variational as run_variational
