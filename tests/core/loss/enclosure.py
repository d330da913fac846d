"""Privacy curves enclosed by ball arithmetic, without a line of the package: what brackets are held against.

Every number is a ball with a rigorous radius (python-flint), so rounding needs no argument. Two laws on a lattice stand
for a pair, one on each side of it:

- *above*: what lies between two lattice losses is split between them so that probability under P and Q is kept;
- *below*: the line is cut into intervals whose ratio P / Q is e to a lattice loss, and only the interval is told. That
  is post-processing of the pair, so nothing else has to be shown.

Powers of polynomials compose them. Cut tails count as infinite loss above, and are left out below.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from flint import arb, arb_poly, ctx

ctx.prec = 160
SLACK = arb(10) ** -30  # how far below a lattice loss the ratio of an interval may be
_CUT = arb(10) ** -18  # probability that each end of a composed law may lose
_TAIL = arb(10) ** -22
_INFINITE = arb("inf")

Masses = Callable[[arb, arb], arb]


def ball(value: float | str | arb) -> arb:
    """A float exactly as it is stored, or a decimal as it is written."""
    return value if isinstance(value, arb) else arb(value)


def below(z: arb) -> arb:
    """P(N(0, 1) < z)."""
    if z == _INFINITE:
        return arb(1)
    if z == -_INFINITE:
        return arb(0)
    return (-z / arb(2).sqrt()).erfc() / 2


def _between(low: arb, high: arb) -> arb:
    """P(low < N(0, 1) < high), from the tail that is smaller."""
    return below(-low) - below(-high) if low > 0 else below(high) - below(low)


def density(z: arb) -> arb:
    return (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


def normals(*parts: tuple[arb | float, arb | float]) -> tuple[Masses, Callable[[arb], arb]]:
    """Masses and density of a mixture of unit normals, given as (weight, mean)."""
    mixed = [(ball(weight), ball(mean)) for weight, mean in parts]

    def masses(low: arb, high: arb) -> arb:
        return sum((weight * _between(low - mean, high - mean) for weight, mean in mixed), arb(0))

    return masses, lambda z: sum((weight * density(z - mean) for weight, mean in mixed), arb(0))


@dataclass(frozen=True)
class Segment:
    """A stretch of a line along which the loss rises: masses and densities of P and Q, and the point of a loss."""

    p: Masses
    q: Masses
    p_density: Callable[[arb], arb]
    q_density: Callable[[arb], arb]
    point: Callable[[arb], arb]
    lowest: arb  # losses between which it lies; where it ends at infinity, the ends of the line
    highest: arb
    left: arb
    right: arb

    def loss(self, z: arb) -> arb:
        return (self.p_density(z) / self.q_density(z)).log()


@dataclass
class Law:
    """Masses at the losses spacing * (first + i) + offset, and at infinity."""

    spacing: arb
    first: int
    masses: list[arb]
    infinite: arb
    above: bool
    offset: arb = field(default_factory=lambda: arb(0))

    def power(self, count: int) -> "Law":
        """The law of a sum of `count` independent losses."""
        done: Law | None = None
        base = self
        while count:
            if count & 1:
                done = base if done is None else done.times(base)
            count >>= 1
            if count:
                base = base.times(base)
        return self if done is None else done

    def times(self, other: "Law") -> "Law":
        product = (arb_poly(self.masses) * arb_poly(other.masses)).coeffs()
        infinite, offset = self.infinite + other.infinite, self.offset + other.offset
        return Law(self.spacing, self.first + other.first, product, infinite, self.above, offset).cut()

    def cut(self) -> "Law":
        """Without the ends that hold next to nothing."""
        masses = self.masses
        low, lost = 0, arb(0)
        while low < len(masses) - 1 and lost + abs(masses[low]) < _CUT:
            lost += abs(masses[low])
            low += 1
        high, gone = len(masses), arb(0)
        while high > low + 1 and gone + abs(masses[high - 1]) < _CUT:
            high -= 1
            gone += abs(masses[high])
        kept = masses[low:high]
        if self.above:
            kept[0] += lost
        return Law(
            self.spacing, self.first + low, kept, self.infinite + (gone if self.above else 0), self.above, self.offset
        )

    def curve(self) -> "Curve":
        return Curve(self)


class Curve:
    """delta as a function of epsilon."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self._sums = [(arb(0), arb(0))]
        for place in range(len(law.masses) - 1, -1, -1):
            mass, loss = law.masses[place], law.spacing * (law.first + place) + law.offset
            total, tilted = self._sums[-1]
            self._sums.append((total + mass, tilted + mass * (-loss).exp()))
        self._sums.reverse()

    def delta(self, epsilon: float | arb) -> arb:
        epsilon = ball(epsilon)
        # Any set of losses is a test, so a ball that straddles a lattice point leaves nothing open below; above it
        # counts whichever sum is larger, which are the same at the point itself.
        place = float(((epsilon - self.law.offset) / self.law.spacing).mid()) - self.law.first
        index = min(max(int(place) + 1 if place >= 0 else 0, 0), len(self.law.masses))
        total, tilted = self._sums[index]
        return total - epsilon.exp() * tilted + self.law.infinite

    def epsilon(self, delta: float | arb, above: bool) -> float:
        """An epsilon whose delta is certainly at most (above) or at least (below) the given one, by bisection."""
        wanted = ball(delta)
        low, high = 0.0, float((self.law.spacing * (self.law.first + len(self.law.masses)) + self.law.offset).mid())
        for _ in range(60):
            middle = (low + high) / 2
            found = self.delta(middle)
            enough = found <= wanted if above else not found >= wanted
            low, high = (low, middle) if enough else (middle, high)
        return high if above else low


