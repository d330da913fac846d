"""Times to an event: the column of times, the target that says whether the event happened, and time bins.

A record is a subject. It was followed from the first edge of the time bins until its time, when the event happened or
it was last seen without. Times are declared like every column, so what lies outside is brought to the nearer bound.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.algorithm.posterior.coefficients import CoefficientPosterior
from sordino.core.arrays import Array
from sordino.core.validate import InputError, Interval, number, refuse, whole_number
from sordino.data import Category, Number, Schema

# How many time bins hazards may have.
MOST_BINS = Interval(2, 64)
_LARGEST_SCORE = 50.0


def time_settings(time: str | None = None, bins: int | Sequence[float] = 4) -> dict[str, Any]:
    """The column of times, and the time bins in each of which the hazard is constant: how many, or their edges."""
    if not isinstance(time, str):
        raise refuse("time", "to be the name of the declared column of times", time)
    if isinstance(bins, int) and not isinstance(bins, bool):
        whole_number("bins", bins, MOST_BINS)
    elif isinstance(bins, str) or not isinstance(bins, Sequence):
        raise refuse("bins", "to be a number of bins or a list of their edges", bins)
    else:
        bins = tuple(number("bins", edge) for edge in bins)
        if not MOST_BINS.low <= len(bins) - 1 <= MOST_BINS.high or any(a >= b for a, b in pairwise(bins)):
            raise refuse("bins", f"to be {MOST_BINS.low:g} to {MOST_BINS.high:g} bins, whose edges rise", bins)
    return {"time": time, "bins": bins}


class SurvivalTime(NamedTuple):
    """The column of times: its place among the encoded columns, its kind, and the edges of the time bins."""

    place: int
    kind: Number
    edges: Array

    def times(self, X: Array) -> Array:
        """When records were last seen, from their encoded rows."""
        return np.clip(self.kind.decode(X[:, self.place]), self.kind.low, self.kind.high)


def survival_time(schema: Schema, settings: Mapping[str, Any]) -> SurvivalTime:
    """How long records were followed, as declared; an event may lie in any bin."""
    name, bins = settings["time"], settings["bins"]
    for feature, block in schema.blocks():
        if feature.name == name:
            kind = feature.kind
            if not isinstance(kind, Number) or kind.missing.adds_indicator:
                raise InputError(f"Expected the time {name!r} to be a number without an indicator, got another.")
            edges = np.linspace(kind.low, kind.high, bins + 1) if isinstance(bins, int) else np.array(bins, np.float64)
            if edges[0] > kind.low or edges[-2] >= kind.high:
                raise InputError(
                    f"Expected time bins that begin at or before the lowest declared time and of which the last begins "
                    f"before the highest, got edges from {edges[0]:g} to {edges[-1]:g} for times from {kind.low:g} to "
                    f"{kind.high:g}; change the bins or the bounds of {name!r}."
                )
            return SurvivalTime(block.start, kind, edges)
    raise InputError(f"Expected the time to be one of the declared columns, got {name!r}; declare it as a number.")


def events(schema: Schema, y: Array) -> NDArray[np.bool_]:
    """Whether a record ended with the event, from encoded targets."""
    kind = schema.declared_target().kind
    return kind.decode(y) > 0.5 if isinstance(kind, Number) else y > 0.0


def check_event(schema: Schema) -> None:
    """Refuse a target that does not say whether an event happened."""
    kind = schema.declared_target().kind
    if isinstance(kind, Category) or (isinstance(kind, Number) and (kind.low, kind.high) != (0.0, 1.0)):
        raise InputError(
            "Expected a yes-or-no target, or a number from 0 to 1, that says whether the event happened, got another; "
            "declare it as boolean."
        )


def bins_of(settings: Mapping[str, Any]) -> Array:
    """The edges of the time bins of a release; a file may say anything, so they are looked at."""
    stated = settings.get("bins")
    edges = np.array(stated, np.float64) if isinstance(stated, list | tuple) and _are_numbers(stated) else np.zeros(0)
    if len(edges) - 1 not in range(2, 65) or not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
        raise InputError("Expected settings.bins of the release to be edges that rise, got others; it was changed.")
    return edges


def _are_numbers(stated: Sequence[Any]) -> bool:
    return all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in stated)


def with_flags(features: Array, bins: int) -> Array:
    """Encoded rows with the 0/1 columns of all time bins but the first, of which none holds."""
    return np.hstack([features, np.zeros((len(features), bins - 1))])


def event_chances(law: CoefficientPosterior, thetas: Array, features: Array, edges: Array, until: float) -> Array:
    """The chance that the event happens up to a time, for draws of coefficients and encoded rows: (draws, rows).

    It is 1 - exp(-H), H the hazard summed over the bins; nobody leaves for another reason.
    """
    hazards = np.exp(np.minimum(law.scores(thetas, features)[..., 0], _LARGEST_SCORE))
    weights = np.asarray(thetas, np.float64).reshape(-1, len(law.columns))[:, -(len(edges) - 2) :]
    baseline = np.exp(np.minimum(np.column_stack([np.zeros(len(weights)), weights]), _LARGEST_SCORE))
    lengths = np.clip(until - edges[:-1], 0.0, np.diff(edges))
    return -np.expm1(-hazards * (baseline @ lengths)[:, None])
