"""The average of a function along a chain, released with noise: its sure shift, or its published concentration."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sordino.accounting import chain_assumptions as chains
from sordino.accounting import scope as assume
from sordino.accounting.bounds import segments
from sordino.accounting.bounds.segments import LongRun
from sordino.accounting.bounds.window import RoundedLaw
from sordino.accounting.chain_assumptions import chain_of
from sordino.accounting.convert import failing, mix
from sordino.accounting.evaluate import as_stated, ours
from sordino.accounting.scope import Assumption, Scope, assumption, promised
from sordino.accounting.theorems.shifted import left_by_use, sampled_certificates
from sordino.core import bound as constants
from sordino.core.arrays import Array
from sordino.core.bound import Citation, Relation, View
from sordino.core.gaussian import sum_up, up
from sordino.core.guarantee import GaussianDP, Guarantee, PureDP
from sordino.core.spec import Average, AverageNoiseKind, GaussianStart, Schedule, Scheme, Spec

_ROUND_UP = 1 + 1e-14
_SMALLEST = 1e-300  # what underflows is rounded up to this


def average_of(spec: Spec) -> Average:
    """The average of a run whose view it is."""
    return promised(spec.average)


def sensitivity_of_average(spec: Spec) -> float:
    """(G / N) times the largest sum of a_k s_k over the steps that can use a record; for a run with a contraction."""
    chain, sensitivity = chain_of(spec), promised(assume.certificate_for(spec, constants.GRADIENT_SENSITIVITY))
    per_step = sensitivity.value / chain.divisor(spec.n) * _ROUND_UP
    period, weights = chain.batches_per_epoch(spec.n), _weights(spec)
    if isinstance(weights, LongRun):
        # One step size for all, the largest; the weights keep their own.
        moves = weights.largest_sum(chain.batch.scheme, period, chain.steps)
        real = _per_kept(spec, _times(moves, chain.step_size.largest(chain.steps), per_step))
    else:
        weighted = _product(weights, _values(chain.step_size, chain.steps), per_step)
        real = _per_kept(spec, segments.largest_sum(weighted, chain.batch.scheme, period))
    rounding = rounding_of_average(spec)
    return sum_up([real, rounding]) if rounding else real


def rounding_of_average(spec: Spec) -> float:
    """How much further arithmetic may take two averages apart: 0 where the spec states no rounding.

    A step as computed, noise included, is within r tau_k of the real one with the same noise, so the coupled chains are
    as far apart as if a record moved every step by 2 r tau_k more. Flooring the average to its lattice moves each of
    its values by less than one spacing. (About their means: each average is within half of this of the real one.)
    """
    chain, average = chain_of(spec), average_of(spec)
    if chain.rounding is None:
        return 0.0
    weights, share = _weights(spec), up(2.0 * chain.rounding)
    if isinstance(weights, LongRun):
        moved = _times(weights.total, chain.noise.scale.largest(chain.steps), share)
    else:
        # Pairwise sums of 5e6 terms at most.
        moved = float(np.sum(_product(weights, _values(chain.noise.scale, chain.steps), share))) * (1 + 1e-12)
    return sum_up([_per_kept(spec, moved), up(math.sqrt(average.dim) * math.ldexp(1.0, average.noise.exponent), 2)])


def chance_of_average(spec: Spec) -> float:
    """The Lipschitz constant of the average as a function of all the standard Gaussians of the chain."""
    chain = chain_of(spec)
    unit = chain.noise.deviation
    weights = _weights(spec)
    if isinstance(weights, LongRun):
        first, noise = weights.first, chain.noise.scale.largest(chain.steps)
        by_steps = _times(math.sqrt(weights.squares), noise, unit * _ROUND_UP)
    else:
        first, scaled = float(weights[0]), _product(weights, _values(chain.noise.scale, chain.steps), unit)
        # In units of a power of two near the largest, so that no square is lost.
        largest = float(scaled.max())
        near = math.ldexp(1.0, math.frexp(largest)[1] - 1) if 0.0 < largest < math.inf else 1.0
        with np.errstate(over="ignore"):
            # Pairwise sums of 5e6 squares at most.
            by_steps = near * float(np.sqrt(np.sum(np.square(scaled / near)))) * (1 + 1e-12)
    start = chain.start.scale if isinstance(chain.start, GaussianStart) else 0.0
    by_start = _times(first, start, chains.largest_modulus(spec)) if start > 0.0 else 0.0
    return _per_kept(spec, math.hypot(by_steps, by_start))


def released(average: Average, sensitivity: float) -> Guarantee:
    """The noise added to the average, against a move of this Euclidean length; Laplace noise pays in the 1-norm."""
    if average.noise.kind is AverageNoiseKind.GAUSSIAN:
        return GaussianDP(up(sensitivity / average.noise.scale))
    return PureDP(up(_in_one_norm(average, sensitivity) / average.noise.scale))


def _in_one_norm(average: Average, length: float) -> float:
    return up(math.sqrt(average.dim) * length) if average.dim > 1 else length


def _weights(spec: Spec) -> Array | LongRun:
    """The weights of the steps; of a long run what they come to."""
    modulus, chain = chains.largest_modulus(spec), chain_of(spec)
    kept = chain.kept_iterates(spec.view)
    if chain.steps > segments.LONGEST_RUN:
        return LongRun.of(modulus, kept)
    return segments.step_weights(modulus, kept, chain.steps)


def _values(schedule: Schedule, steps: int) -> Array:
    """One value per step, or a single one for all of a constant schedule."""
    return schedule.values(steps) if schedule.constant is None else np.array([schedule.constant])


def _times(*factors: float) -> float:
    """A product of non-negative numbers, rounded up; infinite where one is, whatever the others."""
    return math.inf if math.inf in factors else math.prod(factors) * _ROUND_UP


def _product(weights: Array, values: Array, factor: float) -> Array:
    """Infinite where it overflows."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.nan_to_num(weights * values * factor, nan=np.inf, posinf=np.inf)


