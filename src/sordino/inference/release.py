"""A release that answers for itself: `summary` reads every kind that Sordino writes, `predict` those of fits."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from sordino.auditing.lower_bound import LowerBound
from sordino.core.arrays import Array
from sordino.core.results import Result, ResultTable, optional_module
from sordino.core.validate import OPEN_UNIT, InputError, number, whole_number
from sordino.fitting.custom_methods import CUSTOM, FREE_DRAWS, SITE_DRAWS, WEIGHTS
from sordino.fitting.predictor import Predictor
from sordino.fitting.tasks.base import task_of
from sordino.inference.contrasts import LEVEL, Line
from sordino.inference.margins import with_guarantee
from sordino.inference.summary import Summary, stored_table, summary_of, under_guarantee
from sordino.ledger.release import StoredRelease, folder
from sordino.ledger.release.coverage import COEFFICIENTS, NOT_MEASURED, is_constant, release_coverage, withheld
from sordino.ledger.signing_keys import SigningKey
from sordino.models.custom.base import CustomModel, Leaf, RecordLayout, front_end_for
from sordino.noise.lattice import in_doubles

_MOST_LINES = 200


@dataclass(frozen=True, eq=False, repr=False)
class Release(StoredRelease, Result):
    """What `sordino.fit` returns and `sordino.read_release` reads: a stored release with answers.

    Attributes are those of `StoredRelease`: `kind`, `spec`, `bound`, `delta`, `private`, `arrays`, `settings`, `model`,
    `schema`, `answers`, `ledger`, `cautions`, `preprocessing`, `software`, `stated_epsilon`, `digest` and `document`.

    Examples:
        >>> import numpy as np
        >>> import sordino
        >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
        >>> release = sordino.fit(
        ...     "linear", (X, X[:, 0]), schema=sordino.ArrayBounds(-1, 1, target=(-1, 1)), epsilon=1.0, delta=1e-6,
        ...     relation="replace-one", random_state=0,
        ... )
        >>> [line.name for line in release.summary().lines], release.predict(X[:3], draws=10)["target"].shape
        (['intercept', 'x0', 'x1'], (10, 3))
    """

    def summary(self, level: float = LEVEL) -> Result:
        """What the release says, as a table that prints itself; intervals only where it is known how often they hold.

        Args:
            level: of the intervals, in (0, 1); a look, a check and a comparison have that of their own.
        """
        table = stored_table(self)
        if table is not None:
            return table
        return summary_of(self, level) if task_of(self.settings) else parameters_of(self, level)

    @property
    def shown(self) -> ResultTable:
        """What `summary` shows."""
        return self.summary().shown

    def predict(self, data: Any, draws: int = 500, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws of the target for new records, shape (draws, records), by its name; post-processing, so free.

        A mixture has no target: its answer is the chance of each component, shape (records, components).

        Args:
            data: new records: named columns, a data frame, a path, or an array in the order of the schema.
            draws: how many.
            seed: of the draws, which is public.

        Raises:
            InputError: for a release that predicts nothing, such as a look.
        """
        if task_of(self.settings) is None:
            raise InputError(f"This release is a {self.kind} and predicts no rows; print its summary().")
        predictor = Predictor(self)
        rows = predictor.encode(data)
        if predictor.schema.target is None:
            return {"component": predictor.probabilities(rows)}
        return {predictor.schema.target.name: predictor.sample(rows, draws, np.random.default_rng(seed))}

    def write(self, path: str | Path, key: SigningKey | None = None) -> Path:
        """Write a release folder, signed where a key is given; the code of a custom model is not in it."""
        return folder.write_release(path, self, key)


def answering(release: StoredRelease) -> Release:
    """A stored release as one that answers."""
    return release if isinstance(release, Release) else Release(**_stored_fields(release))


def _stored_fields(release: StoredRelease) -> dict[str, Any]:
    return {one.name: getattr(release, one.name) for one in fields(StoredRelease)}


def read_release(path: str | Path) -> Release:
    """Read a release folder; what is missing, damaged, of another version or not as signed is refused.

    Args:
        path: of the folder.

    Returns:
        The `Release`: `summary()` prints it, `predict(rows)` answers for rows where it is a fit. A folder does not hold
        the code of a custom model: `sordino.reopen(path, model)` predicts with it.

    Raises:
        InputError: for what is no release of this version, in one sentence.

    Examples:
        >>> import sordino
        >>> try:
        ...     sordino.read_release("no such folder")
        ... except sordino.InputError as error:
        ...     print("refused")
        refused
    """
    return answering(folder.read_release(path))


