"""The pairs of the package, described once more in ball arithmetic: lines with rising loss, atoms, lattices."""

from flint import arb

from tests.core.loss.enclosure import Law, Line, Segment, ball, normals

_INFINITE = arb("inf")


def _normal_segment(first, second, point, lowest=-_INFINITE, highest=_INFINITE, left=-_INFINITE, right=_INFINITE):
    (p, p_density), (q, q_density) = normals(*first), normals(*second)
    return Segment(p, q, p_density, q_density, point, lowest, highest, left, right)


def gaussian(mu: float) -> Line:
    shift = ball(mu)
    return Line((_normal_segment([(1, shift)], [(1, 0)], lambda loss: loss / shift + shift / 2),))


def _removed_point(rate: arb, shift: arb):
    return lambda loss: ((loss.exp() - (1 - rate)) / rate).log() / shift + shift / 2


def poisson_removed(rate: float, mu: float) -> Line:
    q, shift = ball(rate), ball(mu)
    mixed = [(1 - q, 0), (q, shift)]
    return Line((_normal_segment(mixed, [(1, 0)], _removed_point(q, shift), lowest=(1 - q).log()),))


def poisson_added(rate: float, mu: float) -> Line:
    q, shift = ball(rate), ball(mu)
    point = _removed_point(q, shift)
    mixed = [(1 - q, 0), (q, -shift)]
    return Line((_normal_segment([(1, 0)], mixed, lambda loss: -point(-loss), highest=-(1 - q).log()),))


def poisson_replaced(rate: float, mu: float) -> Line:
    q, shift = ball(rate), ball(mu)
    scale = (1 - q) / q * (shift * shift / 2).exp()
    first, second = ([(1 - q, 0), (q, mean)] for mean in (shift, -shift))
    return Line((_normal_segment(first, second, lambda at: (at / 2 + (scale * (at / 2).sinh()).asinh()) / shift),))


def without_replacement(rate: float, mu: float) -> Line:
    """The two halves meet at loss 0, where the rest of the mass is."""
    q, shift = ball(rate), ball(mu)
    point = _removed_point(q, shift)
    zero = arb(0)
    lower = _normal_segment(
        [(1, shift)],
        [(1 - q, shift), (q, 0)],
        # e^-loss = (1 - q) + q e^-(mu z - mu^2 / 2)
        lambda loss: shift - point(-loss),
        highest=zero,
        right=shift / 2,
    )
    upper = _normal_segment([(1 - q, 0), (q, shift)], [(1, 0)], point, lowest=zero, left=shift / 2)
    rest = (1 - q) * (shift / arb(8).sqrt()).erf()
    return Line((lower, upper), ((zero, rest),))


def _laplace_parts(epsilon: arb):
    p = lambda low, high: (((high - epsilon) / 2).exp() - ((low - epsilon) / 2).exp()) / 2  # noqa: E731
    q = lambda low, high: ((-(low + epsilon) / 2).exp() - (-(high + epsilon) / 2).exp()) / 2  # noqa: E731
    p_density = lambda loss: ((loss - epsilon) / 2).exp() / 4  # noqa: E731
    q_density = lambda loss: (-(loss + epsilon) / 2).exp() / 4  # noqa: E731
    return p, q, p_density, q_density


def laplace(epsilon: float) -> Line:
    end = ball(epsilon)
    segment = Segment(*_laplace_parts(end), lambda loss: loss, -end, end, -end, end)
    return Line((segment,), ((-end, (-end).exp() / 2), (end, arb(1) / 2)))


def sampled_laplace(rate: float, epsilon: float) -> Line:
    """The line is the loss L of the noise itself; the loss of the sample is log(1 - q + q e^L)."""
    share, end = ball(rate), ball(epsilon)
    p, q, p_density, q_density = _laplace_parts(end)

    def loss(base: arb) -> arb:
        return (1 - share + share * base.exp()).log()

    segment = Segment(
        lambda low, high: share * p(low, high) + (1 - share) * q(low, high),
        q,
        lambda z: share * p_density(z) + (1 - share) * q_density(z),
        q_density,
        lambda at: ((at.exp() - (1 - share)) / share).log(),
        loss(-end),
        loss(end),
        -end,
        end,
    )
    atoms = (
        (loss(-end), share * (-end).exp() / 2 + (1 - share) / 2),
        (loss(end), share / 2 + (1 - share) * (-end).exp() / 2),
    )
    return Line((segment,), atoms)


def bounded_range(length: float) -> Line:
    end = ball(length)
    whole = 1 - (-end).exp()
    segment = Segment(
        lambda low, high: (((high - end) / 2).exp() - ((low - end) / 2).exp()) / whole,
        lambda low, high: ((-(low + end) / 2).exp() - (-(high + end) / 2).exp()) / whole,
        lambda loss: ((loss - end) / 2).exp() / whole / 2,
        lambda loss: (-(loss + end) / 2).exp() / whole / 2,
        lambda loss: loss,
        -end,
        end,
        -end,
        end,
    )
    return Line((segment,))


def response(epsilon: float) -> Law:
    """Randomised response: its own lattice, so one law is both ends."""
    end = ball(epsilon)
    yes = 1 / (1 + (-end).exp())
    return Law(end, -1, [1 - yes, arb(0), yes], arb(0), True)


def categories(truth: float, count: int) -> Law:
    p = ball(truth)
    other = (1 - p) / (count - 1)
    return Law((p / other).log(), -1, [other, 1 - p - other, p], arb(0), True)


def discrete_laplace(inverse_scale: float, sensitivity: int) -> Law:
    a, move = ball(inverse_scale), sensitivity
    ratio = (-a).exp()
    unit = (1 - ratio) / (1 + ratio)
    masses = [arb(0)] * (2 * move + 1)
    masses[0], masses[-1] = ratio**move / (1 + ratio), 1 / (1 + ratio)
    for k in range(1, move):
        masses[2 * k] = unit * ratio ** (move - k)
    return Law(a, -move, masses, arb(0), True)


def discrete_gaussian(scale: float, sensitivity: int, reach: int = 16) -> Law:
    """Centred at the move; its loss is linear, so whole numbers are the lattice. What lies beyond counts as lost."""
    sigma, move = ball(scale), sensitivity
    far = int(float(scale) * reach) + move
    weights = [(-(arb(k) ** 2) / (2 * sigma**2)).exp() for k in range(-far, far + 1)]
    # The sum over all whole numbers: two tails below a geometric series each.
    tail = (-(arb(far + 1) ** 2) / (2 * sigma**2)).exp() / (1 - (-(arb(far + 1)) / sigma**2).exp())
    total = sum(weights, arb(0)) + arb(0).union(2 * tail)
    spacing = move / sigma**2
    return Law(
        spacing, move - far, [weight / total for weight in weights], 2 * tail / total, True, -(move**2) / (2 * sigma**2)
    )


def lattice_epsilons(law: Law, uses: int, delta: float) -> tuple[float, float]:
    """Both ends from a law that is exact on its lattice but for what it lost, which is infinite above and 0 below."""
    above = law.power(uses)
    below = Law(above.spacing, above.first, above.masses, arb(0), False, above.offset)
    return below.curve().epsilon(delta, False) * (1 - 1e-15), above.curve().epsilon(delta, True)
