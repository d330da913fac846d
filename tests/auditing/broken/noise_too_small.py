"""The noise is half of what was certified."""

from tests.auditing.broken.registry import Case, attacked, case, chain, claimed, options

SPEC = chain(**{"algorithm.noise.scale": 0.04})
HALF = chain(**{"algorithm.noise.scale": 0.02})


@case("noise 2x too small")
def noise_too_small():
    asked = options(0.05, 4000)
    return Case(claimed(SPEC, 0.05), lambda: attacked(HALF, asked), lambda: attacked(SPEC, asked))
