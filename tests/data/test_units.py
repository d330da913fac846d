"""The unit of privacy in a schema: one key to group by, cut by each unit's own records, never refused, never quoted."""

import copy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sordino import Relation, data
from sordino.cli import main
from sordino.core.spec import ColumnUnit, Unit
from sordino.core.validate import InputError, Mistakes
from sordino.data.units import sounds_like_an_identifier

UNIT = data.DeclaredUnit(column="patient", most_records=2)
TARGET = data.Target("y", data.Number(0.0, 10.0, data.UNSCALED))
SCHEMA = data.Schema(
    records=3, features=(data.Feature("x", data.Number(0.0, 10.0)),), target=TARGET, intercept=True, unit=UNIT
)
PATIENTS = ["a", "b", "a", "a", "c", "b"]
VALUES = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def table(patients=PATIENTS, values=VALUES):
    return data.from_arrays({"patient": patients, "x": values, "y": values})


def test_a_schema_with_a_unit_reads_writes_and_states_it():
    document = data.schema_to_dict(SCHEMA)
    assert document["unit"] == {"column": "patient", "most_records": 2}
    assert data.schema_from_dict(document) == SCHEMA
    assert UNIT.stated == ColumnUnit("patient", 2)
    without = data.DeclaredUnit(most_records=5)
    assert without.stated is Unit.RECORD
    assert "no column says which" in without.words
    assert data.schema_from_dict(data.schema_to_dict(replace(SCHEMA, unit=without))).unit == without


@pytest.mark.parametrize("column", ["x", "y"])
def test_a_units_column_is_neither_feature_nor_target(column):
    with pytest.raises(InputError, match=f"unit.column to be neither a feature nor the target, got '{column}'"):
        replace(SCHEMA, unit=data.DeclaredUnit(column=column, most_records=2))


def test_all_mistakes_of_a_unit_are_named_at_once():
    document = copy.deepcopy(data.schema_to_dict(SCHEMA))
    document["unit"] = {"column": 7, "most_records": 0, "colour": "red"}
    with pytest.raises(Mistakes) as refused:
        data.schema_from_dict(document)
    for words in ("unit.column to be one printable line", "unit.most_records in [1, 4096], got 0", "got unit.colour"):
        assert words in str(refused.value)
    document["unit"] = {"column": "patient"}
    with pytest.raises(InputError, match=r"unit\.most_records is missing"):
        data.schema_from_dict(document)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_first_records_of_each_unit_are_encoded(relation):
    encoded = data.encode(SCHEMA, table(), relation)
    assert encoded.units is not None
    kept = {unit: encoded.target[encoded.units == unit].tolist() for unit in range(3)}
    assert sorted(kept.values()) == [[1.0, 3.0], [2.0, 6.0], [5.0]]
    assert data.encode(replace(SCHEMA, unit=None, records=6), table_without_patients(), relation).units is None


def table_without_patients():
    return data.from_arrays({"x": VALUES, "y": VALUES})


def test_what_is_kept_of_a_unit_does_not_depend_on_the_others():
    """Every way to change unit b, from none of its records to many, leaves those of a and c as they were."""
    g = np.random.default_rng(1)
    for _ in range(50):
        count = int(g.integers(0, 6))
        rows = [(unit, value) for unit, value in zip(PATIENTS, VALUES, strict=True) if unit != "b"]
        for _ in range(count):
            rows.insert(int(g.integers(0, len(rows) + 1)), ("b", 9.0))
        encoded = data.encode(SCHEMA, table(*map(list, zip(*rows, strict=True))), Relation.ADD_REMOVE)
        assert encoded.units is not None
        others = [value for value in encoded.target.tolist() if value != 9.0]
        assert others == [1.0, 3.0, 5.0]
        assert encoded.target.tolist().count(9.0) == min(count, 2)
        assert encoded.units.max() + 1 == 2 + (count > 0)


def test_the_number_of_units_is_public_under_replace_one_and_that_of_records_never_is():
    more = [*PATIENTS, "c", "c"]
    assert len(data.encode(SCHEMA, table(more, [*VALUES, 7.0, 8.0]), Relation.REPLACE_ONE).target) == 6
    with pytest.raises(InputError, match="Expected 3 units as the schema declares, got 4;"):
        data.encode(SCHEMA, table([*PATIENTS, "d"], [*VALUES, 7.0]), Relation.REPLACE_ONE)
    assert len(data.encode(SCHEMA, table([*PATIENTS, "d"], [*VALUES, 7.0]), Relation.ADD_REMOVE).target) == 6