@dataclass(frozen=True)
class Line:
    """A pair: segments in the order of their losses, and atoms (loss, mass under P)."""

    segments: tuple[Segment, ...]
    atoms: tuple[tuple[arb, arb], ...] = ()

    def above(self, spacing: arb) -> Law:
        points: dict[int, arb] = {}
        infinite = arb(0)
        step = spacing.exp() - 1
        for segment in self.segments:
            first, last = _lattice(segment, spacing)
            places = [segment.point(spacing * k) for k in range(first, last + 1)]
            if segment.lowest < spacing * first:
                _add(points, first, segment.p(segment.left, places[0]))
            if segment.highest > spacing * last:
                rest = segment.p(places[-1], segment.right)
                if segment.highest.is_finite():
                    _add(points, -_floor(-segment.highest / spacing), rest)
                else:
                    infinite += rest
            for k, (low, high) in enumerate(pairwise(places), first):
                p, q = segment.p(low, high), segment.q(low, high)
                left = (q * (spacing * (k + 1)).exp() - p) / step
                _add(points, k, left)
                _add(points, k + 1, p - left)
        for loss, mass in self.atoms:
            k = _floor(loss / spacing)
            left = ((-(loss - spacing * k)).exp() - (-spacing).exp()) / (1 - (-spacing).exp())
            _add(points, k, mass * left)
            _add(points, k + 1, mass * (1 - left))
        return _law(points, spacing, infinite, True)

    def beneath(self, spacing: arb) -> Law:
        points: dict[int, arb] = {}
        for segment in self.segments:
            first, last = _lattice(segment, spacing)
            start = segment.point(spacing * first).mid()
            if segment.lowest < spacing * first:
                merged = segment.p(segment.left, start)
                ratio = (merged / segment.q(segment.left, start)).log() if merged > 0 else None
                if ratio is not None and ratio.is_finite():
                    _add(points, _floor(ratio / spacing), merged)
            k = first + 1
            while k < last:
                end = _end_of_interval(segment, start, spacing * k)
                if end is None:
                    break
                p, q = segment.p(start, end), segment.q(start, end)
                assert p / q >= (spacing * k - SLACK).exp()
                _add(points, k, p)
                start = end
                k = max(k + 1, _floor(segment.loss(start) / spacing + arb("0.5")) + 1)
            rest = segment.p(start, segment.right)
            if rest > 0:
                _add(points, _floor(segment.loss(start) / spacing), rest)
        for loss, mass in self.atoms:
            _add(points, _floor(loss / spacing + SLACK), mass)
        return _law(points, spacing, arb(0), False)

    def epsilons(self, uses: int, delta: float, spacing: float | arb) -> tuple[float, float]:
        """Two numbers with the epsilon of that many uses between them."""
        width = ball(spacing)
        high = self.above(width).power(uses).curve().epsilon(delta, True)
        low = self.beneath(width).power(uses).curve().epsilon(delta, False)
        return max(0.0, low - uses * 2e-30), high

    def deltas(self, uses: int, epsilon: float, spacing: float | arb) -> tuple[arb, arb]:
        width = ball(spacing)
        above, beneath = (law.power(uses).curve() for law in (self.above(width), self.beneath(width)))
        return beneath.delta(arb(epsilon) + uses * SLACK), above.delta(epsilon)


