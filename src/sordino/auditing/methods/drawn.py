"""`drawn`: lower bounds by simulation where a description has a law that no formula sums up.

A unit of a matrix mechanism has one secret place of b, and contributions that all point one way. Against rows without
it, place g has the likelihood ratio X_g = exp(N_g - K_gg / 2), N Gaussian of covariance K, K_gh the product of what the
uses of places g and h move the rows by, in noises. The unit shows R = mean of X_g, and so

    delta(epsilon) = E (p - e^epsilon q)+,    (p, q) = (R, 1), (1, R), or (R, R') for a unit replaced by its opposite,

which is the law that `matrix.allocated` bounds from above. Draws come from a mixture S of Gaussians that lean towards
the tail, and of the unit itself; the mean of any part of (p - e^epsilon q)+ / S is a lower bound, so weights are cut at
a level c. Level and epsilons are chosen on draws of their own. On fresh ones the empirical Bernstein inequality (Maurer
& Pontil 2009, Theorem 4) puts the mean above delta, with the failure probability shared among the epsilons tried.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from sordino.accounting.bounds.matrix import place_covariance
from sordino.auditing.attack.experiment import drawn_from
from sordino.auditing.lower_bound import AuditOptions, Examined, LowerBound, audit_method
from sordino.auditing.methods.exact import exact
from sordino.core.arrays import Array
from sordino.core.bound import Relation
from sordino.core.guarantee import GaussianDP
from sordino.core.spec import MatrixMechanism, Spec
from sordino.core.validate import InputError

_DRAWS, _FEWEST = 1 << 18, 1 << 14
_WORK = 2e10  # multiplications of a sample
_CHUNK = 1 << 13
_LEANS = (0.5, 0.8, 1.1)  # of the way to the tail, for Gaussian draws
_BACK = (1.0, 0.99, 0.97, 0.92, 0.8)  # epsilons tried on fresh draws, of the one that the first draws promise
_ROUNDING = 1e-9
Weights = Callable[[float], Array]


@audit_method("drawn")
def drawn(spec: Spec, options: AuditOptions) -> LowerBound:
    """Lower bound for a matrix mechanism whose unit has one secret place; nothing of the program is run."""
    run = spec.algorithm
    covariance = place_covariance(run) if isinstance(run, MatrixMechanism) and run.repetitions == 1 else None
    if covariance is None:
        raise InputError(
            "An audit by draws needs a matrix mechanism that is used once, with balls in bins of at most 2000 places; "
            "use the method exact."
        )
    generator = np.random.default_rng(options.seed)
    found, draws = _searched(covariance, spec.relation, options, generator)
    return LowerBound(
        epsilon=max(found, exact(spec, options).epsilon),
        delta=options.delta,
        relation=spec.relation,
        view=spec.view,
        method="drawn",
        confidence=options.confidence,
        counts=(("draws", draws),),
        cap=None,
        examined=Examined.DESCRIPTION,
        seed_policy=f"Draws of the description's law, {drawn_from(options)}.",
        evidence="a unit that contributes all it may, in one secret place of several; its law is simulated",
    )


def _searched(
    covariance: Array, relation: Relation, options: AuditOptions, generator: np.random.Generator
) -> tuple[float, int]:
    """The largest epsilon that the draws hold up, and how many there were."""
    size = len(covariance)
    draws = int(min(_DRAWS, max(_FEWEST, _WORK / size**2)))
    ways = ("replaced",) if relation is Relation.REPLACE_ONE else ("removed", "added")
    each = (1 - options.confidence) / (len(ways) * len(_BACK))
    best = 0.0
    for way in ways:
        law = _Law(covariance, way, options.delta)
        first, second = law.weights(draws // 2, generator), law.weights(draws, generator)
        promised, level = _promise(first, options.delta, each, draws)
        for share in _BACK:
            epsilon = share * promised
            if epsilon > best and _lower_mean(np.minimum(second(epsilon), level), level, each) > options.delta:
                best = epsilon
    return best, len(ways) * (draws + draws // 2)


class _Law:
    """Draws of (p - e^epsilon q)+ / S for one order of the two neighbours."""

    def __init__(self, covariance: Array, way: str, delta: float) -> None:
        values, vectors = np.linalg.eigh(covariance)
        kept = values > 1e-13 * values.max()
        self.root = vectors[:, kept] * np.sqrt(values[kept])
        self.covariance, self.way = covariance, way
        self.square = np.diag(covariance)
        self.pull = covariance.mean(axis=1)  # how far a lean of one moves every place
        self.spread = float(self.pull.mean())
        ways = 2.0 if way == "replaced" else 1.0
        guess = GaussianDP(ways * math.sqrt(math.log(float(np.exp(np.minimum(covariance, 50.0)).mean())))).epsilon(
            delta
        )
        towards = -1.0 if way == "added" else 1.0
        self.leans = [towards * lean * guess / (ways * self.spread) for lean in _LEANS]

    def weights(self, draws: int, generator: np.random.Generator) -> Weights:
        """A function that gives the weights of one sample at an epsilon, rounded down."""
        parts = [np.concatenate(part) for part in zip(*self._sample(draws, generator), strict=True)]
        p, q = parts

        def at(epsilon: float) -> Array:
            return np.maximum(p - math.exp(epsilon) * q, 0.0) * (1 - _ROUNDING)

        return at

    def _sample(self, draws: int, generator: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """(p / S, q / S) of a chunk of draws."""
        kinds, size = len(self.leans) + 1, len(self.covariance)
        for begin in range(0, draws, _CHUNK):
            count = min(_CHUNK, draws - begin)
            values = generator.standard_normal((count, self.root.shape[1])) @ self.root.T
            kind = generator.integers(0, kinds, count)
            place = generator.integers(0, size, count)
            leans = np.array([*self.leans, 0.0])[kind]
            values += leans[:, None] * self.pull
            values += np.where(kind == kinds - 1, 1.0, 0.0)[:, None] * self.covariance[place]
            shown = np.exp(values - self.square / 2).mean(axis=1)
            along = values.mean(axis=1)
            leaning = sum(np.exp(lean * along - lean * lean * self.spread / 2) for lean in self.leans)
            density = (leaning + shown) / kinds
            if self.way == "removed":
                yield shown / density, 1 / density
            elif self.way == "added":
                yield 1 / density, shown / density
            else:
                yield shown / density, np.exp(-values - self.square / 2).mean(axis=1) / density


def _lower_mean(values: Array, level: float, failure: float) -> float:
    """Below the mean of a variable between 0 and the level, but for this probability."""
    count, far = len(values), math.log(2 / failure)
    noise = math.sqrt(2 * float(values.var(ddof=1)) * far / count)
    return float(values.mean()) - noise - 7 * level * far / (3 * (count - 1))


def _promise(weights: Weights, delta: float, failure: float, draws: int) -> tuple[float, float]:
    """The epsilon and the level that fresh draws, `draws` of them, should hold up; only a guess."""
    best, level = 0.0, 1.0
    low, high = 0.0, 1.0
    while _best_level(weights(high), failure, draws)[0] > delta and high < 500:
        low, high = high, 2 * high
    for _ in range(24):
        middle = (low + high) / 2
        mean, cut = _best_level(weights(middle), failure, draws)
        if mean > 1.01 * delta:
            low, best, level = middle, middle, cut
        else:
            high = middle
    return best, level


def _best_level(values: Array, failure: float, draws: int) -> tuple[float, float]:
    """The largest lower mean that cutting at some level would give with so many draws, and the level."""
    top = float(values.max())
    if top <= 0:
        return 0.0, 1.0
    far, found = math.log(2 / failure), []
    for level in top * np.geomspace(1e-4, 1.0, 13):
        cut = np.minimum(values, level)
        noise = math.sqrt(2 * float(cut.var()) * far / draws) + 7 * level * far / (3 * draws)
        found.append((float(cut.mean()) - noise, float(level)))
    return max(found)
