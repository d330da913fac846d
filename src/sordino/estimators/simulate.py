"""Stand-in data drawn from the public declaration, on which a method predicts its own error before it spends anything.

Numbers are spread around the middle of their bounds and categories have unequal shares. Targets follow a linear rule of
moderate strength: a guess at what real data hold, the same for every method, and the only thing that is guessed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.data import Category, clip_rows
from sordino.estimators.situation import Situation

Array = NDArray[np.float64]

_SEED = 20_260
ROWS = 2000
_SCORE_SPREAD = 1.2
SCORE_SPREADS = (0.8, 1.5, 2.5)
_TARGET_SPREAD, _RESIDUAL_SPREAD = 0.15, 0.2


@dataclass(frozen=True, eq=False)
class StandIn:
    """Rows to fit to and rows to score on, targets included."""

    X: Array
    y: Array
    held_rows: Array
    held_targets: Array


def stand_in(situation: Situation) -> StandIn:
    """Draw the stand-in data of a situation; always the same for the same declaration."""
    generator = np.random.default_rng(_SEED)
    X = _rows(situation, generator, 2 * ROWS)
    draw = _regression_targets if situation.classes is None else _class_targets
    y = draw(situation, X, generator)
    return StandIn(X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:])


def stand_ins(situation: Situation) -> tuple[StandIn, ...]:
    """The same rows with class labels of weak, moderate and strong dependence; no more rows to fit to than declared."""
    generator = np.random.default_rng(_SEED)
    X = _rows(situation, generator, 2 * ROWS)
    fitted = min(ROWS, situation.records)
    found = []
    for spread in SCORE_SPREADS:
        y = _class_targets(situation, X, generator, spread)
        found.append(StandIn(X[:fitted], y[:fitted], X[ROWS:], y[ROWS:]))
    return tuple(found)


def _rows(situation: Situation, generator: np.random.Generator, rows: int) -> Array:
    schema = situation.schema
    X = np.zeros((rows, situation.features))
    for feature, block in schema.blocks():
        width = block.stop - block.start
        if isinstance(feature.kind, Category):
            shares = generator.dirichlet(np.full(width, 0.5))
            X[np.arange(rows), block.start + generator.choice(width, rows, p=shares)] = 1.0
        else:
            X[:, block.start] = feature.kind.block_norm * np.clip(generator.normal(0.0, 0.4, rows), -1.0, 1.0)
    if schema.clip_length is not None:
        clip_rows(X[:, int(schema.intercept) :], schema.clip_length)
    if schema.intercept:
        X[:, 0] = 1.0
    return X


def _scores(X: Array, generator: np.random.Generator, outputs: int) -> Array:
    scores = X @ generator.standard_normal((X.shape[1], outputs))
    centred = scores - scores.mean(axis=0)
    return centred / np.maximum(centred.std(axis=0), 1e-12)


def _regression_targets(situation: Situation, X: Array, generator: np.random.Generator) -> Array:
    del situation
    drawn = _TARGET_SPREAD * _scores(X, generator, 1)[:, 0] + generator.normal(0.0, _RESIDUAL_SPREAD, len(X))
    return np.clip(drawn, -1.0, 1.0)


def _class_targets(
    situation: Situation, X: Array, generator: np.random.Generator, spread: float = _SCORE_SPREAD
) -> Array:
    """Labels by softmax of moderate scores, the first class the commonest; signs where there are two."""
    classes = situation.classes or 2
    scores = spread / np.sqrt(2.0) * _scores(X, generator, classes)
    scores[:, 0] += 1.0
    chosen = np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)
    return 2.0 * chosen - 1.0 if classes == 2 else chosen.astype(np.float64)


def class_codes(y: Array, classes: int) -> NDArray[np.int64]:
    """Codes 0, 1, ... of encoded labels, which are signs where there are two classes."""
    return ((y + 1) / 2 if classes == 2 else y).astype(np.int64)


def log_loss(scores: Array, y: Array, classes: int) -> float:
    """Mean minus log-probability of labels given scores, shape (records, outputs)."""
    if classes == 2:
        return float(np.mean(np.logaddexp(0.0, -y * scores[:, 0])))
    log_shares = special.log_softmax(scores, axis=1)
    return float(-np.mean(log_shares[np.arange(len(y)), y.astype(np.int64)]))


def constant_log_loss(train_y: Array, y: Array, classes: int) -> float:
    """The same for the shares of the classes in the rows fitted to."""
    counts = np.bincount(class_codes(train_y, classes), minlength=classes) + 0.5
    return float(-np.mean(np.log(counts / counts.sum())[class_codes(y, classes)]))


def root_mean_square(errors: Array) -> float:
    """The usual error of regression."""
    return float(np.sqrt(np.mean(errors**2)))