def _per_kept(spec: Spec, total: float) -> float:
    kept = len(chain_of(spec).kept_iterates(spec.view))
    return max(average_of(spec).lipschitz.value * total / kept * _ROUND_UP, _SMALLEST)


def _audible(move: Callable[[Spec], float]) -> Assumption:
    """The average moves by no more than its noise can possibly hide."""
    return assume.at_most(
        "noise of the average",
        "the average moves at most {limit:g} times its noise",
        lambda spec: _in_one_norm(average_of(spec), move(spec)) / average_of(spec).noise.scale,
        "evaluates averages that move at most {limit:g} times their noise, and this one moves {value:.3g}",
    )


_LIPSCHITZ = Assumption(
    "public average.lipschitz",
    "average.lipschitz, the Lipschitz constant of f, is certified from public knowledge",
    lambda spec: assume.unusable((average_of(spec).lipschitz,)),
    certificates=lambda spec: (average_of(spec).lipschitz,),
)
_SCOPE = Scope({"noisy-gradient"}, {View.AVERAGE}, {Relation.REPLACE_ONE: chains.FIXED_SIZE_SCHEMES})
_COUPLED_AVERAGE = (_LIPSCHITZ, chains.SENSITIVITY, chains.SCHEDULE_LENGTH, chains.CONTRACTION, chains.EVERY_RECORD)


@ours(
    "average.coupling",
    Citation("bertazzi2025differential", "Proposition 3.7, with Assumption 3.6 by a synchronous coupling"),
    scope=replace(_SCOPE, noises={"gaussian", "stable"}),
    assumptions=(*_COUPLED_AVERAGE, _audible(sensitivity_of_average)),
    counts_rounding=True,
)
def coupling(spec: Spec) -> Guarantee:
    """If steps contract by c and a record moves a step by at most s_k, chains with the same noise stay within z_k = c
    z_{k-1} + s_k of each other, so the average of a G-Lipschitz f over N kept iterates moves by at most (G / N) sum of
    z_k <= G s / (1 - c), with no failure probability. Released with Gaussian noise it is Gaussian DP, with Laplace
    noise of scale t pure DP with epsilon = sqrt(dim) times the move over t. A stated rounding r makes every move 2 r
    tau_k longer."""
    # A worst-case move, so the noise of the release alone decides.
    return released(average_of(spec), sensitivity_of_average(spec))


_GAUSSIAN_VALUES, _LAPLACE_VALUES = 320, 48  # of the random move that are distinguished


