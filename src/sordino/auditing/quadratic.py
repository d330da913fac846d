"""The worst-case quadratic of the constants that a spec certifies: how hard its records pull, its model and neighbours.

Every record's gradient is a constant, the certified curvature sits in the weight decay, and two neighbours differ in
one record. The other axes look the same under both neighbours. The kernel that makes releases can run it; along the
first axis the likelihood ratio of what is seen is known, or nearly so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from sordino.accounting.scope import certificate_for
from sordino.auditing.experiment import Releases, ScoreFunction, Scores, chain_of
from sordino.core.arrays import Array
from sordino.core.bound import GRADIENT_BOUND, GRADIENT_SENSITIVITY, Certificate, Relation, View
from sordino.core.spec import GaussianNoise, NoisyGradient, PointStart, Problem, Scheme, Spec
from sordino.core.validate import InputError
from sordino.data.neighbours import Dataset, NeighbourPair
from sordino.models.base import Model

_UNKEPT = ("convergence", "dissipativity", "ergodicity")
# Batches of any size; of a truncated one the differing record, the first of the table, is never left out.
ANY_SIZE = frozenset({Scheme.POISSON, Scheme.TRUNCATED_POISSON, Scheme.RANDOM_ALLOCATION, Scheme.MIN_SEPARATION})


def described_chain(spec: Spec) -> tuple[NoisyGradient, Problem]:
    """The chain and its constants; refused for other runs."""
    if not isinstance(spec.algorithm, NoisyGradient) or spec.problem is None:
        raise InputError("This audit needs a noisy gradient chain: for other runs no worst-case quadratic is known.")
    return spec.algorithm, spec.problem


def extremal_gap(spec: Spec) -> tuple[float, bool]:
    """How far apart the differing records' gradients may be, and whether the other records may join one of them.

    Refused where the spec claims something of its problem that the worst-case quadratic need not satisfy: what it leaks
    would say nothing about the certificate.
    """
    chain, problem = described_chain(spec)
    for name in _UNKEPT:
        if getattr(problem, name) is not None:
            raise InputError(f"The worst-case quadratic need not satisfy problem.{name}. Remove it or add an instance.")
    bound = certificate_for(spec, GRADIENT_BOUND)
    largest = math.inf if bound is None else bound.value
    growth = problem.gradient_growth
    if spec.relation is Relation.ADD_REMOVE:
        if bound is None:
            raise InputError("Under add-remove this needs problem.gradient_bound or clipping. Add one of them.")
        pull = largest
    else:
        certificate = certificate_for(spec, GRADIENT_SENSITIVITY)
        limits = [] if certificate is None else [certificate.value / 2]
        limits += [] if growth is None else [growth.g0.value / 2]
        if not limits:
            raise InputError("Under replace-one this needs problem.gradient_sensitivity or clipping. Add one of them.")
        pull = min(*limits, largest)
    pull = min(pull, math.inf if growth is None else growth.at_zero.value)
    drift = math.inf if problem.drift_bound is None else problem.drift_bound.value
    one_sided = spec.relation is Relation.REPLACE_ONE and pull <= drift
    pull = min(pull, drift * chain.divisor(spec.n))
    return (pull if spec.relation is Relation.ADD_REMOVE else 2 * pull), one_sided


def extremal_decay(spec: Spec) -> float:
    """The weight decay that carries the certified curvature."""
    chain, problem = described_chain(spec)
    convexity = 0.0 if problem.strong_convexity is None else problem.strong_convexity.value
    penalty = problem.regulariser
    if penalty is None:
        return convexity
    total = max(convexity, penalty.strong_convexity.value)
    equal = chain.batch.scheme not in ANY_SIZE and spec.n % chain.divisor(spec.n) == 0
    if total > penalty.smoothness.value and not equal:
        raise InputError(
            f"Expected regulariser.smoothness of at least the strong convexity {total!r} where batches differ in size, "
            f"got {penalty.smoothness.value!r}; the worst-case quadratic puts all curvature into the weight decay."
        )
    return total


@dataclass(frozen=True)
class ConstantPull(Model):
    """Loss -x.theta: the gradient of a record is -x wherever theta is, and weight decay carries all curvature."""

    def dim(self, features: int) -> int:
        return features

    @property
    def scalar_residual(self) -> bool:
        return True

    def loss(self, theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return -jnp.vdot(x, theta)


def on_few_axes(spec: Spec, most: int) -> Spec:
    """The same run with its first coordinates, which are all that moves, unless a projection couples them."""
    return spec if chain_of(spec).projection is not None else on_first_axes(spec, min(spec.dim, most))


def on_first_axes(spec: Spec, axes: int) -> Spec:
    """The same run with so many of its coordinates."""
    if spec.problem is None:
        return spec
    chain = chain_of(spec)
    values = chain.start.values if isinstance(chain.start, PointStart) else None
    return replace(
        spec,
        algorithm=replace(chain, start=chain.start if values is None else PointStart(values[:axes])),
        problem=replace(spec.problem, dim=axes),
        average=None if spec.average is None else replace(spec.average, dim=axes),
    )


def shown_axes(spec: Spec) -> Spec:
    """The spec with as many parameters as its view shows: an average may show fewer, and the others say nothing."""
    if spec.average is None or spec.problem is None or spec.average.dim == spec.problem.dim:
        return spec
    return on_first_axes(spec, min(spec.average.dim, spec.dim))


def extremal_rows(spec: Spec, position: int) -> NeighbourPair:
    """Two neighbours for `ConstantPull`: one record pulls along the first axis, and the other way, or is absent."""
    replaced, n = spec.relation is Relation.REPLACE_ONE, spec.n
    name = "gradient_sensitivity" if replaced else "gradient_bound"
    certificate: Certificate | None = getattr(spec.problem, name, None)
    if certificate is None:
        raise InputError(f"problem.{name} is missing; {spec.relation.value} needs it.")
    rows = np.zeros((n, spec.dim))
    rows[position, 0] = certificate.value / 2 if replaced else certificate.value
    other = np.where(rows > 0.0, -rows, 0.0) if replaced else np.delete(rows, position, axis=0)
    first, second = (Dataset(each, np.zeros(len(each))) for each in (rows, other))
    return NeighbourPair(first, second, spec.relation, position)


def exposed_position(spec: Spec) -> int:
    """A record that the last step of a fixed order uses: what was used last is forgotten least."""
    chain = chain_of(spec)
    if chain.batch.scheme != Scheme.CYCLIC:
        return spec.n - 1
    size = chain.divisor(spec.n)
    return min(spec.n, ((chain.steps - 1) % chain.batches_per_epoch(spec.n) + 1) * size) - 1


def path_score(
    spec: Spec, noise: GaussianNoise, weight_decay: float, pulls: Sequence[float], uses: Array, dim: int
) -> ScoreFunction:
    """Kept paths theta_k = decay_k theta_{k-1} + pull_k [used at k] + scale_k noise, seen along the first axis.

    `pulls` is how hard the record pulls on the first and on the second dataset. It is used at step k with probability
    `uses`, independently; for passes in random order it is still a score, if not the best one.
    """
    chain = chain_of(spec)
    eta, scale = chain.step_size.values(chain.steps), noise.scale.values(chain.steps)
    values = chain.start.values if isinstance(chain.start, PointStart) else None
    start, decay = 0.0 if values is None else values[0], 1.0 - eta * weight_decay
    moves = np.outer(pulls, eta / chain.divisor(spec.n))

    def score(releases: Releases) -> Scores:
        """The log-likelihood ratio, summed over chains and steps."""
        path = np.asarray(releases, float).reshape(len(releases), chain.chains, len(decay), dim)[..., 0]
        before = np.concatenate([np.full_like(path[..., :1], start), path[..., :-1]], axis=-1)
        moved = path - decay * before
        exponents = [(moved * pull - 0.5 * pull**2) / scale**2 for pull in moves]
        with np.errstate(divide="ignore"):
            first, second = (np.logaddexp(np.log1p(-uses), np.log(uses) + each) for each in exponents)
        return (second - first).sum(axis=(1, 2))

    return score


def extremal_score(spec: Spec, pair: NeighbourPair, weight_decay: float) -> ScoreFunction:
    """What to look at in the releases of a worst-case quadratic: a whole path, or the mean of the points kept."""
    chain = chain_of(spec)
    whole = spec.view is View.ALL_ITERATES and len(chain.kept_iterates(spec.view)) == chain.steps
    if not whole or not isinstance(chain.noise, GaussianNoise):
        # The first dataset pulls along the first axis, the second the other way, or less.
        return lambda releases: -np.asarray(releases, float).reshape(len(releases), -1, spec.dim)[..., 0].mean(axis=1)
    pulls = [pair.first.features[pair.position, 0], 0.0]
    if spec.relation == Relation.REPLACE_ONE:
        pulls[1] = pair.second.features[pair.position, 0]
    uses = np.full(chain.steps, chain.rate(spec.n))
    if chain.batch.scheme == Scheme.CYCLIC:
        batch = np.arange(chain.steps) % chain.batches_per_epoch(spec.n)
        uses = (batch == pair.position // chain.divisor(spec.n)).astype(float)
    return path_score(spec, chain.noise, weight_decay, pulls, uses, spec.dim)
