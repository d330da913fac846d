"""`plan` says what the engine expects in the units of the table; its power is that of the test a summary prints."""

import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import sordino
from sordino.cli import main
from sordino.core.bound import Relation
from sordino.data import Boolean, Category, DeclaredUnit, Feature, Number, Schema, Target, write_schema
from sordino.estimators import METHODS
from sordino.fitting.problem import FitProblem, declared_columns
from sordino.fitting.tasks.base import MODELS
from sordino.inference.expectation import LIMITS, REGRESSIONS, Expectation
from sordino.mechanisms.regression import Declaration, with_bins
from sordino.mechanisms.regression import plan as engine_plan
from sordino.mechanisms.regression.plan import expected

BUDGET = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace-one"}
FEATURES = (
    Feature("age", Number(0.0, 110.0)),
    Feature("treated", Boolean()),
    Feature("ward", Category(("medicine", "surgery", "other"))),
)
COST = Target("cost", Number(0.0, 400.0))
TARGETS = {
    "linear": COST,
    "robust": COST,
    "poisson": COST,
    "negative-binomial": COST,
    "logistic": Target("ill", Boolean()),
    "cox": Target("ill", Boolean()),
    "multinomial": Target("grade", Category(("low", "middle", "high"))),
}


def schema(family: str = "linear", records: int = 8000) -> Schema:
    followed = (Feature("years", Number(0.0, 8.0)),) if family == "cox" else ()
    return Schema(records=records, features=(*FEATURES, *followed), target=TARGETS[family], intercept=True)


FAMILIES, MODEL_OF = (*REGRESSIONS, "multinomial"), {"multinomial": "logistic"}


def made(family: str = "linear", records: int = 8000, **changes) -> Expectation:
    followed = {"time": "years", "bins": 2} if family == "cox" else {}
    return sordino.plan(MODEL_OF.get(family, family), schema(family, records), **(BUDGET | followed | changes))


@pytest.mark.parametrize("family", FAMILIES)
def test_widths_are_the_engines_in_the_units_of_the_table(family):
    found = made(family)
    declared = Declaration(
        (0.0, 0.0, 0.0, 0.0),
        (110.0, 1.0, 1.0, 1.0),
        ("number", "binary", "category", "category"),
        (0, 0, 3, 3),
        target=None if family in ("logistic", "multinomial", "cox") else (0.0, 400.0),
        classes={"logistic": 2, "multinomial": 3}.get(family),
    )
    if family == "cox":
        declared = with_bins(declared, (0.0, 4.0, 8.0))
    wanted = expected(engine_plan(family, declared, 8000, Relation.REPLACE_ONE, 1.0, 1e-6))
    outputs = 2 if family == "multinomial" else 1
    units = np.repeat([55.0, *[1.0] * (declared.columns - 1)], outputs)
    assert len(found.lines) == (4 + (family == "cox")) * outputs
    errors = [line.standard_error for line in found.lines]
    assert errors == pytest.approx(wanted.posterior[outputs:] / units, rel=1e-12)
    for line in found.lines:
        assert line.width == pytest.approx(2 * stats.norm.ppf(0.975) * line.standard_error)
        assert sum(line.shares) == pytest.approx(1.0)
        together = math.hypot(line.sampling, line.privacy)
        assert line.standard_error == pytest.approx(1 / math.hypot(1 / together, 1 / line.prior))
        assert line.widened == pytest.approx(together / line.sampling - 1)


def test_counts_that_vary_more_are_expected_to_be_known_less():
    poisson, wider = made("poisson"), made("negative-binomial")
    assert wider.plan.family == "negative-binomial"
    for one, other in zip(poisson.lines, wider.lines, strict=True):
        assert other.sampling > 1.1 * one.sampling
    assert "1.5 times the Poisson variance" in str(wider)
    assert "half again" not in str(poisson)


def test_a_plan_of_units_counts_units_and_says_so():
    declared = replace(schema(), unit=DeclaredUnit(column="patient", most_records=10))
    found = sordino.plan("linear", declared, **BUDGET)
    assert found.plan.declaration.unit
    assert found.as_dict()["unit"] == "unit"
    assert made().as_dict()["unit"] == "record"
    text = " ".join(str(found).split())
    assert "linear, 8,000 units, epsilon" in text
    assert "A unit counts as one record" in text
    assert "A unit counts" not in str(made())


def test_logistic_with_several_classes_is_the_multinomial_of_a_fit():
    assert made("multinomial").plan.family == "multinomial"
    assert made("multinomial").names[:2] == ("age [middle]", "age [high]")


def test_the_plan_is_that_of_a_fit():
    """All of its mechanisms: `plan` promises what `fit` then does."""
    for family in ("linear", "logistic", "poisson"):
        task, _ = MODELS[family]
        declared = declared_columns(schema(family), task)
        problem = FitProblem(task, declared.schema, 1.0, 1e-6, Relation.REPLACE_ONE, {}, declared.labels)
        wanted = METHODS["bounded-influence"].plan(problem).made
        assert made(family).plan.mechanisms == wanted.mechanisms


def test_the_declared_size_of_effects_and_the_exposure_are_those_of_a_fit():
    small, large = (made("linear", effect_scale=scale).lines[0] for scale in (1.0, 40.0))
    assert small.prior == pytest.approx(1.0 / 55.0)
    assert small.width < large.width
    watched = replace(schema("poisson"), features=(*FEATURES, Feature("years", Number(0.5, 2.0))))
    assert "years" not in sordino.plan("poisson", watched, exposure="years", **BUDGET).names
    with pytest.raises(sordino.InputError, match="a setting of linear regression"):
        made("linear", exposure="years")


