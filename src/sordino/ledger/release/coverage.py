"""The measured coverage of a fit's intervals (`bench/interval_coverage.py`), and whether it is a constant only."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sordino.core.spec import column_of
from sordino.ledger.release.document import StoredRelease
from sordino.mechanisms.regression.posterior import OPEN_SLOPES

COEFFICIENTS, NEW_TARGETS, PROBABILITIES = "coefficients", "new targets", "probabilities"
LEVELS = (0.5, 0.9, 0.95)
SEVERAL = " of several classes"
NOT_MEASURED = "the coverage of such intervals was not measured"
# Methods whose intervals are withheld, and what was measured.
WITHHELD = {"ridge": "with 300 columns, 95 % intervals of coefficients covered the truth in 28 to 87 % of cases"}

# Of bounded influence, in fits of more coefficients than this. Up to here most coefficients of such a fit are marked as
# prior-dominated, and those that are not hold their level: on rows of Adult with 26 to 85 columns all 43 that were not.
BOUNDED_INFLUENCE, MOST_COEFFICIENTS = "bounded-influence", 100
# The key of a release's settings under which a fit says why its intervals are withheld.
WITHHELD_BECAUSE = "withheld_because"
# Of bounded influence, its keys for what is said of a fit that has not converged, or whose slopes noise hides.
FAR, SLOPES_NOISE = "standard_errors_from_the_solution", "noise_over_slopes"
UNSETTLED_FIT = (
    "The fit had not converged: its last point was {:.1f} standard errors from the solution. Intervals are widened for "
    "it. Raise epsilon, or declare a larger effect scale."
)
TOO_SMALL = "the budget is too small for so many coefficients, and intervals would depend on the prior"
HIDDEN_SLOPES = "noise hides how columns vary together, and intervals would depend on a guess of it"
TOO_MANY = (
    f"how often they hold with more than {MOST_COEFFICIENTS} coefficients was not measured; declare fewer columns, or "
    "shorter lists of categories"
)

# Network classifiers fitted by variational gradients: clipping bends the scores, and the spread does not know it.
VARIATIONAL_CLASSES = "90 % intervals contained the true probabilities of simulated tables in 27 to 53 % of cases"
# How many records the rarest class has, by noised counts, over the noise that a count for the whole budget would have,
# and over the parameters behind one score; below these, noise or chance may be mistaken for the class
# (bench/rare_classes.py). Of two classes 90 % intervals held 85 to 87 % between 20 and 60 and 88 to 93 % from 60 on;
# of several, with a score for each, 92 to 95 % from 20 on.
RAREST, LEAST_OF_RAREST, LEAST_OF_SEVERAL = "rarest_class_over_noise", 60.0, 20.0
RAREST_OVER_SIZE, LEAST_OVER_SIZE = "rarest_class_over_parameters", 5.0
TOO_RARE = (
    "the rarest class has so few records, by noised counts, that noise hides them or that there are too many "
    "parameters for them; in simulations such intervals of probabilities had too low coverage"
)

# Of custom models by draws along a chain (bench/own_models.py coverage --method sgld).
CHAINS = (
    "draws along a private chain include neither the bias of clipping nor the distance from convergence: 90 % "
    "intervals of a regression of 2,000 records at epsilon 1 covered the truth in 4 % of cases"
)

# Custom models fitted by variational gradients: a guide fits a law of its own shape, and clipping moves it.
VARIATIONAL_CUSTOM = "90 % intervals contained the true parameters of a negative binomial model in 0 of 12 cases"

# Bounded influence, by level: the smallest and largest coverage where all effects were 4.5 to 6
# prior standard deviations large; effects are far from this root of their mean square on. One far effect among others
# does no harm, and neither do those of linear models (bench/pages/far-effects.md).
FAR_COVERED = {0.5: (0.0, 0.73), 0.9: (0.25, 1.0), 0.95: (0.39, 1.0)}
_FAR, _USUAL_EFFECT, _UNHARMED = 3.5, 1.0, ("linear", "robust")
FAR_EFFECTS = (
    "Effects are far larger than the prior assumes: intervals of such fits often miss the truth. Fit again with a "
    "larger effect scale."
)

# A key of a release's settings and its value where nothing but a constant was learned, and what is then said first.
LEARNED, A_CONSTANT = "learned", "constant"
ONLY_A_CONSTANT = (
    "Only a constant was learned: every row gets the same prediction, and nothing is known about the effect of any "
    "column."
)


@dataclass(frozen=True)
class Coverage:
    """The lowest and highest coverage of intervals of a level, over cells of simulated tables."""

    task: str  # classes beyond two make it another task, "... of several classes"
    method: str
    of: str  # such as coefficients
    level: float
    low: float
    high: float
    cells: int  # designs, numbers of records and epsilons
    tables: int  # drawn in each cell, at least

    @property
    def words(self) -> str:
        """The range in whole percent, rounded outwards."""
        low, high = math.floor(100.0 * self.low + 1e-9), math.ceil(100.0 * self.high - 1e-9)
        return f"{low} to {high} %" if low < high else f"{high} %"


MEASURED: tuple[Coverage, ...] = tuple(
    Coverage(**row) for row in json.loads(Path(__file__).with_name("measured_coverage.json").read_text("utf-8"))
)


def measured(task: str, method: str, of: str, level: float) -> Coverage | None:
    """What was measured at the nearest level; None where nothing was."""
    if method == A_CONSTANT:  # a network's constant, or a robust one, is that of a linear model
        task = "classification" if "classification" in task else "regression"
    found = [one for one in MEASURED if (one.task, one.method, one.of) == (task, method, of)]
    return min(found, key=lambda one: abs(one.level - level), default=None)


def nominal_and_measured(found: Coverage, level: float) -> str:
    """What is printed beside an interval: its level, and what was measured."""
    at = "" if math.isclose(found.level, level) else f" where {_percent(found.level)} was nominal"
    return f"{_percent(level)} nominal; measured {found.words}{at}"


def measured_of(release: StoredRelease, of: str, level: float) -> Coverage | None:
    """What was measured for fits like a release: of far effects the range is that of far effects, too."""
    found = measured(measured_task(release), str(release.settings.get("method")), of, level)
    if found is None or of != COEFFICIENTS or not has_far_effects(release):
        return found
    low, high = FAR_COVERED[found.level]
    return replace(found, low=min(low, found.low), high=max(high, found.high))


def has_far_effects(release: StoredRelease) -> bool:
    """Whether coefficients other than intercepts are together far beyond the prior of bounded influence."""
    draws, weights = release.arrays.get("draws"), release.arrays.get("weights")
    known, asked = release.settings.get("coefficients"), release.settings.get("asked")
    if draws is None or weights is None or not isinstance(known, Mapping) or known.get("family") in _UNHARMED:
        return False
    outputs = known.get("outputs", ("",))
    if draws.ndim != 2 or weights.shape != (len(draws),) or not isinstance(outputs, list | tuple):
        return False  # refused where it is read
    stated = asked.get("effect_scale") if isinstance(asked, Mapping) else None
    scale = float(stated) if isinstance(stated, int | float) else _USUAL_EFFECT
    slopes = np.average(draws, axis=0, weights=weights)[len(outputs) :]
    return len(slopes) > 0 and float(np.sqrt(np.mean(slopes**2))) > _FAR * scale


def cautions_of(release: StoredRelease) -> tuple[str, ...]:
    """What a reader must know before any number: what the numbers themselves say first, then what the fit said."""
    seen = (is_constant(release), ONLY_A_CONSTANT), (has_far_effects(release), FAR_EFFECTS)
    return (*(words for true, words in seen if true and words not in release.cautions), *release.cautions)


def release_coverage(release: StoredRelease, of: str, level: float) -> str | None:
    """What is printed beside an interval of a release: its level, and what was measured; None where it is withheld."""
    found = None if withheld(release) is not None else measured_of(release, of, level)
    if found is None:
        return None
    words = nominal_and_measured(found, level)
    return words if column_of(release.spec.unit) is None else f"{words}, with one record a unit"


def withheld(release: StoredRelease) -> str | None:
    """Why intervals of a release are withheld; None where they may be reported, with their measured coverage."""
    method, draws = str(release.settings.get("method")), release.arrays.get("draws")
    if method == BOUNDED_INFLUENCE and draws is not None and draws.shape[-1] > MOST_COEFFICIENTS:
        return TOO_MANY
    hidden = release.settings.get(SLOPES_NOISE)
    if isinstance(hidden, int | float) and hidden > OPEN_SLOPES:
        return HIDDEN_SLOPES
    stated = release.settings.get(WITHHELD_BECAUSE)
    if isinstance(stated, str):
        return stated
    if (release.settings.get("task"), method) == ("network-classification", "dp-vi"):
        return VARIATIONAL_CLASSES
    if release.kind == "own-model/sgld":
        return CHAINS
    if release.kind == "own-model/variational":
        return VARIATIONAL_CUSTOM
    fewest = LEAST_OF_SEVERAL if measured_task(release).endswith(SEVERAL) else LEAST_OF_RAREST
    for name, least in ((RAREST, fewest), (RAREST_OVER_SIZE, LEAST_OVER_SIZE)):
        rarest = release.settings.get(name)
        if isinstance(rarest, int | float) and rarest < least:
            return TOO_RARE
    return WITHHELD.get(method)


def measured_task(release: StoredRelease) -> str:
    """The task of a release as the table has it."""
    labels = release.settings.get("labels")
    several = isinstance(labels, list | tuple) and len(labels) > 2
    return f"{release.settings.get('task')}{SEVERAL if several else ''}"


def is_constant(release: StoredRelease) -> bool:
    """Whether nothing but a constant was learned."""
    return release.settings.get(LEARNED) == A_CONSTANT


def _percent(level: float) -> str:
    return f"{100.0 * level:g} %"
