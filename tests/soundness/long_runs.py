"""Runs of any length whose truth needs no law of the whole path: one axis, constant pulls, uses that add up.

A record that pulls by a constant moves the end of a chain theta -> f theta + move + noise by the sum of f^(T-k) over
the steps k that use it, whatever the noise did. With random batches the sum is random; the others all pull as the
record does on the second dataset, so that this one shows plain noise.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal, stats

from sordino.core.spec import Spec
from sordino.models.exact import GaussianLaw, LineMixture, Quadratics, stable_chain_law
from sordino.models.exact.line import NORMAL
from tests.models.exact.laws import shift_total_variation
from tests.soundness.cells import CellTruth
from tests.soundness.pieces import chain_spec
from tests.soundness.registry import Instance, Neighbours
from tests.soundness.truth import GaussianTruth, Truth

Array = NDArray[np.float64]

# Sums of millions of rounded products: what is computed is lowered by this much to stay below the truth.
_LOWERED = 1 - 1e-8
# Cells of the grid of a random sum, and of its values in the end; both round down.
_CELLS, _VALUES = 1 << 16, 2000


def chain(steps: int, size: int, n: int, factor: float, ratio: float, *, scheme: str = "full", **changes: Any) -> Spec:
    """Unit steps that contract (or, with |factor| > 1, expand) by |factor|; a use moves `ratio` noises.

    Curvature 1 - factor of the update, all of it in the weight decay. `changes` are dotted paths.
    """
    curvature = 1.0 - factor
    curvatures = {"strong_convexity": curvature, "smoothness": curvature}
    sizes = {"n": n, "dim": 1, "gradient_bound": 1.0, "gradient_sensitivity": 2.0}
    problem, batch = sizes | curvatures | {"regulariser": curvatures}, {"scheme": scheme, "size": size}
    spec = chain_spec(problem, steps=steps, step_size=1.0, scale=2.0 / size / ratio, batch=batch)
    return spec.with_values(changes) if changes else spec


def shifted(mu: float) -> Truth:
    """N(mu, 1) against N(0, 1)."""
    return GaussianTruth(GaussianLaw(np.array([mu]), np.eye(1)), GaussianLaw(np.zeros(1), np.eye(1)))


def left_at_end(factors: Array) -> Array:
    """What the end shows of a unit move at each step: the product of all later factors, over the largest if above 1."""
    logs = np.append(np.cumsum(np.log(np.maximum(np.abs(factors[1:]), 1e-300))[::-1])[::-1], 0.0)
    signs = np.append(np.cumprod(np.sign(factors[1:])[::-1])[::-1], 1.0)
    return np.exp(logs - max(0.0, float(logs.max()))) * signs


def of_shifts(spec: Spec, mus: Sequence[float]) -> Instance:
    """Neighbours that differ by Gaussian shifts."""
    return Instance(spec, tuple(Neighbours(f"shift {place}", shifted(mu)) for place, mu in enumerate(mus)))


def full_batches(steps: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate of full batches; schedules are read from the spec."""
    spec = chain(steps, 5, 5, factor, ratio, **changes)
    moves, noises, left = _read(spec)
    mu = float(abs(np.sum(left * moves)) / np.sqrt(np.sum((left * noises) ** 2))) * _LOWERED
    return of_shifts(spec, [mu])


