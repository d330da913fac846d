"""What every private estimator shares: parameters, the fit, and the attributes it sets."""

import sys
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from sordino.core.arrays import Array
from sordino.core.bound import Bound, Relation, RelationWord
from sordino.core.validate import InputError, one_of, whole_number
from sordino.fitting.array_schema import REFUSE_MISSING, ArrayBounds, Bare, bare_features, bare_target, numbers_of
from sordino.fitting.charge import NonPrivateWarning
from sordino.fitting.fit import array_rows, fit, table_rows
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import FitProblem, Sources, bare_weights
from sordino.fitting.tasks.base import AUTO, DRAWS, Begin, Task, ignore_progress
from sordino.ledger.release.coverage import NOT_MEASURED, withheld
from sordino.ledger.release.document import StoredRelease, from_document, to_document
from sordino.mechanisms.posterior.laws import Posterior

_SEARCHED = (
    "A search or cross-validation fits private rows many times without a ledger: nothing adds up its epsilon, and its "
    "scores are not private. Pass ledger=, or use sordino.explore.choose."
)
_LEARNED = (
    "{} in front of this estimator learned from private rows, which the certificate does not cover. Declare bounds "
    "instead, and build the pipeline with sordino.public_pipeline."
)


def _warn_of_what_is_around(ledger: object) -> None:
    """Warn where scikit-learn computes from private rows around a fit: a step that learned, or a search of its own."""
    frame, said = sys._getframe(2), set[str]()
    while frame is not None:
        module, own = frame.f_globals.get("__name__"), frame.f_locals.get("self")
        if module == "sklearn.model_selection._validation" and ledger is None:
            said.add(_SEARCHED)
        if module == "sklearn.pipeline" and type(own).__name__ == "Pipeline":
            steps = [step for _, step in getattr(own, "steps", ())[:-1] if not isinstance(step, str | None)]
            # An encoder with declared categories learns nothing.
            undeclared = [step for step in steps if isinstance(getattr(step, "categories", ""), str)]
            named = [step for step in undeclared if get_tags(step).requires_fit]
            said |= {_LEARNED.format(", ".join(type(step).__name__ for step in named))} if named else set()
        frame = frame.f_back
    for words in sorted(said):
        warnings.warn(words, NonPrivateWarning, stacklevel=4)


