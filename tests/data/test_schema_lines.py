"""Lines that declare columns, the kinds they need, and mistakes by column, all of them at once."""

import json

import numpy as np
import pyarrow as pa
import pytest

from sordino import Relation, data
from sordino.core.validate import InputError, Mistakes

LINES = """
# a clinic
records = 600
delimiter = ;
decimal = ,
patient: unit of 12
age: 0..110
ward: maternity|medicine|surgery [unseen=other, drop_first]
site: 1|2|3
stage: I < II < III [missing=indicator]
smoker: >=1 a day/<1 a day
admitted: 2015-01-01..2024-12-31 [part=month, format=%d.%m.%Y]
bmi: 10..60 [missing=25]
remarks: ignore
ill: yes/no [target]
"""


def test_lines_declare_a_whole_schema_that_survives_its_file():
    schema = data.declared_lines(LINES)
    kinds = {feature.name: feature.kind for feature in schema.features}
    assert kinds["age"] == data.Number(0, 110)
    assert kinds["ward"] == data.Category(("maternity", "medicine", "surgery"), "other", drop_first=True)
    assert kinds["site"] == data.Category(("1", "2", "3"))
    assert kinds["stage"] == data.Ordered(("I", "II", "III"), data.INDICATOR)
    assert kinds["smoker"] == data.Boolean((">=1 a day",), ("<1 a day",))
    assert kinds["bmi"] == data.Number(10, 60, missing=data.MissingRule("value", 25.0))
    assert (kinds["admitted"].first, kinds["admitted"].part) == ("2015-01-01", "month")
    assert (schema.unit_column, schema.unit.most_records, schema.records) == ("patient", 12, 600)
    assert (schema.file.delimiter, schema.file.decimal) == (";", ",")
    assert (schema.target.name, schema.extra_columns) == ("ill", "ignore")
    assert data.schema_from_text(data.schema_to_text(schema)) == schema


def test_every_line_and_column_that_is_wrong_is_named_at_once():
    text = "records = many\nage: 0 to 110\nwight: 0..200\nward: a|b\nward: a|b\nstage: I<II [colour=red]\n"
    with pytest.raises(Mistakes) as caught:
        data.declared_lines(text, names=("age", "ward", "stage", "patient_id", "weight"))
    said = [str(error) for error in caught.value.errors]
    for part in (
        "Expected a value for records in line 1",
        "Expected what column 'age' may hold in line 2",
        "Expected a column of the table in line 3, got 'wight'",
        "Column 'ward' has two lines, the second in line 5",
        "Expected an option among 'target', 'drop_first', 'values', 'missing' in line 6, got 'colour'",
        "Column 'weight' has no line. Write 'weight: LOW..HIGH' (a number), 'weight: yes/no' or 'weight: A|B|C'.",
        "Column 'patient_id' has no line. Write 'patient_id: unit of 8'.",
        "No line marks the outcome. For a model, add [target] to one line.",
        "The number of records is missing",
    ):
        assert any(part in sentence for sentence in said), part


def test_names_of_the_table_may_hold_colons():
    schema = data.declared_lines("records = 2\nblood: sys: 0..300\nblood: 0..1", names=("blood", "blood: sys"))
    assert [feature.name for feature in schema.features] == ["blood", "blood: sys"]


MESSY = """cost;day;share;rate
1.234,50 EUR;01.02.2020;12,5 %;1'000
12,5EUR;2020-03-04;50%;5
1.23;x;3;n/a
EUR 1.234.567;5.6.2021;n/a;1'00
"""