def cyclic_batches(steps: int, period: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate of cyclic batches of one record, which stands first, in the middle, or in the last step's."""
    spec = chain(steps, 1, period, factor, ratio, scheme="cyclic", **changes)
    moves, noises, left = _read(spec)
    spread = np.sqrt(np.sum((left * noises) ** 2))
    places = sorted({0, min(period, steps) // 2, (steps - 1) % period})
    return of_shifts(spec, [float(abs(np.sum((left * moves)[p::period])) / spread) * _LOWERED for p in places])


def shuffled_once(steps: int, period: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate when the order is drawn once: one shift for each place."""
    spec = chain(steps, 1, period, factor, ratio, scheme="shuffle-once", **changes)
    moves, noises, left = _read(spec)
    padded = np.append(left * moves, np.zeros(-steps % period)).reshape(-1, period)
    sums = padded.sum(axis=0) / np.sqrt(np.sum((left * noises) ** 2))
    return _random_sum(spec, [(sums, np.full(period, 1 / period))])


def drawn_anew(steps: int, size: int, n: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate of batches drawn without replacement at every step."""
    spec = chain(steps, size, n, factor, ratio, scheme="without-replacement", **changes)
    moves, noises, left = _read(spec)
    seen = left * moves / np.sqrt(np.sum((left * noises) ** 2))
    rate = np.array([1 - size / n, size / n])
    return _random_sum(spec, [(np.array([0.0, value]), rate) for value in seen if value > 1e-9])


def poisson_drawn(steps: int, rate: float, n: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate of Poisson batches of linear losses: the only record that pulls is there or not."""
    drawn = {"algorithm.batch.rate": rate, "relation": "add-remove"}
    spec = chain(steps, 1, n, factor, ratio, scheme="poisson", **drawn, **changes)
    moves, noises, left = _read(spec)
    # The gradient bound is half of the sensitivity that moves are made of.
    seen = 0.5 * left * moves / np.sqrt(np.sum((left * noises) ** 2))
    chances = np.array([1 - rate, rate])
    return _random_sum(spec, [(np.array([0.0, value]), chances) for value in seen if value > 1e-9])


def cut_passes(steps: int, period: int, thin: int) -> Instance:
    """Kept iterates that cut reshuffled passes; that the first of them used the record is all that is told apart."""
    kept = {"view": "all-iterates", "algorithm.keep": {"burn_in": 0, "thin": thin}}
    spec = chain(steps, 1, period, 0.9, 0.5, scheme="reshuffled", **kept)
    chances = np.array([1 - 1 / period, 1 / period])
    return _random_sum(spec, [(np.array([0.0, 0.5 * _LOWERED]), chances)])


def reshuffled(steps: int, period: int, factor: float, ratio: float, **changes: Any) -> Instance:
    """The last iterate of passes in an order drawn anew: once in each pass, anywhere."""
    spec = chain(steps, 1, period, factor, ratio, scheme="reshuffled", **changes)
    moves, noises, left = _read(spec)
    seen = left * moves / np.sqrt(np.sum((left * noises) ** 2))
    passes = np.append(seen, np.zeros(-steps % period)).reshape(-1, period)
    return _random_sum(spec, [(values, np.full(period, 1 / period)) for values in passes if values.max() > 1e-9])


def kept_iterates(
    steps: int, period: int, factor: float, ratio: float, burn_in: int, thin: int, **changes: Any
) -> Instance:
    """Kept iterates of cyclic batches: given the one before, each is a shift of its own."""
    kept = {"view": "all-iterates", "algorithm.keep": {"burn_in": burn_in, "thin": thin}}
    spec = chain(steps, 1, period, factor, ratio, scheme="cyclic", **kept, **changes)
    moves, noises, factors = _moves_and_factors(spec)
    ends = list(range(burn_in + 1, steps + 1, thin))
    places = sorted({0, burn_in % period, period // 3, (ends[-1] - 1) % period})
    totals, first = np.zeros(len(places)), 0
    for last in ends:
        part = slice(first, last)
        left = left_at_end(factors[part])
        spread = float(np.sum((left * noises[part]) ** 2))
        for index, place in enumerate(places):
            used = slice((place - first) % period, None, period)
            totals[index] += float(np.sum((left * moves[part])[used])) ** 2 / spread
        first = last
    return of_shifts(spec, (np.sqrt(totals) * _LOWERED).tolist())


def averaged(
    steps: int,
    factor: float,
    ratio: float,
    release: float,
    *,
    period: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    scheme: str = "full",
) -> Instance:
    """The average of kept iterates plus noise of `release` times the move of a use; a record at a few places."""
    size, n = (5, 5) if scheme == "full" else (1, period)
    move = 2.0 / size
    average = {"lipschitz": 1.0, "dim": 1, "noise": {"kind": "gaussian", "scale": release * move}}
    spec = Spec.from_dict(
        chain(steps, size, n, factor, ratio, scheme=scheme).to_dict()
        | {"view": "average", "average": average, "delta": 1e-5}
    ).with_values({"algorithm.keep": {"burn_in": burn_in, "thin": thin}})
    kept = np.zeros(steps)
    kept[burn_in::thin] = 1.0
    # A chain that grows beyond what a float holds shows infinite moves: nothing is below those.
    with np.errstate(over="ignore", invalid="ignore"):
        weights = signal.lfilter([1.0], [1.0, -factor], kept[::-1])[::-1] / kept.sum()
        spread = np.sqrt(np.sum((weights * move / ratio) ** 2) + np.square(release * move))
    if not np.isfinite(spread):  # beyond floats
        return of_shifts(spec, [0.0])
    places = sorted({0, period // 2, period - 1, burn_in % period})
    return of_shifts(spec, [float(abs(np.sum(weights[p::period])) * move / spread) * _LOWERED for p in places])


def _moves_and_factors(spec: Spec) -> tuple[Array, Array, Array]:
    """Moves of a use, noises and factors of the steps."""
    algorithm: Any = spec.algorithm
    problem: Any = spec.problem
    sizes, noises = algorithm.step_size.values(algorithm.steps), algorithm.noise.scale.values(algorithm.steps)
    return sizes * (2.0 / algorithm.divisor(spec.n)), noises, 1.0 - sizes * problem.regulariser.strong_convexity.value


def _read(spec: Spec) -> tuple[Array, Array, Array]:
    """Moves of a use, noises, and what the end shows of each step."""
    moves, noises, factors = _moves_and_factors(spec)
    return moves, noises, left_at_end(factors)


def _random_sum(spec: Spec, stages: list[tuple[Array, Array]]) -> Instance:
    """S + Z against Z for the sum S of independent stages, none of which is negative.

    Half-lines are the best tests, so rounding S down only hides: one grid for all stages, on which every move is
    rounded down once and no move stays none. A single stage is taken as it is, of any sign.
    """
    if len(stages) == 1:
        return _beside_noise(spec, *stages[0])
    means = [float(values @ chances) for values, chances in stages]
    variances = [float(values**2 @ chances) - mean**2 for (values, chances), mean in zip(stages, means, strict=True)]
    top = min(sum(float(values.max()) for values, _ in stages), sum(means) + 12 * np.sqrt(sum(variances)) + 1e-9)
    spacing = top / (_CELLS - 1)
    masses = np.zeros(_CELLS)
    masses[0] = 1.0
    for values, chances in stages:
        moved = np.zeros(_CELLS)
        for jump, chance in zip((values / spacing).astype(np.int64).tolist(), chances.tolist(), strict=True):
            held = max(_CELLS - jump, 0)
            moved[jump:] += chance * masses[:held]
            moved[-1] += chance * masses[held:].sum()
        masses = moved
    every = -(-_CELLS // _VALUES)
    weights = np.add.reduceat(masses, np.arange(0, _CELLS, every))
    values = spacing * every * np.arange(len(weights)) * _LOWERED
    held = weights > 1e-25
    return _beside_noise(spec, values[held], weights[held] / weights[held].sum())


def _beside_noise(spec: Spec, values: Array, weights: Array) -> Instance:
    first = LineMixture(NORMAL, weights, values, np.ones(len(values)))
    second = LineMixture(NORMAL, np.ones(1), np.zeros(1), np.ones(1))
    return Instance(spec, (Neighbours("others as the second", CellTruth.on_line(first, second)),))


class OnlyTotalVariation:
    """A truth of which only the total variation is known."""

    def __init__(self, value: float) -> None:
        self.value = value

    def delta(self, epsilon: float) -> float:
        return self.value if epsilon == 0.0 else 0.0

    def renyi(self, order: float) -> float:
        del order
        return 0.0


def stable_chain(steps: int, factor: float, alpha: float, dim: int = 1) -> Instance:
    """Stable noise along one axis of `dim`; a difference of gradients that may grow, as far as is certified."""
    period = 2 if factor < 0 else 1
    growth = {"g0": 2.0, "g1": 0.01, "at_zero": 1.0}
    changes = {"algorithm.noise": {"kind": "stable", "alpha": alpha, "scale": 4.0}, "problem.gradient_growth": growth}
    changes |= {"problem.gradient_sensitivity": None, "problem.gradient_bound": None, "problem.dim": dim}
    spec = chain(steps, 1, period, factor, 0.5, scheme="cyclic" if period > 1 else "full", **changes)
    left = left_at_end(np.full(steps, factor))
    spread = 4.0 * float(np.sum(np.abs(left) ** alpha) ** (1 / alpha))
    moved = max(float(abs(np.sum(left[place::period]))) for place in range(period)) * 2.0
    found = shift_total_variation(alpha, moved * _LOWERED, spread).low
    return Instance(spec, (Neighbours("one axis", OnlyTotalVariation(found)),))


def all_iterates(steps: int, step_size: Any) -> Instance:
    """Every iterate of full batches is seen: the moves of all steps, each over its noise."""
    spec = chain(steps, 5, 5, 1.0, 0.001, **{"algorithm.step_size": step_size, "view": "all-iterates"})
    algorithm: Any = spec.algorithm
    sizes = algorithm.step_size.values(steps)
    return of_shifts(spec, [0.001 * float(np.sqrt(np.sum(sizes * sizes))) * _LOWERED])


def sampled_iterates(steps: int, size: int, n: int, ratio: float, *, varying: bool = False) -> Instance:
    """Every iterate of batches drawn anew is seen, and all that is looked at is the sum of steps over their noises.

    Looking at less hides; with small ratios hardly anything, because the loss of a step is nearly linear in it.
    """
    rising = np.linspace(1.0, 2.0, steps) if varying else np.ones(steps)
    changes: dict[str, Any] = {"view": "all-iterates"}
    if varying:
        changes["algorithm.noise.scale"] = {"kind": "list", "values": (2 / size / ratio * rising).tolist()}
    spec = chain(steps, size, n, 1.0, ratio, scheme="without-replacement", **changes)
    ratios = ratio / rising
    weights = ratios / np.sqrt(np.sum(ratios * ratios))
    if varying:
        rate = np.array([1 - size / n, size / n])
        return _random_sum(spec, [(np.array([0.0, value]), rate) for value in weights * ratios])
    uses = np.arange(steps + 1)
    chances = stats.binom.pmf(uses, steps, size / n)
    likely = chances > 1e-18
    return _random_sum(spec, [(uses[likely] * (ratio / np.sqrt(steps)), chances[likely])])


def one_poisson_step(ratio: float, rate: float) -> Instance:
    """One step on a Poisson batch, add-remove: with and without a record that is there with this rate."""
    seen = {"algorithm.batch.rate": rate, "relation": "add-remove", "view": "all-iterates"}
    spec = chain(1, 1, 5, 1.0, 2 * ratio, scheme="poisson", **seen)
    return _random_sum(spec, [(np.array([0.0, ratio]), np.array([1 - rate, rate]))])


def composite(scales: Sequence[float]) -> Instance:
    """Parts of one full step each, whose noises are these many moves."""
    parts = [chain(1, 5, 5, 0.5, 1 / scale).to_dict() for scale in scales]
    algorithm = {"kind": "composite", "parts": [{key: part[key] for key in ("algorithm", "problem")} for part in parts]}
    spec = Spec.from_dict({"algorithm": algorithm, "relation": "replace-one", "view": "last-iterate"})
    return of_shifts(spec, [float(np.sqrt(np.sum(1 / np.square(scales)))) * _LOWERED])


def growing_difference(steps: int, decay: float, steepest: float, alpha: float) -> Instance:
    """One record among five pulls towards 0 or does nothing, so the difference grows with the distance from 0.

    The chain starts at 2, where it hardly moves; all noise is in the last step, which is all that the theorem uses.
    `steepest` is what is certified of eta M; above 2, the certified modulus expands.
    """
    n, step, start = 5, 0.01, 2.0
    scales = [1e-6] * (steps - 1) + [1.0]
    growth = {"g0": 0.0, "g1": 1.0, "at_zero": 0.0}
    spec = chain_spec(
        {"n": n, "dim": 1, "strong_convexity": decay, "smoothness": steepest / step, "gradient_growth": growth},
        steps=steps,
        step_size=step,
        noise={"kind": "stable", "alpha": alpha, "scale": {"kind": "list", "values": scales}},
        batch={"scheme": "full", "size": n},
        start={"kind": "point", "values": [start]},
    )
    curved = np.zeros((n, 1, 1))
    curved[0] = 1.0
    pulls, numbers = np.zeros((n, 1)), np.arange(n)
    laws = [stable_chain_law(spec, Quadratics(part, pulls, numbers, decay)).line() for part in (curved, 0 * curved)]
    return Instance(spec, (Neighbours("one pulls towards 0", CellTruth.on_line(*laws)),))
