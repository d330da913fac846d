"""How much one step of per-example norm clipping can expand: the corrected modulus.

Ye & Shokri 2022, Proposition F.2, claims that a clipped convex gradient is the gradient of a convex, equally smooth
function. It is not: the Jacobian of the clipped gradient is s P H with 0 < s <= 1, P the projection orthogonal to the
gradient and H the Hessian, and s P H is not symmetric; with three or more classes its symmetric part is indefinite.
For every convex beta-smooth per-example loss, norm clipping and weight decay lambda, the step
theta - eta (clip(g(theta)) + lambda theta) has a Lipschitz constant of at most, with a = 1 - eta lambda > 0 and
t = eta beta,

    c = a / sqrt(1 - t / (4 a))   if t <= 3 a,   else   t - a,

and some loss attains it. To first order in eta this is 1 - eta (lambda - beta / 8).
"""

import math
from fractions import Fraction

from sordino.core.rounding import widen_up
from sordino.core.validate import NON_NEGATIVE, POSITIVE, number, refuse

# The formula loses at most a factor 2 of the relative accuracy of a and t, which are correctly rounded here.
_ACCURACY = 2.0**-48


def clipped_modulus(eta: float, lam: float, beta: float) -> float:
    """The Lipschitz constant of one norm-clipped step with weight decay `lam`, rounded up."""
    number("eta", eta, POSITIVE)
    number("lam", lam, NON_NEGATIVE)
    number("beta", beta, NON_NEGATIVE)
    decayed = 1 - Fraction(eta) * Fraction(lam)
    if decayed <= 0:
        raise refuse("eta * lam", "to be below 1 for the corrected modulus", eta * lam, "take a smaller step")
    a, t = float(decayed), float(Fraction(eta) * Fraction(beta))
    modulus = a / math.sqrt(1.0 - t / (4.0 * a)) if t <= 3.0 * a else t - a
    return widen_up(modulus, _ACCURACY)
