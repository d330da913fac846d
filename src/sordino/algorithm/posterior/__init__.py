"""Posteriors that releases stand for, with one interface: Gaussian ones, and draws of chains."""

from sordino.algorithm.posterior.base import DrawsPosterior as DrawsPosterior
from sordino.algorithm.posterior.base import Observation as Observation
from sordino.algorithm.posterior.base import Posterior as Posterior
from sordino.algorithm.posterior.base import Prediction as Prediction
from sordino.algorithm.posterior.base import observation as observation
from sordino.algorithm.posterior.gaussian import GaussianPosterior as GaussianPosterior
