"""What can be learned, and the words of an estimator's signature: light, so that an import of one loads no JAX."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from sordino.core.validate import POSITIVE, InputError, number, refuse

AUTO, AUTO_OR_CONSTANT, FALLBACK = "auto", "auto-or-constant", "constant"
# Draws of the posterior that predictions average over.
DRAWS = 256
# In the settings of a release: what was asked for, so that the run can be planned again.
ASKED = "asked"
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


CLASSIFYING = frozenset({Task.CLASSIFICATION, Task.NETWORK_CLASSIFICATION})
LINEAR = frozenset({Task.REGRESSION, Task.ROBUST, Task.CLASSIFICATION, Task.COUNTS, Task.SURVIVAL})


def is_fit(settings: Mapping[str, Any]) -> bool:
    """Whether settings of a release are those of an estimator's fit; a look, a check or a chain has no such task."""
    return settings.get("task") in tuple(Task)


def untold(_stage: str) -> None:
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
    """How large effects are taken to be before the data speak, see `mechanisms.regression.Declaration`."""
    return {} if effect_scale is None else {"effect_scale": number("effect_scale", effect_scale, POSITIVE)}


def robust_settings(threshold: float = 0.3, effect_scale: float | None = None) -> dict[str, Any]:
    """Where Huber's loss turns from square to straight, in encoded units, for the method that minimises it."""
    return {"threshold": number("threshold", threshold, POSITIVE)} | effect_settings(effect_scale)


def count_settings(
    exposure: str | None = None, overdispersed: bool = False, effect_scale: float | None = None
) -> dict[str, Any]:
    """The column that says how long each record was watched, and whether counts vary more than a Poisson law."""
    if exposure is not None and not isinstance(exposure, str):
        raise refuse("exposure", "to be the name of a declared column", exposure)
    if not isinstance(overdispersed, bool):
        raise refuse("overdispersed", "to be true or false", overdispersed)
    return {"exposure": exposure, "overdispersed": overdispersed} | effect_settings(effect_scale)
