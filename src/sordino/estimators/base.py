"""What every private estimator shares: parameters, the fit, and what it leaves."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from sordino.algorithm.posterior.base import Posterior
from sordino.core.bound import Bound
from sordino.core.errors import InputError
from sordino.core.relation import Relation
from sordino.core.validate import OPEN_UNIT, POSITIVE, Interval, instance_of, number, one_of, whole_number
from sordino.estimators.array_bounds import ArrayBounds
from sordino.estimators.cautions import warn_of_delta
from sordino.estimators.choosing import AUTO
from sordino.estimators.declaration import declared, encoded_rows
from sordino.estimators.fitting import fit
from sordino.estimators.learning_steps import refuse_learning_callers
from sordino.estimators.prediction import DRAWS, Predictor
from sordino.estimators.situation import Situation, Task
from sordino.estimators.sources import Sources
from sordino.ledger import Ledger
from sordino.ledger.release.document import StoredRelease, from_document, to_document

Array = NDArray[np.float64]
_SEEDS = Interval(0, 2**128 - 1)


class PrivateEstimator(BaseEstimator):
    """A private fit with scikit-learn's conventions.

    Args:
        epsilon: the budget of one fit; larger is less private.
        delta: the chance with which the guarantee may fail; far below one over the number of records.
        relation: which datasets are neighbours, "replace-one" or "add-remove"; there is no default.
        schema: a `Schema` or the path of one, for tables; `ArrayBounds` for arrays. Bounds are declared, never read
            off the data.
        method: how to fit; "auto" takes the method that predicts the smallest error on stand-in data drawn from the
            declaration, and only the best constant, with a warning, where none promises to beat it.
        draws: how many draws of the posterior predictions average over.
        ledger: a `Ledger` or its path; the fit is debited there before a row is read, or refused.
        random_state: None for secure randomness; a whole number for a reproducible fit, whose release is marked
            NON-PRIVATE because whoever knows the number can subtract the noise.

    After `fit`: `posterior_` over encoded coefficients, `certificate_` (the tightest bound), `explanation_` (what every
    theorem says), `release_` (a `StoredRelease`, for `write_release`), `method_` and `n_features_in_`.
    """

    _task: ClassVar[Task]

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        schema: Any,
        method: str = AUTO,
        draws: int = DRAWS,
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.relation = relation
        self.schema = schema
        self.method = method
        self.draws = draws
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "PrivateEstimator":
        """Plan and certify from the declaration, debit the ledger, and only then read rows.

        For tables, X may be a path, a data frame, an Arrow table or named columns, with the target as a column of it
        (then y is left out) or as y. For arrays with `ArrayBounds`, X and y are arrays.
        """
        refuse_learning_callers()
        relation = Relation(one_of("relation", self.relation, tuple(Relation)))
        arrays = isinstance(self.schema, ArrayBounds)
        if arrays:
            X, y = self._shaped(X, y)
        declaration = declared(self.schema, self._task, relation, X, y)
        situation = Situation(
            self._task,
            declaration.schema,
            None if declaration.labels is None else len(declaration.labels),
            number("epsilon", self.epsilon, POSITIVE),
            number("delta", self.delta, OPEN_UNIT),
            relation,
            self._settings(),
        )
        warn_of_delta(situation)
        seed = None if self.random_state is None else whole_number("random_state", self.random_state, _SEEDS)

        def rows() -> tuple[Array, Array]:
            if arrays:
                self._check_content(X, y)
            return encoded_rows(declaration, relation, X, y)

        found = fit(situation, declaration, self.method, self._ledger(), Sources(seed), rows)
        self.release_: StoredRelease = found.release
        self.certificate_: Bound = found.release.bound
        self.explanation_ = found.explanation
        self.method_: str = found.plan.method.name
        if not arrays:
            self.n_features_in_ = len(declaration.schema.features)
        self._kept_predictor = Predictor(self.release_, whole_number("draws", self.draws))
        self._finish()
        return self

    @property
    def posterior_(self) -> Posterior:
        """The posterior over the coefficients of encoded rows; the privacy noise is in it."""
        check_is_fitted(self, "release_")
        return self._predictor.posterior

    @property
    def _predictor(self) -> Predictor:
        return self._kept_predictor

    def _settings(self) -> dict[str, Any]:
        """Public choices that the task's model needs."""
        return {}

    def _finish(self) -> None:
        """Attributes of the task."""

    def _encode(self, X: Any) -> Array:
        check_is_fitted(self, "release_")
        if isinstance(self.schema, ArrayBounds):
            X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._predictor.encode(X)

    def _shaped(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Arrays of the right shape; no value is looked at. Under add-remove there may be no row."""
        validate_data(self, X, skip_check_array=True)
        least = 0 if self.relation == Relation.ADD_REMOVE else 1
        X = check_array(
            X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=least, estimator=self, input_name="X"
        )
        self.n_features_in_ = X.shape[1]
        if self._task is Task.MIXTURE:
            return X, None
        if y is None:
            raise InputError("requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _check_content(self, X: Any, y: Any) -> None:
        """Complain about what is no number; happens after the debit, because it looks at rows."""
        check_array(X, dtype="float64", ensure_min_samples=0, estimator=self, input_name="X")
        if y is not None and np.asarray(y).dtype.kind == "f":
            check_array(np.asarray(y), ensure_2d=False, ensure_min_samples=0, estimator=self, input_name="y")

    def _ledger(self) -> Ledger | None:
        if isinstance(self.ledger, str | Path):
            return Ledger.at(self.ledger)
        return None if self.ledger is None else instance_of("ledger", self.ledger, Ledger)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def __getstate__(self) -> dict[str, Any]:
        held: Any = super().__getstate__()
        state: dict[str, Any] = dict(held)
        state.pop("_kept_predictor", None)
        if "release_" in state:
            release = state["release_"]
            state["release_"] = to_document(release, ""), dict(release.arrays)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "release_" in state:
            state["release_"] = from_document("the pickled estimator", *state["release_"])[0]
            state["_kept_predictor"] = Predictor(state["release_"], state["draws"])
        super().__setstate__(state)