def entry_names(sites: Any, most: int) -> list[str]:
    """A name for each entry of each site, such as weights[2]; none where their shapes are not of so many at most."""
    shapes = [tuple(site["shape"]) for site in sites]
    if any(size < 0 for shape in shapes for size in shape) or sum(map(math.prod, shapes)) > most:
        return []
    names = []
    for site, shape in zip(sites, shapes, strict=True):
        names += [f"{site['name']}{list(place) if place else ''}" for place in np.ndindex(*shape)]
    return names


def parameters_of(release: StoredRelease, level: float = LEVEL) -> Summary:
    """The released parameters of a chain, a custom model or a network, one line each; arrays of a large one."""
    tail = 0.5 * (1.0 - number("level", level, OPEN_UNIT))
    names, table, remarks = _parameters(release)
    measured, arrays, deviations = release_coverage(release, COEFFICIENTS, level), release.arrays, None
    # The standard deviations of released Gaussians, one for each parameter.
    if measured is not None and "deviations" in arrays:
        deviations = np.asarray(arrays["deviations"], np.float64).ravel()
    elif measured is not None and "covariances" in arrays:
        deviations = np.sqrt(np.maximum(np.diagonal(arrays["covariances"], axis1=-2, axis2=-1), 0.0)).ravel()
    known = deviations is not None or release.kind.startswith(CUSTOM)
    reason = withheld(release) or (None if known else NOT_MEASURED)
    several = len(table) > 1
    ends: Any = [(None, None)] * len(names)
    if deviations is not None and reason is None:
        half = -float(special.ndtri(tail)) * deviations
        ends = np.stack([table.mean(axis=0) - half, table.mean(axis=0) + half], axis=1).tolist()
    elif several and reason is None:
        ends = np.quantile(table, [tail, 1.0 - tail], axis=0).T.tolist()
    lines = [
        Line(name, float(values.mean()), float(values.std()) if several else None, *both, level=level)
        for name, values, both in zip(names, table.T, ends, strict=False)
    ]
    remarks += (f"Each line is the mean of {len(table)} draws.",) if several else ()
    remarks += (f"No intervals are reported: {reason}.",) if reason is not None else ()
    more = f", {release.spec.relation.value}, for {release.protected.words}"
    title = under_guarantee(f"Release of kind {release.kind_words}", release, more)
    words = f"{100.0 * level:g} % interval" if deviations is None or measured is None else measured
    return Summary(title, tuple(lines), level, words, "", False, release.cautions, remarks)


def _column_names(release: StoredRelease, count: int) -> list[str]:
    """Names from the public schema: a constant, one for each encoded column, or one for each component as well."""
    if is_constant(release):
        words = release.settings.get("labels") if count > 1 else None
        return [f"constant [{word}]" for word in words] if words else ["constant"]
    columns = [] if release.schema is None else list(release.schema.feature_names)
    several = count // max(len(columns), 1)
    return columns if several == 1 else [f"{column} [{place}]" for place in range(several) for column in columns]


def _parameters(release: StoredRelease) -> tuple[list[str], Array, tuple[str, ...]]:
    """Names of parameters, a row of them for each draw, and what a reader must know of them."""
    arrays = release.arrays
    draws = next((arrays[name] for name in (SITE_DRAWS, WEIGHTS, "draws", "averages", "means") if name in arrays), None)
    if draws is None:  # a network: the mean of each array, by its path in the tree
        leaves = list(zip(release.settings.get("leaves", sorted(arrays)), sorted(arrays), strict=False))
        names = [f"{path} {list(arrays[name].shape)}" for path, name in leaves]
        means = np.array([[float(np.mean(arrays[name])) for _, name in leaves]])
        return names, means, ("Each line is the mean of one array of weights; the folder holds all of them.",)
    # Means of several Gaussians are parameters of one release, and no draws.
    width = np.size(draws) if draws is arrays.get("means") else np.shape(draws)[-1]
    table = np.asarray(draws, np.float64).reshape(-1, width)
    names = entry_names(release.settings.get("sites", ()), table.shape[1]) or _column_names(release, table.shape[1])
    if len(names) != table.shape[1]:
        names = [f"parameter[{place}]" for place in range(table.shape[1])]
    if len(names) <= _MOST_LINES:
        return names, table, ()
    return names[:_MOST_LINES], table, (f"The first {_MOST_LINES} of {len(names)} parameters; the folder holds all.",)


