"""Algorithms 1 to 3 on Section 6.1's mixture: several data sets and starts at once, distances to the true posterior.

The components have four dimensions, so that inverses are written out: a step of all lanes is a few vector operations.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from papers.framework.records import Record, keep
from papers.vinaroz_park import printed
from papers.vinaroz_park.budget import Budget, certified
from papers.vinaroz_park.mixture import (
    COMPONENTS,
    DIM,
    PRIOR_PRECISION,
    SPREAD,
    WEIGHTS,
    Points,
    Posterior,
    by_gibbs,
    by_nuts,
    distances,
    dp_em,
    from_prior,
    points,
    private_rounds,
)
from papers.vinaroz_park.printed import Setting
from sordino.core.atomic_write import write_file
from sordino.core.bound import Relation
from sordino.models.message_passing.gaussians import BlockGaussian, GaussianFamily, Moments, Natural, Slopes
from sordino.models.message_passing.sites import MixtureSite

PASSES, FLOOR, CLIP = 100, 1e-2, 1.0
CLIPS, EPSILONS = (20.0, 10.0, 1.0), (50.0, 5.0, 1.0)

# What the prior's mean is, and where a run starts. The paper's prior has a mean m that is not published.
SYMMETRIC, RANDOM, ORACLE, TOLD = STARTS = (
    "prior at 0, start at the prior",
    "prior at 0, random start",
    "prior at 0, start at the true means",
    "prior at the true means",
)


def inverse(matrices: Array) -> tuple[Array, Array]:
    """Inverses and log determinants of symmetric 4 by 4 matrices; nan where one is not positive definite."""
    top, side, low = matrices[..., :2, :2], matrices[..., :2, 2:], matrices[..., 2:, 2:]
    top_inverse, top_log = _two_by_two(top)
    across = top_inverse @ side
    low_inverse, low_log = _two_by_two(low - jnp.swapaxes(side, -1, -2) @ across)
    corner = -across @ low_inverse
    upper = jnp.concatenate([top_inverse - corner @ jnp.swapaxes(across, -1, -2), corner], axis=-1)
    lower = jnp.concatenate([jnp.swapaxes(corner, -1, -2), low_inverse], axis=-1)
    return jnp.concatenate([upper, lower], axis=-2), top_log + low_log


def _two_by_two(matrices: Array) -> tuple[Array, Array]:
    a, b, d = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 1]
    determinant = a * d - b * b
    determinant = jnp.where((a > 0.0) & (determinant > 0.0), determinant, jnp.nan)
    rows = jnp.stack([jnp.stack([d, -b], -1), jnp.stack([-b, a], -1)], -2)
    return rows / determinant[..., None, None], jnp.log(determinant)


@dataclass(frozen=True)
class FourWide(BlockGaussian):
    """Blocks of four coordinates: the general family with inverses written out."""

    def moments(self, theta: Array) -> Moments:
        parts = self.unpack(theta)
        covariance = inverse(parts.precision)[0]
        mean = jnp.einsum("bij,bj->bi", covariance, parts.linear)
        return Moments(mean, covariance, *self._gamma_moments(parts.gamma))

    def site(self, moments: Moments, slopes: Slopes, count: Array | float, clamp: tuple[float, float]) -> Array:
        del count, clamp  # one record, and its tilted covariance is one
        covariance = moments.covariance
        tilted = covariance - covariance @ slopes.k @ covariance
        mean = moments.mean + jnp.einsum("bij,bj->bi", covariance, slopes.g)
        after, before = inverse(tilted)[0], inverse(covariance)[0]
        linear = jnp.einsum("bij,bj->bi", after, mean) - jnp.einsum("bij,bj->bi", before, moments.mean)
        return self.pack(Natural(linear, after - before, slopes.gamma))


@dataclass(frozen=True)
class FourWideMixture(MixtureSite):
    """The mixture with inverses written out."""

    def family(self, features: int) -> GaussianFamily:
        return FourWide(len(self.weights) * features, blocks=len(self.weights))

    def _parts(self, moments: Moments, x: Array) -> tuple[Array, Array]:
        found, log_determinant = inverse(moments.covariance + self.spread**2 * jnp.eye(x.shape[0], dtype=x.dtype))
        gap = x - moments.mean
        squared = jnp.einsum("ki,kij,kj->k", gap, found, gap)
        log_weights = jnp.log(jnp.asarray(self.weights, x.dtype))
        return found, log_weights - 0.5 * (squared + log_determinant + x.shape[0] * math.log(2.0 * math.pi))


SITE = FourWideMixture(WEIGHTS, SPREAD)
FAMILY = SITE.family(DIM)


def run(
    sets: list[Points], chosen: tuple[Setting, ...], starts: tuple[str, ...], passes: int, seed: int
) -> list[list[list[Posterior]]]:
    """The posterior of every setting, start and data set."""
    pairs = [(start, data) for start in starts for data in sets]
    truths = np.stack([data.means.ravel() for _, data in pairs])
    random = np.random.default_rng([seed, 23]).standard_normal(truths.shape)
    told, oracle, moved = (np.array([[float(start == one)] for start, _ in pairs]) for one in (TOLD, ORACLE, RANDOM))
    with jax.enable_x64(True):
        # Compiled whole: operation by operation it would be ninety small programs.
        prior = jax.jit(jax.vmap(lambda mean: FAMILY.prior(PRIOR_PRECISION, mean)))(jnp.asarray(told * truths))
        first = prior.at[:, : FAMILY.dim].add(PRIOR_PRECISION * (oracle * truths + moved * random))
        X = jnp.asarray(np.stack([data.X for _, data in pairs]))
        lanes, state = printed.started(chosen, first, X, jnp.zeros(X.shape[:2]))
        for number in range(passes):
            orders = printed.shuffled(np.random.default_rng([seed, number]), X.shape[1], len(pairs))
            key = jax.random.fold_in(jax.random.key(seed), number)
            state = printed.one_pass(SITE, FAMILY, FLOOR, lanes, prior, state, orders, key)
        moments = jax.jit(jax.vmap(jax.vmap(FAMILY.moments)))(state.theta)
    shape = len(chosen), len(starts), len(sets)
    means = np.asarray(moments.mean).reshape(*shape, COMPONENTS, DIM)
    covariances = np.asarray(moments.covariance).reshape(*shape, COMPONENTS, DIM, DIM)
    return [
        [[Posterior(*one) for one in zip(*by_start, strict=True)] for by_start in zip(*by_setting, strict=True)]
        for by_setting in zip(means, covariances, strict=True)
    ]


# Everything that Table 1 and Figure 1 show, measured and kept.

PRIOR_ALONE, DP_EM, ROUNDS = "returning the prior", "DP-EM", "private full-batch rounds"
FILE = Path(__file__).with_name("recorded") / "mixture.json"
SETS, REFERENCE_DRAWS = 5, 4000


@dataclass(frozen=True)
class Found:
    """A method from one start: its distances on every data set, and its answer on the first.

    `epsilon` is what a run was set for, `certified` what the registry says of it; None where it is not private.
    """

    name: str
    start: str
    clip: float | None
    epsilon: float | None
    certified: float | None
    means: list[float]
    covariances: list[float]
    example: dict[str, Any]

    @property
    def mean(self) -> float:
        """Average distance of means."""
        return float(np.mean(self.means))

    @property
    def covariance(self) -> float:
        """Average distance of covariances."""
        return float(np.mean(self.covariances))


def measured(
    sets: list[Points],
    truths: list[Posterior],
    *,
    passes: int = PASSES,
    epsilons: tuple[float, ...] = EPSILONS,
    starts: tuple[str, ...] = STARTS,
    seed: int = 0,
    others: bool = True,
) -> list[Found]:
    """Every row: the prior alone, the algorithms as printed from several starts, and then DP-EM and private rounds."""
    records = len(sets[0].X)

    def found(name: str, start: str, posteriors: list[Posterior], **more: Any) -> Found:
        pairs = [distances(one, truth) for one, truth in zip(posteriors, truths, strict=True)]
        means, covariances = ([_digits(value) for value in column] for column in zip(*pairs, strict=True))
        example = {
            "means": _rounded(posteriors[0].means),
            "covariances": _rounded(posteriors[0].covariances[:, :2, :2]),
        }
        blank = {"clip": None, "epsilon": None, "certified": None}
        return Found(name, start, means=means, covariances=covariances, example=example, **blank | more)

    made = [found(PRIOR_ALONE, "-", [from_prior()] * len(sets))]
    silent = [(None, one) for one in printed.silent(records, CLIPS)]
    noised = [(epsilon, one) for epsilon in epsilons for one in printed.private(records, passes, CLIP, epsilon)]
    # Noise costs eigenvalues at every step, so that lanes with it run apart, from fewer starts; in short, all at once.
    fewer = tuple(start for start in starts if start in (RANDOM, ORACLE))
    groups = [([*silent, *noised], starts)] if fewer == starts else [(silent, starts), (noised, fewer)]
    for group, begun in groups:
        runs = run(sets, tuple(one for _, one in group), begun, passes, seed)
        for (epsilon, one), by_start in zip(group, runs, strict=True):
            clip, spec = one.clip if math.isfinite(one.clip) else None, None
            if one.epsilon is not None:
                spec = printed.passes_spec(records, passes, one.noise, one.clip)
            bound = None if spec is None else _digits(certified((spec,)), up=True)
            made += [
                found(one.name, start, posteriors, clip=clip, epsilon=epsilon, certified=bound)
                for start, posteriors in zip(begun, by_start, strict=True)
            ]
    if not others:
        return made
    for epsilon in epsilons:
        budget = Budget(epsilon, Relation.REPLACE_ONE)
        for name, method in ((DP_EM, dp_em), (ROUNDS, private_rounds)):
            answers = [method(data.X, budget, number) for number, data in enumerate(sets)]
            bound = _digits(certified(answers[0][1]), up=True)
            made.append(found(name, "random start", [one for one, _ in answers], epsilon=epsilon, certified=bound))
    return made


def _digits(value: float, up: bool = False) -> float:
    short = float(f"{value:.6g}")
    return float(np.nextafter(value, np.inf)) if up and short < value else short


def _rounded(values: Any) -> Any:
    return np.asarray([float(f"{value:.5g}") for value in np.ravel(values)]).reshape(np.shape(values)).tolist()


def write(path: Path, number: int = SETS, seed: int = 0) -> None:
    """Measure everything on so many data sets and write a file; the samplers' agreement is kept with it."""
    sets = [points(1000 * seed + k) for k in range(number)]
    truths = [by_nuts(data, seed, REFERENCE_DRAWS) for data in sets]
    other = [by_gibbs(data, seed, REFERENCE_DRAWS) for data in sets]
    agreement = max(distances(one, truth)[0] for one, truth in zip(other, truths, strict=True))
    rows = [asdict(one) for one in measured(sets, truths, seed=seed)]
    text = json.dumps({"sets": number, "agreement": _digits(agreement), "rows": rows})
    write_file(path, (text.replace('{"name"', '\n{"name"') + "\n").encode())


def _made(_: Path | None, folder: Path) -> None:
    write(folder / FILE.name)


keep(Record("vinaroz_park/recorded/mixture.json", ("vinaroz-park-table1",), _made))


def load() -> tuple[list[Found], int, float]:
    """The rows that were recorded, the number of data sets, and how far two samplers' means are apart."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    return [Found(**row) for row in kept["rows"]], kept["sets"], kept["agreement"]