def test_power_is_how_often_the_printed_test_rejects():
    """40,000 drawn estimates: the share that is rejected is within .01 of the power (false alarm below 1e-4)."""
    line = made(records=1500).lines[1]
    effect = 2.0 * line.standard_error
    together = math.hypot(line.sampling, line.privacy)
    estimates = np.random.default_rng(1).normal(effect, together, 40_000)
    z = estimates * line.standard_error**2 / together**2 / line.standard_error
    assert line.power(effect, 0.95) == pytest.approx(np.mean(np.abs(z) > stats.norm.ppf(0.975)), abs=0.01)
    assert line.power(line.detectable(0.8, 0.95), 0.95) == pytest.approx(0.8, abs=1e-9)
    assert line.power(0.0, 0.95) <= 0.05


def test_the_epsilon_for_a_width_reaches_it_and_a_smaller_one_does_not():
    found = made()
    wanted = 1.1 * found.least_width("treated")
    epsilon = found.epsilon_for_width(wanted, "treated")
    assert found.at(epsilon).line("treated").width <= wanted
    assert found.at(0.97 * epsilon).line("treated").width > wanted
    assert found.epsilon_for_width(0.5 * found.least_width("treated"), "treated") is None


def test_a_budget_that_is_too_small_is_answered_with_the_one_that_is_needed():
    small = made("logistic", 300, epsilon=0.2)
    assert small.refused
    needed = small.epsilon_needed
    assert needed > 0.2
    assert not small.at(needed).refused
    assert small.at(0.97 * needed).refused
    assert f"you need epsilon {needed:g} or more" in " ".join(str(small).split())
    assert made("logistic", 20).epsilon_needed is None
    assert "no epsilon up to 1,000 is enough" in " ".join(str(made("logistic", 20)).split())
    assert "you need" not in str(made())


def test_more_records_and_more_epsilon_make_intervals_narrower():
    widths = [one.lines[0].width for one in made().curve]
    assert widths == sorted(widths, reverse=True)
    assert made(records=80_000).lines[0].width < made().lines[0].width
    assert made(relation="add-remove").lines[0].width < made().lines[0].width


@pytest.fixture
def folder(tmp_path) -> Path:
    for family in TARGETS:
        write_schema(schema(family), tmp_path / f"{family}.json")
    return tmp_path


def words(folder: Path, family: str, *more: str) -> list[str]:
    budget = ["--epsilon", "1", "--delta", "1e-6", "--relation", "replace-one"]
    followed = ["--time", "years", "--bins", "2"] if family == "cox" else []
    return ["plan", MODEL_OF.get(family, family), "--schema", str(folder / f"{family}.json"), *budget, *followed, *more]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_command_answers_people_and_machines_alike(capsys, folder, family):
    more = ["--effect", "0.5", "--width", "treated=0.1"] if family != "multinomial" else ["--effect", "0.5"]
    assert main(words(folder, family, *more)) == 0
    shown = capsys.readouterr().out
    assert LIMITS.split(":")[0] in " ".join(shown.split())
    assert "no row was read" in " ".join(shown.split())
    assert main([*words(folder, family, *more), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["family"] == family
    assert answer["refused"] is made(family).refused
    first = answer["coefficients"][0]
    assert first["width"] == pytest.approx(made(family).lines[0].width)
    # A bare effect is that of half the declared range.
    assert first["effect"] == pytest.approx(0.5 / 55.0)
    assert 0.0 < first["power"] <= 1.0
    assert {row["epsilon"] for row in answer["curve"]} >= {0.25, 1.0, 4.0}


def test_records_default_to_the_schemas_and_a_named_effect_is_in_its_own_units(capsys, folder):
    assert main([*words(folder, "linear", "--effect", "treated=3", "--effect", "age=0.2"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["records"] == 8000
    effects = {one["name"]: one.get("effect") for one in answer["coefficients"]}
    assert effects == {"age": 0.2, "treated": 3.0, "ward=surgery": None, "ward=other": None}
    assert main([*words(folder, "linear", "--records", "500"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 500


def test_the_curve_is_drawn(folder, capsys):
    assert main(words(folder, "logistic", "--plot", str(folder / "curve.svg"))) == 0
    root = ET.fromstring((folder / "curve.svg").read_text())
    texts = {"".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"age", "treated", "Expected widths of 95 % intervals"} <= texts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--effect", "weight=1"], "to be one of age, treated, ward=surgery, ward=other, got 'weight'"),
        (["--effect", "age=much"], "to be COLUMN=VALUE or VALUE, got 'age=much'"),
        (["--effect", "1", "--effect", "2"], "one VALUE for all columns"),
        (["--width", "age=-1"], "width in (0, inf)"),
        (["--power", "1"], "power in (0, 1)"),
        (["--level", "1.5"], "level in (0, 1)"),
        (["--records", "0"], "records in [1, inf)"),
        (["--plot", "curve.png"], "ends in .svg"),
        (["--delta", "0"], "delta in (0, 1)"),
        (["--relation", "both"], "relation to be one of"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(capsys, folder, more, said):
    assert main(words(folder, "linear", *more)) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert said in streams.err
    assert streams.err.count("\n") == 1


def test_a_family_that_is_unknown_or_does_not_fit_the_target_is_refused(capsys, folder):
    (folder / "cubic.json").write_text("{}")
    assert main(words(folder, "cubic")) == 2
    assert "MODEL to be one of cox, linear, logistic, negative-binomial, poisson, robust," in capsys.readouterr().err
    for family, target, said in (("linear", "multinomial", "a number as target"), ("logistic", "linear", "a category")):
        with pytest.raises(sordino.InputError, match=said):
            sordino.plan(family, schema(target), **BUDGET)
    with pytest.raises(sordino.InputError, match="Schema or the path"):
        sordino.plan("linear", 3, **BUDGET)
