"""Numbers that are written for sums are those that columns give one after the other, to the last bit."""

import numpy as np
import pytest

from sordino.data import Feature, Number, Schema, encode_features, from_matrix
from sordino.data.scaling import SYMMETRIC, UNIT, UNSCALED, Scaling

SCALINGS = (SYMMETRIC, UNIT, UNSCALED, Scaling("constants", 0.3, 0.7))
# Beyond the bounds, at them, next to them, and where a difference overflows.
EDGES = [-np.inf, -1.7e308, -1.25, np.nextafter(-1.25, 0), 0.1, np.nextafter(1.5, 0), 1.5, 1.7e308, np.inf]


def schema() -> Schema:
    bounds = [(-1.25, 1.5), (0.0, 1e-20), (-1e14, 3e13), (1 / 3, 2 / 3)]
    return Schema(
        records=100,
        features=tuple(
            Feature(f"{kind}{place}", Number(low, high, scaling=scaling))
            for place, (low, high) in enumerate(bounds)
            for kind, scaling in enumerate(SCALINGS)
        ),
        target=None,
        intercept=True,
    )


def both(cells):
    table = from_matrix(cells, [feature.name for feature in schema().features])
    return (encode_features(schema(), table, for_sums=one).features for one in (True, False))


def test_numbers_for_sums_are_the_numbers_of_columns():
    generator = np.random.default_rng(1)
    width = len(schema().features)
    cells = generator.standard_cauchy((300, width)) * generator.choice([1e-25, 1.0, 1e30], (300, 1))
    cells[: len(EDGES)] = np.array(EDGES)[:, None]
    for_sums, plain = both(cells)
    assert np.ascontiguousarray(for_sums).tobytes() == plain.tobytes()


def test_a_missing_number_is_found_behind_the_clip():
    cells = np.zeros((5, len(schema().features)))
    cells[3, 2] = np.nan
    with pytest.raises(Exception, match="cells that are missing"):
        next(both(cells))
