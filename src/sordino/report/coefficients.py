"""The released numbers by name: what the arrays of a release say about each parameter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from sordino.algorithm.posterior.coefficients import ARRAYS as COEFFICIENT_ARRAYS
from sordino.algorithm.posterior.coefficients import from_stored
from sordino.core.arrays import Array
from sordino.estimators.look import LOOK
from sordino.estimators.released import FREE_DRAWS, SITE_DRAWS, entry_names
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.folder import COEFFICIENTS, NOT_MEASURED, is_constant, release_coverage, withheld

LEVEL, INNER_LEVEL = 0.95, 0.5
# Below this many draws a quantile says little; the page then shows the draws themselves.
FEWEST_FOR_INTERVALS = 20
# A network has a hundred thousand parameters; a page shows the first of them.
MOST_PARAMETERS = 200


@dataclass(frozen=True, eq=False)
class Marginal:
    """One parameter: its mean, and where they are known its deviation, intervals and draws."""

    name: str
    mean: float
    deviation: float | None
    inner: tuple[float, float] | None
    outer: tuple[float, float] | None
    draws: Array


@dataclass(frozen=True, eq=False)
class Summary:
    """The first parameters of a release, how many there are, and a sentence on what the numbers are."""

    # `levels` is what stands beside the inner and the outer intervals, with how often such intervals held the truth,
    # and `coverage` a sentence on that.
    marginals: tuple[Marginal, ...]
    total: int
    sentence: str
    levels: tuple[str, ...] = ()
    coverage: str = ""


def summarise(release: StoredRelease) -> Summary | None:
    """What the arrays say, parameter by parameter; None for arrays that are no parameters."""
    reader = _READERS.get(frozenset(release.arrays))
    if reader is None or any(0 in values.shape for values in release.arrays.values()):
        return None
    summary = reader(release)
    return None if summary is None else _covered(release, summary)


def _covered(release: StoredRelease, summary: Summary) -> Summary:
    """The summary with what was measured of its intervals; without intervals, where nothing was."""
    both = (INNER_LEVEL, LEVEL)
    if "task" not in release.settings and withheld(release) is None:  # no estimator of ours: somebody's own run
        levels = tuple(f"the central {100 * level:g} % of what was released" for level in both)
        return replace(summary, levels=levels, coverage=f"These are shares of what was released: {NOT_MEASURED}.")
    words = tuple(word for level in both if (word := release_coverage(release, COEFFICIENTS, level)) is not None)
    if len(words) == len(both):
        known = "Beside each level stands how often such intervals held the truth, over drawn tables where it is known."
        return replace(summary, levels=words, coverage=known)
    nothing: dict[str, Any] = {"deviation": None, "inner": None, "outer": None, "draws": np.empty(0)}
    bare = tuple(replace(marginal, **nothing) for marginal in summary.marginals)
    return replace(summary, marginals=bare, coverage=f"Intervals are withheld: {withheld(release) or NOT_MEASURED}.")


def answered(release: StoredRelease) -> tuple[tuple[str, tuple[Marginal, ...]], ...]:
    """The questions of a look, each with its numbers; empty for any other release."""
    if release.kind != LOOK:
        return ()
    return tuple(
        (str(one["question"]), tuple(_answered(row) for row in one["rows"])) for one in release.settings["answers"]
    )


def _answered(row: Mapping[str, Any]) -> Marginal:
    low, high = row.get("low"), row.get("high")
    outer = None if low is None or high is None else (float(low), float(high))
    return Marginal(str(row["name"]), float(row["value"]), None, None, outer, np.empty(0))


def parameter_names(release: StoredRelease, count: int) -> tuple[str, ...]:
    """Names from the public schema: one for each encoded column, with the class or component where there are several.

    A model whose parameters are no multiple of the columns has numbered parameters.
    """
    if is_constant(release):
        return _by_class(("constant",), count, release) if count > 1 else ("constant",)
    columns = () if release.schema is None else release.schema.feature_names
    if columns and count == len(columns):
        return columns
    namer = None if release.model is None else _SEVERAL.get(release.model.name)
    if columns and count % len(columns) == 0 and namer is not None:
        return namer(columns, count // len(columns), release)
    return tuple(f"theta[{place}]" for place in range(count))


def _by_class(columns: tuple[str, ...], classes: int, release: StoredRelease) -> tuple[str, ...]:
    """One block of classes for each column; classes by their declared words where the release has them."""
    labels = release.settings.get("labels")
    words = labels if isinstance(labels, list | tuple) and len(labels) == classes else range(classes)
    return tuple(f"{column} [{word}]" for column in columns for word in words)


def _by_component(columns: tuple[str, ...], components: int, _release: StoredRelease) -> tuple[str, ...]:
    """One block of columns for each component."""
    return tuple(f"{column} [{place}]" for place in range(components) for column in columns)


# Models that have several parameters for each column, by name.
_SEVERAL: Mapping[str, Callable[[tuple[str, ...], int, StoredRelease], tuple[str, ...]]] = {
    "softmax": _by_class,
    "mixture": _by_component,
}


def _of_draws(release: StoredRelease) -> Summary | None:
    draws = np.asarray(release.arrays["draws"], np.float64)
    if draws.ndim != 3:
        return None
    chains, kept = draws.shape[0], draws.shape[1]
    flat = draws.reshape(-1, draws.shape[-1])
    names = parameter_names(release, flat.shape[1])
    marginals = tuple(_sampled(name, flat[:, place]) for place, name in enumerate(names[:MOST_PARAMETERS]))
    if len(flat) == 1:
        sentence = "One draw was released: a point near the posterior's bulk, not its mean, and without a spread."
    else:
        sentence = f"{_many(chains, 'chain')} with {_many(kept, 'draw')} each."
        if len(flat) < FEWEST_FOR_INTERVALS:
            sentence += f" Fewer than {FEWEST_FOR_INTERVALS} draws: they are shown as they are, without intervals."
    return Summary(marginals, len(names), sentence)


def _of_coefficients(release: StoredRelease) -> Summary | None:
    """Weighted draws of a regression's coefficients, in encoded units."""
    law = from_stored(release.arrays, release.settings)
    inner, outer = (np.array(law.interval(level)).T for level in (INNER_LEVEL, LEVEL))
    marginals = []
    for place, (name, mean, deviation) in enumerate(zip(law.names, law.mean, law.deviation, strict=True)):
        if place >= MOST_PARAMETERS:
            break
        ends = [(float(low), float(high)) for low, high in (inner[place], outer[place])]
        marginals.append(Marginal(name, float(mean), float(deviation), ends[0], ends[1], np.empty(0)))
    sentence = "A posterior of all coefficients from everything that was released, the noise included."
    return Summary(tuple(marginals), law.dim, sentence)


