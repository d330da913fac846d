"""Likelihood sites: tilted moments of one record, for message passing. Importing this package imports JAX."""

from sordino.model.sites.families import BlockGaussian as BlockGaussian
from sordino.model.sites.families import DiagonalGaussian as DiagonalGaussian
from sordino.model.sites.families import Family as Family
from sordino.model.sites.families import Moments as Moments
from sordino.model.sites.families import Natural as Natural
from sordino.model.sites.families import Predicted as Predicted
from sordino.model.sites.families import Site as Site
from sordino.model.sites.families import Slopes as Slopes
from sordino.model.sites.linear import GaussianSite as GaussianSite
from sordino.model.sites.linear import LinearSite as LinearSite
from sordino.model.sites.linear import LogisticSite as LogisticSite
from sordino.model.sites.linear import ProbitSite as ProbitSite
from sordino.model.sites.mixture import MixtureSite as MixtureSite
from sordino.model.sites.network import GammaPrecision as GammaPrecision
from sordino.model.sites.network import NetworkSite as NetworkSite
from sordino.model.sites.network import PublicPrecision as PublicPrecision
