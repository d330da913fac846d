"""Likelihood sites: tilted moments of one record, for message passing. Importing this package imports JAX."""

from sordino.model.sites.families import BlockGaussian as BlockGaussian
from sordino.model.sites.families import DiagonalGaussian as DiagonalGaussian
from sordino.model.sites.families import Family as Family
from sordino.model.sites.families import Moments as Moments
from sordino.model.sites.families import Natural as Natural
from sordino.model.sites.families import Predicted as Predicted
from sordino.model.sites.families import Site as Site
from sordino.model.sites.families import Slopes as Slopes
from sordino.model.sites.likelihoods import GaussianSite as GaussianSite
from sordino.model.sites.likelihoods import LinearSite as LinearSite
from sordino.model.sites.likelihoods import LogisticSite as LogisticSite
from sordino.model.sites.likelihoods import MixtureSite as MixtureSite
from sordino.model.sites.likelihoods import ProbitSite as ProbitSite