@dataclass(frozen=True, eq=False, repr=False)
class CustomRelease(Release):
    """A stored release with the model beside it; `audit` is the lower bound of a run that had canaries."""

    own: CustomModel | None = None
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

    def predict(self, data: Mapping[str, object], draws: int = 500, seed: int = 0) -> dict[str, np.ndarray]:
        """Draws of what the model observes for new records, shape (draws, records); post-processing.

        Args:
            data: new records, by the names that the fit read; what is observed is left out.
            draws: how many.
            seed: of the draws, which is public.

        Returns:
            For every observed site its draws; latents of a unit are drawn anew from the population.
        """
        model, theta, count = self._model(), self._vectors, whole_number("draws", draws)
        if WEIGHTS not in self.arrays:  # every point of a network is used once: its output has no chance in it
            theta = theta[np.arange(count) % len(theta)]
        with in_doubles():
            return _given(model.predict(jnp.asarray(theta), _given(data), jax.random.key(seed)))

    def to_arviz(
        self,
        public: Mapping[str, object] | None = None,
        *,
        new: Mapping[str, object] | None = None,
        coords: Mapping[str, object] | None = None,
        dims: Mapping[str, object] | None = None,
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
        arviz = optional_module("arviz", "sordino[arviz]")
        groups: dict[str, object] = {"posterior": self.sites}
        chains, draws = self._table.shape[:2]
        if public is not None:
            with in_doubles():
                found = self._model().log_likelihood(jnp.asarray(self._vectors), _given(public))
            scored = {name: np.asarray(each).reshape(chains, draws, -1) for name, each in found.items()}
            groups["log_likelihood"] = scored
            if observed := {name: np.asarray(public[name]) for name in found if name in public}:
                groups["observed_data"] = observed
        if new is not None:
            groups["predictions"] = {name: each[None] for name, each in self.predict(new, draws).items()}
        return with_guarantee(arviz.from_dict(**groups, coords=dict(coords or {}), dims=dict(dims or {})), self)

    @property
    def _table(self) -> Array:
        """Entries of all sites, shape (chains, draws, entries); the weights of a network are their own sites."""
        return self.arrays[SITE_DRAWS] if SITE_DRAWS in self.arrays else self.arrays[WEIGHTS][None]

    @property
    def _vectors(self) -> Array:
        """The unconstrained parameters, a row for each draw."""
        free = np.asarray(self.arrays.get(FREE_DRAWS, self._table), np.float64)
        return free.reshape(-1, free.shape[-1])

    def _model(self) -> CustomModel:
        if self.own is None:
            raise InputError("A folder does not hold its model. Use sordino.reopen(folder, model).")
        return self.own


def with_model(release: StoredRelease, own: CustomModel | None, audit: LowerBound | None = None) -> CustomRelease:
    """A stored release and its model as one."""
    return CustomRelease(**_stored_fields(release), own=own, audit=audit)


def reopen(
    release: StoredRelease | str | Path,
    model: object,
    *,
    loss: Callable[..., Any] | None = None,
    params: object = None,
    constants: Mapping[str, object] | None = None,
) -> CustomRelease:
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
    stored = release if isinstance(release, StoredRelease) else folder.read_release(release)
    if not stored.kind.startswith(CUSTOM) or "layout" not in stored.settings:
        raise InputError(f"This is not a release of a custom model; its kind is {stored.kind!r}.")
    settings = stored.settings
    leaves = tuple(Leaf(str(name), tuple(shape), bool(whole)) for name, shape, whole in settings["layout"])
    options = {"params": params, "constants": constants, "unit": settings.get("unit"), "loss": loss}
    own = front_end_for(model, options).build(model, RecordLayout(leaves, int(settings["rows"])), options)
    stated = [(site["name"], tuple(site["shape"])) for site in settings["sites"]]
    if stated != [(site.name, site.shape) for site in own.sites]:
        sites = ", ".join(name for name, _ in stated)
        raise InputError(f"This is not the model of the release, which has the sites {sites}.")
    return with_model(stored, own)


def _given(data: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in data.items()}