def test_thousands_symbols_dates_in_two_formats_and_missing_words_are_read_or_count_as_missing(tmp_path):
    path = tmp_path / "messy.csv"
    path.write_text(MESSY, encoding="utf-8")
    schema = data.declared_lines(
        "records = 4\ndelimiter = ;\ndecimal = ,\nmissing_tokens = n/a\n"
        "cost: 0..2000000 [thousands=point, symbol=EUR, missing=indicator]\n"
        "day: 2019-01-01..2021-12-31 [format=%d.%m.%Y|%Y-%m-%d, missing=indicator]\n"
        "share: 0..100 [symbol=%, missing=indicator]\nrate: 0..9000 [thousands=apostrophe, missing=0]"
    )
    assert data.schema_from_text(data.schema_to_text(schema)) == schema
    table = data.read_table(schema.source(path))
    read = {one.name: one.kind.measured(one.name, table.columns[one.name], ("", "n/a")) for one in schema.features}
    days = np.array(["2020-02-01", "2020-03-04", "NaT", "2021-06-05"], "M8[D]").astype(float)
    np.testing.assert_array_equal(read["cost"], [1234.5, 12.5, np.nan, 1234567.0])
    np.testing.assert_array_equal(read["day"], np.where(days < 0, np.nan, days))
    np.testing.assert_array_equal(read["share"], [12.5, 50.0, 3.0, np.nan])
    np.testing.assert_array_equal(read["rate"], [1000.0, 5.0, np.nan, np.nan])
    kind, cells = data.Number(0, 9999, thousands="comma", symbol="$"), np.array(["$1,234", "7", 3.5, None], object)
    objects = data.from_arrays({"x": cells}).columns["x"]
    np.testing.assert_array_equal(kind.measured("x", objects, ("",)), [1234.0, 7.0, 3.5, np.nan])
    with pytest.raises(InputError, match="are both ','"):
        kind.measured("cost", table.columns["cost"], ("",))


FRICTIONLESS = """{"missingValues": ["", "NA"], "fields": [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}},
    {"name": "ward", "constraints": {"enum": ["a", "b"]}}, {"name": "notes", "type": "string"},
    {"name": "ill", "type": "boolean", "trueValues": ["yes"], "falseValues": ["no"]},
    {"name": "day", "format": "%d.%m.%Y", "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"}}]}"""
CSVW = """{"tables": [{"tableSchema": {"columns": [
    {"titles": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": 110}}, {"name": "notes"},
    {"name": "day", "datatype": {"base": "date", "minimum": "2020-01-01", "maximum": "2020-12-31"}}]}}]}"""


def test_a_codebook_gives_the_lines_that_it_declares():
    day = "day: 2020-01-01..2020-12-31"
    lines = f"age: 0..110;ward: a|b;ill: yes/no;{day} [format=%d.%m.%Y];missing_tokens = NA".split(";")
    assert data.codebook_lines(json.loads(FRICTIONLESS)) == lines
    assert data.codebook_lines(json.loads(CSVW)) == ["age: 0..110", day]
    for nothing in ({}, [], {"fields": 3}):
        with pytest.raises(InputError, match="no codebook"):
            data.codebook_lines(nothing)


def test_a_draft_declares_nothing_before_it_is_filled_in():
    types = {"flag": "boolean", "word": "category", "day": "date"}
    text = data.drafted_lines(("id", "age", "flag", "word", "day"), types, "flag", "id")
    with pytest.raises(Mistakes) as caught:
        data.declared_lines(text)
    assert len(caught.value.errors) == 5  # all but the words of a stored boolean
    filled = {
        "HOW MANY": "9",
        "LOW..HIGH": "0..1",
        "WORD|WORD|WORD": "a|b",
        "YYYY-MM-DD..YYYY-MM-DD": "2020-01-01..2020-02-01",
    }
    for blank, given in filled.items():
        text = text.replace(blank, given)
    schema = data.declared_lines(text)
    assert (schema.unit_column, schema.target.kind.words) == ("id", ("true", "false"))
    with pytest.raises(InputError, match="got 'z'"):
        data.drafted_lines(("a",), {}, "z", None)


def encoded(kind, values, **arrow):
    table = pa.table({"x": pa.array(values, **arrow), "y": pa.array([0.0] * len(values))})
    target = data.Target("y", data.Number(0, 1))
    schema = data.Schema(records=len(values), features=(data.Feature("x", kind),), target=target, intercept=False)
    return data.encode(schema, data.read_table(table), Relation.REPLACE_ONE), schema


def test_ordered_words_are_evenly_spaced():
    found, schema = encoded(data.Ordered(("I", "II", "III"), data.INDICATOR), ["II", "III", "", "I"])
    assert found.features.tolist() == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]
    assert schema.norm_bound >= np.linalg.norm(found.features, axis=1).max()
    with pytest.raises(InputError, match="one of 'I', 'II' in every row") as caught:
        encoded(data.Ordered(("I", "II")), ["I", "secret"])
    assert "secret" not in str(caught.value)
    assert encoded(data.Ordered(("I", "II"), data.MissingRule("value", "II")), [""])[0].features.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("days", [-1.0, 1.0, 1.0]),
        ("year", [-1.0, 1.0, 1.0]),
        ("month", [-1.0, -1.0 + 2 * 11 / 11, 1.0]),
        ("weekday", [-1.0 + 2 * 2 / 6, -1.0 + 2 * 4 / 6, -1.0 + 2 * 4 / 6]),
    ],
)
def test_dates_as_days_or_parts(part, expected):
    """1 January 2020 was a Wednesday, 31 December 2021 a Friday; a later date is clipped to that."""
    kind = data.Date("2020-01-01", "2021-12-31", part)
    texts = encoded(kind, ["2020-01-01", "2021-12-31", "2050-06-06"])[0].features[:, 0]
    typed = encoded(kind, [18262, 18992, 29377], type=pa.date32())[0].features[:, 0]
    assert texts.tolist() == typed.tolist() == pytest.approx(expected)


