"""A release of a fit, read back: its task, model, posterior, labels and units, each held against the others.

A folder may say anything, so nothing is taken from it that was not looked at.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.validate import POSITIVE, InputError, Interval, instance_of, number
from sordino.data import Number, Schema
from sordino.fitting.problem import bins_of
from sordino.fitting.tasks import CLASSIFYING, Task
from sordino.ledger.release import StoredRelease, posterior_of
from sordino.ledger.release.coverage import A_CONSTANT, LEARNED
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior
from sordino.mechanisms.posterior.laws import Posterior
from sordino.mechanisms.posterior.network import FLATTEST, MOST_PEAKED, NetworkPosterior
from sordino.models.base import Model
from sordino.models.families.classification import Logistic, Softmax
from sordino.models.families.mixture import GaussianMixture
from sordino.models.families.networks import MLPClassification, MLPRegression, SkipClassification, SkipRegression
from sordino.models.families.regression import GaussianLinear, Huber, PoissonRegression
from sordino.models.registry import build_model

# The models that a task can be read back with; a constant is that of a linear one.
_NUMBERS = (GaussianLinear, Huber, MLPRegression, SkipRegression)
_CLASSES = (Logistic, Softmax, MLPClassification, SkipClassification)
_OTHERS: dict[Task, tuple[type[Model], ...]] = {Task.MIXTURE: (GaussianMixture,), Task.COUNTS: (PoissonRegression,)}
_OTHERS[Task.SURVIVAL] = _OTHERS[Task.COUNTS]
_MODELS = {task: _OTHERS.get(task, _CLASSES if task in CLASSIFYING else _NUMBERS) for task in Task}


@dataclass(frozen=True, eq=False)
class StoredFit:
    """What a release says that it is of; refused in one sentence where its parts do not fit each other."""

    release: StoredRelease

    @cached_property
    def task(self) -> Task:
        """What the release was fitted for."""
        word = self.release.settings.get("task")
        if not isinstance(word, str) or word not in tuple(Task):
            raise InputError("This release comes from `sordino.fit`; use `sordino.reopen(folder, model).summary()`.")
        return Task(word)

    @cached_property
    def schema(self) -> Schema:
        """The public schema that rows are read with."""
        if self.release.schema is None:
            raise InputError("Expected a release with a schema, got one without; encode the rows yourself.")
        return self.release.schema

    @cached_property
    def model(self) -> Model:
        """The model the posterior is of."""
        if self.release.model is None:
            raise InputError("Expected a release of a registered model, got one of the user's own.")
        model = build_model(self.release.model)
        if not isinstance(model, _MODELS[self.task]):
            raise InputError(
                f"Expected a model for {self.task}, got {self.release.model.name!r}; the release was changed."
            )
        return model

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior over the model's parameters, for encoded rows and targets."""
        posterior = posterior_of(self.release)
        columns = 1 if self.only_a_constant else len(self.schema.feature_names)
        columns += 0 if self.task is not Task.SURVIVAL else len(self.edges) - 2
        if isinstance(posterior, CoefficientPosterior):
            self._check_columns(posterior, columns)
            return posterior
        if isinstance(posterior, NetworkPosterior):
            if posterior.columns != columns:
                raise InputError(
                    f"Expected a posterior that reads the {columns} encoded columns of the schema, got one that reads "
                    f"{posterior.columns}; the release was changed."
                )
            return posterior
        wanted = self.model.dim(columns)
        if posterior.dim != wanted:
            raise InputError(
                f"Expected a posterior of {wanted} numbers for {columns} encoded columns, got {posterior.dim}; the "
                "release was changed."
            )
        return posterior

    def _check_columns(self, posterior: CoefficientPosterior, columns: int) -> None:
        outputs = getattr(self.model, "outputs", 1)
        wanted = outputs - 1 if outputs > 1 else 1
        if posterior.places.max() >= columns or len(posterior.outputs) != wanted:
            raise InputError(
                f"Expected coefficients of the {columns} encoded columns of the schema and {wanted} outputs; "
                "the release was changed."
            )

    def _count_posterior(self) -> CoefficientPosterior:
        return instance_of("the posterior", self.posterior, CoefficientPosterior)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The classes, by code; a file may say anything, so they are looked at."""
        stated = self.release.settings.get("labels")
        wanted = max(2, getattr(self.model, "outputs", 0))
        kinds = {type(label) for label in stated} if isinstance(stated, list | tuple) else set()
        numbers = kinds <= {int, float}
        if not kinds or not (numbers or kinds in ({str}, {bool})) or len(stated or ()) != wanted:
            raise InputError(
                f"Expected settings.labels of the release to be a list of {wanted} words, booleans or numbers, got "
                "something else; the release was changed."
            )
        if len(set(stated or ())) != wanted:
            raise InputError(
                "Expected settings.labels of the release to differ, got one twice; the release was changed."
            )
        return np.array(stated)

    @property
    def only_a_constant(self) -> bool:
        """Whether nothing but a constant was learned: every row has the same answer."""
        return self.release.settings.get(LEARNED) == A_CONSTANT

    @property
    def classifies(self) -> bool:
        """Whether targets are classes."""
        return self.task in CLASSIFYING

    @cached_property
    def edges(self) -> Array:
        """The edges of the time bins that hazards are constant in."""
        return bins_of(self.release.settings)

    @cached_property
    def target_units(self) -> tuple[float, float]:
        """Centre and scale of a target that is a number, in the units of the table; 0 and 1 otherwise."""
        target = self.schema.target
        if target is None or not isinstance(target.kind, Number):
            return 0.0, 1.0
        return target.kind.centre_and_scale

    @cached_property
    def residual_variance(self) -> float:
        """The variance of encoded targets around their scores."""
        stated = self.release.settings.get("residual_variance")
        if isinstance(self.posterior, CoefficientPosterior):
            return self.posterior.residual_variance
        if stated is None:
            return 1.0 / getattr(self.model, "noise_precision", 1.0)
        return number("settings.residual_variance", stated, POSITIVE)

    @cached_property
    def residual_exponent(self) -> float:
        """The shape of errors around scores: 2 for a normal law, unless the release counted them."""
        stated = self.release.settings.get("residual_exponent", 2.0)
        return number("settings.residual_exponent", stated, Interval(MOST_PEAKED, FLATTEST))