def _add(points: dict[int, arb], place: int, mass: arb) -> None:
    points[place] = points.get(place, arb(0)) + mass


def _floor(value: arb) -> int:
    """A whole number that is certainly not above."""
    return int(value.lower().floor().unique_fmpz())


def _law(points: dict[int, arb], spacing: arb, infinite: arb, above: bool) -> Law:
    first, last = min(points), max(points)
    return Law(spacing, first, [points.get(k, arb(0)) for k in range(first, last + 1)], infinite, above).cut()


def _lattice(segment: Segment, spacing: arb) -> tuple[int, int]:
    """The first and last lattice loss of a segment: inside it, and with next to nothing beyond."""
    low, high = segment.lowest, segment.highest
    first = -_floor(-low / spacing + SLACK) if low.is_finite() else None
    last = _floor(high / spacing + SLACK) if high.is_finite() else None
    first = _reach(segment, spacing, -1) if first is None else first
    last = _reach(segment, spacing, 1) if last is None else last
    if segment.left == -_INFINITE and low.is_finite():
        # The whole line to the left has losses above `low`: begin where something is left of it.
        while not segment.p(segment.left, segment.point(spacing * (first + 1))) > _TAIL:
            first += 1
        first = first if spacing * first > low + SLACK else first + 1
    if segment.right == _INFINITE and high.is_finite():
        while not spacing * last < high - SLACK:
            last -= 1
    return first, last


def _reach(segment: Segment, spacing: arb, way: int) -> int:
    """How far to go along a loss without end until next to nothing lies beyond."""
    near, far = 0, way
    while segment.p(*_beyond(segment, spacing, far, way)) > _TAIL:
        near, far = far, 2 * far
    while abs(far - near) > 1:
        middle = (near + far) // 2
        near, far = (middle, far) if segment.p(*_beyond(segment, spacing, middle, way)) > _TAIL else (near, middle)
    return far


def _beyond(segment: Segment, spacing: arb, k: int, way: int) -> tuple[arb, arb]:
    place = segment.point(spacing * k)
    return (place, segment.right) if way > 0 else (segment.left, place)


def _end_of_interval(segment: Segment, start: arb, loss: arb) -> arb | None:
    """Where an interval ends over which P is e^loss times Q, a hair beyond; None where the line ends before."""
    power = loss.exp()
    reach = 2 * loss - segment.loss(start)
    if reach >= segment.highest - SLACK:
        return None
    z = segment.point(reach).mid()
    for _ in range(8):
        step = (segment.p(start, z) - power * segment.q(start, z)) / (
            segment.p_density(z) - power * segment.q_density(z)
        )
        z = (z - step).mid()
        if abs(step) < SLACK / 10**4:
            break
    z = (z + SLACK / 10**3).mid()
    return z if z > start else None
