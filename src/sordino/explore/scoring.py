"""How well a released model fits private rows: the loss of each record, and one charge for the sum of losses.

A loss lies in [0, 1] whatever a record holds and is a function of the record, the posterior's mean coefficients and
declared numbers: -ln of the probability of a class over ln 20, or the distance of a number from its mean over a quarter
of its declared range, both cut at 1. It depends on that record alone to the last digit: scores are sums of whole
numbers, exponentials and logarithms are looked up, and single floats round alike wherever they are computed.

Sums of losses, of residuals by band and of squares of differences: every record becomes a vector cut to 20 binary
digits, so that sums are exact. `added` and `replaced` hold for units of several records as in `questions`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.evaluate import Explanation, explain
from sordino.core.arrays import Array
from sordino.core.bound import Relation, View
from sordino.core.gaussian import largest_mu, up
from sordino.core.spec import ConstantSchedule, Spec
from sordino.core.validate import OPEN_UNIT, POSITIVE, InputError, number, refuse
from sordino.data import Number, Schema
from sordino.fitting.charge import Result, RowAccess, RunContents, charged_run, check_public, exact_sums_line
from sordino.fitting.methods.base import full_sums
from sordino.fitting.predictor import Predictor
from sordino.fitting.problem import EncodedRows, FitDeclaration, Sources, class_codes, encoded_rows
from sordino.fitting.tasks.base import MODELS
from sordino.ledger.release import StoredRelease
from sordino.ledger.release.document import BY_SCHEMA
from sordino.mechanisms.posterior.coefficients import CoefficientPosterior
from sordino.mechanisms.statistics.questions import EXPONENT, ONE, Lengths, record_weights
from sordino.noise import integer_sums as exact
from sordino.noise.integer_sums import DIGITS
from sordino.noise.port import CheckedSum, SumNoise
from sordino.noise.randomness import Randomness

LEAST_PROBABILITY = 0.05  # a class that a model gave at most this probability has the largest loss
LARGEST_SHARE = 0.25  # distances are cut at this share of the target's declared range
# The words of models that score single records.
SCORED = tuple(word for word, (task, _) in MODELS.items() if task.scored)
Whole = NDArray[np.int64]
Units = NDArray[np.intp] | None


class ScoredSums(NamedTuple):
    """Exact sums in whole numbers of 2^-40, and how far one unit moves them."""

    sums: Whole
    lengths: Lengths


def cube_lengths(numbers: int) -> Lengths:
    """Two vectors with so many entries in [0, 1] differ by at most 1 in each, as one and zero do: by sqrt k in all."""
    return Lengths(*(up(math.sqrt(numbers)),) * 2)


def totals(values: Array, units: Units) -> ScoredSums:
    """Sums of the columns of `values`, (records, k), each entry brought into [0, 1]; NaN counts as 1, the worst."""
    if values.ndim != 2:
        raise refuse("values", "to have one row for each record", values.shape)
    inside = np.clip(np.nan_to_num(values, nan=1.0), 0.0, 1.0)
    whole, weights = exact.digits(inside).astype(np.int64), record_weights(len(values), units)
    lengths = cube_lengths(values.shape[1])
    cubes = exact.cubes(len(whole), units, lambda part: weights[part, None] * whole[part])
    return ScoredSums(cubes.total(lengths.added, EXPONENT), lengths)


# Norm of a vector that is (1, u) in one of several bands, u in [-1, 1]: sqrt(1 + u^2) <= sqrt 2. Two of them in one
# band are |u - u'| <= 2 apart, in two bands sqrt(1 + u^2 + 1 + u'^2) <= 2.
BAND_LENGTHS = Lengths(up(math.sqrt(2.0)), 2.0)


def band_sums(bands: NDArray[np.intp], values: Array, units: Units, number: int) -> ScoredSums:
    """For each band the number of its records and the sum of their values, brought into [-1, 1]; NaN counts as 0."""
    places = np.clip(bands, 0, number - 1)
    whole = exact.digits(np.clip(np.nan_to_num(values, nan=0.0), -1.0, 1.0)).astype(np.int64)
    weights = record_weights(len(values), units)

    def spread(part: slice) -> Whole:
        found = np.zeros((len(places[part]), 2 * number), np.int64)
        rows = np.arange(len(found))
        found[rows, places[part]] = weights[part] * ONE
        found[rows, number + places[part]] = weights[part] * whole[part]
        return found

    return ScoredSums(exact.cones(len(whole), units, spread).total(BAND_LENGTHS.added, EXPONENT), BAND_LENGTHS)


@dataclass(frozen=True)
class ScoreNoise:
    """The noise of one such sum: a Gaussian mechanism of parameter mu."""

    lengths: Lengths
    relation: Relation
    deviation: float

    def released(self, found: ScoredSums, randomness: Randomness) -> Array:
        """The sums with noise, one call of the port."""
        if found.lengths != self.lengths:
            raise refuse("the sums", f"to move by {self.lengths}", found.lengths)
        moved = self.lengths.under(self.relation)
        total = CheckedSum(found.sums, EXPONENT, moved, self.deviation / moved)
        return SumNoise.of(randomness, len(found.sums)).noised([total])


def scored_predictor(release: StoredRelease) -> Predictor:
    """A release that can be scored; others are refused in a sentence."""
    predictor = Predictor(release)
    if not predictor.task.scored:
        known = f"one of {', '.join(SCORED)}, got {predictor.task.title}"
        raise InputError(f"Expected a release of a model that scores single records, {known}.")
    return predictor


# Digits of scores behind the point when exponentials are looked up, and the largest size that is distinguished.
_STEPS, _LARGEST = 2**12, 40
_CELLS = 2**20  # resolution of probabilities when their logarithm is looked up
_WHOLE = float(2**DIGITS)
_MOST_WEIGHT, _MOST_COLUMN = 2.0**14, 8.0


def exact_scores(predictor: Predictor, X: Array) -> NDArray[np.int64]:
    """Scores of encoded rows at the posterior's mean, (rows, outputs), in whole numbers of 2^-40.

    Entries of rows and coefficients are cut to 20 digits, rows at 8 and coefficients at 2^14 in size, so that sums of
    up to 1,024 products stay below 2^63 and are exact.
    """
    own = predictor.posterior
    if isinstance(own, CoefficientPosterior):
        rows, weights = own.rows(X), own.mean.reshape(len(own.columns), -1)
    else:
        rows = np.ones((len(X), 1)) if predictor.only_a_constant else X
        weights = own.mean[: rows.shape[1] * predictor.outputs].reshape(rows.shape[1], -1)
    cut = np.trunc(np.clip(rows, -_MOST_COLUMN, _MOST_COLUMN) * _WHOLE).astype(np.int64)
    slopes = np.rint(np.clip(weights, -_MOST_WEIGHT, _MOST_WEIGHT) * _WHOLE).astype(np.int64)
    found = np.zeros((len(cut), slopes.shape[1]), np.int64)
    for place in range(cut.shape[1]):
        found += cut[:, place, None] * slopes[place]
    if isinstance(own, CoefficientPosterior) and own.family == "multinomial":
        return np.concatenate([np.zeros((len(found), 1), np.int64), found], axis=1)
    return found


def exponentials(scores: NDArray[np.int64]) -> Array:
    """Of whole numbers of 2^-40, by a table of steps of 2^-12; sizes beyond 40 count as 40."""
    steps = np.clip(scores >> (2 * DIGITS - 12), -_LARGEST * _STEPS, _LARGEST * _STEPS)
    return _EXPONENTIALS[steps + _LARGEST * _STEPS]


_EXPONENTIALS = np.exp(np.arange(-_LARGEST * _STEPS, _LARGEST * _STEPS + 1) / _STEPS)
_LOG_LOSSES = -np.log(np.maximum(np.arange(_CELLS + 1) / _CELLS, LEAST_PROBABILITY)) / -math.log(LEAST_PROBABILITY)


def probabilities(predictor: Predictor, X: Array) -> Array:
    """The probability of each class for encoded rows, each from its own row alone."""
    scores = exact_scores(predictor, X)
    if scores.shape[1] == 1:
        odds = exponentials(scores[:, 0])
        return np.stack([1.0 / (1.0 + odds), odds / (1.0 + odds)], axis=1)
    odds = exponentials(scores - scores.max(axis=1, keepdims=True))
    whole = odds[:, 0].copy()
    for place in range(1, odds.shape[1]):
        whole += odds[:, place]
    return odds / whole[:, None]


def means(predictor: Predictor, X: Array) -> tuple[Array, Array]:
    """The mean of each target in the units of the table, and its standard deviation, at the posterior's mean."""
    scores = exact_scores(predictor, X)[:, 0]
    return predictor.task.scored_means(predictor, X, scores / _WHOLE / _WHOLE, exponentials(scores))


