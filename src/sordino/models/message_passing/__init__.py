"""Likelihood sites: tilted moments of one record, for message passing. Importing this package imports JAX."""

from sordino.models.message_passing.gaussians import BlockGaussian as BlockGaussian
from sordino.models.message_passing.gaussians import DiagonalGaussian as DiagonalGaussian
from sordino.models.message_passing.gaussians import Family as Family
from sordino.models.message_passing.gaussians import Moments as Moments
from sordino.models.message_passing.gaussians import Natural as Natural
from sordino.models.message_passing.gaussians import Predicted as Predicted
from sordino.models.message_passing.gaussians import Site as Site
from sordino.models.message_passing.gaussians import Slopes as Slopes
from sordino.models.message_passing.likelihoods import GaussianSite as GaussianSite
from sordino.models.message_passing.likelihoods import LinearSite as LinearSite
from sordino.models.message_passing.likelihoods import LogisticSite as LogisticSite
from sordino.models.message_passing.likelihoods import MixtureSite as MixtureSite
from sordino.models.message_passing.likelihoods import ProbitSite as ProbitSite
