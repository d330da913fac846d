"""Regression of counts: the logarithm of a rate is linear in the columns; a column may hold the exposure."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from sordino.core.arrays import Array
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import InputError, refuse
from sordino.fitting.tasks import base

if TYPE_CHECKING:
    from sordino.data import ColumnKind, Number, Schema
    from sordino.fitting.predictor import Predictor
    from sordino.fitting.problem import FitProblem

LARGEST_SCORE = 50.0  # scores beyond this are no rates of anything
_DRAWN = 2000  # counts that are drawn for each row to find the ends of its interval


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise refuse(name, "to be true or false", value)
    return value


def _limits(problem: "FitProblem") -> tuple[float, float]:
    kind: Any = problem.schema.declared_target().kind
    return kind.low, kind.high


@base.task
class Counts(base.Task):
    """A count of what happened, by Poisson's law or one that varies more."""

    word = "count-regression"
    title = "Poisson regression"
    models: ClassVar = {"poisson": {}, "negative-binomial": {"overdispersed": True}}
    methods = ("bounded-influence",)
    families = ("poisson",)
    options = (
        base.TaskOption(
            "exposure",
            base.or_none(base.column_name),
            help="Counts only: the column with the exposure (follow-up time).",
        ),
        base.TaskOption("overdispersed", _flag, False, "Poisson only: like negative-binomial.", bool),
        base.EFFECT_SCALE,
    )
    outcome = "rate"
    ratio = "rate ratio"
    linear = True
    scored = True
    kept = ("exposure",)

    def check_target(self, name: str, kind: "ColumnKind") -> None:
        super().check_target(name, kind)
        if not base.is_number(kind) or kind.low < 0.0 or kind.high < 1.0:
            why = "A target of counts must be a number with low at least 0 and high at least 1"
            raise InputError(f"{why}; declare both.")

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        most = max(_limits(problem)[1], 1.0)
        return NamedModel("poisson", (base.NO_DECAY, ("rate_cap", most), ("count_cap", most)))

    def family(self, problem: "FitProblem") -> str:
        return "negative-binomial" if problem.settings["overdispersed"] else "poisson"

    def engine_target(self, problem: "FitProblem") -> base.EngineTarget:
        return base.EngineTarget(_limits(problem))

    def engine_targets(self, schema: "Schema", y: Array) -> Array:
        return schema.declared_target().kind.decode(y)

    def exposure(self, schema: "Schema", settings: Mapping[str, object]) -> "tuple[int, Number] | None":
        name = settings.get("exposure")
        if name is None:
            return None
        place, kind = base.declared_number(schema, "exposure", name)
        if kind.low <= 0.0:
            raise InputError(f"The exposure {name!r} must be a number above 0; declare a positive low.")
        return place, kind

    def exposures(self, schema: "Schema", settings: Mapping[str, object], X: Array) -> Array:
        if (found := self.exposure(schema, settings)) is None:
            return np.ones(len(X))
        place, kind = found
        return np.clip(kind.decode(X[:, place]), kind.low, kind.high)

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        return np.exp(np.minimum(fit.scores(thetas, X), LARGEST_SCORE))

    def new_targets(self, fit: "Predictor") -> Callable[[Array, float], Array] | None:
        return partial(new_counts, dispersion=fit.coefficient_law.dispersion)

    def regression(self, fit: "Predictor", X: Array) -> tuple[Array, Array]:
        law = fit.coefficient_law
        found = [law.counts(law.scores(law.draws, block)[..., 0], fit.exposures(block)) for block in base.blocks(X)]
        return np.concatenate([one.mean for one in found]), np.concatenate([one.variance for one in found])

    def scored_means(self, fit: "Predictor", X: Array, scores: Array, rates: Array) -> tuple[Array, Array]:
        means = fit.exposures(X) * rates
        return means, np.sqrt(means + fit.coefficient_law.dispersion * means * means)

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        drawn = [fit.sample(block, _DRAWN) for block in base.blocks(X)]
        low, high = np.concatenate([np.quantile(one, [tail, 1.0 - tail], axis=0) for one in drawn], axis=1)
        return np.floor(low), np.ceil(high)

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        dispersion = fit.coefficient_law.dispersion
        rates = fit.exposures(X) * np.exp(np.minimum(fit.scores(thetas, X)[..., 0], 30.0))
        if dispersion > 0.0:
            rates = rates * generator.gamma(1.0 / dispersion, dispersion, rates.shape)
        return generator.poisson(np.minimum(rates, 1e15)).astype(np.float64)

    def remarks(self, fit: "Predictor") -> tuple[str, ...]:
        return () if fit.release.settings.get("exposure") is None else ("Rates are for an exposure of 1.",)


def new_counts(means: Array, tail: float, dispersion: float) -> Array:
    """The smallest count that a new one is at most with probability `tail`; the law is a mixture over means."""
    # Beyond this no mean leaves as much probability, by Chebyshev's inequality for the largest of them.
    widest = means.max(axis=0)
    low = np.full(means.shape[1], -1.0)
    high = np.ceil(widest + np.sqrt((widest + dispersion * widest**2) / (1.0 - tail)) + 1.0)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        counts = np.maximum(middle, 0.0)
        if dispersion > 0.0:
            size = 1.0 / dispersion
            reached = special.betainc(size, counts + 1.0, size / (size + means))
        else:
            reached = special.pdtr(counts, means)
        below = (reached.mean(axis=0) < tail) | (middle < 0.0)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
