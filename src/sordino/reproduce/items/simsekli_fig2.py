"""Figure 2 of Simsekli et al.: private logistic regression with heavy-tailed noise."""

from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome
from sordino.reproduce.simsekli.figure import outcome
from sordino.reproduce.simsekli.setting import LOGISTIC


@item(name="simsekli-fig2", paper="simsekli2024differential", reproduces="Figure 2, logistic regression, GD and SGD")
def figure_two(options: Options) -> Outcome:
    """The noise each bound asks for at delta = .25, and the test error at that noise."""
    return outcome(LOGISTIC, options, (0.009, 0.012))