def losses(predictor: Predictor, X: Array, y: Array) -> Array:
    """What each record loses, in [0, 1]; X and y as the fit encoded them."""
    if predictor.task.classifies:
        codes = class_codes(y, len(predictor.labels))
        given = probabilities(predictor, X)[np.arange(len(codes)), codes]
        return _LOG_LOSSES[np.clip(np.rint(given * _CELLS), 0, _CELLS).astype(np.intp)]
    kind = predictor.schema.declared_target().kind
    if not isinstance(kind, Number):
        raise InputError("The target must be a number: otherwise its distance has no declared range.")
    away = np.abs(predictor.task.decoded(predictor, y) - means(predictor, X)[0])
    return np.minimum(away / (LARGEST_SHARE * (kind.high - kind.low)), 1.0)


class SumPlan(NamedTuple):
    """One noised sum over private rows: its noise, and what theorems say of it."""

    noise: ScoreNoise
    schema: Schema
    relation: Relation
    epsilon: float
    explanation: Explanation

    def charged(
        self,
        kind: str,
        declarations: Sequence[FitDeclaration],
        data: object,
        sums: Callable[[list[EncodedRows]], ScoredSums],
        answer: Callable[[Array], tuple[Result, dict[str, Any]]],
        *,
        ledger: object,
        random_state: int | None,
    ) -> tuple[StoredRelease, Result]:
        """Pay for the sum, add it up, and release it; `answer` reads the noised numbers and says the settings."""
        sources = Sources(random_state)

        def run(access: RowAccess) -> RunContents[Result]:
            noised = self.noise.released(sums(read_rows(declarations, self.relation, data, access)), sources.fresh())
            result, settings = answer(noised)
            kept = {"settings": {"task": kind, **settings}, "schema": self.schema, "preprocessing": BY_SCHEMA}
            line = exact_sums_line(self.schema)
            return RunContents(kind=kind, arrays={"sums": noised}, result=result, floating_point=line, **kept)

        check = partial(check_public, self.schema, self.relation, data)
        paid = {"words": "one noised sum", "epsilon": self.epsilon, "ledger": ledger}
        return charged_run(self.explanation, run, sources=sources, check=check, **paid)


