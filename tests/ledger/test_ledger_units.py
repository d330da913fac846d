"""A ledger names whom it protects, and no release is charged less than it costs that unit."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from sordino import InputError, Relation
from sordino.accounting.evaluate import tightest
from sordino.cli import main
from sordino.core.guarantee import PureDP
from sordino.core.spec import Unit
from sordino.data import UNSCALED, DeclaredUnit, Feature, Number, Schema, Target, encode, from_arrays
from sordino.ledger import Budget, EntryVerdict, Ledger, LedgerUnit
from sordino.ledger.budget import charged, charged_as
from tests.accounting.described import noised_sums

RELATIONS = ("replace-one", "add-remove")
PATIENTS = {"column": "patient", "most_records": 3}


def sums(mu, relation, unit="record"):
    """One noised sum with this privacy parameter, about records or about units, and its bound."""
    noise = (2.0 if relation == "replace-one" else 1.0) / mu
    spec = noised_sums(100, 1, noise, {"scheme": "full"}, relation=relation, unit=unit)
    return tightest(spec, 1e-6), spec


def opened(path, relation, unit="record"):
    return Ledger.open(path, "clinic", relation, 3.0, 1e-5, unit=unit)


def mu_of(entry):
    """The privacy parameter that a Gaussian filter charged."""
    return math.sqrt(entry.charge.amounts[0])


# Unit of the ledger, relation of the ledger, unit of the release, its relation, and how many times it costs.
CHARGES = [
    ("record", "replace-one", "record", "replace-one", 1),
    ("record", "replace-one", "record", "add-remove", 2),
    ("record", "add-remove", "record", "add-remove", 1),
    (PATIENTS, "replace-one", PATIENTS, "replace-one", 1),
    (PATIENTS, "add-remove", PATIENTS, "add-remove", 1),
    (PATIENTS, "replace-one", PATIENTS, "add-remove", 2),
    ({"column": "patient"}, "replace-one", {"column": "patient", "most_records": 9}, "replace-one", 1),
    (PATIENTS, "add-remove", "record", "add-remove", 3),
    (PATIENTS, "replace-one", "record", "add-remove", 6),
    ({"column": "patient", "most_records": 1}, "replace-one", "record", "replace-one", 1),
    ("record", "replace-one", PATIENTS, "replace-one", 2),
    ("record", "add-remove", PATIENTS, "add-remove", 2),
    ("record", "replace-one", PATIENTS, "add-remove", 4),
]


@pytest.mark.parametrize(("of", "ledger_relation", "unit", "relation", "times"), CHARGES)
def test_a_release_is_charged_for_the_ledgers_unit(tmp_path, of, ledger_relation, unit, relation, times):
    ledger = opened(tmp_path / "a", ledger_relation, of)
    entry = ledger.debit(*sums(0.05, relation, unit))
    assert times * 0.05 <= mu_of(entry) <= times * 0.05 * (1 + 1e-9)
    assert [finding.verdict for finding in ledger.verify().findings] == [EntryVerdict.AGREES]
    words = charged_as(entry.spec, ledger.budget)
    if column(of) == column(unit):
        assert words is None
    else:
        assert words is not None
        assert words.startswith(f"a group of {times} ")


def column(unit):
    return unit if isinstance(unit, str) else unit["column"]


@pytest.mark.parametrize("relation", RELATIONS)
def test_units_of_another_column_are_refused(tmp_path, relation):
    ledger = opened(tmp_path / "a", relation, {"column": "household", "most_records": 3})
    with pytest.raises(InputError, match=r"protects units of 'household'.* protects units of 'patient'"):
        ledger.debit(*sums(0.05, relation, PATIENTS))
    assert ledger.balance().releases == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_without_a_number_of_records_nothing_about_records_is_charged_to_units(tmp_path, relation):
    ledger = opened(tmp_path / "a", relation, {"column": "patient"})
    # Under replace-one no number of records would help, so none is asked for.
    words = {"add-remove": "does not bound the records of a unit"}
    with pytest.raises(InputError, match=words.get(str(relation), "says nothing about units")):
        ledger.debit(*sums(0.05, relation))
    assert ledger.balance().releases == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_records_under_replace_one_say_nothing_about_units(tmp_path, relation):
    """Units have different numbers of records, so replacing one changes the size of the table."""
    ledger = opened(tmp_path / "a", relation, PATIENTS)
    with pytest.raises(InputError, match="replace-one"):
        ledger.debit(*sums(0.05, "replace-one"))
    assert ledger.balance().releases == 0


def test_a_unit_of_k_records_really_moves_a_sum_of_records_by_k(tmp_path):
    """What the group pays for: the sum of clipped records with and without a unit, over the noise, is k times mu."""
    mu, most = 0.05, PATIENTS["most_records"]
    records = np.concatenate([np.zeros(97), np.ones(most)])
    moved = abs(records.sum() - records[:-most].sum()) / (1.0 / mu)
    entry = opened(tmp_path / "a", "add-remove", PATIENTS).debit(*sums(mu, "add-remove"))
    assert mu < moved <= mu_of(entry) * (1 + 1e-12)


def test_a_record_really_moves_a_sum_over_units_by_two(tmp_path):
    """A record that comes first takes the place of the one that was used: the unit's contribution is reversed."""
    mu = 0.05
    target = Target("y", Number(-1, 1, UNSCALED))
    unit = DeclaredUnit(column="patient", most_records=1)
    schema = Schema(records=2, features=(Feature("x", Number(-1, 1)),), target=target, intercept=True, unit=unit)
    sides = []
    for rows in ([("a", -1.0), ("b", 0.0)], [("a", 1.0), ("a", -1.0), ("b", 0.0)]):
        patients, values = map(list, zip(*rows, strict=True))
        table = from_arrays({"patient": patients, "x": values, "y": values})
        sides.append(encode(schema, table, Relation.ADD_REMOVE).target.sum())
    moved = abs(sides[0] - sides[1]) / (1.0 / mu)
    entry = opened(tmp_path / "a", "add-remove").debit(*sums(mu, "add-remove", PATIENTS))
    assert moved == pytest.approx(2 * mu)
    assert moved <= mu_of(entry) * (1 + 1e-12)