def _sampled(name: str, values: Array) -> Marginal:
    mean, deviation = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None
    if len(values) < FEWEST_FOR_INTERVALS or not deviation:
        return Marginal(name, mean, deviation, None, None, values)
    inner, outer = (_quantiles(values, level) for level in (INNER_LEVEL, LEVEL))
    return Marginal(name, mean, deviation, inner, outer, values)


def _quantiles(values: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return float(low), float(high)


def _of_gaussians(release: StoredRelease) -> Summary | None:
    means, deviations = (np.asarray(release.arrays[name], np.float64) for name in ("means", "deviations"))
    return None if means.shape != deviations.shape else _gaussians(release, means.ravel(), deviations.ravel())


def _of_covariances(release: StoredRelease) -> Summary | None:
    """One Gaussian with its covariance, or one for each part of a posterior that has several."""
    means, covariances = (np.asarray(release.arrays[name], np.float64) for name in ("means", "covariances"))
    if means.ndim == 0 or covariances.shape != (*means.shape, means.shape[-1]):
        return None
    variances = np.diagonal(covariances, axis1=-2, axis2=-1)
    return _gaussians(release, means.ravel(), np.sqrt(np.maximum(variances, 0.0)).ravel())


def _gaussians(release: StoredRelease, means: Array, deviations: Array) -> Summary:
    names = parameter_names(release, len(means))
    made = list(zip(names, means.tolist(), deviations.tolist(), strict=True))[:MOST_PARAMETERS]
    marginals = tuple(_gaussian(name, mean, deviation) for name, mean, deviation in made)
    return Summary(marginals, len(names), "A Gaussian for each parameter, as released.")


def _gaussian(name: str, mean: float, deviation: float) -> Marginal:
    if not deviation > 0.0:
        return Marginal(name, mean, 0.0, None, None, np.empty(0))
    halves = [float(special.ndtri(0.5 + 0.5 * level)) * deviation for level in (INNER_LEVEL, LEVEL)]
    inner, outer = ((mean - half, mean + half) for half in halves)
    return Marginal(name, mean, deviation, inner, outer, np.empty(0))


def _of_averages(release: StoredRelease) -> Summary:
    averages = np.atleast_1d(np.asarray(release.arrays["averages"], np.float64))
    flat = averages.reshape(averages.shape[0], -1)
    shown = range(min(flat.shape[1], MOST_PARAMETERS))
    marginals = tuple(_sampled(f"average[{place}]", flat[:, place]) for place in shown)
    return Summary(marginals, flat.shape[1], "A noised average along each chain; its spread is not a posterior's.")


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _of_sites(release: StoredRelease) -> Summary | None:
    """Named sites of a model of one's own, in its own space."""
    draws = np.asarray(release.arrays[SITE_DRAWS], np.float64)
    if draws.ndim != 3 or "sites" not in release.settings:
        return None
    flat, names = draws.reshape(-1, draws.shape[-1]), entry_names(release.settings["sites"])
    if len(names) != flat.shape[1]:
        return None
    marginals = tuple(_sampled(name, flat[:, place]) for place, name in enumerate(names[:MOST_PARAMETERS]))
    if len(flat) == 1:
        return Summary(marginals, len(names), "One point was released, without a spread.")
    return Summary(marginals, len(names), f"{_many(len(flat), 'draw')} of the released posterior, site by site.")


# By the names of the arrays a release holds; a new kind of contents adds its reader here.
_READERS: Mapping[frozenset[str], Callable[[StoredRelease], Summary | None]] = {
    frozenset({"draws"}): _of_draws,
    frozenset({"means", "deviations"}): _of_gaussians,
    frozenset({"means", "covariances"}): _of_covariances,
    frozenset({"averages"}): _of_averages,
    frozenset({SITE_DRAWS, FREE_DRAWS}): _of_sites,
    frozenset({SITE_DRAWS, FREE_DRAWS, "free_mean", "free_covariance"}): _of_sites,
    COEFFICIENT_ARRAYS: _of_coefficients,
}


def array_shapes(release: StoredRelease) -> tuple[tuple[str, Any, str], ...]:
    """Name, shape and kind of number of every array, as written in the folder."""
    return tuple(
        (name, " × ".join(map(str, values.shape)), str(values.dtype)) for name, values in sorted(release.arrays.items())
    )
