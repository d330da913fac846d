"""Last iterates to the last bit: a hidden chain runs on a lattice, and its floating-point error is a stated shift.

A run with `algorithm.rounding` = r makes the steps

    theta <- Proj[ cut( floor_g( theta - eta (sum of batch gradients / b + grad r(theta)) ) + g N ) ]

with a lattice of spacing g far below the noise tau and whole-number Gaussians N of scale tau / g. Flooring, and all
that double precision does before it, is an error p of the step; rounding the noise, cutting at the ends of the lattice
and projecting is a public function of the floored step plus real Gaussian noise, off by at most q. `shifts.rounding`
turns p + c q <= r tau into a bound. Here stands an upper bound on p + c q:

- a record's gradient, as computed, is within 2^-40 of its bound G, plus what scores off by `score_error` of |x| |theta|
  make of a loss of smoothness M. *This is the one assumption*: compiled exponentials, logarithms, hyperbolic tangents
  and quotients are accurate to 2^-44 of their largest value, where their authors state a few units of 2^-52. Tests
  compare gradients with ball arithmetic (`tests/mechanisms/chain/test_rounding.py`);
- sums in double precision over B records, in groups of 512, are off by at most (528 + B / 512) 2^-53 B G;
- quotient, penalty, product and difference are off by 8 * 2^-53 of the largest number among them; iterates are at most
  sqrt(D) times the end of the lattice long;
- flooring: sqrt(D) g. What q is made of: the noise, sqrt(D) g / 2, and a projection in double precision, 2^-45 of the
  iterate or (D + 16) 2^-53 where D is larger. A step stretches both 1 + eta (M + L) times at most, L the smoothness of
  the penalty.

For an average each kept iterate is floored to the lattice (those of projected chains lie beside it), which counts as
two spacings of every step here, more than flooring takes two averages apart. Cutting coordinates at public ends never
takes two points further apart, so real chains are cut alike; the first point, which may be far away, is cut as well.
"""

import math

from sordino.core import bound as constants
from sordino.core.bound import View
from sordino.core.gaussian import sum_up, up
from sordino.core.spec import NoisyGradient, Scheme, Spec
from sordino.core.validate import InputError, refuse
from sordino.models.base import Model
from sordino.noise.lattice import Lattice

COVERED = (
    "noise from fair bits, without rounding, on iterates on a public lattice; how far arithmetic takes a step is a "
    "shift in the bound, elementary functions being accurate to 2^-40"
)
# What releases state, of the noise of a step.
ROUNDING = 2.0**-24
_GRADIENT_ERROR = 2.0**-40
_UNIT = 2.0**-53
# Spacings in the least noise of a step, and digits of an iterate in spacings: sums with noise stay below 2^53.
_NOISE_DIGITS, _ITERATE_DIGITS = 30, 50
_FIXED = frozenset({Scheme.FULL, Scheme.CYCLIC, Scheme.SHUFFLE_ONCE, Scheme.RESHUFFLED, Scheme.WITHOUT_REPLACEMENT})


def score_error(dim: int) -> float:
    """How far a score x @ theta, as computed, may be off, over |x| |theta|."""
    # `contributions.products` cuts every weight 52 digits below the power of two above their sum of sizes, which is at
    # most 2 sqrt(D) |theta|; with |x|_1 <= sqrt(D) |x| that is D 2^-51, and two roundings come to it. A product in
    # plain double precision is off by D 2^-53.
    return max(2.0**-48, (dim + 4) * 2.0**-51)


def hidden_lattice(spec: Spec, chain: NoisyGradient, model: Model, reach: float) -> Lattice:
    """The lattice of a hidden chain, if the spec's rounding covers its error; refused with both numbers otherwise."""
    scales, stated = chain.noise.scale.values(chain.steps), chain.rounding or 0.0
    exponent = math.frexp(float(scales.min()))[1] - _NOISE_DIGITS
    if float(scales.max()) > math.ldexp(float(scales.min()), 10):
        raise refuse("noise.scale", "to vary by a factor of at most 1024 where rounding is stated", "more")
    lattice = Lattice(exponent, exponent + _ITERATE_DIGITS + 1)
    needed = rounding_needed(spec, chain, model, reach, lattice)
    if needed > stated:
        raise InputError(
            f"Expected algorithm.rounding of at least {needed:.3g}, got {stated:.3g}. Rounding of such steps can "
            "reach that share of their noise. State more, or omit it."
        )
    return lattice


def rounding_needed(spec: Spec, chain: NoisyGradient, model: Model, reach: float, lattice: Lattice) -> float:
    """An upper bound on (p + c q) / tau over all steps."""
    if chain.batch.scheme not in _FIXED:
        raise refuse("algorithm.rounding", "to be absent for batches of random size", chain.batch.scheme.value)
    records = spec.n if chain.batch.scheme is Scheme.FULL else chain.divisor(spec.n)
    if spec.relation.value == "add-remove":
        records += 1
    step, root = float(chain.step_size.values(chain.steps).max()), math.sqrt(spec.dim)
    certified = [getattr(spec.problem, name, None) for name in ("unclipped_smoothness", "smoothness")]
    smooth = next((one.value for one in certified if one is not None), None)
    if smooth is None:
        raise refuse("problem.smoothness", "to be given where algorithm.rounding is", None)
    longest = up(root * lattice.end, 2)
    # How much the penalty's gradient grows with the iterate at most.
    own = model.regulariser_certificates().get(constants.REGULARISER_SMOOTHNESS.name)
    decay = smooth if own is None else own.value
    each = up(reach * _GRADIENT_ERROR + score_error(spec.dim) * smooth * longest, 3)
    adding = up((528.0 + records / 512.0) * _UNIT * reach, 3)
    shares = records / chain.divisor(spec.n)
    made = up(step * shares * up(each + adding), 4)
    largest = sum_up([longest, up(step * sum_up([up(shares * reach), decay * longest]))])
    projecting = 0.0 if chain.projection is None else up(longest * max(2.0**-45, (spec.dim + 16) * _UNIT))
    stretch = up(1.0 + step * (shares * smooth + decay), 4)
    after = up(stretch * sum_up([up(0.5 * root * lattice.spacing, 2), projecting]))
    floors = 3.0 if spec.view is View.AVERAGE else 1.0
    error = sum_up([made, up(8.0 * _UNIT * largest, 2), up(floors * root * lattice.spacing, 2), after])
    return up(error / float(chain.noise.scale.values(chain.steps).min()))