def test_other_guarantees_are_charged_as_groups_too(tmp_path):
    bound, spec = sums(0.05, "add-remove")
    budget = Budget("clinic", Relation.ADD_REMOVE, 3.0, 1e-5, unit=LedgerUnit("patient", 3))
    assert charged(replace(bound, guarantee=PureDP(0.1)), spec, budget).value == pytest.approx(0.3)
    assert charged(replace(bound, guarantee=PureDP(0.1)), spec, budget).value >= 0.3


def test_a_budget_is_read_back_with_its_unit():
    for unit in (Unit.RECORD, LedgerUnit("patient", 3)):
        budget = Budget("clinic", Relation.REPLACE_ONE, 1.0, 1e-5, unit=unit)
        assert Budget.from_dict(budget.to_dict()) == budget


@pytest.mark.parametrize("unit", ["person", 7, {"most_records": 3}, {"column": "", "most_records": 3}])
def test_a_unit_that_makes_no_sense_is_refused(tmp_path, unit):
    with pytest.raises(InputError, match="unit"):
        opened(tmp_path / "a", "replace-one", unit)
    assert not (tmp_path / "a").exists()


def test_the_command_line_opens_and_names_the_unit(tmp_path, capsys):
    path = str(tmp_path / "clinic.ledger")
    given = ["--dataset", "clinic", "--relation", "add-remove", "--epsilon", "2", "--delta", "1e-5"]
    assert main(["ledger", "open", path, *given, "--unit", "patient", "--most-records", "3"]) == 0
    assert "unit      all records with one value of 'patient', 3 at most" in capsys.readouterr().out
    Ledger.at(path).debit(*sums(0.05, "add-remove"))
    assert main(["ledger", "show", path]) == 0
    assert " record " in capsys.readouterr().out
    assert main(["ledger", "show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget"]["unit"] == PATIENTS
    assert main(["ledger", "open", str(tmp_path / "b"), *given, "--most-records", "3"]) == 2
    assert "`--most-records` needs `--unit`" in capsys.readouterr().err
    assert main(["ledger", "open", str(tmp_path / "b"), *given]) == 0
    assert "unit      one record" in capsys.readouterr().out
