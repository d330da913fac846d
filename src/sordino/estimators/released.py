"""A release that answers for itself: `summary` reads every kind that Sordino writes, `predict` those of fits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.gaussian import show_up
from sordino.core.validate import OPEN_UNIT, InputError, number
from sordino.estimators.checks import CHECK, shown_check
from sordino.estimators.comparison import COMPARISON, shown_comparison
from sordino.estimators.inference import summary_of
from sordino.estimators.inference_table import LEVEL, Line
from sordino.estimators.look import LOOK, shown_answers
from sordino.estimators.shown_table import ShownTable
from sordino.estimators.summary import Summary
from sordino.estimators.tasks import is_fit
from sordino.ledger.release import StoredRelease, folder
from sordino.ledger.release.folder import NOT_MEASURED, withheld
from sordino.ledger.signing import SigningKey

CUSTOM = "own-model"
SITE_DRAWS, FREE_DRAWS, WEIGHTS = "site_draws", "free_draws", "weights"
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

    def summary(self, level: float = LEVEL) -> Summary | ShownTable:
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
        # Loaded where it is needed: it brings JAX.
        from sordino.estimators.prediction import Predictor  # noqa: PLC0415

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


def _of_check(release: StoredRelease) -> ShownTable:
    given = release.settings
    return shown_check(given["bands"], given["about"], given["level"], release)


def _of_comparison(release: StoredRelease) -> ShownTable:
    return shown_comparison(release.settings["models"], release.settings["level"], release)


_ANSWERS: Mapping[str, Callable[[StoredRelease], ShownTable]] = {
    LOOK: shown_answers,
    CHECK: _of_check,
    COMPARISON: _of_comparison,
}