def sum_plan(
    query: str, lengths: Lengths, schema: Schema, *, epsilon: float, delta: float, relation: Relation
) -> SumPlan:
    """Plan one noised sum that keeps a budget; looks at no row."""
    wanted, fails = number("epsilon", epsilon, POSITIVE), number("delta", delta, OPEN_UNIT)
    deviation = up(lengths.under(relation) / (largest_mu(wanted, fails) * (1.0 - 1e-9)), 4)
    replaced = lengths.replaced if relation is Relation.REPLACE_ONE else None
    longest = max(lengths.added, 0.5 * lengths.replaced if replaced is not None else 0.0)
    shorter = replaced if replaced is not None and replaced < 2.0 * longest else None
    run = full_sums(query, schema, longest, shorter, ConstantSchedule(deviation / longest))
    spec = Spec(algorithm=run, relation=relation, view=View.ALL_ITERATES, delta=fails)
    return SumPlan(ScoreNoise(lengths, relation, deviation), schema, relation, wanted, explain(spec, fails))


def read_rows(
    declarations: Sequence[FitDeclaration], relation: Relation, data: object, access: RowAccess
) -> list[EncodedRows]:
    """Rows of one table as each declaration encodes them; after the debit, and refused as every fit refuses them."""
    whole = [replace(one, schema=replace(one.schema, row_norm=None)) for one in declarations]
    return [access.read(partial(encoded_rows, one, relation, data, None)) for one in whole]
