"""Certificates survive the search; wrong ones do not; the search comes close to the constants that are attained."""

from dataclasses import replace

import pytest

from sordino.core import bound as constants
from sordino.core.bound import Certificate, Evidence
from sordino.models import Logistic, Softmax
from tests.models.adversary import Adversary, violations
from tests.models.cases import CASES, ROWS, SIGNS, Case, R, norm

ETAS = (0.1, 0.7)
FAST = ("Logistic",)


def searched(case: Case, **options) -> Adversary:
    return Adversary(case.model, case.domain, case.targets, case.clipping, case.ball, **options)


def issued(case: Case) -> dict[str, Certificate]:
    return case.model.certificates(case.domain, case.clipping, case.ball)


def marked(case: Case):
    return pytest.param(case, id=case.name, marks=() if case.name in FAST else pytest.mark.slow)


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_every_certificate_survives_the_search(case):
    few = {"starts": 32} if case.name in FAST else {}
    assert violations(searched(case, **few), issued(case), ETAS) == []


ATTAINED = [
    (Logistic(), SIGNS, {"gradient_bound": R, "gradient_sensitivity": 2 * R, "smoothness": R * R / 4}),
    pytest.param(
        Softmax(3),
        (0.0, 1.0, 2.0),
        {"gradient_bound": 2**0.5 * R, "gradient_sensitivity": 2 * 2**0.5 * R, "smoothness": R * R / 2},
        marks=pytest.mark.slow,  # the search is that of logistic regression
    ),
]


@pytest.mark.parametrize(("model", "targets", "attained"), ATTAINED)
def test_the_search_attains_the_constants(model, targets, attained):
    for quantity, value in attained.items():
        found = getattr(Adversary(model, ROWS, targets), quantity)()
        assert 0.9 * value <= found <= value * (1 + 1e-9)


HALVED = ("gradient_bound", "gradient_sensitivity", "smoothness", "gradient_growth.g0", "gradient_growth.at_zero")


@pytest.mark.parametrize(("name", "factor"), [*((name, 0.5) for name in HALVED), ("strong_convexity", 2.0)])
def test_a_wrong_certificate_is_caught(name, factor):
    case = Case(Logistic(weight_decay=0.1), ROWS, SIGNS)
    right = issued(case)
    needed = {key: right[key] for key in right if key == name or (name.endswith("g0") and key.endswith("g1"))}
    wrong = needed | {name: replace(right[name], value=factor * right[name].value)}
    found = violations(searched(case), wrong, ())
    assert len(found) == 1
    assert found[0].startswith(name)


@pytest.mark.slow
def test_claiming_contraction_for_norm_clipped_softmax_is_caught():
    """Ye & Shokri's Proposition F.2 at work: the update would contract by 1 - eta lambda if it were true.

    Wrong certificates of logistic regression are caught above; tests/core/test_clipped_modulus.py has the expansion.
    """
    case = Case(Softmax(3, weight_decay=0.1), ROWS, (0.0, 1.0, 2.0), norm(0.7))
    wrong = {
        constant.name: Certificate(constant, value, Evidence.DECLARED, "as if clipping kept convexity")
        for constant, value in ((constants.STRONG_CONVEXITY, 0.1), (constants.SMOOTHNESS, R * R / 2 + 0.1))
    }
    found = violations(searched(case), wrong, (0.1,))
    assert len(found) == 1
    assert found[0].startswith("one step")


@pytest.mark.slow
def test_a_sensitivity_of_one_clip_length_instead_of_two_is_caught():
    case = Case(Softmax(3), ROWS, (0.0, 1.0, 2.0), norm(0.7))
    right = issued(case)["gradient_sensitivity"]
    assert violations(searched(case), {right.constant.name: replace(right, value=0.7)}, ()) != []
