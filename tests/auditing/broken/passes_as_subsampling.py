"""Permuted passes use every record exactly once an epoch, but are accounted as independent draws, which may miss it."""

from tests.auditing.broken.registry import Case, attacked, case, chain, claimed, options

CHANGES = {
    "algorithm.steps": 20,
    "algorithm.step_size": 1.0,
    "algorithm.noise.scale": 0.2,
    "problem.strong_convexity": None,
    "problem.smoothness": None,
    "view": "all-iterates",
}
DRAWN = chain(**CHANGES, **{"algorithm.batch": {"scheme": "without-replacement", "size": 1}})
PASSES = chain(**CHANGES, **{"algorithm.batch": {"scheme": "reshuffled", "size": 1}})


@case("permuted passes accounted as subsampling")
def passes_as_subsampling():
    """Independent draws miss the record with probability 0.95^20 = 0.36, so at delta = 0.7 they claim epsilon = 0."""
    asked = options(0.7, 1000)
    return Case(claimed(DRAWN, 0.7), lambda: attacked(PASSES, asked), lambda: attacked(DRAWN, asked))
