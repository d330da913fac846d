"""Figure 1 of Simsekli et al.: private linear regression with heavy-tailed noise."""

from sordino.reproduce.item import item
from sordino.reproduce.options import Options
from sordino.reproduce.outcome import Outcome
from sordino.reproduce.simsekli.figure import outcome
from sordino.reproduce.simsekli.setting import LINEAR


@item(name="simsekli-fig1", paper="simsekli2024differential", reproduces="Figure 1, linear regression, GD and SGD")
def figure_one(options: Options) -> Outcome:
    """The noise each bound asks for at delta = .1, and the test error at that noise."""
    return outcome(LINEAR, options, (0.02, 0.05))