def test_dates_that_are_none_are_refused_and_not_quoted():
    for wrong in ("2021-02-30", "yesterday", "2021-13-01", "2021-01-01x"):
        with pytest.raises(InputError, match=r"Expected dates as .* in row 2") as caught:
            encoded(data.Date("2020-01-01", "2021-12-31"), ["2020-05-05", wrong])
        assert wrong not in str(caught.value)
    short = encoded(data.Date("2020-01-01", "2021-12-31", format="%d.%m.%Y"), ["1.1.2020", "31.12.2021"])[0]
    assert short.features[:, 0].tolist() == [-1.0, 1.0]
    with pytest.raises(InputError, match="to hold dates, got double values"):
        encoded(data.Date("2020-01-01", "2021-12-31"), np.array([1.0]))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: data.Date("2020-01-01", "2019-01-01"), "last to be after first"),
        (lambda: data.Date("2020-1-1", "2019-01-01"), "first to be a date as YYYY-MM-DD"),
        (lambda: data.Date("2020-01-01", "2020-05-05", "year"), "part to differ"),
        (lambda: data.Target("y", data.Ordered(("a", "b"))), "kind that a target can have"),
        (lambda: data.Ordered(("a",)), "at least 2"),
        (lambda: data.Ordered(("a", "b"), data.MissingRule("value", "c")), "one of the declared values"),
    ],
)
def test_declarations_that_make_no_sense(made, message):
    with pytest.raises(InputError, match=message):
        made()


def test_whole_numbers_are_codes():
    assert data.Category([1, 2, 10]).values == ("1", "2", "10")
    assert encoded(data.Category([1, 2]), [2, 1])[0].features.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    with pytest.raises(InputError, match="to be text"):
        data.Category([1.5, 2])


def test_a_record_is_encoded_alone_whatever_the_kind():
    """What one record becomes does not depend on the others: a sensitivity rests on that."""
    dates = [f"20{year:02d}-{month:02d}-11" for year in range(10, 25) for month in (1, 6, 12)]
    for kind, values in (
        (data.Date("2012-01-01", "2022-12-31"), dates),
        (data.Ordered(("a", "b", "c")), ["a", "b", "c"] * 15),
    ):
        whole = encoded(kind, values)[0].features
        alone = np.concatenate([encoded(kind, [value])[0].features for value in values])
        assert whole.tobytes() == alone.tobytes()
    assert data.from_arrays({"x": np.array(["a"])}).rows == 1


def test_slips_in_a_line_get_one_sentence_that_says_what_to_write():
    given = "records = 9\nbmi: 12,5..60\nage: 0..110"
    with pytest.raises(InputError, match=r"decimal point in the bounds of 'bmi'.* write 'bmi: 12\.5\.\.60'") as found:
        data.declared_lines(given, ["bmi", "age"])
    assert "has no line" not in str(found.value)  # there is one, and it is wrong
    with pytest.raises(InputError, match="write a range"):
        data.declared_lines("records = 9\nbmi: 12,5,,60", ["bmi"])
    for domain, wanted in (
        ("0..1,000", "0..1000"),
        ("0..1,000,000", "0..1000000"),
        ("12,5..1.000.000", "12.5..1000000"),
    ):
        with pytest.raises(InputError, match=f"'cost: {wanted}'"):
            data.declared_lines(f"records = 9\ncost: {domain}")
    with pytest.raises(InputError, match=r"no marks of thousands, got '0\.\.100\.000'"):
        data.declared_lines("records = 9\ncost: 0..100.000")


def test_an_empty_cell_is_missing_whatever_else_is():
    for text in ("NA|-99", "|NA|-99", " NA | -99 "):
        declared = data.declared_lines(f"records = 9\nmissing_tokens = {text}\nage: 0..110")
        assert declared.missing_tokens == ("", "NA", "-99")
