"""Section 4.3 at alpha = 2: the distances that prior work and the paper give for one chain, against n."""

import math
from dataclasses import dataclass

from sordino.accounting.heavy_tail.markov import corrected_bound, lyapunov
from sordino.accounting.published.heavy_tail import stated_bound
from sordino.core.errors import SordinoError
from sordino.core.guarantee import GaussianDP, RenyiDP
from sordino.core.spec import Spec
from sordino.reproduce.bounds import bound_of
from sordino.reproduce.simsekli.setting import DIM, LOGISTIC

SCALE = 0.009
ORDER = 2.0


@dataclass(frozen=True)
class Compared:
    """delta at epsilon 0 with n records by every route, and the Rényi divergence over its order where there is one.

    Attributes:
        stated: Theorem 9 as printed, rho = beta and H of (17), as section 5 does. Not valid.
        corrected: with the factor it drops, H of (16), C = 1 and rho = beta. Not certified.
        coupling: heavy-tail.coupling.
        hidden_state: Theorem D.6 of Ye & Shokri, by Pinsker's inequality.
        shifts: the shift bound, exactly converted.
        hidden_state_renyi: the divergence behind it, over its order.
        shifts_renyi: the divergence of the shift bound, over its order.
    """

    n: int
    stated: float
    corrected: float
    coupling: float
    hidden_state: float
    shifts: float
    hidden_state_renyi: float
    shifts_renyi: float

    @property
    def order(self) -> float:
        """The order at which section 4.3 compares: n / (C log n) = 1 / delta."""
        return 1 / self.stated


def compared(n: int) -> Compared:
    """Logistic regression of section 5.2 with n records and the paper's noise."""
    loss, step = LOGISTIC.constants, LOGISTIC.step
    stated, corrected = (
        lyapunov(loss, 2.0, SCALE, step, DIM, 0.0, universal_point=universal) for universal in (True, False)
    )
    renyi, mu = _renyi("hidden-state.full", n), _mu(n)
    coupled = bound_of("heavy-tail.coupling", _stable(n))
    if coupled is None:
        raise SordinoError("Expected heavy-tail.coupling to apply to logistic regression, got that it does not.")
    return Compared(
        n,
        stated_bound(stated, stated.rate, n),
        corrected_bound(corrected, 1.0, corrected.rate, n),
        coupled.guarantee.delta(0.0),
        math.sqrt(renyi / 2),
        GaussianDP(mu).delta(0.0),
        renyi,
        mu * mu / 2,
    )


def _stable(n: int) -> Spec:
    return LOGISTIC.sharp_spec(2.0, SCALE).with_values({"problem.n": n})


def _gaussian(n: int) -> Spec:
    """The same chain as a Gaussian one: N(0, 2 sigma^2), gradients of two unit rows at most 2 apart."""
    return Spec.from_dict(
        {
            "algorithm": {
                "kind": "noisy-gradient",
                "steps": LOGISTIC.steps,
                "step_size": LOGISTIC.step,
                "noise": {"kind": "gaussian", "scale": math.sqrt(2) * SCALE},
                "batch": {"scheme": "full"},
            },
            "problem": {
                "n": n,
                "dim": DIM,
                "gradient_sensitivity": 2.0,
                "strong_convexity": LOGISTIC.decay,
                "smoothness": LOGISTIC.smoothness,
            },
            "relation": "replace-one",
            "view": "last-iterate",
        }
    )


def _renyi(name: str, n: int) -> float:
    """The divergence over its order; both bounds are linear in the order, so it also bounds the KL divergence."""
    bound = bound_of(name, _gaussian(n))
    if bound is None or not isinstance(bound.guarantee, RenyiDP):
        raise SordinoError(f"Expected a Rényi guarantee from {name} for this run, got none.")
    return bound.guarantee.at(ORDER) / ORDER


def _mu(n: int) -> float:
    bound = bound_of("shifted.full", _gaussian(n))
    if bound is None or not isinstance(bound.guarantee, GaussianDP):
        raise SordinoError("Expected a Gaussian guarantee from shifted.full for this run, got none.")
    return bound.guarantee.mu
