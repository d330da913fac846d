"""Ten posterior draws, each from a chain of its own, are handed out under the certificate of one."""

from tests.auditing.broken.registry import Case, attacked, case, chain, claimed, options

ONE = chain(**{"algorithm.noise.scale": 0.04})
TEN = chain(**{"algorithm.noise.scale": 0.04, "algorithm.chains": 10})


@case("several draws certified as one")
def several_draws():
    asked = options(0.05, 1000)
    return Case(claimed(ONE, 0.05), lambda: attacked(TEN, asked), lambda: attacked(ONE, asked))
