"""Pipelines whose preprocessing reads no private row."""

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import get_tags

from sordino.core.errors import InputError
from sordino.estimators.base import PrivateEstimator


def public_pipeline(*steps: Any) -> Pipeline:
    """A scikit-learn pipeline that ends in a private estimator, with steps that learn nothing from rows.

    A step that learns (a scaler, an encoder, a selector) computes something from private rows outside the certificate,
    so it is refused: declare its constants in the schema instead. What is seen is the step's own tag `requires_fit`.
    Not seen, and so the caller's to answer for: rows that were scaled before they were given to `fit`, a function
    inside a `FunctionTransformer` that looks at all rows, and a `Pipeline` or a search built without this function.

    Examples:
        >>> from sklearn.preprocessing import StandardScaler
        >>> from sordino.estimators import public_pipeline
        >>> public_pipeline(StandardScaler(), None)
        Traceback (most recent call last):
        sordino.core.errors.InputError: Expected a pipeline that ends in a private estimator, got None.
    """
    if not steps or not isinstance(steps[-1], PrivateEstimator):
        raise InputError(f"Expected a pipeline that ends in a private estimator, got {steps[-1] if steps else 'none'}.")
    for step in steps[:-1]:
        if get_tags(step).requires_fit:
            raise InputError(
                f"Expected preprocessing by public constants, got {type(step).__name__}, which learns from private "
                "rows; declare bounds and categories in the schema instead."
            )
    return make_pipeline(*steps)
