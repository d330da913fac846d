"""Draws of coefficients in the units of the table: by name, and as an ArviZ object with coordinates."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from sordino.core import __version__
from sordino.core.arrays import Array
from sordino.core.validate import InputError, Interval, refuse, whole_number
from sordino.fitting.predictor import Predictor
from sordino.ledger.release import StoredRelease
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior

_MOST = Interval(1, 1_000_000)


def named_draws(release: StoredRelease, draws: int = 1000, seed: int | None = None) -> dict[str, Array]:
    """Draws of the coefficients in the units of the table, by name; equally probable, so that each counts as one.

    A seed repeats them; they are post-processing, so it costs no privacy.
    """
    names, table = _drawn(Predictor(release), draws, seed)
    return {name: table[:, place] for place, name in enumerate(names)}


def to_arviz(release: StoredRelease, draws: int = 1000, seed: int | None = None, rows: object = None) -> Any:
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
    arviz = the_arviz()
    predictor = Predictor(release)
    names, table = _drawn(predictor, draws, seed)
    words = _class_words(predictor)
    shaped = table.reshape(1, len(table), -1, max(len(words), 1))
    columns = [name.removesuffix(f" [{words[0]}]") if words else name for name in names[:: max(len(words), 1)]]
    coords: dict[str, object] = {"column": columns[1:]}
    dims = {"slope": ["column"], "intercept": []}
    if words:
        coords["class"] = words
        dims = {"slope": ["column", "class"], "intercept": ["class"]}
    intercept, slope = shaped[:, :, 0], shaped[:, :, 1:]
    variables = {"intercept": intercept if words else intercept[..., 0], "slope": slope if words else slope[..., 0]}
    groups: dict[str, object] = {"posterior": variables}
    if rows is not None:
        target = predictor.schema.declared_target().name
        generator = np.random.default_rng(seed)
        groups["predictions"] = {target: predictor.sample(predictor.encode(rows), draws, generator)[None]}
        coords["row"] = np.arange(groups["predictions"][target].shape[2])
        dims[target] = ["row"]
    found: Any = arviz.from_dict(**groups, coords=coords, dims=dims, pred_dims=dims)
    found.posterior.attrs |= guarantee_attributes(release)
    return found


def the_arviz() -> ModuleType:
    """The package of the extra `arviz`, which nothing else loads."""
    try:
        import arviz  # noqa: PLC0415  (an extra: loaded only when asked for)
    except ImportError:
        raise refuse("the package arviz", "to be installed", "none", "install sordino[arviz]") from None
    return arviz


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
    if not predictor.task.linear or predictor.only_a_constant:
        raise InputError("This release has no coefficients of columns, so it has no named draws.")
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
    return [str(word) for word in predictor.labels.tolist()] if predictor.outputs > 1 else []
