"""The attack on a described run without an instance: the extremal quadratic of its constants, run for real."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.audit.attack.effort import chain_of
from sordino.audit.attack.fitting import Releases
from sordino.audit.attack.path_score import PathScore
from sordino.audit.attack.scores import LinearScore, Score, ScoreFunction, Scores
from sordino.core.relation import Relation
from sordino.core.spec import GaussianNoise, NoisyGradient, PointStart, Scheme, Spec
from sordino.core.view import View
from sordino.data.neighbours import NeighbourPair


@dataclass(frozen=True)
class FirstAxis(Score):
    """Minus the mean of the first coordinate: the first dataset pulls along it, the second the other way, or less."""

    learns: ClassVar[bool] = False
    dim: int

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        return lambda releases: -on_first_axis(releases, self.dim).mean(axis=1)


@dataclass(frozen=True)
class LinearOnFirstAxis(Score):
    """The linear discriminant of the first coordinates of all points of a release."""

    dim: int

    def learn(self, first: Releases, second: Releases) -> ScoreFunction:
        rule = LinearScore().learn(on_first_axis(first, self.dim), on_first_axis(second, self.dim))
        return lambda releases: rule(on_first_axis(releases, self.dim))


def on_first_axis(releases: Releases, dim: int) -> Scores:
    """The first coordinate of every point of a release, shape (releases, points)."""
    return np.asarray(releases, float).reshape(len(releases), -1, dim)[..., 0]


def exposed_position(spec: Spec) -> int:
    """A record that the last step of a fixed order uses: what was used last is forgotten least."""
    chain = chain_of(spec)
    if chain.batch.scheme != Scheme.CYCLIC:
        return spec.n - 1
    size = chain.divisor(spec.n)
    last_batch = (chain.steps - 1) % chain.batches_per_epoch(spec.n)
    return min(spec.n, (last_batch + 1) * size) - 1


def extremal_scores(spec: Spec, pair: NeighbourPair, weight_decay: float) -> tuple[Score, ...]:
    """What to look at in the releases of an extremal quadratic, by view."""
    return _SCORES[spec.view](spec, pair, weight_decay)


def _of_one_point(spec: Spec, pair: NeighbourPair, weight_decay: float) -> tuple[Score, ...]:
    del pair, weight_decay
    return (FirstAxis(spec.dim),)


def _of_a_path(spec: Spec, pair: NeighbourPair, weight_decay: float) -> tuple[Score, ...]:
    chain = chain_of(spec)
    whole = len(chain.kept_iterates(spec.view)) == chain.steps
    if not whole or not isinstance(chain.noise, GaussianNoise):
        return FirstAxis(spec.dim), LinearOnFirstAxis(spec.dim)
    eta, scale = chain.step_size.values(chain.steps), chain.noise.scale.values(chain.steps)
    values = chain.start.values if isinstance(chain.start, PointStart) else None
    pulls = [pair.first.features[pair.position, 0], 0.0]
    if spec.relation == Relation.REPLACE_ONE:
        pulls[1] = pair.second.features[pair.position, 0]
    path = PathScore(
        chains=chain.chains,
        dim=spec.dim,
        start=0.0 if values is None else values[0],
        decay=1.0 - eta * weight_decay,
        pulls=np.outer(pulls, eta / chain.divisor(spec.n)),
        scale=scale,
        uses=_uses(chain, spec.n, pair.position),
    )
    return (path,)


def _uses(chain: NoisyGradient, n: int, position: int) -> NDArray[np.float64]:
    """The probability that each step uses the record."""
    if chain.batch.scheme != Scheme.CYCLIC:
        return np.full(chain.steps, chain.rate(n))
    return (np.arange(chain.steps) % chain.batches_per_epoch(n) == position // chain.divisor(n)).astype(float)


_SCORES: dict[View, Callable[[Spec, NeighbourPair, float], tuple[Score, ...]]] = {
    View.LAST_ITERATE: _of_one_point,
    View.AVERAGE: _of_one_point,
    View.ALL_ITERATES: _of_a_path,
}
