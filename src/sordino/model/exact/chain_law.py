"""The exact law of a Gaussian noisy gradient chain on quadratics, for every scheme, order and view."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from sordino.core.errors import InputError
from sordino.core.spec import AverageNoiseKind, GaussianNoise, Spec
from sordino.core.view import View
from sordino.model.exact.affine import AffineStep
from sordino.model.exact.batch_patterns import Stage
from sordino.model.exact.chain_run import ChainRun
from sordino.model.exact.gaussian_law import GaussianLaw
from sordino.model.exact.gaussian_mixture_law import GaussianMixtureLaw
from sordino.model.exact.quadratic import Quadratics
from sordino.model.exact.read_only import Array


def chain_law(
    spec: Spec, data: Quadratics, batches: Sequence[ArrayLike] | None = None
) -> GaussianLaw | GaussianMixtureLaw:
    """The law of what the spec's view shows, on these data.

    | view | law |
    | --- | --- |
    | last-iterate | the last iterate |
    | all-iterates | the kept iterates, stacked in time |
    | average | the mean of the kept iterates plus the released Gaussian noise |

    A fixed order gives a Gaussian; a random one a mixture with one component per pattern of batches (at most 100,000),
    unless `batches`, the record numbers of each step, fix it. Several chains are stacked.
    """
    run = ChainRun.of(spec, data)
    if not isinstance(run.chain.noise, GaussianNoise):
        raise InputError("Expected Gaussian noise, got stable noise; use stable_chain_law.")
    stages = run.stages(spec.n, batches)
    kept = frozenset(run.chain.kept_iterates(spec.view))
    weights, mean, covariance = np.ones(1), run.start_mean[None], run.start_scale**2 * np.eye(data.dim)[None]
    if kept == {run.chain.steps} and run.is_constant and spec.view != View.AVERAGE:
        weights, mean, covariance = _last(run, stages, weights, mean, covariance)
    else:
        weights, mean, covariance = _recorded(run, stages, kept, spec.view, weights, mean, covariance)
    if spec.view == View.AVERAGE:
        mean, covariance = _averaged(spec, len(kept), mean, covariance)
    if len(weights) > 1 and run.chain.chains > 1:
        raise InputError("Expected one chain when the order of the records is random, got several.")
    if len(weights) == 1:
        return GaussianLaw(mean[0], covariance[0]).copies(run.chain.chains)
    return GaussianMixtureLaw(weights, mean, covariance)


def _last(
    run: ChainRun, stages: tuple[Stage, ...], weights: Array, mean: Array, covariance: Array
) -> tuple[Array, Array, Array]:
    """Constant schedules: each stage is one composed map, whole periods by repeated squaring."""
    noise = run.noise_scales[0] ** 2 * np.eye(run.data.dim)
    composed: dict[int, AffineStep] = {}
    for stage in stages:
        if id(stage) not in composed:
            composed[id(stage)] = _composed(run, stage, noise)
        step = composed[id(stage)]
        weights = np.outer(weights, stage.weights).reshape(-1)
        mean, covariance = step.push(mean[:, None], covariance[:, None])
        mean = mean.reshape(-1, mean.shape[-1])
        covariance = covariance.reshape(-1, *covariance.shape[-2:])
    return weights, mean, covariance


def _composed(run: ChainRun, stage: Stage, noise: Array) -> AffineStep:
    period = stage.counts.shape[1]
    steps = [AffineStep(*run.maps(stage, k, 0), noise) for k in range(min(period, stage.steps))]
    whole, rest = divmod(stage.steps, period)
    result = _chain(steps, run.data.dim).repeated(whole) if whole else AffineStep.identity(run.data.dim)
    return result.then(_chain(steps[:rest], run.data.dim))


def _chain(steps: list[AffineStep], dim: int) -> AffineStep:
    result = AffineStep.identity(dim)
    for step in steps:
        result = result.then(step)
    return result


def _recorded(
    run: ChainRun,
    stages: tuple[Stage, ...],
    kept: frozenset[int],
    view: View,
    weights: Array,
    mean: Array,
    covariance: Array,
) -> tuple[Array, Array, Array]:
    """Step by step; the state is what was recorded so far (kept iterates, or their sum) followed by the iterate."""
    dim, step = run.data.dim, 0
    if view == View.AVERAGE:
        mean, covariance = _linear(np.eye(2 * dim)[:, dim:], mean, covariance)
    for stage in stages:
        before, alternatives = len(weights), len(stage.weights)
        weights = np.outer(weights, stage.weights).reshape(-1)
        mean, covariance = np.repeat(mean, alternatives, axis=0), np.repeat(covariance, alternatives, axis=0)
        for position in range(stage.steps):
            matrix, offset = run.maps(stage, position, step)
            noise = run.noise_scales[step] ** 2
            step += 1
            mean, covariance = _advance(
                np.tile(matrix, (before, 1, 1)), np.tile(offset, (before, 1)), noise, mean, covariance
            )
            if step in kept:
                mean, covariance = _linear(_RECORD[view](mean.shape[1], dim), mean, covariance)
    return weights, mean[:, :-dim], covariance[:, :-dim, :-dim]


def _advance(matrix: Array, offset: Array, noise: float, mean: Array, covariance: Array) -> tuple[Array, Array]:
    dim, size = offset.shape[1], mean.shape[1]
    wide = np.tile(np.eye(size), (len(mean), 1, 1))
    wide[:, -dim:, -dim:] = matrix
    mean, covariance = _linear(wide, mean, covariance)
    mean[:, -dim:] += offset
    covariance[:, range(size - dim, size), range(size - dim, size)] += noise
    return mean, covariance


def _linear(matrix: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    return (matrix @ mean[..., None])[..., 0], matrix @ covariance @ np.swapaxes(matrix, -1, -2)


def _append(size: int, dim: int) -> Array:
    """(recorded, iterate) -> (recorded, iterate, iterate)."""
    return np.concatenate([np.eye(size), np.eye(size)[-dim:]])


def _add(size: int, dim: int) -> Array:
    """(sum, iterate) -> (sum + iterate, iterate)."""
    matrix = np.eye(size)
    matrix[:dim, dim:] = np.eye(dim)
    return matrix


_RECORD = {View.LAST_ITERATE: _append, View.ALL_ITERATES: _append, View.AVERAGE: _add}


def _averaged(spec: Spec, count: int, mean: Array, covariance: Array) -> tuple[Array, Array]:
    average = spec.average
    if average is None or average.noise.kind != AverageNoiseKind.GAUSSIAN or average.dim != mean.shape[1]:
        raise InputError("Expected an average of the iterates themselves, released with Gaussian noise.")
    return mean / count, covariance / count**2 + average.noise.scale**2 * np.eye(mean.shape[1])
