"""How much work an attack on a described run would be: refused before it starts when nobody would wait for it."""

from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import refuse

# A few minutes of a laptop each: random numbers drawn and batch entries chosen on the host; products of gradients.
_MOST_DRAWS = 1e9
_MOST_PRODUCTS = 1e12
# Schemes whose batches are the same for every model; the others are drawn model by model.
_SHARED = frozenset({Scheme.FULL, Scheme.CYCLIC})


def chain_of(spec: Spec) -> NoisyGradient:
    """The noisy gradient chain of a spec; audits that train models can run no other kind."""
    if not isinstance(spec.algorithm, NoisyGradient):
        kind = spec.to_dict()["algorithm"]["kind"]
        raise refuse("the spec", "to describe a noisy gradient chain to train models of", kind, "use the exact audit")
    return spec.algorithm


def need_feasible(spec: Spec, models: int) -> None:
    """Refuse an attack that would draw more random numbers, or sum more gradients, than a person waits for.

    On the extremal quadratic gradients are constant and cost nothing.
    """
    chain = chain_of(spec)
    rows = chain.divisor(spec.n)
    steps = chain.chains * chain.steps
    draws = steps * (spec.dim + (0 if chain.batch.scheme in _SHARED else rows))
    products = 0 if spec.instance is None else steps * rows * spec.dim
    share = max(draws / _MOST_DRAWS, products / _MOST_PRODUCTS)
    if models * share > 1.0:
        affordable = int(1.0 / share)
        remedy = "audit a shorter run" if affordable < 8 else f"train at most {affordable} models"
        raise refuse(
            "the work of the audit",
            f"to be at most {_MOST_DRAWS:.0e} random numbers and {_MOST_PRODUCTS:.0e} products of gradients",
            f"{models * draws:.1e} and {models * products:.1e}",
            remedy,
        )