@pytest.mark.parametrize(
    "patients",
    [
        [7, 8, 7, 7, 9, 8],
        [7.0, 8, 7, 7, np.nan, 8],
        [" a", "b", "a ", "a", "", "b"],
        pa.array(["a", "b", "a", "a", None, "b"]),
        [True, False, True, True, True, False],
    ],
    ids=["integers", "a list with a float", "blanks", "null", "booleans"],
)
def test_whatever_the_column_holds_is_a_key(patients):
    if isinstance(patients, pa.Array):
        given = data.from_arrow(pa.table({"patient": patients, "x": VALUES, "y": VALUES}))
    else:
        given = table(patients)
    units = data.encode(SCHEMA, given, Relation.ADD_REMOVE).units
    assert units is not None
    assert units[0] == units[2] != units[1]


def test_records_without_a_value_are_one_unit_together():
    encoded = data.encode(SCHEMA, table(["", "a", "", "", "b", "a"]), Relation.REPLACE_ONE)
    assert encoded.units is not None
    assert len(set(encoded.units.tolist())) == 3
    assert len(encoded.target) == 5


def test_keys_that_say_nothing_are_one_unit_with_those_that_are_missing():
    units = data.encode(replace(SCHEMA, records=2), table([None, "a", b"a", {}, 1j, "a"]), Relation.REPLACE_ONE).units
    assert units is not None
    assert units.tolist() == [0, 1, 0, 1]


def test_a_column_that_is_no_key_is_refused_in_one_line():
    dates = data.from_arrow(pa.table({"patient": pa.array([0] * 6, pa.timestamp("s")), "x": VALUES, "y": VALUES}))
    floats = table(np.array([7.0, 8.0, 7.0, 7.0, np.nan, 8.0]))
    for given, held in ((dates, "dates"), (floats, "double values"), (table(np.ones(6, bool)), "bool values")):
        with pytest.raises(InputError, match=f"the unit's column 'patient' to hold text or integers, got {held}"):
            data.encode(SCHEMA, given, Relation.ADD_REMOVE)
    with pytest.raises(InputError, match="Expected the unit's column 'patient' in the table"):
        data.encode(SCHEMA, table_without_patients(), Relation.ADD_REMOVE)


def test_check_says_what_the_unit_is_and_what_the_rows_say_of_it():
    note = next(finding for finding in data.check(SCHEMA) if finding.column == "patient")
    assert note.level == "note"
    assert not note.reads_private_data
    assert "the first 2 are used" in note.message
    findings = data.check(replace(SCHEMA, records=9), table(["", "b", "", "", "c", ""]))
    messages = [finding.message for finding in findings if finding.reads_private_data]
    assert messages == [
        "9 units are declared and the table has 3: under replace-one a run stops.",
        "1 of 3 units have more than 2 records, up to 4; only the first ones are used.",
        "4 records have no value and count as one unit together.",
    ]
    absent = data.check(SCHEMA, table_without_patients())
    assert [finding.level for finding in absent if finding.column == "patient"] == ["error", "note"]


def test_check_says_when_an_identifier_repeats():
    plain = replace(SCHEMA, unit=None, records=6, extra_columns="ignore")
    (found,) = [finding for finding in data.check(plain, table()) if "repeat" in finding.message]
    assert found.column == "patient"
    assert found.level == "warning"
    assert found.reads_private_data
    assert "up to 3 records share one of 3" in found.message
    assert "declare it as the unit" in found.message
    given = table(["q1", "q2", "q3", "q4", "q5", "q6"])
    assert not [finding for finding in data.check(plain, given) if "repeat" in finding.message]


def test_check_of_a_schema_alone_notices_an_identifier_by_its_name():
    learned = replace(SCHEMA, unit=None, features=(data.Feature("patient_id", data.Number(0, 1)), *SCHEMA.features))
    (found,) = [finding for finding in data.check(learned) if finding.column == "patient_id"]
    assert (found.level, found.reads_private_data) == ("warning", False)
    names = {"patient": True, "subject-id": True, "userID": True, "personid": True, "age": False, "idp": False}
    names |= {"Patientennr": True, "case number": False, "caseno": True, "fallnummer": True, "fallhöhe": False}
    assert {name: sounds_like_an_identifier(name) for name in names} == names


def test_no_value_of_the_column_is_quoted():
    words = " ".join(finding.message for finding in data.check(replace(SCHEMA, records=9), table(["secret-7"] * 6)))
    assert "secret" not in words


def test_a_new_schema_may_name_the_unit(capsys, tmp_path):
    file = tmp_path / "visits.csv"
    file.write_text("patient,x,y\n")
    assert main(["schema", "new", str(file), "--target", "y", "--unit", "patient"]) == 0
    assert "patient: unit of HOW MANY\n" in capsys.readouterr().out
