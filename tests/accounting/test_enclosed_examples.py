"""Epsilons of the example specs again in ball arithmetic, from the guarantees they are printed with.

What `certify`, `calibrate`, the ledger and reports print is `guarantee.epsilon(delta)` of a bound. Here delta is found
again at the printed epsilon, in balls of 200 bits, from the numbers of the guarantee, for every bound that is Gaussian,
Rényi or pure: it may not exceed the spec's delta, and a little below the printed epsilon it must, so that a printed
number is neither too small nor loose. Loss distributions are enclosed pair by pair in
`tests/core/loss/test_enclosures`, and how a guarantee follows from a spec is redone in `test_enclosed_formulas`.
"""

from pathlib import Path

import pytest
from flint import arb, ctx

from sordino.accounting.evaluate import explain
from sordino.core.guarantee import GaussianDP, Guarantee, PureDP, RenyiDP
from sordino.core.spec import read_spec

SPECS = sorted((Path(__file__).parents[2] / "examples" / "specs").glob("*.json"))
BITS = 200
FEW = {"full-last-iterate", "cyclic-all-iterates"}


@pytest.fixture(autouse=True)
def digits():
    before, ctx.prec = ctx.prec, BITS
    yield
    ctx.prec = before


def normal_tail(x: arb) -> arb:
    """P(Z > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def gaussian_delta(mu: arb, epsilon: arb) -> arb:
    return normal_tail(epsilon / mu - mu / 2) - epsilon.exp() * normal_tail(epsilon / mu + mu / 2)


def renyi_delta(guarantee: RenyiDP, epsilon: arb) -> arb:
    """The least over orders of exp((a - 1) (rho - epsilon)) (1 - 1/a)^a / (a - 1): Proposition 12."""
    answers = []
    for order, value in zip(guarantee.orders, guarantee.values, strict=True):
        a, rho = arb(float(order)), arb(float(value))
        if a > 1 and rho.is_finite():
            answers.append(((a - 1) * (rho - epsilon)).exp() / (a - 1) * (1 - 1 / a) ** a)
    return min(answers, key=lambda answer: float(answer.mid()))


def enclosed_delta(guarantee: Guarantee, epsilon: float) -> arb | None:
    """delta at an epsilon, or None for a guarantee of another kind."""
    e = arb(epsilon)
    if isinstance(guarantee, GaussianDP):
        return arb(0) if guarantee.mu == 0.0 else gaussian_delta(arb(guarantee.mu), e)
    if isinstance(guarantee, RenyiDP):
        return renyi_delta(guarantee, e) + arb(guarantee.failure)
    if isinstance(guarantee, PureDP):
        # Of randomised response, which dominates whatever is pure.
        pure = arb(guarantee.value).exp()
        return arb(0) if epsilon >= guarantee.value else (pure - e.exp()) / (1 + pure)
    return None


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in FEW else pytest.mark.slow) for path in SPECS],
)
def test_a_printed_epsilon_holds_in_ball_arithmetic(path: Path) -> None:
    spec = read_spec(path)
    delta = spec.delta or 1e-6
    checked = 0
    for bound, epsilon in explain(spec, delta).bounds:
        if epsilon in (0.0, float("inf")):
            continue
        found = enclosed_delta(bound.guarantee, epsilon)
        if found is None:
            continue
        assert bool(found <= arb(delta) * (1 + arb("1e-30"))), bound.theorem
        if isinstance(bound.guarantee, GaussianDP):
            below = enclosed_delta(bound.guarantee, epsilon * (1.0 - 1e-6))
            assert below is not None
            assert bool(below > arb(delta)), bound.theorem
        checked += 1
    assert checked or path.stem not in FEW
