"""Posteriors that releases stand for, with one interface: Gaussian ones, and draws of chains."""

from sordino.algorithm.posterior.base import Posterior as Posterior
from sordino.algorithm.posterior.base import Prediction as Prediction
from sordino.algorithm.posterior.draws import DrawsPosterior as DrawsPosterior
from sordino.algorithm.posterior.gaussian import GaussianPosterior as GaussianPosterior
from sordino.algorithm.posterior.observation import Observation as Observation
from sordino.algorithm.posterior.observation import observation as observation
