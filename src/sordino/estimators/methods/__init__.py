"""The ways to fit, each registered under the word that `method=` takes."""

from sordino.estimators.methods import chain as chain
from sordino.estimators.methods import constant as constant
from sordino.estimators.methods import expectation_maximisation as expectation_maximisation
from sordino.estimators.methods import gradients as gradients
from sordino.estimators.methods import newton as newton
from sordino.estimators.methods import output as output
from sordino.estimators.methods import statistics as statistics
from sordino.estimators.methods import variational as variational
from sordino.estimators.methods.base import METHODS as METHODS
from sordino.estimators.methods.base import Method as Method
from sordino.estimators.methods.base import Outcome as Outcome
from sordino.estimators.methods.base import Plan as Plan
from sordino.estimators.methods.base import Predicted as Predicted
from sordino.estimators.methods.base import method as method
