"""A release of a model of one's own: named sites, predictions, ArviZ; a folder holds it like any other release."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.noise.exact_sums import in_doubles
from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.validate import InputError, refuse, whole_number
from sordino.estimators.draws import guarantee_attributes
from sordino.estimators.own_methods import Found
from sordino.estimators.released import CUSTOM, FREE_DRAWS, SITE_DRAWS, WEIGHTS, Release
from sordino.ledger.release import StoredRelease, read_release
from sordino.model.own.base import OwnModel, front_end_for
from sordino.model.own.records import Leaf, RecordLayout

# Front ends register themselves; a new file of them is named here once.
for _home in ("sordino.model.own.modules", "sordino.model.own.numpyro_program", "sordino.model.own.pytree_loss"):
    importlib.import_module(_home)


@dataclass(frozen=True, eq=False)
class OwnRelease(Release):
    """A stored release with the model beside it; without the model it has sites, and with it predictions.

    `audit` is the lower bound that the very run showed, where it had canaries.
    """

    own: OwnModel | None = None
    audit: LowerBound | None = None

    @property
    def sites(self) -> dict[str, Array]:
        """Draws of every named site in the model's own space, shape (chains, draws, *shape of the site)."""
        table, found, start = self._table, {}, 0
        for site in self.settings["sites"]:
            shape = tuple(site["shape"])
            size = int(np.prod(shape, dtype=int))
            found[site["name"]] = table[..., start : start + size].reshape(*table.shape[:-1], *shape)
            start += size
        return found

    def predict(self, data: Mapping[str, Any], draws: int = 500, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Draws of what the model observes for new records, shape (draws, records); post-processing.

        Args:
            data: new records, by the names that the fit read; what is observed is left out.
            draws: how many.
            seed: of the draws, which is public.

        Returns:
            For every observed site its draws; latents of a unit are drawn anew from the population.
        """
        model, theta = self._model(), self._free(whole_number("draws", draws))
        with in_doubles():
            found = model.predict(jnp.asarray(theta), _given(data), jax.random.key(seed))
            return {name: np.asarray(values) for name, values in found.items()}

    def to_arviz(
        self,
        public: Mapping[str, Any] | None = None,
        *,
        new: Mapping[str, Any] | None = None,
        coords: Mapping[str, Any] | None = None,
        dims: Mapping[str, Any] | None = None,
    ) -> Any:
        """The posterior as ArviZ `InferenceData`; needs the extra `arviz`.

        Args:
            public: public records with what was observed, for the group `log_likelihood`. Never private ones: a
                log-likelihood at private records is another release, which nothing has paid for.
            new: records to predict, for the group `predictions`.
            coords: labels of dimensions, as ArviZ takes them.
            dims: names of the dimensions of sites.

        Returns:
            An `InferenceData` whose posterior has the guarantee among its attributes.
        """
        try:
            import arviz  # noqa: PLC0415  (an extra: loaded only when asked for)
        except ImportError:
            raise refuse("the package arviz", "to be installed", "none", "install sordino[arviz]") from None
        groups: dict[str, Any] = {"posterior": self.sites}
        chains, draws = self._table.shape[:2]
        if public is not None:
            with in_doubles():
                free = jnp.asarray(self._vectors)
                found = self._model().log_likelihood(free, _given(public))
            shaped = {name: np.asarray(each).reshape(chains, draws, -1) for name, each in found.items()}
            groups["log_likelihood"] = shaped
            observed = {name: np.asarray(public[name]) for name in found if name in public}
            if observed:
                groups["observed_data"] = observed
        if new is not None:
            groups["predictions"] = {name: each[None] for name, each in self.predict(new, draws).items()}
        made: Any = arviz.from_dict(**groups, coords=dict(coords or {}), dims=dict(dims or {}))
        made.posterior.attrs |= guarantee_attributes(self)
        return made

    @property
    def _table(self) -> Array:
        """Entries of all sites, shape (chains, draws, entries); the weights of a network are their own sites."""
        return self.arrays[SITE_DRAWS] if SITE_DRAWS in self.arrays else self.arrays[WEIGHTS][None]

    @property
    def _vectors(self) -> Array:
        """The unconstrained parameters, a row for each draw."""
        free = np.asarray(self.arrays.get(FREE_DRAWS, self._table), np.float64)
        return free.reshape(-1, free.shape[-1])

    def _free(self, draws: int) -> Array:
        flat = self._vectors
        # Every point of a network is used once: its output has no chance in it.
        return flat if WEIGHTS in self.arrays else flat[np.arange(draws) % len(flat)]

    def _model(self) -> OwnModel:
        if self.own is None:
            raise InputError("Expected a release with its model, got one from a folder; sordino.reopen(folder, model).")
        return self.own


def with_model(release: StoredRelease, own: OwnModel | None, audit: LowerBound | None = None) -> OwnRelease:
    """A stored release and its model as one."""
    return OwnRelease(**{one.name: getattr(release, one.name) for one in fields(StoredRelease)}, own=own, audit=audit)


def reopen(
    release: StoredRelease | str | Path,
    model: Any,
    *,
    loss: Callable[..., Any] | None = None,
    params: Any = None,
    constants: Mapping[str, Any] | None = None,
) -> OwnRelease:
    """A release of `fit` that was written to a folder, with its model again, so that it can predict.

    Args:
        release: the folder, or what `read_release` made of it.
        model: the NumPyro model, module or loss that was fitted; the folder does not hold its code.
        loss: of a module's output, as the fit was given it.
        params: the pytree of parameters, for a loss.
        constants: the public arguments that the fit was given.

    Returns:
        The release, as `fit` returned it.

    Raises:
        InputError: for a release that `fit` did not make, or a model with other sites.

    Examples:
        >>> import sordino
        >>> try:
        ...     sordino.reopen("no such folder", lambda x: x)
        ... except sordino.InputError as error:
        ...     print("refused")
        refused
    """
    stored = release if isinstance(release, StoredRelease) else read_release(release)
    if not stored.kind.startswith(CUSTOM) or "layout" not in stored.settings:
        raise InputError(f"Expected a release of a model of one's own, got one of kind {stored.kind!r}.")
    settings = stored.settings
    leaves = tuple(Leaf(str(name), tuple(shape), bool(whole)) for name, shape, whole in settings["layout"])
    options = {"params": params, "constants": constants, "unit": settings.get("unit"), "loss": loss}
    layout = RecordLayout(leaves, int(settings["rows"]))
    own = front_end_for(model, options).build(model, layout, options)
    stated = [(site["name"], tuple(site["shape"])) for site in settings["sites"]]
    if stated != [(site.name, site.shape) for site in own.sites]:
        raise InputError(
            f"Expected the model of the release, with the sites {', '.join(name for name, _ in stated)}, got another."
        )
    return with_model(stored, own)


def _given(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(values) for name, values in data.items()}


def stored_arrays(own: OwnModel, found: Found) -> dict[str, Any]:
    """What a release holds of a fit: draws of its sites and of what they are made of, or the weights of a network."""
    if WEIGHTS in found.arrays:
        return dict(found.arrays)
    return {SITE_DRAWS: constrained_table(own, found.draws), FREE_DRAWS: np.asarray(found.draws), **found.arrays}


def constrained_table(own: OwnModel, free: Array) -> NDArray[np.float64]:
    """The sites at draws of the unconstrained parameters, shape (chains, draws, entries)."""

    def flat(theta: Any) -> Any:
        values = own.constrained(theta)
        return jnp.concatenate([jnp.ravel(values[site.name]) for site in own.sites])

    with in_doubles():
        return np.asarray(jax.jit(jax.vmap(jax.vmap(flat)))(jnp.asarray(free)))
