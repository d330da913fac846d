"""Cox regression by time bins: log hazards are linear in the columns, with one baseline for each bin.

A subject is followed from the first edge until its time; what lies outside is brought to the nearer bound.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.core.arrays import Array
from sordino.core.spec.instance import NamedModel
from sordino.core.validate import InputError, Interval, number, refuse, whole_number
from sordino.fitting.tasks import base
from sordino.fitting.tasks.counts import LARGEST_SCORE

if TYPE_CHECKING:
    from sordino.data import ColumnKind, Schema
    from sordino.fitting.predictor import Predictor
    from sordino.fitting.problem import FitProblem

MOST_BINS = Interval(2, 64)  # how many time bins hazards may have
_TIME_HELP = "Cox only: the column of times; the target says if the event happened."
_BINS_HELP = "Cox only: how many equal time bins, or edges such as 0,1,2,4; absent: 4."
_ROWS = 256  # rows at a time where every draw has a chance for each row


def _bins(name: str, value: object) -> int | tuple[float, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return whole_number(name, value, MOST_BINS)
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        raise refuse(name, "to be a number of bins or a list of their edges", value)
    edges = tuple(number(name, edge) for edge in (value.tolist() if isinstance(value, np.ndarray) else value))
    if not MOST_BINS.low <= len(edges) - 1 <= MOST_BINS.high or any(a >= b for a, b in pairwise(edges)):
        raise refuse(name, f"to be {MOST_BINS.low:g} to {MOST_BINS.high:g} bins, whose edges rise", edges)
    return edges


def _bins_of_words(text: str) -> int | list[float]:
    try:
        return int(text) if "," not in text else [float(edge) for edge in text.split(",")]
    except ValueError:
        raise refuse("--bins", "to be a number of bins, or edges such as 0,1,2,4", text) from None


@base.task
class Survival(base.Task):
    """Whether an event happened up to a time, and when."""

    word = "hazard-regression"
    title = "Cox regression"
    models: ClassVar = {"cox": {}}
    methods = ("bounded-influence",)
    families = ("poisson",)
    options = (
        base.TaskOption(
            "time", base.column_name, help="Cox only: the column of times; the target says if the event happened."
        ),
        base.TaskOption("bins", _bins, 4, _BINS_HELP, read=_bins_of_words),
        base.EFFECT_SCALE,
    )
    outcome = "chance of the event"
    ratio = "hazard ratio"
    linear = True
    several_rows = True
    kept = ("time", "bins")

    def check_target(self, name: str, kind: "ColumnKind") -> None:
        super().check_target(name, kind)
        if kind.word != "boolean" and (not base.is_number(kind) or (kind.low, kind.high) != (0.0, 1.0)):
            wanted = "yes or no, or a number from 0 to 1. Declare it as boolean."
            raise InputError(f"The target must say whether the event happened: {wanted}")

    def model(self, problem: "FitProblem", residual_variance: float) -> NamedModel:
        # Events in bins are counts with exposure.
        return NamedModel("poisson", (base.NO_DECAY, ("rate_cap", 1.0), ("count_cap", 1.0)))

    def family(self, problem: "FitProblem") -> str:
        return "cox"

    def engine_target(self, problem: "FitProblem") -> base.EngineTarget:
        return base.EngineTarget()

    def engine_targets(self, schema: "Schema", y: Array) -> NDArray[np.bool_]:
        """Whether a record ended with the event."""
        kind = schema.declared_target().kind
        return kind.decode(y) > 0.5 if kind.word == "number" else y > 0.0

    def times(self, schema: "Schema", settings: Mapping[str, object]) -> base.SurvivalTime:
        name, bins = settings["time"], settings["bins"]
        place, kind = base.declared_number(schema, "time", name)
        edges = np.linspace(kind.low, kind.high, bins + 1) if isinstance(bins, int) else np.array(bins, np.float64)
        if edges[0] > kind.low or edges[-2] >= kind.high:
            wanted = "Expected time bins that begin at or before the lowest declared time and of which the last begins"
            got = f"got edges from {edges[0]:g} to {edges[-1]:g} for times from {kind.low:g} to {kind.high:g}"
            raise InputError(f"{wanted} before the highest, {got}; change the bins or the bounds of {name!r}.")
        return base.SurvivalTime(place, kind, edges)

    def kept_settings(self, schema: "Schema", settings: Mapping[str, object]) -> dict[str, object]:
        return {"time": settings["time"], "bins": self.times(schema, settings).edges.tolist()}

    def edges(self, settings: Mapping[str, object]) -> Array:
        stated = settings.get("bins")
        numbers = isinstance(stated, list | tuple) and all(type(edge) in (int, float) for edge in stated)
        edges = np.array(stated if numbers else [], np.float64)
        if len(edges) - 1 not in range(2, 65) or not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
            raise InputError("settings.bins of the release must be increasing edges; the release was changed.")
        return edges

    def columns_to_read(self, fit: "Predictor", names: Sequence[str]) -> tuple[str, ...]:
        """When rows were last seen is not asked, so the column of times may be absent."""
        absent = {str(fit.release.settings.get("time"))} - set(names)
        return tuple(name for name in super().columns_to_read(fit, names) if name not in absent)

    def encode(self, fit: "Predictor", X: object) -> Array:
        """Encoded rows with the 0/1 columns of all time bins but the first, of which none holds."""
        name, edges = str(fit.release.settings.get("time")), fit.edges
        features = fit.features(X, absent={name: float(edges[0])})
        return np.hstack([features, np.zeros((len(features), len(edges) - 2))])

    def chances(self, fit: "Predictor", thetas: Array, X: Array, until: float | None = None) -> Array:
        """The chance 1 - exp(-H) of the event until a time, or the last edge, H the summed hazard: (draws, rows)."""
        law, edges = fit.coefficient_law, fit.edges
        time = edges[-1] if until is None else number("until", until, Interval(float(edges[0]), float(edges[-1])))
        hazards = np.exp(np.minimum(law.scores(thetas, X)[..., 0], LARGEST_SCORE))
        weights = np.asarray(thetas, np.float64).reshape(-1, len(law.columns))[:, -(len(edges) - 2) :]
        baseline = np.exp(np.minimum(np.column_stack([np.zeros(len(weights)), weights]), LARGEST_SCORE))
        lengths = np.clip(time - edges[:-1], 0.0, np.diff(edges))
        return -np.expm1(-hazards * (baseline @ lengths)[:, None])

    def outcomes(self, fit: "Predictor", thetas: Array, X: Array) -> Array:
        return self.chances(fit, thetas, X)[..., None]

    def regression(self, fit: "Predictor", X: Array) -> tuple[Array, Array]:
        law = fit.coefficient_law
        weights = np.asarray(law.weights)
        found = np.concatenate([weights @ self.chances(fit, law.draws, block) for block in base.blocks(X, _ROWS)])
        return found, found * (1.0 - found)

    def interval(self, fit: "Predictor", X: Array, tail: float) -> tuple[Array, Array]:
        found = fit.means(X, 1.0 - 2.0 * tail)
        return found.low, found.high

    def sample(self, fit: "Predictor", thetas: Array, X: Array, generator: np.random.Generator) -> np.ndarray:
        chances = self.chances(fit, thetas, X)
        return (generator.random(chances.shape) < chances).astype(np.float64)

    def remarks(self, fit: "Predictor") -> tuple[str, ...]:
        return (f"The chance of the event is that up to time {fit.edges[-1]:g}.",)
