"""Formulas choose from a schema, and products have the bounds that follow from those of their parts."""

import json

import numpy as np
import pytest

from sordino import InputError, Relation, data
from sordino.cli import main
from sordino.data.neighbours import worst_records

pytest.importorskip("formulaic")
LINES = """
records = 4
age: 0..100
shoe size: 30..50
ward: a|b|c
smoker: yes/no
day: 2020-01-01..2020-12-31
stage: I < II < III
ill: yes/no [target]
"""
SCHEMA = data.declared_lines(LINES)


def table(**columns):
    cells = {
        "age": [0.0, 100.0, 60.0, np.nan],
        "shoe size": [30.0, 50.0, 45.0, 40.0],
        "ward": ["a", "b", "c", "b"],
        "smoker": ["yes", "no", "yes", "yes"],
        "day": ["2020-01-01", "2020-12-31", "2020-07-01", "2020-07-01"],
        "stage": ["I", "II", "III", "II"],
        "ill": ["yes", "no", "no", "no"],
    }
    return data.from_arrays({name: np.array(values) for name, values in (cells | columns).items()})


def test_a_formula_chooses_columns_and_expands_products():
    schema = data.with_formula(SCHEMA, "ill ~ age*ward + `shoe size` + smoker:stage")
    names = ("intercept", "age", "ward=a", "ward=b", "ward=c", "shoe size", "age:ward=b", "age:ward=c", "smoker:stage")
    assert schema.feature_names == names
    assert schema.target.name == "ill"
    assert schema.extra_columns == "ignore"
    assert data.schema_from_text(data.schema_to_text(schema)) == schema
    assert schema.named_columns() == ("age", "ward", "shoe size", "smoker", "stage", "ill")


def test_products_are_of_centred_numbers_and_words():
    schema = data.with_formula(SCHEMA, "ill ~ age:`shoe size` + age:ward + smoker:ward + age:ward:smoker")
    rows = data.encode_features(schema, table())
    found = dict(zip(schema.feature_names, rows.T.tolist(), strict=True))
    assert found["age:shoe size"] == pytest.approx([1.0, 1.0, 0.1, 0.0])  # (60 - 50)(45 - 40) of 50 * 10
    assert found["age:ward=b"] == pytest.approx([0.0, 1.0, 0.0, 0.0])
    assert found["age:ward=c"] == pytest.approx([0.0, 0.0, 0.2, 0.0])
    assert found["smoker:ward=b"] == pytest.approx([-1.0, -1.0, -1.0, 1.0])  # between 0 and 1, scaled to [-1, 1]
    assert found["age:ward=c:smoker"] == pytest.approx([0.0, 0.0, 0.2, 0.0])
    kind = next(feature.kind for feature in schema.features if feature.name == "age:shoe size")
    assert (kind.low, kind.high) == (-500.0, 500.0)


def test_no_record_found_by_search_leaves_the_derived_bounds_and_each_is_encoded_alone():
    rng = np.random.default_rng(7)
    schema = data.with_formula(SCHEMA, "ill ~ age*ward*`shoe size` + day:age + stage:smoker + ward:day")
    corners = {"age": [-1e30, 0.0, 100.0, 1e30, np.inf, np.nan, 50.0], "shoe size": [-5.0, 30.0, 50.0, 40.0, np.nan]}
    longest = 0.0
    for _ in range(200):
        cells = {name: rng.choice(values, 4) for name, values in corners.items()}
        given = table(**cells) if np.isfinite(list(cells.values())).all() else None
        if given is None:
            continue
        rows = data.encode_features(schema, given)
        assert np.abs(rows[:, 1:]).max() <= 1.0
        longest = max(longest, np.linalg.norm(rows, axis=1).max())
        alone = np.concatenate([data.encode_features(schema, given.take(np.array([row]))) for row in range(4)])
        assert rows.tobytes() == alone.tobytes()
    assert 0.5 * schema.norm_bound < longest <= schema.norm_bound
    assert all(np.linalg.norm(record.features) <= schema.norm_bound for record in worst_records(schema))


def test_the_check_of_a_table_knows_products():
    schema = data.with_formula(SCHEMA, "ill ~ smoker:ward + `shoe size`")
    assert not [finding for finding in data.check(schema, table()) if finding.level == "error"]
    without = data.from_arrays({"shoe size": np.array([40.0] * 4), "ill": np.array(["yes"] * 4)})
    assert {finding.column for finding in data.check(schema, without) if finding.level == "error"} == {
        "smoker:ward=b",
        "smoker:ward=c",
    }
    with pytest.raises(InputError, match="Expected the declared columns 'smoker', 'ward' in the table"):
        data.encode(schema, without, Relation.REPLACE_ONE)


WRONG = {
    "ill ~ log(age)": "got 'log(age)'; transform columns by public rules before",
    "ill ~ agee": "got 'agee'; the schema declares",
    "ill age": "Expected a formula with one tilde",
    "ill ~ 0 + age": "A formula needs its intercept",
    "ill ~ ill + age": "'ill' is on both sides",
    "ill ~": "no term after the tilde",
    "ill ~ age +": "Expected a formula that can be read",
    "ill + age ~ smoker": "Expected one target before the tilde",
    "stage ~ age": "kind that a target can have",
    "ill ~ age:ward:smoker:`shoe size`": "must be of two or three different columns",
}


@pytest.mark.parametrize("formula", WRONG)
def test_what_a_formula_cannot_say_is_one_sentence(formula):
    with pytest.raises(InputError) as caught:
        data.with_formula(SCHEMA, formula)
    assert WRONG[formula] in str(caught.value)
    with pytest.raises(InputError):
        data.Interaction(())


def test_a_fit_by_formula_from_the_command_line(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table, schema, out = (tmp_path / name for name in ("t.csv", "schema.json", "release"))
    rows = [(rng.integers(0, 100), rng.choice(list("ab"))) for _ in range(2000)]
    text = "".join(f"{age},{ward},{'yes' if (age > 50) == (ward == 'b') else 'no'},x\n" for age, ward in rows)
    table.write_text(f"age,ward,ill,remark\n{text}")
    schema.write_text(
        data.schema_to_text(
            data.declared_lines("records = 2000\nage: 0..100\nward: a|b\nill: yes/no [target]\nremark: ignore")
        )
    )
    budget = ("--epsilon", "4", "--delta", "1e-6", "--relation", "replace-one", "--seed", "1", "--out", str(out))
    asked = ["fit", "logistic", str(table), "--schema", str(schema), *budget, "--formula"]
    assert main([*asked, "ill ~ agee"]) == 2
    assert "got 'agee'" in capsys.readouterr().err
    assert main([*asked, "ill ~ age*ward"]) == 0
    capsys.readouterr()
    assert main(["show", str(out), "--json"]) == 0
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)["coefficients"]}
    assert found["age:ward=b"]["estimate"] > 0.01
    predicted = tmp_path / "p.csv"
    assert main(["predict", str(out), str(table), "--out", str(predicted)]) == 0
