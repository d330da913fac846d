"""What each kind of release stores, and the posterior that can be had back from it."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.em.release import EmRelease
from sordino.algorithm.message_passing.release import MessagePassingRelease
from sordino.algorithm.posterior.base import Posterior
from sordino.algorithm.posterior.dense_gaussian import DenseGaussianPosterior
from sordino.algorithm.posterior.draws import DrawsPosterior
from sordino.algorithm.posterior.factorised import FactorisedPosterior
from sordino.algorithm.posterior.gaussian import GaussianPosterior
from sordino.algorithm.release import KeptIterates, LastIterate, NoisedAverage
from sordino.algorithm.release_grid import on_release_grid
from sordino.algorithm.sufficient_statistics import StatisticsRelease
from sordino.algorithm.variational.release import VariationalRelease
from sordino.core.errors import InputError
from sordino.core.spec import Spec
from sordino.ledger.release.document import StoredRelease
from sordino.model.base import Model
from sordino.model.described import build_model


class Contents(NamedTuple):
    """The kind of a release and its arrays."""

    kind: str
    spec: Spec
    arrays: dict[str, NDArray[Any]]


@singledispatch
def stored(release: object) -> Contents:
    """What a release stores; a new kind of release registers its own."""
    raise InputError(f"Expected a release that can be stored, got a {type(release).__name__}.")


@stored.register
def _(release: LastIterate) -> Contents:
    return Contents("last-iterate", release.spec, {"draws": on_release_grid(release.spec, release.iterates)[:, None]})


@stored.register
def _(release: KeptIterates) -> Contents:
    return Contents("kept-iterates", release.spec, {"draws": on_release_grid(release.spec, release.iterates)})


@stored.register
def _(release: NoisedAverage) -> Contents:
    return Contents("average", release.spec, {"averages": on_release_grid(release.spec, release.averages)})


@stored.register
def _(release: VariationalRelease) -> Contents:
    return Contents("variational", release.spec, posterior_arrays(release.posterior))


@stored.register
def _(release: EmRelease) -> Contents:
    return Contents("em", release.spec, posterior_arrays(release.posterior))


@stored.register
def _(release: StatisticsRelease) -> Contents:
    return Contents("statistics", release.spec, posterior_arrays(release.posterior))


@stored.register
def _(release: MessagePassingRelease) -> Contents:
    return Contents("message-passing", release.spec, posterior_arrays(release.posterior))


@singledispatch
def posterior_arrays(posterior: Posterior) -> dict[str, NDArray[Any]]:
    """The arrays a posterior can be had back from; a new kind of posterior registers its own."""
    raise InputError(f"Expected a posterior that can be stored, got a {type(posterior).__name__}.")


@posterior_arrays.register
def _(posterior: FactorisedPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.means, "deviations": posterior.deviations}


@posterior_arrays.register
def _(posterior: DrawsPosterior) -> dict[str, NDArray[Any]]:
    return {"draws": np.asarray(posterior.draws)}


@posterior_arrays.register
def _(posterior: DenseGaussianPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.means, "covariances": posterior.covariances}


@posterior_arrays.register
def _(posterior: GaussianPosterior) -> dict[str, NDArray[Any]]:
    return {"means": posterior.mean, "covariances": posterior.covariance}


def _draws(model: Model, arrays: Any) -> Posterior:
    return DrawsPosterior(model, arrays["draws"])


def _factorised(model: Model, arrays: Any) -> Posterior:
    return FactorisedPosterior(model, arrays["means"], arrays["deviations"])


def _dense(model: Model, arrays: Any) -> Posterior:
    return DenseGaussianPosterior(model, arrays["means"], arrays["covariances"])


# By the names of the arrays a release holds.
_POSTERIORS: dict[frozenset[str], Callable[[Model, Any], Posterior]] = {
    frozenset({"draws"}): _draws,
    frozenset({"means", "deviations"}): _factorised,
    frozenset({"means", "covariances"}): _dense,
}


def posterior_of(release: StoredRelease) -> Posterior:
    """The posterior a stored release stands for."""
    if release.model is None:
        raise InputError("Expected a release of a registered model, got one of the user's own; build its posterior.")
    made = _POSTERIORS.get(frozenset(release.arrays))
    if made is None:
        raise InputError(f"Expected a release with a posterior, got one that holds {', '.join(release.arrays)}.")
    return made(build_model(release.model), release.arrays)
