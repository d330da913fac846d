"""A release that answers for itself: `summary` reads every kind that Sordino writes, `predict` those of fits.

Draws of its parameters come by name, and as an ArviZ object with coordinates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core import __version__
from sordino.core.arrays import Array
from sordino.core.gaussian import show_up
from sordino.core.validate import OPEN_UNIT, InputError, Interval, number, refuse, whole_number
from sordino.fitting.custom_methods import CUSTOM, SITE_DRAWS, WEIGHTS
from sordino.fitting.tasks import LINEAR, is_fit
from sordino.inference.contrasts import LEVEL, Line
from sordino.inference.prediction import Predictor
from sordino.inference.summary import Summary, summary_of
from sordino.inference.table_formats import (
    CHECK,
    COMPARISON,
    LOOK,
    ResultTable,
    answer_table,
    check_table,
    comparison_table,
)
from sordino.ledger.release import StoredRelease, folder
from sordino.ledger.release.coverage import NOT_MEASURED, withheld
from sordino.ledger.signing import SigningKey
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior

_MOST_LINES = 200


@dataclass(frozen=True, eq=False)
class Release(StoredRelease):
    """What `sordino.fit` returns and `sordino.read_release` reads: a stored release with answers.

    Attributes are those of `StoredRelease`: `kind`, `spec`, `bound`, `delta`, `private`, `arrays`, `settings`, `model`,
    `schema`, `answers`, `ledger`, `cautions`, `preprocessing`, `software`, `stated_epsilon` and `digest`.

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

    def summary(self, level: float = LEVEL) -> Summary | ResultTable:
        """What the release says, as a table that prints itself; intervals only where it is known how often they hold.

        Args:
            level: of the intervals, in (0, 1); a look, a check and a comparison have that of their own.
        """
        reader = _ANSWERS.get(self.kind)
        if reader is not None:
            return reader(self)
        return summary_of(self, level) if is_fit(self.settings) else parameters_of(self, level)

    def predict(self, data: Any, draws: int = 500, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Draws of the target for new records, shape (draws, records), by its name; post-processing, so free.

        A mixture has no target: its answer is the chance of each component, shape (records, components).

        Args:
            data: new records: named columns, a data frame, a path, or an array in the order of the schema.
            draws: how many.
            seed: of the draws, which is public.

        Raises:
            InputError: for a release that predicts nothing, such as a look.
        """
        if not is_fit(self.settings):
            raise InputError(f"This release is a {self.kind} and predicts no rows; print its summary().")
        predictor = Predictor(self)
        rows = predictor.encode(data)
        if predictor.schema.target is None:
            return {"component": predictor.component_shares(rows)}
        return {predictor.schema.target.name: predictor.sample(rows, draws, np.random.default_rng(seed))}

    def write(self, path: str | Path, key: SigningKey | None = None) -> Path:
        """Write a release folder, signed where a key is given; the code of a custom model is not in it."""
        return folder.write_release(path, self, key)


def answering(release: StoredRelease) -> Release:
    """A stored release as one that answers."""
    if isinstance(release, Release):
        return release
    return Release(**{one.name: getattr(release, one.name) for one in fields(StoredRelease)})


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


def entry_names(sites: Any) -> list[str]:
    """A name for each entry of each site, such as weights[2]."""
    names = []
    for site in sites:
        shape = tuple(site["shape"])
        places = np.ndindex(*shape) if shape else [()]
        names += [f"{site['name']}{list(place) if place else ''}" for place in places]
    return names


def parameters_of(release: StoredRelease, level: float = LEVEL) -> Summary:
    """The released parameters of a chain, a custom model or a network, one line each; arrays of a large one.

    Intervals are those of a custom model's posterior, and are left out where they were seen not to hold.
    """
    tail = 0.5 * (1.0 - number("level", level, OPEN_UNIT))
    custom = release.kind.startswith(CUSTOM)
    names, table, remarks = _parameters(release)
    reason = withheld(release) if custom else NOT_MEASURED
    several = len(table) > 1
    lines = []
    if several and custom and reason is None:
        low, high = np.quantile(table, [tail, 1.0 - tail], axis=0).tolist()
    else:
        low = high = [None] * len(names)
    for place, name in enumerate(names):
        values = table[:, place]
        deviation = float(values.std()) if several else None
        lines.append(Line(name, float(values.mean()), deviation, low[place], high[place], level=level))
    if reason is not None:
        remarks = (*remarks, f"No intervals are reported: {reason}.")
    private = "" if release.private else " NON-PRIVATE: made with a seed."
    title = (
        f"Release of kind {release.kind}, epsilon {show_up(release.epsilon)} at delta {release.delta:g}, "
        f"{release.spec.relation.value}, for {release.protected.words}.{private}"
    )
    return Summary(title, tuple(lines), level, f"{100.0 * level:g} % interval", "", False, release.cautions, remarks)


def _parameters(release: StoredRelease) -> tuple[list[str], Array, tuple[str, ...]]:
    """Names of parameters, a row of them for each draw, and what a reader must know of them."""
    arrays = release.arrays
    draws = next((arrays[name] for name in (SITE_DRAWS, WEIGHTS, "draws", "averages", "means") if name in arrays), None)
    if draws is None:  # a network: the mean of each array, by its path in the tree
        paths = release.settings.get("leaves", sorted(arrays))
        names = [f"{path} {list(arrays[name].shape)}" for path, name in zip(paths, sorted(arrays), strict=False)]
        means = np.array([[float(np.mean(arrays[name])) for name in sorted(arrays)[: len(names)]]])
        return names, means, ("Each line is the mean of one array of weights; the folder holds all of them.",)
    table = np.asarray(draws, np.float64).reshape(-1, np.shape(draws)[-1])
    names = entry_names(release.settings.get("sites", ()))
    if len(names) != table.shape[1]:
        names = [f"parameter[{place}]" for place in range(table.shape[1])]
    if len(names) <= _MOST_LINES:
        return names, table, ()
    return names[:_MOST_LINES], table, (f"The first {_MOST_LINES} of {len(names)} parameters; the folder holds all.",)


def _of_check(release: StoredRelease) -> ResultTable:
    given = release.settings
    return check_table(given["bands"], given["about"], given["level"], release)


def _of_comparison(release: StoredRelease) -> ResultTable:
    return comparison_table(release.settings["models"], release.settings["level"], release)


_ANSWERS: Mapping[str, Callable[[StoredRelease], ResultTable]] = {
    LOOK: answer_table,
    CHECK: _of_check,
    COMPARISON: _of_comparison,
}


_MOST = Interval(1, 1_000_000)


def named_draws(release: StoredRelease, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
    """Draws of the coefficients in the units of the table, by name; equally probable, so that each counts as one.

    Args:
        release: of a linear model.
        draws: how many.
        seed: for the same draws again; they are post-processing, so a seed costs no privacy.

    Returns:
        For every coefficient an array of `draws` numbers.
    """
    names, table = _drawn(Predictor(release), draws, seed)
    return {name: table[:, place] for place, name in enumerate(names)}


def to_arviz(release: StoredRelease, draws: int = 1000, seed: int | None = None, rows: Any = None) -> Any:
    """The posterior for ArviZ: variables `intercept` and `slope`, whose coordinates are the table's own words.

    Args:
        release: of a linear model.
        draws: how many.
        seed: for the same draws again.
        rows: rows to predict, as `predict` takes them; None for none. They become the group `predictions`, whose
            variable has the name of the target and whose values are words where targets are words.

    Returns:
        An ArviZ object. `slope` has the dimension `column`, and with several classes `class` as well. Attributes have
        the guarantee. It needs the extra `arviz`.
    """
    try:
        import arviz  # noqa: PLC0415  (an extra: loaded only when asked for)
    except ImportError:
        raise refuse("the package arviz", "to be installed", "none", "install sordino[arviz]") from None
    predictor = Predictor(release)
    names, table = _drawn(predictor, draws, seed)
    words = _class_words(predictor)
    shaped = table.reshape(1, len(table), -1, max(len(words), 1))
    columns = [name.removesuffix(f" [{words[0]}]") if words else name for name in names[:: max(len(words), 1)]]
    coords: dict[str, Any] = {"column": columns[1:]}
    dims = {"slope": ["column"], "intercept": []}
    if words:
        coords["class"] = words
        dims = {"slope": ["column", "class"], "intercept": ["class"]}
    intercept, slope = shaped[:, :, 0], shaped[:, :, 1:]
    variables = {
        "intercept": intercept if words else intercept[..., 0],
        "slope": slope if words else slope[..., 0],
    }
    groups: dict[str, Any] = {"posterior": variables}
    if rows is not None:
        target = predictor.schema.declared_target().name
        generator = np.random.default_rng(seed)
        groups["predictions"] = {target: predictor.sample(predictor.encode(rows), draws, generator)[None]}
        coords["row"] = np.arange(groups["predictions"][target].shape[2])
        dims[target] = ["row"]
    found: Any = arviz.from_dict(**groups, coords=coords, dims=dims, pred_dims=dims)
    found.posterior.attrs |= guarantee_attributes(release)
    return found


def guarantee_attributes(release: StoredRelease) -> Mapping[str, Any]:
    """What an ArviZ object says of the guarantee."""
    return {
        "inference_library": "sordino",
        "inference_library_version": __version__,
        "epsilon": release.epsilon,
        "delta": release.delta,
        "relation": release.spec.relation.value,
        "unit": release.protected.words,
        "private": str(release.private).lower(),
    }


def _drawn(predictor: Predictor, draws: int, seed: int | None) -> tuple[tuple[str, ...], Array]:
    if predictor.task not in LINEAR or predictor.only_a_constant:
        raise InputError("Expected a release with coefficients of columns, got one without; it has no named draws.")
    count, generator = whole_number("draws", draws, _MOST), np.random.default_rng(seed)
    own = predictor.posterior
    if isinstance(own, CoefficientPosterior):
        law = own.in_table_units()
        return law.names, np.asarray(law.sample(generator, count))
    names, matrix, constant = predictor.table_units
    return names, own.sample(generator, count)[:, : matrix.shape[1]] @ matrix.T + constant


def _class_words(predictor: Predictor) -> list[str]:
    """The classes that have coefficients, where there are several."""
    own = predictor.posterior
    if isinstance(own, CoefficientPosterior):
        return [word for word in own.outputs if word]
    outputs = int(getattr(predictor.model, "outputs", 1))
    return [str(word) for word in predictor.labels.tolist()] if outputs > 1 else []