def _random_move(spec: Spec, values: int) -> RoundedLaw:
    """The law of (G / N) times the sum of a_k s_k B_k over the steps, rounded up; for a run with a contraction."""
    chain, weights, (used, *_) = chain_of(spec), _weights(spec), chains.used_certificates(spec)
    rate, kept = chain.rate(spec.n), _per_kept(spec, 1.0)
    # What one use moves a step of size 1 by: Delta / b, or G / b where a Poisson batch gains or loses the record.
    use = used.value / chain.divisor(spec.n) * _ROUND_UP
    use = left_by_use(spec, use) if chain.batch.scheme is Scheme.POISSON else use
    if isinstance(weights, LongRun):
        largest = _times(weights.largest, chain.step_size.largest(chain.steps), use)
        law = segments.levels_law(np.array([largest]), np.array([chain.steps]), rate, values)
    else:
        moved = _product(weights, _values(chain.step_size, chain.steps), use)
        law = segments.weighted_uses_law(moved, rate, values)
    moves, rounding = [_times(value, kept) for value in law.values], rounding_of_average(spec)
    return RoundedLaw(tuple(sum_up([move, rounding]) if rounding else move for move in moves), law.weights)


@ours(
    "average.random-batches",
    Citation("bertazzi2025differential", "Proposition 3.7, with a synchronous coupling given the batches"),
    scope=Scope({"noisy-gradient"}, {View.AVERAGE}, assume.DRAWN, {"gaussian", "stable"}),
    assumptions=(
        *_COUPLED_AVERAGE,
        chains.BOUND,
        chains.ANY_TWO_RECORDS,
        _audible(lambda spec: max(_random_move(spec, _LAPLACE_VALUES).values)),
    ),
    certificates=lambda spec: (average_of(spec).lipschitz, *sampled_certificates(spec)),
    counts_rounding=True,
)
def random_average(spec: Spec) -> Guarantee:
    """If steps contract by c and batches are drawn afresh with rate q, chains with the same noise and batches differ by
    at most (G / N) sum of a_k s_k B_k in the average of a G-Lipschitz f over N kept iterates, B_k independent
    Bernoulli(q) variables, a_k the sum of c^(t-k) over kept t >= k; delta of the released average is at most the mean,
    over the B_k, of that of its noise against this move. Only the noise of the release counts.

    Given batches and noise of the chain the release is its own noise around two points so far apart.

    With the record's coins B_k shared (under replace-one the new record takes the place of the old one, under
    add-remove one chain ignores the coin) z_k <= c z_{k-1} + s_k B_k, so the averages differ by at most (G / N) times
    the sum of a_k s_k B_k. The chain's noise and batches have the same law on both datasets, so they may be revealed,
    and delta is averaged over them: a larger move costs no less, so a law that is above may take its place.
    """
    average = average_of(spec)
    gaussian = average.noise.kind is AverageNoiseKind.GAUSSIAN
    law = _random_move(spec, _GAUSSIAN_VALUES if gaussian else _LAPLACE_VALUES)
    mixed = mix(law.weights, [released(average, value) if value else GaussianDP(0.0) for value in law.values])
    return failing(mixed, chains.required_contraction(spec).failure)


def _failure(spec: Spec) -> float:
    """The probability that one chain's average is far from its mean: a quarter of the target, or of 1e-6."""
    return 0.25 * assume.chosen_delta(spec)


def _move(spec: Spec) -> float:
    """2 C + gamma_f: twice the deviation that both averages may have, and the distance of their means."""
    deviation = chance_of_average(spec) * math.sqrt(2 * math.log(2 / _failure(spec))) * (1 + 1e-14)
    return up(2 * deviation + sensitivity_of_average(spec))


@assumption("real function", "f has one value")
def _real_function(spec: Spec) -> str | None:
    dim = average_of(spec).dim
    return None if dim == 1 else f"is about averages of real functions, and f has {dim} values"


@as_stated(
    "mcmc.average",
    Citation("bertazzi2025differential", "Propositions 3.7 and 3.10, about the chain's own mean"),
    scope=_SCOPE,
    assumptions=(*_COUPLED_AVERAGE, _real_function, _audible(_move)),
    counts_rounding=True,
)
def average(spec: Spec) -> Guarantee:
    """If the average of a real f along each neighbour's chain is within C of its mean with probability 1 - t, and the
    means differ by at most gamma, noise that makes moves of 2 C + gamma (epsilon, delta)-DP makes the average (epsilon,
    delta + 2 t - t^2)-DP. For chains that contract, Gaussian concentration gives C = L sqrt(2 log(2 / t)) and a
    coupling gives gamma; t is a quarter of the spec's delta."""
    # Given the batches both averages are Lipschitz functions of independent Gaussians.
    failure = _failure(spec)
    return failing(released(average_of(spec), _move(spec)), up(2 * failure - failure * failure))
