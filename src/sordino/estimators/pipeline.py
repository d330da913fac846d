"""Pipelines whose preprocessing reads no private row."""

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from sordino.core.errors import InputError
from sordino.estimators.base import PrivateEstimator
from sordino.estimators.learning_steps import refuse_learning


def public_pipeline(*steps: Any) -> Pipeline:
    """A scikit-learn pipeline that ends in a private estimator, with steps that learn nothing from rows.

    A step that learns (a scaler, an encoder, a selector) computes something from private rows outside the certificate,
    so it is refused: declare its constants in the schema instead, or freeze one that was fitted to public rows. What is
    seen is the step's own tag `requires_fit`. A plain `Pipeline` is refused as well, when it is fitted; this function
    refuses when it is built. Not seen, and so the caller's to answer for: rows that were scaled before they were given
    to `fit`, a function inside a `FunctionTransformer` that looks at all rows, and a search over private rows.

    Examples:
        >>> from sklearn.preprocessing import FunctionTransformer
        >>> from sordino.estimators import ArrayBounds, PrivateLinearRegression, public_pipeline
        >>> model = PrivateLinearRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(0, 1, target=(0, 1))
        ... )
        >>> made = public_pipeline(FunctionTransformer(lambda ages: ages / 120.0), model)
        >>> list(made.named_steps)
        ['functiontransformer', 'privatelinearregression']
    """
    if not steps or not isinstance(steps[-1], PrivateEstimator):
        raise InputError(f"Expected a pipeline that ends in a private estimator, got {steps[-1] if steps else 'none'}.")
    for step in steps[:-1]:
        refuse_learning(step)
    return make_pipeline(*steps)
