"""One exact draw from a one-dimensional regression posterior: Lemma A.1 of Heller & Fetaya."""

import math

from sordino.accounting.assumption import Assumption, caller_checked
from sordino.accounting.registry import theorem
from sordino.accounting.scope import Scope
from sordino.accounting.theorems.posterior_needs import has_potential, potential_of, required_potential
from sordino.core.bound import Status
from sordino.core.citation import Citation
from sordino.core.guarantee import ORDERS, Guarantee, RenyiDP
from sordino.core.relation import Relation
from sordino.core.spec import LinearRegression, Spec
from sordino.core.view import View

_ACCURACY = 1e-13
# The paper's Rényi divergence of two Gaussians has a factor (nu - 1) / 2 where 1 / (2 (nu - 1)) is right; from order 2
# on it is the larger of the two, and the lemma stands.
_ORDERS = tuple(order for order in ORDERS if order >= 2.0)


def least_records(model: LinearRegression, order: float) -> float:
    """More records than this are needed at an order.

    The lemma asks for n > max(1 + 10 nu x_h^2 / (x_l^2 beta), 1 + nu x_h^2 / x_l^2). Claim D.22 drops a factor beta on
    its way to the first; with it the condition is n >= 10 nu (x_h^2 - x_l^2) / x_l^2, so both are asked for here.
    """
    squares = (model.x_high / model.x_low) * (model.x_high / model.x_low)
    return max(1 + 10 * order * squares / model.beta, 1 + order * squares, 10 * order * (squares - 1)) * (1 + _ACCURACY)


def regression_divergence(model: LinearRegression, n: int, order: float) -> float:
    """epsilon_1 of Lemma A.1 at an order that n allows, rounded up.

    Where ratios y/x may be negative (c < n^gamma1), two of them differ by up to 2 n^gamma1, which then takes the place
    of c + n^gamma1.
    """
    high, low = model.x_high * model.x_high, model.x_low * model.x_low
    spread = math.exp(model.gamma1 * math.log(n))
    largest = max(model.c, spread) + spread
    pull = model.alpha + high * model.beta
    terms = (
        high / (2 * (n - 1) * low),
        (order - 1) * order * high / (2 * ((n - 1) * low - order * high)),
        20 * order * model.beta * high * high * spread * spread / (9 * n * low),
        20 * order * high * high * pull * largest * spread / (9 * low * low * n * n),
        5 * order * high * high * pull * pull * largest * largest / (9 * low * low * low * model.beta * n * n * n),
    )
    total = math.fsum(terms) * (1 + _ACCURACY) if all(map(math.isfinite, terms)) else math.inf
    return total if total >= 0 else math.inf


def _orders(spec: Spec) -> tuple[float, ...]:
    model = potential_of(spec, LinearRegression)
    if model is None:
        return ()
    return tuple(order for order in _ORDERS if spec.n > least_records(model, order))


def _too_few(spec: Spec) -> str | None:
    model = potential_of(spec, LinearRegression)
    if model is None or spec.n > least_records(model, _ORDERS[0]):
        return None
    return f"needs n > {least_records(model, _ORDERS[0]):.6g} at order {_ORDERS[0]:g}, and n = {spec.n}"


@theorem(
    id="posterior.linear-regression",
    statement=(
        "One draw from the posterior of y = theta x + N(0, 1/beta), theta ~ N(0, 1/alpha), with x_l <= x <= x_h and "
        "|y/x - c| <= n^gamma1, has Rényi divergence epsilon_1(nu) of Lemma A.1 at every order nu >= 2 with "
        "n > max(1 + 10 nu x_h^2 / (x_l^2 beta), 1 + nu x_h^2 / x_l^2, 10 nu (x_h^2 - x_l^2) / x_l^2). The last "
        "condition and nu >= 2 are missing in the lemma."
    ),
    citation=Citation("heller2023can", "Lemma A.1"),
    status=Status.CORRECTED,
    scope=Scope(frozenset({"posterior-sample"}), frozenset({View.ONE_SAMPLE}), {Relation.REPLACE_ONE: frozenset()}),
    assumptions=(
        has_potential(LinearRegression),
        Assumption(
            "records",
            "n is large enough for some order of Lemma A.1",
            _too_few,
            lambda spec: spec.with_values({"problem.n": 2}),
        ),
        caller_checked("domain", "every record satisfies x_l <= x <= x_h and |y/x - c| <= n^gamma1"),
    ),
)
def linear_regression(spec: Spec) -> Guarantee:
    """Two Gaussians whose precisions and means are compared term by term."""
    model, orders = required_potential(spec, LinearRegression), _orders(spec)
    return RenyiDP(orders, tuple(regression_divergence(model, spec.n, order) for order in orders))
