"""What each kind of release stores, and the posterior that can be had back from it."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.em.release import EmRelease
from sordino.algorithm.posterior.base import Posterior
from sordino.algorithm.posterior.draws import DrawsPosterior
from sordino.algorithm.posterior.factorised import FactorisedPosterior
from sordino.algorithm.release import KeptIterates, LastIterate, NoisedAverage
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
    return Contents("last-iterate", release.spec, {"draws": np.asarray(release.iterates)[:, None]})


@stored.register
def _(release: KeptIterates) -> Contents:
    return Contents("kept-iterates", release.spec, {"draws": np.asarray(release.iterates)})


@stored.register
def _(release: NoisedAverage) -> Contents:
    return Contents("average", release.spec, {"averages": np.asarray(release.averages)})


@stored.register
def _(release: VariationalRelease) -> Contents:
    return _of_posterior("variational", release.spec, release.posterior)


@stored.register
def _(release: EmRelease) -> Contents:
    return _of_posterior("em", release.spec, release.posterior)


def _of_posterior(kind: str, spec: Spec, posterior: Posterior) -> Contents:
    if isinstance(posterior, FactorisedPosterior):
        return Contents(kind, spec, {"means": posterior.means, "deviations": posterior.deviations})
    if isinstance(posterior, DrawsPosterior):
        return Contents(kind, spec, {"draws": np.asarray(posterior.draws)})
    raise InputError(f"Expected a posterior that can be stored, got a {type(posterior).__name__}.")


def _draws(model: Model, arrays: Any) -> Posterior:
    return DrawsPosterior(model, arrays["draws"])


def _factorised(model: Model, arrays: Any) -> Posterior:
    return FactorisedPosterior(model, arrays["means"], arrays["deviations"])


# By the names of the arrays a release holds.
_POSTERIORS: dict[frozenset[str], Callable[[Model, Any], Posterior]] = {
    frozenset({"draws"}): _draws,
    frozenset({"means", "deviations"}): _factorised,
}


def posterior_of(release: StoredRelease) -> Posterior:
    """The posterior a stored release stands for."""
    if release.model is None:
        raise InputError("Expected a release of a registered model, got one of the user's own; build its posterior.")
    made = _POSTERIORS.get(frozenset(release.arrays))
    if made is None:
        raise InputError(f"Expected a release with a posterior, got one that holds {', '.join(release.arrays)}.")
    return made(build_model(release.model), release.arrays)
