"""A plan reads no row, adds up to what it promises, and says what to expect."""

import math

import numpy as np
import pytest

from sordino.core.bound import Relation
from sordino.core.gaussian import epsilon_upper
from sordino.core.validate import InputError
from sordino.mechanisms.influence import Declaration, expected, plan
from sordino.mechanisms.influence.plan import BUDGETS, as_dict
from tests.mechanisms.influence.tables import FAMILIES, declaration, planned


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_mechanisms_together_are_within_the_guarantee(family, relation):
    for records in (60, 1000, 30_000, 10**6):
        for epsilon in (0.1, 1.0, 8.0):
            made = planned(family, records, relation, epsilon)
            assert made.spent <= made.mu
            assert made.spent >= 0.999999 * made.mu
            assert epsilon_upper(made.spent, made.delta) <= epsilon
            total = math.sqrt(sum(1 / one.multiplier**2 for one in made.mechanisms))
            assert total == pytest.approx(made.mu, rel=1e-6)
            assert as_dict(made)["mu"] == made.spent


def test_every_table_of_shares_is_in_order():
    for rows in BUDGETS.values():
        assert rows[0][0] == 0.0
        assert [least for least, _ in rows] == sorted(least for least, _ in rows)


def test_plans_of_alike_fits_have_one_key_and_others_another():
    one, same = (planned("linear", 500, Relation.REPLACE_ONE) for _ in range(2))
    assert one.key == same.key
    assert one.key != planned("linear", 501, Relation.REPLACE_ONE).key
    assert one.key != planned("linear", 500, Relation.ADD_REMOVE).key


@pytest.mark.parametrize("family", FAMILIES)
def test_expected_widths_fall_with_records_and_epsilon(family):
    few, many = (expected(planned(family, n, Relation.REPLACE_ONE, 1.0)) for n in (2000, 50_000))
    poor, rich = (expected(planned(family, 10_000, Relation.REPLACE_ONE, e)) for e in (0.25, 4.0))
    assert (many.together < few.together).all()
    assert (rich.privacy < poor.privacy).all()
    assert rich.sampling == pytest.approx(poor.sampling, rel=0.5)
    assert (many.posterior < many.prior).all()
    assert not many.refused


def test_hopeless_plans_say_so():
    assert expected(planned("logistic", 100, Relation.REPLACE_ONE, 0.1)).refused


def test_bad_declarations_are_refused():
    with pytest.raises(InputError):
        Declaration((1.0,), (0.0,))
    with pytest.raises(InputError):
        Declaration((0.0,), (1.0,), ("colour",))
    with pytest.raises(InputError):
        Declaration((0.0,), (1.0,), exposure=(0.0, 1.0))
    with pytest.raises(InputError):
        plan("probit", declaration("logistic"), 100, Relation.REPLACE_ONE, 1.0, 1e-6)
    with pytest.raises(InputError):
        plan("logistic", declaration("logistic"), 100, Relation.REPLACE_ONE, 1.0, 1e-6, covariance="bootstrap")


def test_rows_are_encoded_inside_what_was_declared():
    declared = Declaration(
        (0.0, 0.0, 0.0, 0.0), (10.0, 1.0, 1.0, 1.0), ("number", "binary", "category", "category"), (0, 0, 1, 1)
    )
    X = np.array([[5.0, 1.0, 1.0, 1.0], [1e9, 0.2, 0.0, 1.0], [-1e9, 7.0, 0.0, 0.0]])
    assert declared.encoded(X).tolist() == [[0, 1, 1, 0], [1, 0, 0, 1], [-1, 1, 0, 0]]


def test_coefficients_go_to_the_units_of_the_table():
    declared = Declaration((10.0, 0.0), (30.0, 1.0), ("number", "binary"))
    matrix, constant = declared.to_table()
    encoded = np.array([1.0, 2.0, 3.0])
    found = matrix @ encoded + constant
    for x in ([10.0, 0.0], [25.0, 1.0]):
        row = declared.encoded(np.array([x]))[0]
        assert found[0] + found[1:] @ x == pytest.approx(encoded[0] + encoded[1:] @ row)
