"""A schedule gives a positive float64 for every step."""

import numpy as np
import pytest

from sordino.core.spec import ConstantSchedule, ListSchedule, PolynomialSchedule
from sordino.core.validate import InputError


def test_a_list_schedule_gives_its_entries_for_exactly_as_many_steps() -> None:
    schedule = ListSchedule((0.3, 0.2, 0.1))
    assert schedule.values(3).tolist() == [0.3, 0.2, 0.1]
    assert not schedule.is_constant
    assert ListSchedule((0.3, 0.3)).is_constant
    with pytest.raises(InputError, match=r"each of the 4 steps, got 3"):
        schedule.values(4)


def test_a_polynomial_schedule_follows_its_formula() -> None:
    schedule = PolynomialSchedule(initial=2.0, offset=4.0, power=0.5)
    expected = [2.0 * ((k + 4.0) / 4.0) ** -0.5 for k in range(13)]
    np.testing.assert_allclose(schedule.values(13), expected, rtol=1e-15)
    assert schedule.values(13)[0] == 2.0
    assert schedule.values(13)[12] == 1.0
    assert not schedule.is_constant


def test_a_schedule_that_underflows_is_a_misfit_exactly_when_the_run_is_long_enough() -> None:
    schedule = PolynomialSchedule(initial=1.0, offset=1.0, power=300.0)
    assert not list(schedule.misfits(10, "scale"))
    assert schedule.values(10).min() > 0.0
    assert [misfit.key for misfit in schedule.misfits(20, "scale")] == ["scale"]


@pytest.mark.parametrize("steps", [0, -1, 2.0, True])
def test_the_number_of_steps_is_a_count(steps: int) -> None:
    with pytest.raises(InputError, match="steps"):
        ConstantSchedule(1.0).values(steps)
    with pytest.raises(InputError, match="steps"):
        PolynomialSchedule(1.0, 1.0, 1.0).values(steps)


@pytest.mark.parametrize(
    "entries", [(0.1, 0.0), (0.1, -1.0), (0.1, float("nan")), (0.1, float("inf")), (0.1, True), ()]
)
def test_every_entry_of_a_list_is_positive_and_finite(entries: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="values"):
        ListSchedule(entries)
