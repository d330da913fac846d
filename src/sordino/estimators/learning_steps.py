"""Preprocessing that learns from private rows, found before a private estimator is fitted behind it."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from sordino.core.errors import InputError


def refuse_learning(step: Any) -> None:
    """Refuse a step that learns from rows; steps that are switched off or frozen learn nothing."""
    if isinstance(step, Pipeline):
        for _, inner in step.steps:
            refuse_learning(inner)
        return
    if step is None or isinstance(step, str | FrozenEstimator) or not get_tags(step).requires_fit:
        return
    raise InputError(
        f"Expected preprocessing by public constants, got {type(step).__name__}, which learns from private rows; "
        "declare bounds and categories in the schema instead, or freeze a step that was fitted to public rows "
        "(FrozenEstimator)."
    )


def refuse_learning_callers() -> None:
    """Refuse a fit that a scikit-learn `Pipeline` asked for, if a step before its last one learns.

    A pipeline does not tell its last step what went before, so it is looked for among the callers: a scaler learns its
    constants from private rows before `fit` is called, and nothing in what it hands over would show it.
    """
    for pipeline in _calling(sys._getframe(1)):
        for _, step in pipeline.steps[:-1]:
            refuse_learning(step)


def _calling(frame: FrameType | None) -> Iterator[Pipeline]:
    while frame is not None:
        if "pipeline" in frame.f_code.co_filename:
            held = frame.f_locals.get("self")
            if isinstance(held, Pipeline):
                yield held
        frame = frame.f_back
