"""Random teacher networks: public data of any shape, on which settings of the private networks were short-listed."""

import math

import numpy as np

from sordino.reproduce.vinaroz_park.declared import HALF_WIDTH
from sordino.reproduce.vinaroz_park.folds import Fold

_TEST_RECORDS = 2000
_SIGNAL = 0.6  # standard deviation of the noiseless target: bounds are wider than what they hold


def teacher(
    records: int, features: int, seed: int, *, noise: float = 0.15, gain: float = 2.5, rank: int | None = None
) -> Fold:
    """Records of a network with 20 hidden units; features are uniform, or correlated through `rank` factors."""
    generator = np.random.default_rng(seed)
    rows, hidden = records + _TEST_RECORDS, 20
    if rank is None:
        X = generator.uniform(-HALF_WIDTH, HALF_WIDTH, size=(rows, features))
    else:
        factors = generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, features)) / math.sqrt(rank)
        X = np.clip(factors + 0.4 * generator.normal(size=(rows, features)), -HALF_WIDTH, HALF_WIDTH)
    weights, biases = generator.normal(size=(features, hidden)) * gain / math.sqrt(features), generator.normal(size=20)
    signal = np.tanh(X @ weights + 0.5 * biases) @ generator.normal(size=hidden)
    signal = _SIGNAL * (signal - signal.mean()) / signal.std()
    y = signal + noise * generator.normal(size=rows)
    return Fold("teacher", X[:records], y[:records], X[records:], y[records:], 1.0, True)
