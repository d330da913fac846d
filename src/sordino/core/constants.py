"""The constants a SPEC.json may certify, each with its direction and range.

One list, read by the spec reader, by models (which issue certificates) and by theorems (which use them).
"""

from sordino.core import validate
from sordino.core.certificate import Constant, Direction
from sordino.core.validate import NON_NEGATIVE, POSITIVE, PROBABILITY, Interval

_UP, _LOW = Direction.UPPER, Direction.LOWER

GRADIENT_SENSITIVITY = Constant(
    "gradient_sensitivity",
    _UP,
    "sup |g(theta, x) - g(theta, x')| over any two records x and x' there may be, per example, as run (after clipping)",
)
GRADIENT_BOUND = Constant("gradient_bound", _UP, "sup |g(theta, x)| per example, as run (after clipping)")
STRONG_CONVEXITY = Constant("strong_convexity", _LOW, "strong convexity of the update as run, regulariser included")
SMOOTHNESS = Constant("smoothness", _UP, "smoothness of the update as run, regulariser included")
UNCLIPPED_SMOOTHNESS = Constant("unclipped_smoothness", _UP, "smoothness of the per-example loss before clipping")
DRIFT_BOUND = Constant("drift_bound", _UP, "sup |grad V_D|, the data part of the drift")
LIPSCHITZ = Constant("lipschitz", _UP, "Lipschitz constant of the difference of two neighbours' potentials")
DIAMETER = Constant("diameter", _UP, "diameter of the set the parameters live in", POSITIVE)
REGULARISER_STRONG_CONVEXITY = Constant("regulariser.strong_convexity", _LOW, "strong convexity of the regulariser")
REGULARISER_SMOOTHNESS = Constant("regulariser.smoothness", _UP, "smoothness of the regulariser")
GROWTH_G0 = Constant("gradient_growth.g0", _UP, "|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|: g0")
GROWTH_G1 = Constant("gradient_growth.g1", _UP, "|grad f(theta,x) - grad f(theta,x')| <= g0 + g1 |theta|: g1")
GROWTH_AT_ZERO = Constant("gradient_growth.at_zero", _UP, "sup |grad f(0, x)|")
CONVERGENCE_ZETA = Constant("convergence.zeta", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: zeta")
CONVERGENCE_RATE = Constant(
    "convergence.rate", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: rate", Interval(0.0, 1.0, high_open=True)
)
CONVERGENCE_BIAS = Constant("convergence.bias", _UP, "TV(law_n, posterior) <= zeta * rate^n + bias: bias")
ERGODICITY_C = Constant("ergodicity.C", _UP, "V-uniform ergodicity: factor C", POSITIVE)
ERGODICITY_RHO = Constant(
    "ergodicity.rho", _UP, "V-uniform ergodicity: rate rho", Interval(0.0, 1.0, low_open=True, high_open=True)
)
DISSIPATIVITY = {
    name: Constant(f"dissipativity.{name}", _LOW if name == "m" else _UP, f"{name} of Simsekli et al., Assumptions 1-3")
    for name in ("K1", "K2", "m", "K", "B", "D")
}
AVERAGE_LIPSCHITZ = Constant("average.lipschitz", _UP, "Lipschitz constant of the averaged function f", NON_NEGATIVE)
ROW_NORM = Constant("row_norm", _UP, "sup |x| of an encoded record, intercept included", POSITIVE)
TARGET_BOUND = Constant("target_bound", _UP, "sup |y| of an encoded target")
FLOATING_POINT = Constant(
    "floating_point", _UP, "total variation between the release as computed and as certified", PROBABILITY
)
TARGET_WIDTH = Constant("target_width", _UP, "sup |y - y'| of two encoded targets")


def constant_named(name: str) -> Constant:
    """Look a constant up by the name it has in SPEC.json."""
    for value in (*globals().values(), *DISSIPATIVITY.values()):
        if isinstance(value, Constant) and value.name == name:
            return value
    raise validate.refuse("constant", "to be a name listed in sordino.core.constants", name)
