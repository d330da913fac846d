"""Pipelines whose preprocessing reads no private row: every step is inspected when the pipeline is built."""

from collections.abc import Callable, Iterator
from typing import Any, Self

from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from sordino.core.validate import InputError, SordinoError, raise_alone
from sordino.estimators.base import PrivateEstimator


def public_pipeline(*steps: object) -> "PublicPipeline":
    """A scikit-learn pipeline that ends in a private estimator, with steps that learn nothing from rows.

    A step that learns (a scaler, an encoder, a selector) computes something from private rows outside the certificate,
    so it is refused by its tag `requires_fit`, also inside a `Pipeline`, a `ColumnTransformer` or a `FeatureUnion`:
    declare its constants in the schema instead, or freeze one that was fitted to public rows. The last step must be the
    private estimator itself: whatever is wrapped around it fits something of its own to private rows.

    The caller answers for what is not seen: rows scaled before, a function in a `FunctionTransformer` that looks at all
    rows, and what is wrapped around the pipeline. The release of such a fit says so: *the caller's word*.

    Args:
        steps: transformers that learn nothing from rows, and the private estimator last.

    Returns:
        A scikit-learn `Pipeline`.

    Raises:
        InputError: for a step that learns, or an end that is no private estimator.

    Examples:
        >>> from sklearn.compose import ColumnTransformer
        >>> from sklearn.preprocessing import FunctionTransformer, Normalizer
        >>> from sordino.estimators import ArrayBounds, PrivateLinearRegression, public_pipeline
        >>> model = PrivateLinearRegression(
        ...     epsilon=1.0, delta=1e-6, relation="replace-one", schema=ArrayBounds(0, 1, target=(0, 1))
        ... )
        >>> in_parts = ColumnTransformer(
        ...     [("ages", FunctionTransformer(lambda ages: ages / 120.0), [0]), ("doses", Normalizer(), [1, 2])]
        ... )
        >>> made = public_pipeline(in_parts, model)
        >>> list(made.named_steps)
        ['columntransformer', 'privatelinearregression']
    """
    return PublicPipeline(make_pipeline(*steps).steps if steps else [])


class PublicPipeline(Pipeline):
    """What `public_pipeline` builds; steps are looked at when it is built, and again before every fit."""

    def __init__(
        self, steps: object, *, transform_input: object = None, memory: object = None, verbose: bool = False
    ) -> None:
        _check(steps)
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)

    def fit(self, X: object, y: object = None, **params: Any) -> Self:
        """Transform by public constants and fit the private estimator; refused, unspent, if a step learns."""
        _check(self.steps)
        return _quiet(super().fit, X, y, **params)


def _check(steps: Any) -> None:
    last = steps[-1][1] if steps else None
    if not isinstance(last, PrivateEstimator):
        given = "none" if last is None else f"{_named(last)}, which would read private rows on its own"
        raise InputError(f"A pipeline must end in a private estimator, not in {given}.")
    for _, step in steps[:-1]:
        refuse_learning(step)


def refuse_learning(step: object) -> None:
    """Refuse a step that learns from rows; steps that are switched off or frozen learn nothing."""
    if step is None or isinstance(step, str | FrozenEstimator):
        return
    for kind, inner in _COMPOUND:
        if isinstance(step, kind):
            for part in inner(step):
                refuse_learning(part)
            return
    try:
        learns = isinstance(step, type) or get_tags(step).requires_fit
    except Exception:  # what has no tags promises nothing
        learns = True
    if learns and not _declared(step):
        wanted = f"Expected preprocessing by public constants, got {_named(step)}, which learns from private rows"
        instead = "declare bounds and categories in the schema instead, give an encoder its categories and "
        instead += "handle_unknown='ignore', or freeze a step that was fitted to public rows (FrozenEstimator)."
        raise InputError(f"{wanted}; {instead}")


def _declared(step: object) -> bool:
    """Whether an encoder has its categories from the caller: no row adds one, and no row can stop it."""
    public = isinstance(step, OneHotEncoder | OrdinalEncoder) and not isinstance(step.categories, str)
    rare = any(getattr(step, name, None) is not None for name in ("min_frequency", "max_categories"))
    return public and not rare and getattr(step, "handle_unknown", "error") != "error"


def _of_columns(step: ColumnTransformer) -> Iterator[Any]:
    for _, part, chosen in step.transformers:
        if callable(chosen) and not isinstance(chosen, make_column_selector):
            why = "A ColumnTransformer needs its columns by name, place or make_column_selector"
            raise InputError(f"{why}. A function could choose them by looking at private rows.")
        yield part
    yield step.remainder


_COMPOUND: tuple[tuple[type, Callable[[Any], Iterator[Any]]], ...] = (
    (Pipeline, lambda step: (part for _, part in step.steps)),
    (FeatureUnion, lambda step: (part for _, part in step.transformer_list)),
    (ColumnTransformer, _of_columns),
)


def _named(step: object) -> str:
    return step.__name__ if isinstance(step, type) else type(step).__name__


def _quiet(call: Callable[..., Any], *arguments: object, **named: Any) -> Any:
    """What a call answers; what a step raises is not passed on, as it may quote a cell."""
    try:
        return call(*arguments, **named)
    except (SordinoError, NotFittedError, MemoryError):
        raise
    except Exception as error:
        why = f"A step of the pipeline raised {type(error).__name__} on these rows. Its text is withheld because it "
        why += "may quote a cell; try the steps on made-up rows. NON-PRIVATE: this message comes from private rows"
        raise_alone(InputError(f"{why}, so keep it with them."))


def _quiet_method(name: str) -> Any:
    """A method of `Pipeline` that is there where the last step has it, made quiet."""

    def answered(self: PublicPipeline, X: object, *arguments: object, **named: Any) -> Any:
        return _quiet(getattr(super(PublicPipeline, self), name), X, *arguments, **named)

    answered.__name__ = name
    answered.__doc__ = getattr(Pipeline, name).__doc__
    return available_if(lambda self: hasattr(self.steps[-1][1], name))(answered)


for _name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "score", "score_samples"):
    setattr(PublicPipeline, _name, _quiet_method(_name))
