"""What can be learned, and the words of an estimator's signature: light, so that an import of one loads no JAX."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

from sordino.core.validate import POSITIVE, InputError, Interval, number, refuse, whole_number

AUTO, AUTO_OR_CONSTANT, FALLBACK = "auto", "auto-or-constant", "constant"
# Draws of the posterior that predictions average over.
DRAWS = 256
# In the settings of a release: what was asked for, so that the run can be planned again.
ASKED = "asked"
# In the settings of a release: the error that its plan expected, over that of the best constant.
EXPECTED_ERROR = "expected_error_over_constant"
Begin = Callable[[str], None]


class Task(StrEnum):
    """What is learned."""

    REGRESSION = "regression"
    ROBUST = "robust-regression"
    CLASSIFICATION = "classification"
    COUNTS = "count-regression"
    SURVIVAL = "hazard-regression"
    NETWORK_REGRESSION = "network-regression"
    NETWORK_CLASSIFICATION = "network-classification"
    MIXTURE = "mixture"


# Counts that vary more than a Poisson law.
OVERDISPERSED = "negative-binomial"
# The words that the command line takes for tasks.
TASKS = {
    "linear": Task.REGRESSION,
    "logistic": Task.CLASSIFICATION,
    "robust": Task.ROBUST,
    "poisson": Task.COUNTS,
    OVERDISPERSED: Task.COUNTS,
    "cox": Task.SURVIVAL,
    "network-regressor": Task.NETWORK_REGRESSION,
    "network-classifier": Task.NETWORK_CLASSIFICATION,
    "mixture": Task.MIXTURE,
}
CLASSIFYING = frozenset({Task.CLASSIFICATION, Task.NETWORK_CLASSIFICATION})
LINEAR = frozenset({Task.REGRESSION, Task.ROBUST, Task.CLASSIFICATION, Task.COUNTS, Task.SURVIVAL})


def is_fit(settings: Mapping[str, Any]) -> bool:
    """Whether settings of a release are those of an estimator's fit; a look, a check or a chain has no such task."""
    return settings.get("task") in tuple(Task)


def ignore_progress(_stage: str) -> None:
    """Nobody wants to know how far the work is."""


def asked_of(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the fit of a release was asked for, as its settings say; refused where they do not."""
    asked = settings.get(ASKED)
    if not isinstance(asked, Mapping) or "epsilon" not in asked:
        raise InputError(
            "Expected a release that says what was asked for, got one of an earlier version; fit it again to replay it."
        )
    return asked


def effect_settings(effect_scale: float | None = None) -> dict[str, Any]:
    """The prior standard deviation of effects, see `mechanisms.regression.Declaration`."""
    return {} if effect_scale is None else {"effect_scale": number("effect_scale", effect_scale, POSITIVE)}


def count_settings(
    exposure: str | None = None, overdispersed: bool = False, effect_scale: float | None = None
) -> dict[str, Any]:
    """The column that says how long each record was watched, and whether counts vary more than a Poisson law."""
    if exposure is not None and not isinstance(exposure, str):
        raise refuse("exposure", "to be the name of a declared column", exposure)
    if not isinstance(overdispersed, bool):
        raise refuse("overdispersed", "to be true or false", overdispersed)
    return {"exposure": exposure, "overdispersed": overdispersed} | effect_settings(effect_scale)


# How many time bins hazards may have.
MOST_BINS = Interval(2, 64)


def survival_settings(
    effect_scale: float | None = None, time: str | None = None, bins: int | Sequence[float] = 4
) -> dict[str, Any]:
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
    return {"time": time, "bins": bins} | effect_settings(effect_scale)


def network_settings(hidden: tuple[int, ...] | None = None, prior_precision: float = 1.0) -> dict[str, Any]:
    """The widths of the hidden layers, None for what the method takes, and the prior precision of every weight."""
    if hidden is not None and (not isinstance(hidden, tuple) or not hidden):
        raise refuse("hidden", "to be a tuple of layer widths such as (16,), or None", hidden)
    return {
        "hidden": None if hidden is None else tuple(whole_number("hidden", width) for width in hidden),
        "prior_precision": number("prior_precision", prior_precision, POSITIVE),
    }


def mixture_settings(components: int = 2, spread: float = 0.25) -> dict[str, Any]:
    """How many components there are, and the standard deviation of each in encoded units."""
    return {
        "components": whole_number("components", components, Interval(2, 1000)),
        "spread": number("spread", spread, POSITIVE),
    }


# Public choices that the model of a task needs; a task that is not listed needs none.
SETTINGS: dict[Task, Callable[..., dict[str, Any]]] = {
    Task.REGRESSION: effect_settings,
    Task.CLASSIFICATION: effect_settings,
    Task.ROBUST: effect_settings,
    Task.COUNTS: count_settings,
    Task.SURVIVAL: survival_settings,
    Task.NETWORK_REGRESSION: network_settings,
    Task.NETWORK_CLASSIFICATION: network_settings,
    Task.MIXTURE: mixture_settings,
}
