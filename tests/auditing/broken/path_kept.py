"""The last iterate is certified, and the whole path is kept and handed out."""

from sordino.core.bound import View
from tests.auditing.broken.registry import Case, attacked, case, chain, claimed, options

CHANGES = {
    "algorithm.steps": 100,
    "algorithm.step_size": 1.0,
    "algorithm.noise.scale": 0.4,
    "problem.strong_convexity": 0.5,
    "problem.smoothness": 0.5,
}
LAST = chain(**CHANGES)
PATH = chain(**CHANGES, view="all-iterates")


@case("last-iterate claim on a run that keeps its path")
def path_kept():
    asked = options(0.05, 2000)
    return Case(
        claimed(LAST, 0.05),
        lambda: attacked(PATH, asked, view=View.LAST_ITERATE),
        lambda: attacked(LAST, asked),
    )