# scikit-learn reads parameters off the signature of `__init__`, which `dataclass` writes from the fields.
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):
    """A private fit with scikit-learn's conventions.

    Args:
        epsilon: the budget of one fit; larger is less private.
        delta: the chance with which the guarantee may fail; far below one over the number of records.
        relation: which datasets are neighbours, "replace-one" or "add-remove"; there is no default.
        schema: a `Schema` or the path of one, for tables; `ArrayBounds` for arrays. Bounds are declared, never read
            off the data.
        method: how to fit. "auto" takes the method with intervals if the declared numbers promise precise coefficients,
            otherwise the one with the smallest expected error. If nothing could be learned, it refuses before anything
            is spent; "auto-or-constant" then learns the best constant, with a warning.
        draws: how many draws of the posterior predictions average over.
        ledger: a `Ledger` or its path; debited before the rows' values are used, or refused.
        random_state: None for secure randomness; a whole number for a reproducible fit, whose release is marked
            NON-PRIVATE because anyone who knows the number can subtract the noise.

    After `fit`: `posterior_` over encoded coefficients, `bound_` (the tightest bound), `explanation_` (what every
    theorem says), `release_` (a `StoredRelease`, for `write_release`), `cautions_` (what a reader must know first),
    `method_`, `n_features_in_` and, for tables, `feature_names_in_`. Where only a constant was learned, `posterior_`
    holds that and no other coefficient, and `cautions_` says so. The unit of privacy is a record, unless
    the schema declares another.
    """

    _task: ClassVar[Task]
    """What it learns; its options are parameters of the class."""

    epsilon: float
    delta: float
    relation: RelationWord
    schema: Any
    method: str = AUTO
    draws: int = DRAWS
    ledger: Any = None
    random_state: int | None = None

    def fit(self, X: object, y: object = None) -> Self:
        """Plan and certify from the declaration, debit the ledger, and only then compute from the rows' values.

        For tables, X may be a path, a data frame, an Arrow table or named columns, with the target as a column of it
        (then y is left out) or as y. For arrays with `ArrayBounds`, X and y are arrays: their types and shapes are
        checked before the debit, their cells are read after it. The release says whether rows came as named columns
        through the schema, or as arrays, whose preprocessing is the caller's word.
        """
        return self.fit_in_stages(X, y, ignore_progress)

    def fit_in_stages(self, X: object, y: object, begin: Begin, sample_weight: object = None) -> Self:
        """`fit`, where `begin` receives the name of each of the `STAGES` as it begins."""
        relation = Relation(one_of("relation", self.relation, tuple(Relation)))
        _warn_of_what_is_around(self.ledger)
        if isinstance(self.schema, ArrayBounds):
            bare, targets = self._shaped(X, y)
            weights = bare_weights(sample_weight, self.schema, bare.shape[0])
            given = array_rows(self.schema, self._task, relation, bare, targets, weights)
        else:
            if sample_weight is not None:
                why = "A table with a schema has its weights in the declared weight column"
                raise InputError(f"{why}. Put sample_weight into the table.")
            given = table_rows(self.schema, self._task, relation, X, y)
            self.feature_names_in_ = np.array([one.name for one in given.declaration.schema.features], dtype=object)
            self.n_features_in_ = len(self.feature_names_in_)
        own, budget = given.declaration, (self.epsilon, self.delta, relation)
        settings = {one.name: getattr(self, one.name) for one in self._task.options if hasattr(self, one.name)}
        problem = FitProblem(self._task, own.schema, *budget, settings, own.labels)
        fitted = fit(problem, given, self.method, self.ledger, self._sources(), begin=begin)
        self.release_: StoredRelease = fitted.release
        self.bound_: Bound = fitted.release.bound
        self.cautions_: tuple[str, ...] = fitted.release.cautions
        self.explanation_ = fitted.explanation
        self.method_: str = fitted.plan.method.name
        self._kept_predictor = Predictor(self.release_, whole_number("draws", self.draws))
        self._finish()
        return self

    @property
    def posterior_(self) -> Posterior:
        """The posterior over the coefficients of encoded rows, with the privacy noise as far as the method knows it.

        Coverage of its intervals is measured on random designs for "bounded-influence" alone, and is poor on some:
        docs/reference/estimators.md has the rates.
        """
        return self._predictor.posterior

    def interval_coverage(self, level: float = 0.9) -> str:
        """What is known of the intervals of predictions: their level, and how often they held on drawn tables."""
        reason = withheld(self._predictor.release)
        if reason is not None:
            return f"intervals are withheld: {reason}"
        return self._predictor.coverage(level) or f"{100.0 * level:g} % nominal; {NOT_MEASURED}"

    @property
    def _predictor(self) -> Predictor:
        check_is_fitted(self, "release_")
        return self._kept_predictor

    def _sources(self) -> Sources:
        """Where the fit draws its random numbers; a replay puts sources of its own in this place."""
        return Sources(self.random_state)

    def _finish(self) -> None:
        """Attributes of the task."""

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self, "release_")
        if isinstance(self.schema, ArrayBounds):
            bare = bare_features(X, self.schema.names)
            validate_data(self, X, reset=False, skip_check_array=True)
            X = numbers_of(bare, self.schema)
        return self._predictor.encode(X)

    def _shaped(self, X: Any, y: Any) -> tuple[Bare, Bare | None]:
        """Arrays of the right type and shape; no cell is looked at."""
        bare = bare_features(X, self.schema.names)
        validate_data(self, X, skip_check_array=True)
        self.n_features_in_ = bare.shape[1]
        if not self._task.outcome:
            return bare, None
        if y is None:
            raise InputError("requires y to be passed, but the target y is None")
        targets = bare_target(y, labels=self._task.classifies)
        if targets.shape[1:] == (1,):
            words = "A column-vector y was passed when a 1d array was expected."
            warnings.warn(words, DataConversionWarning, stacklevel=3)
            targets = bare_target(targets.cells().ravel(), labels=self._task.classifies)
        shape, rows = targets.shape, bare.shape[0]
        if len(shape) != 1:
            raise InputError(f"Expected y to be one-dimensional, got shape {shape}; one target for each record.")
        if shape[0] != rows:
            got = f"got inconsistent numbers of samples: {rows} and {shape[0]}"
            raise InputError(f"Expected as many targets as records, {got}.")
        return bare, targets

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.allow_nan = isinstance(self.schema, ArrayBounds) and self.schema.missing != REFUSE_MISSING
        return tags

    def __getstate__(self) -> dict[str, object]:
        own: Any = super().__getstate__()
        state: dict[str, Any] = {name: value for name, value in own.items() if name != "_kept_predictor"}
        if "release_" in state:
            state["release_"] = to_document(self.release_, "none: pickled"), dict(self.release_.arrays)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "release_" in state:
            release = from_document("the pickled estimator", *state["release_"])[0]
            state = state | {"release_": release, "cautions_": release.cautions, "bound_": release.bound}
            state["_kept_predictor"] = Predictor(release, state["draws"])
        super().__setstate__(state)
