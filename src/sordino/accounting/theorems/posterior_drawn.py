"""Posterior draws that a program can make: by rejection, or by an approximate sampler with noise.

*Rejection.* Given that some proposal is accepted, the accepted one has the posterior's law and is independent of which
trial it was. So what is seen is computed from an exact draw and from whether all N trials failed, which are
independent; the second is (-ln(1 - f), f)-DP if no data make it likelier than f. The chance p that a proposal is
accepted is bounded below for all data:

- F m-strongly convex and M-smooth on R^d, x any point with gradient g: F(y) >= F(x) - |g|^2 / 2m + m/2 |y - c|^2 with
  c = x - g / m, so N(c, I / m) is an envelope. Smoothness bounds the integral of e^-F from below: p >= (m/M)^(d/2)
  e^(-|g|^2 (1/m - 1/M) / 2), and gradient descent makes the last factor 1/2 or more.
- F between 0 and H on a bounded set: uniform proposals, accepted with e^-F >= e^-H. Where all fail a uniform point is
  released: then the law is between 1 - f and 1 + f (e^H - 1) times the posterior's, and pure privacy stays pure.

*Perturbation* (Lin et al. 2024). X has W-infinity distance at most a from the posterior: some X* of the posterior's law
is never further than a. Release X + Z. It is computed from X* and from X* + (X - X*) + Z; given X* = x the second is a
mixture of laws of x + e + Z with |e| <= a, for both neighbours, so it is dominated by noise moved by 2 a. Compose.

*Distance of a Metropolis sampler.* With uniform proposals on a ball of radius R and F between 0 and H, N steps leave a
total variation of at most t = (1 - e^-H)^N (Mengersen & Tweedie 1996, Theorem 2.1). If t <= e^-H (a / 4R)^d then
W-infinity is at most a: by Strassen's theorem it is enough that P(A) <= Q(A^a) for closed A, A^a what is within a of A.
If A^a is not everything, some z of the ball is at distance a/2 from A; the open ball around z of radius a/2 misses A,
lies in A^a, and holds a ball of radius a/4 within the set, of Q-probability at least e^-H (a / 4R)^d.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial

from sordino.accounting import scope as assume
from sordino.accounting.convert import compose, repeat
from sordino.accounting.evaluate import bounds_of, ours, why_none
from sordino.accounting.theorems.posterior import DRAWS, PUBLIC_POTENTIAL, oscillation
from sordino.core.bound import Bound, Certificate, Citation
from sordino.core.gaussian import up
from sordino.core.guarantee import ApproxDP, GaussianDP, Guarantee, LossDistribution, PureDP
from sordino.core.loss.atomic_pairs import LaplacePair
from sordino.core.spec import AverageNoiseKind, BoundedPotential, PosteriorSample, Spec, StronglyLogConcave
from sordino.core.spec.posterior import MetropolisDraws, PerturbedDraws, RejectionDraws

_LONGEST_LOSS = 500.0
_RAREST = 1e-300  # a failure counts as at least so likely


def least_acceptance(run: PosteriorSample) -> float:
    """A chance that every proposal of a sampler by rejection is accepted with at least, whatever the data; down."""
    drawn, potential = run.drawn, run.potential
    if isinstance(drawn, MetropolisDraws) or (isinstance(drawn, RejectionDraws) and drawn.oscillation is not None):
        return math.exp(-assume.promised(drawn.oscillation).value) * (1 - 1e-14)
    if isinstance(drawn, RejectionDraws) and isinstance(potential, StronglyLogConcave) and drawn.smoothness is not None:
        m, M = potential.strong_convexity.value, drawn.smoothness.value
        # By what the quotient lacks where it is near 1: a difference of logarithms would cancel.
        ratio = math.log1p(-(M - m) / M) if 2 * m > M else math.log(m / M) if m / M > 0 else -math.inf
        return math.exp(drawn.dim / 2 * ratio * (1 + 1e-14) - 1e-14) / 2
    return 0.0


def failure(run: PosteriorSample) -> float:
    """The chance that no trial of a draw is accepted, or how far a Metropolis sampler is off; rounded up."""
    drawn = run.drawn
    if isinstance(drawn, PerturbedDraws) or drawn is None:
        return 0.0
    trials = drawn.trials if isinstance(drawn, RejectionDraws) else drawn.steps
    exponent = trials * math.log1p(-min(least_acceptance(run), 1 - 1e-16)) * (1 - 1e-14)
    return min(1.0, up(math.exp(exponent), 4)) if exponent > math.log(_RAREST) else _RAREST


def distance(run: PosteriorSample) -> float:
    """The W-infinity distance of a draw from the posterior that is certified, rounded up."""
    drawn = run.drawn
    if isinstance(drawn, PerturbedDraws):
        return drawn.distance.value
    if not isinstance(drawn, MetropolisDraws) or not isinstance(run.potential, BoundedPotential):
        return 0.0
    diameter, height = run.potential.diameter.value, drawn.oscillation.value
    exponent = drawn.steps * math.log1p(-min(least_acceptance(run), 1 - 1e-16)) * (1 - 1e-14) + height
    # Two points of the set are never further apart than its diameter: that is a distance too.
    return min(diameter, up(2 * diameter * math.exp(min(exponent, 0.0) / drawn.dim) * (1 + 1e-13)))


@lru_cache(maxsize=64)
def _exact_bounds(spec: Spec) -> tuple[Bound, ...]:
    return bounds_of(_exact(spec))


def _exact(spec: Spec) -> Spec:
    return replace(spec, algorithm=replace(assume.run_of(spec, PosteriorSample), drawn=None, draws=1))


def _best(spec: Spec, more: Guarantee) -> Guarantee:
    """The composition with the bound on an exact draw that is best in company."""
    draws, delta = assume.run_of(spec, PosteriorSample).draws, assume.chosen_delta(spec)
    composed = [compose([(bound.guarantee, 1), (more, 1)]) for bound in _exact_bounds(spec)]
    return min(composed, key=lambda guarantee: repeat(guarantee, draws).epsilon(delta))


@assume.assumption("exact draw", "there is a bound for the same draw made exactly")
def _known(spec: Spec) -> str | None:
    if _exact_bounds(spec):
        return None
    why = why_none(_exact(spec), "no theorem covers it")
    return f"needs a bound for the same draw made exactly, and there is none: {why}"


def _drawn_by(*ways: type[object]) -> assume.Assumption:
    words = " or ".join(str(getattr(way, "words", way)).split(",")[0] for way in ways)

    def failure(spec: Spec) -> str | None:
        drawn = assume.run_of(spec, PosteriorSample).drawn
        if isinstance(drawn, ways):
            return None
        return f"is about draws made {words}, and they are made {'exactly' if drawn is None else drawn.words}"

    return assume.Assumption("draws", f"draws are made {words}", failure)


_PUBLIC_DRAWS = assume.certified_parts("algorithm.drawn")
_PUBLIC = (_PUBLIC_DRAWS, PUBLIC_POTENTIAL)


def _constants(spec: Spec) -> tuple[Certificate, ...]:
    bases = (used for bound in _exact_bounds(spec) for used in bound.certificates)
    return tuple(dict.fromkeys([*bases, *assume.stated_under(spec, "algorithm.drawn")]))


_drawn = partial(ours, scope=DRAWS, certificates=_constants)


def _height(run: PosteriorSample) -> float | None:
    return None if (stated := getattr(run.drawn, "oscillation", None)) is None else stated.value


@assume.assumption("trials", "all trials fail with probability below 1/2")
def _enough_trials(spec: Spec) -> str | None:
    run = assume.run_of(spec, PosteriorSample)
    chance = failure(run)
    if chance < 0.5:
        return None
    return (
        f"needs trials that fail together with probability below 1/2, and {getattr(run.drawn, 'trials', 0)} trials "
        f"accepted with probability {least_acceptance(run):.3g} at least fail with up to {chance:.3g}"
    )


_REACH = assume.at_most(
    "reach",
    "the oscillation is at most {limit:g}",
    lambda spec: _height(assume.run_of(spec, PosteriorSample)),
    "evaluates oscillations up to {limit:g}, and it is {value:.3g}",
    _LONGEST_LOSS,
)
_HOLDS = assume.caller_checked(
    "constants of the potential",
    "the potential is as smooth, or as flat, as stated, whatever the records; how long a draw takes is not seen",
)


@_drawn(
    "posterior.rejection",
    Citation("seeman2021exact", "exact draws of finite time, here with the failure counted in place of an atom"),
    assumptions=(_drawn_by(RejectionDraws), _PUBLIC_DRAWS, _known, _enough_trials, _HOLDS),
)
def rejection(spec: Spec) -> Guarantee:
    """A draw by at most N proposals, each accepted with probability at least p whatever the data, is as private as an
    exact draw composed with an (-ln(1 - f), f)-DP release, f = (1 - p)^N. For m-strongly convex, M-smooth potentials p
    = (m/M)^(d/2) / 2 with a Gaussian envelope; for potentials between 0 and H, p = e^-H."""
    # An accepted proposal does not know how many were refused.
    chance = failure(assume.run_of(spec, PosteriorSample))
    return _best(spec, ApproxDP(up(-math.log1p(-chance), 2), chance))


@assume.assumption("oscillation", "the potential lies between 0 and a certified bound")
def _bounded_only(spec: Spec) -> str | None:
    run = assume.run_of(spec, PosteriorSample)
    if isinstance(run.drawn, RejectionDraws) and run.drawn.oscillation is None:
        return "is about potentials between 0 and a bound, and algorithm.drawn.oscillation is absent"
    return None


@_drawn(
    "posterior.rejection-pure",
    Citation("seeman2021exact", "pure privacy of draws of finite time; ours by bounding the ratio of densities"),
    assumptions=(_drawn_by(RejectionDraws), _bounded_only, _REACH, *_PUBLIC, _enough_trials, _HOLDS),
)
def rejection_pure(spec: Spec) -> Guarantee:
    """A draw from e^-F on a set of diameter D, 0 <= F <= H, with F - F' L-Lipschitz for neighbours, by at most N
    uniform proposals and a uniform point where none is accepted, is epsilon-DP with epsilon = L D + ln((1 + f (e^H -
    1)) / (1 - f)), f = (1 - e^-H)^N: each law is within these factors of the posterior."""
    # The density is a mixture of the posterior's and the uniform one, whose ratio is at most e^H.
    run = assume.run_of(spec, PosteriorSample)
    chance, height = failure(run), assume.promised(_height(run))
    more = up((math.log1p(chance * math.expm1(height)) - math.log1p(-chance)) * (1 + 1e-13), 2)
    return PureDP(up(oscillation(spec) + more, 2))


def _moved(run: PosteriorSample) -> float:
    """Twice the distance over the noise, rounded up; for Laplace noise in each coordinate the l1 distance."""
    drawn = run.drawn
    if not isinstance(drawn, PerturbedDraws | MetropolisDraws):
        return 0.0
    longer = math.sqrt(drawn.dim) if drawn.noise.kind is AverageNoiseKind.LAPLACE and drawn.dim > 1 else 1.0
    return up(2 * distance(run) * longer / drawn.noise.scale * (1 + 1e-14), 2)


@_drawn(
    "posterior.perturbed",
    Citation("lin2024tractable", "approximate sample perturbation, proved by composition, any guarantee"),
    assumptions=(
        _drawn_by(PerturbedDraws, MetropolisDraws),
        assume.at_most(
            "reach",
            "twice the distance is at most {limit:g} times the noise",
            lambda spec: _moved(assume.run_of(spec, PosteriorSample)),
            "evaluates twice the distance over the noise up to {limit:g}, and it is {value:.3g}",
            _LONGEST_LOSS,
        ),
        _PUBLIC_DRAWS,
        _known,
        _HOLDS,
    ),
)
def perturbed(spec: Spec) -> Guarantee:
    """A draw within W-infinity distance a of the posterior, plus Gaussian noise of deviation s or Laplace noise of
    scale s in each of d coordinates, is as private as an exact draw composed with such noise moved by 2 a (2 a
    sqrt(d)): sqrt(mu^2 + (2 a / s)^2)-Gaussian DP, or epsilon + 2 a sqrt(d) / s. N steps of a Metropolis sampler with
    uniform proposals on a ball of radius R, 0 <= F <= H, have a = 4 R (e^H (1 - e^-H)^N)^(1/d)."""
    # What is released is computed from an exact draw and from that draw moved a little, with noise.
    run = assume.run_of(spec, PosteriorSample)
    ratio = _moved(run)
    drawn = assume.promised(run.drawn if isinstance(run.drawn, PerturbedDraws | MetropolisDraws) else None)
    if drawn.noise.kind is AverageNoiseKind.GAUSSIAN or ratio == 0.0:
        return _best(spec, GaussianDP(ratio))
    pure = [bound.guarantee.value for bound in _exact_bounds(spec) if isinstance(bound.guarantee, PureDP)]
    best = _best(spec, LossDistribution(((LaplacePair(ratio), 1),)))
    if not pure:
        return best
    both = (PureDP(up(min(pure) + ratio, 2)), best)
    return min(both, key=lambda one: repeat(one, run.draws).epsilon(assume.chosen_delta(spec)))
