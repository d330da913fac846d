"""Compositions of dominating pairs in ball arithmetic: two laws of the loss, one on each side of the truth.

Every pair is discretised again, from its own few numbers, by `tests/core/loss/enclosure`, and composed by powers of
polynomials with ball coefficients: no Fourier transform, no float, no line of the package.
"""

from collections.abc import Callable

from flint import arb

from sordino.core.loss import atomic_pairs as atomic
from sordino.core.loss import normal_pairs as normal
from sordino.core.loss.mixture_pairs import GaussianMixturePair, MixturePair, RandomShiftPair
from tests.core.loss import enclosed_pairs as enclosed
from tests.core.loss.enclosure import Law, Line, Segment, ball, below, normals

_INFINITE, _RARE = arb("inf"), arb("1e-13")
Side = bool  # above, or beneath


class NotEnclosed(Exception):
    """A pair that has no description in balls."""


def law_of(pair: object, spacing: arb, above: Side) -> Law:
    """One use of a pair."""
    for kind, line in _LINES.items():
        if type(pair) is kind:
            found = line(pair)
            return found.above(spacing) if above else found.beneath(spacing)
    if isinstance(pair, atomic.ResponsePair):
        yes = 1 / (1 + (-ball(pair.epsilon)).exp())
        ends = ((-ball(pair.epsilon), 1 - yes), (ball(pair.epsilon), yes)) if pair.epsilon else ((arb(0), arb(1)),)
        return _atoms(ends, ball(pair.delta), spacing, above)
    if isinstance(pair, atomic.ExplicitPair):
        listed = tuple((ball(loss), ball(mass)) for loss, mass in zip(pair.losses, pair.masses, strict=True) if mass)
        return _atoms(listed, ball(pair.infinite_mass), spacing, above, conditional=False)
    if isinstance(pair, GaussianMixturePair):
        kept, gone = _without_the_rarest(sorted(zip(pair.mus, pair.weights, strict=True)))
        parts = [
            (w, _still(spacing, above) if mu == 0.0 else law_of(normal.GaussianPair(mu), spacing, above))
            for mu, w in kept
            if w
        ]
        mixed = _mixed(parts, spacing, above)
        return Law(spacing, mixed.first, mixed.masses, mixed.infinite + (gone if above else 0), above)
    if isinstance(pair, MixturePair):
        parts = [
            (w, composed(factors, spacing, above)) for w, factors in zip(pair.weights, pair.components, strict=True)
        ]
        return _mixed([(w, law) for w, law in parts if w], spacing, above)
    if isinstance(pair, atomic.DiscreteGaussianPair | atomic.DiscreteLaplacePair):
        return _atoms(*_whole(pair), spacing, above, conditional=False)
    raise NotEnclosed(type(pair).__name__)


def _without_the_rarest(parts):
    """Large shifts that hardly ever happen count as infinite losses above, and as nothing beneath."""
    gone = arb(0)
    while gone + ball(parts[-1][1]) < _RARE:
        gone += ball(parts.pop()[1])
    return parts, gone


def gaussian_mixture_delta(pair: GaussianMixturePair, epsilon: float) -> arb:
    """One use has a closed form: the mean of the deltas of its parts."""
    at, total = ball(epsilon), arb(0)
    for weight, mu in zip(pair.weights, map(ball, pair.mus), strict=True):
        if weight and mu > 0:
            total += ball(weight) * (below(mu / 2 - at / mu) - at.exp() * below(-mu / 2 - at / mu))
    return total


def composed(factors, spacing: arb, above: Side) -> Law:
    """Independent uses of several pairs."""
    found = _still(spacing, above)
    for pair, uses in factors:
        found = found.times(law_of(pair, spacing, above).power(uses))
    return found


def _still(spacing: arb, above: Side) -> Law:
    return Law(spacing, 0, [arb(1)], arb(0), above)


def _atoms(listed, infinite: arb, spacing: arb, above: Side, *, conditional: bool = True) -> Law:
    """Masses given that the loss is finite, or with the infinite one beside them."""
    line = Line((), tuple((loss, mass * (1 - infinite) if conditional else mass) for loss, mass in listed))
    law = line.above(spacing) if above else line.beneath(spacing)
    return Law(law.spacing, law.first, law.masses, law.infinite + infinite, above)


def _whole(pair):
    """Atoms of noise on whole numbers, and what lies far out."""
    if isinstance(pair, atomic.DiscreteGaussianPair):
        law = enclosed.discrete_gaussian(pair.sigma, pair.shift)
    else:
        law = enclosed.discrete_laplace(pair.rate, pair.shift)
    losses = [law.spacing * (law.first + k) + law.offset for k in range(len(law.masses))]
    return [(loss, mass) for loss, mass in zip(losses, law.masses, strict=True) if mass > 0], law.infinite


def _mixed(parts, spacing: arb, above: Side) -> Law:
    first = min(law.first for _, law in parts)
    last = max(law.first + len(law.masses) for _, law in parts)
    masses, infinite = [arb(0)] * (last - first), arb(0)
    for weight, law in parts:
        for k, mass in enumerate(law.masses, law.first - first):
            masses[k] += ball(weight) * mass
        infinite += ball(weight) * law.infinite
    return Law(spacing, first, masses, infinite, above).cut()


def _shifted(pair: RandomShiftPair) -> Line:
    """A mixture of shifts, hidden: its loss rises along the line, and its points are found by bisection in balls."""
    parts = [(ball(w), ball(s)) for w, s in zip(pair.weights, pair.shifts, strict=True) if w]
    still = sum((w for w, s in parts if s == 0), arb(0))

    def loss(z: arb) -> arb:
        return sum((w * (s * z - s * s / 2).exp() for w, s in parts), arb(0)).log()

    def point(value: arb) -> arb:
        low, high = arb(-60), arb(60)
        for _ in range(140):
            middle = ((low + high) / 2).mid()
            low, high = (middle, high) if loss(middle) < value else (low, middle)
        return low.union(high)

    (p, p_density), (q, q_density) = normals(*parts), normals((1, 0))
    lowest = still.log() if still > 0 else -_INFINITE
    return Line((Segment(p, q, p_density, q_density, point, lowest, _INFINITE, -_INFINITE, _INFINITE),))


_LINES: dict[type, Callable[..., Line]] = {
    normal.GaussianPair: lambda pair: enclosed.gaussian(pair.mu),
    normal.PoissonRemovePair: lambda pair: enclosed.poisson_removed(pair.rate, pair.mu),
    normal.PoissonAddPair: lambda pair: enclosed.poisson_added(pair.rate, pair.mu),
    normal.PoissonReplacePair: lambda pair: enclosed.poisson_replaced(pair.rate, pair.mu),
    normal.WithoutReplacementPair: lambda pair: enclosed.without_replacement(pair.rate, pair.mu),
    atomic.LaplacePair: lambda pair: enclosed.laplace(pair.epsilon),
    atomic.PoissonLaplacePair: lambda pair: enclosed.sampled_laplace(pair.rate, pair.epsilon),
    atomic.BoundedRangePair: lambda pair: enclosed.bounded_range(pair.length),
    RandomShiftPair: _shifted,
}
