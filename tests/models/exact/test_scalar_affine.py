"""Closed geometric sums against plain loops and high precision."""

import mpmath
import numpy as np
import pytest

from sordino.models.exact import ScalarAffine
from sordino.models.exact.quadratic import geometric_sum


def test_repetition_agrees_with_a_loop():
    step = ScalarAffine.contraction(0.03, 0.7, 0.2)
    mean, variance = 5.0, 2.0
    for _ in range(50):
        mean, variance = 0.97 * mean + 0.7, 0.97**2 * variance + 0.2
    many = step.repeated(50)
    assert np.exp(many.log_factor) * 5.0 + many.offset == pytest.approx(mean, rel=1e-13)
    assert np.exp(2 * many.log_factor) * 2.0 + many.variance == pytest.approx(variance, rel=1e-13)


def test_composition_is_associative_and_broadcasts_over_positions():
    equal, odd = ScalarAffine.contraction(0.1, 1.0, 0.5), ScalarAffine.contraction(0.4, -2.0, 0.3)
    positions = np.arange(7)
    epoch = equal.repeated(positions).then(odd).then(equal.repeated(6 - positions))
    for r in range(7):
        plain = ScalarAffine.contraction(0.0, 0.0, 0.0)
        for k in range(7):
            plain = plain.then(odd if k == r else equal)
        for name in ("log_factor", "offset", "variance"):
            assert getattr(epoch, name)[r] == pytest.approx(getattr(plain, name), rel=1e-13)


def test_a_billion_steps_near_one_keep_full_accuracy():
    reduction, count = 1.7e-9, 10**9
    with mpmath.workdps(40):
        factor = 1 - mpmath.mpf(reduction)
        exact = float((1 - factor ** (2 * count)) / (1 - factor**2))
    assert float(ScalarAffine.contraction(reduction, 0.0, 1.0).repeated(count).variance) == pytest.approx(
        exact, rel=1e-14
    )


def test_a_ratio_of_one_counts():
    assert geometric_sum([0.0, np.log(0.5)], 3.0).tolist() == [3.0, pytest.approx(1.75)]
