"""Synthetic generators with known truth; each draws from a NumPy generator that the caller seeds."""

from sordino.data.synthetic.base import GENERATORS as GENERATORS
from sordino.data.synthetic.base import Synthetic as Synthetic
from sordino.data.synthetic.base import generator as generator
from sordino.data.synthetic.classification import logistic as logistic
from sordino.data.synthetic.classification import probit as probit
from sordino.data.synthetic.classification import softmax as softmax
from sordino.data.synthetic.counts import poisson as poisson
from sordino.data.synthetic.mixture import mixture as mixture
from sordino.data.synthetic.regression import contaminated as contaminated
from sordino.data.synthetic.regression import linear as linear
